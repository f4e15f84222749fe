"""Whether models fit: what always holds, and what people are told."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some

from baton.core.catalogue_types import CatalogueEntry, Source
from baton.core.machine import Gpu, Hardware
from baton.gguf.header import Header
from baton.gguf.memory_fit import (
    GPU_RESERVE,
    SPARE,
    Fit,
    Load,
    judge,
    kv_of,
    layers_on_gpu,
    load_of,
    load_of_entry,
)

GB = 10**9
RANKS = {fit: rank for rank, fit in enumerate(Fit)}

sizes = some.integers(10**6, 40 * GB)


@some.composite
def loads(draw: some.DrawFn) -> Load:
    kv = draw(some.integers(0, 20 * GB))
    return Load(
        draw(some.sampled_from(["small", "large", "other"])),
        draw(sizes),
        kv,
        draw(some.integers(512, 262_144)),
        draw(some.integers(10**7, GB)),
        draw(some.integers(0, 80)),
        draw(some.integers(0, kv)),
        draw(some.integers(10**7, GB)),
    )


@some.composite
def machines(draw: some.DrawFn) -> Hardware:
    memory = draw(some.integers(2 * GB, 128 * GB))
    frees = draw(some.lists(some.integers(0, 48 * GB), max_size=2))
    gpus = tuple(Gpu("a GPU", free, free) for free in frees)
    return Hardware(memory, draw(some.integers(0, memory)), 4, 8, gpus=gpus)


sets = some.lists(loads(), min_size=1, max_size=4)


def rank(models: list[Load], machine: Hardware) -> int:
    return RANKS[judge(models, machine).fit]


@given(sets, machines(), some.integers(512, 262_144))
@settings(max_examples=300, deadline=None)
def test_more_context_never_fits_better(
    models: list[Load], machine: Hardware, context: int
) -> None:
    smaller = [model.at(context) for model in models]
    assert rank(smaller, machine) <= rank(models, machine)
    assert all(one.total <= other.total for one, other in zip(smaller, models, strict=True))


@given(sets, machines(), some.integers(0, 64 * GB), some.integers(0, 64 * GB))
@settings(max_examples=300, deadline=None)
def test_more_memory_never_fits_worse(
    models: list[Load], machine: Hardware, more: int, more_there: int
) -> None:
    larger = replace(
        machine, memory=machine.memory + more, available=machine.available + min(more, more_there)
    )
    assert rank(models, larger) <= rank(models, machine)
    gpus = tuple(replace(gpu, free=gpu.free + more_there) for gpu in machine.gpus)
    if any(gpu.free > GPU_RESERVE for gpu in machine.gpus):
        assert rank(models, replace(machine, gpus=gpus)) <= rank(models, machine)


@given(sets, machines(), loads())
@settings(max_examples=300, deadline=None)
def test_one_more_model_never_fits_better(
    models: list[Load], machine: Hardware, more: Load
) -> None:
    assert rank([*models, more], machine) >= rank(models, machine)
    assert judge([*models, more], machine).needed == sum(x.total for x in [*models, more])


@given(sets, machines())
@settings(max_examples=400, deadline=None)
def test_what_is_said_to_fit_really_does(models: list[Load], machine: Hardware) -> None:
    verdict = judge(models, machine)
    if verdict.fit in (Fit.FITS, Fit.TIGHT) and not machine.gpus:
        assert verdict.needed <= verdict.room <= machine.memory
        assert verdict.needed + SPARE <= machine.available
    assert verdict.why.endswith(".")
    assert verdict.mend or verdict.fit is not Fit.WONT
    assert not verdict.mend or verdict.fit is not Fit.FITS


@given(sets, machines())
@settings(max_examples=400, deadline=None)
def test_a_mend_really_mends(models: list[Load], machine: Hardware) -> None:
    verdict = judge(models, machine)
    if context := re.match(r"(\d+)k instead of", verdict.mend):
        mended = judge([model.at(int(context[1]) * 1024) for model in models], machine)
        assert RANKS[mended.fit] < RANKS[verdict.fit]
    elif left_out := re.match(r"Without (\w+) it fits", verdict.mend):
        found = [model for model in models if model.name == left_out[1]]
        rests = ([other for other in models if other is not model] for model in found)
        assert any(judge(rest, machine).fit is not Fit.WONT for rest in rests)
    elif smaller := re.search(r"up to ([\d.]+) ([GM])B", verdict.mend):
        most = round(float(smaller[1]) * (GB if smaller[2] == "G" else 10**6))
        fitting = replace(models[0], weights=most).at(2048)
        emptied = replace(machine, available=machine.memory)
        assert judge([fitting], emptied).fit is not Fit.WONT
    elif verdict.mend.startswith("Close"):
        emptied = replace(machine, available=machine.memory)
        assert judge(models, emptied).fit is not Fit.WONT


@given(loads(), some.integers(0, 60 * GB), some.integers(0, GB))
def test_layers_on_a_gpu(load: Load, free: int, more: int) -> None:
    layers = load.layers or 32
    fitting = layers_on_gpu(load, free)
    assert 0 <= fitting <= layers + 1
    assert fitting <= layers_on_gpu(load, free + more)
    assert fitting == layers + 1 or fitting < layers
    if 0 < fitting < layers:
        assert (load.weights + load.kv) * fitting // layers + load.scratch <= free
    assert layers_on_gpu(load, load.weights + load.kv + load.scratch) == layers + 1


BIG = Load("Big", 5 * GB, 4 * GB, 32_768, GB // 2, 32, 0, GB // 4)


def machine(memory: int, available: int, *gpus: int) -> Hardware:
    return Hardware(
        memory * GB, available * GB, 4, 8, gpus=tuple(Gpu("G", n * GB, n * GB) for n in gpus)
    )


@pytest.mark.parametrize(
    ("here", "fit", "why", "mend"),
    [
        (machine(32, 30), Fit.FITS, "It takes 9.5 GB of the 30 GB here.", ""),
        (
            machine(12, 12),
            Fit.TIGHT,
            "It takes 9.5 GB of the 12 GB here: little is left for other programs.",
            "8k instead of 32k of context fits.",
        ),
        (
            machine(16, 8),
            Fit.WONT,
            "It needs 9.5 GB, and 7.7 GB of 15 GB can be used now.",
            "16k instead of 32k of context fits.",
        ),
        (
            machine(16, 4),
            Fit.WONT,
            "It needs 9.5 GB, and 3.7 GB of 15 GB can be used now.",
            "Close other programs, then it fits.",
        ),
        (
            machine(4, 4),
            Fit.WONT,
            "It needs 9.5 GB, and 3.2 GB of 4 GB can be used now.",
            "Choose a smaller one: its file may have up to 2.4 GB.",
        ),
        (machine(16, 12, 12), Fit.FITS, "It fits on the GPU.", ""),
        (
            machine(16, 12, 8),
            Fit.SPILLS,
            "23 of 32 layers fit on the GPU; the others run on the processor, more slowly.",
            "8k instead of 32k of context fits.",
        ),
    ],
)
def test_what_people_are_told(here: Hardware, fit: Fit, why: str, mend: str) -> None:
    verdict = judge([BIG], here)
    assert (verdict.fit, verdict.why, verdict.mend) == (fit, why, mend)


def test_memory_that_a_gpu_shares_with_the_machine_counts_once() -> None:
    mac = replace(machine(24, 20), gpus=(Gpu("Apple M2", 18 * GB, 18 * GB),))
    assert judge([BIG], mac).fit is Fit.FITS
    laptop = replace(mac, gpus=(Gpu("Intel Arc", 18 * GB, 18 * GB, integrated=True),))
    assert judge([BIG], laptop) == judge([BIG], mac)
    larger = replace(BIG, weights=20 * GB)
    assert judge([larger], laptop) == judge([larger], mac)
    verdict = judge([larger], mac)
    assert verdict.fit is Fit.WONT
    assert verdict.why == "It needs 24.5 GB, and 19.2 GB of 24 GB can be used now."
    assert judge([larger], replace(mac, gpus=(Gpu("RTX", 18 * GB, 18 * GB),))).fit is Fit.SPILLS
    assert judge([BIG], replace(mac, available=8 * GB)).fit is Fit.WONT


def test_several_are_judged_together() -> None:
    here = machine(16, 14)
    assert judge([BIG], here).fit is not Fit.WONT
    small = Load("Small", GB, GB, 2048, GB // 10)
    verdict = judge([BIG, small, small, BIG], here)
    assert verdict.why.startswith("Together they need 23.2 GB")
    assert judge([], here).fit is Fit.FITS


PLAIN = Header(
    "llama",
    "Plain",
    context=32_768,
    layers=4,
    kv_heads=(2,) * 4,
    key_length=64,
    value_length=64,
    windowed=(False,) * 4,
    window_key_length=64,
    window_value_length=64,
    vocabulary=32_000,
    embedding=512,
    heads=8,
    weights=100_000_000,
)


def test_the_context_is_counted_as_llama_cpp_keeps_it() -> None:
    assert kv_of(PLAIN, 1024) == 1024 * 4 * 2 * 128 * 2
    assert kv_of(PLAIN, 1000) == kv_of(PLAIN, 1024), "in pieces of 256"
    assert kv_of(PLAIN, 1024, 8.5) == kv_of(PLAIN, 1024) * 8.5 / 16
    windows = replace(PLAIN, window=512, windowed=(True, False) * 2)
    assert kv_of(windows, 8192) == (2 * 8192 + 2 * 768) * 2 * 128 * 2
    assert kv_of(windows, 512) == kv_of(PLAIN, 512)
    recurrent = replace(PLAIN, kv_heads=(0, 0, 0, 2), state=10**6)
    assert kv_of(recurrent, 1024) == kv_of(PLAIN, 1024) // 4 + 10**6
    wide = replace(windows, window_value_length=128)
    assert kv_of(wide, 8192) > kv_of(wide, 8192, 8.5) * 2, "values are padded unless quantised"


def test_a_load_is_of_the_context_that_the_model_can_have() -> None:
    load = load_of(PLAIN, 100_000_000, 100_000)
    assert (load.context, load.layers, load.name) == (32_768, 4, "Plain")
    assert load.kv == kv_of(PLAIN, 32_768)
    assert load_of(PLAIN, 0, 2048).weights == 100_000_000
    assert load_of(PLAIN, 300_000_000, 2048, name="Mine").weights == 300_000_000
    assert load_of(PLAIN, 0, 8192, 8).kv < load_of(PLAIN, 0, 8192).kv
    odd = replace(PLAIN, key_length=80)
    assert load_of(odd, 0, 8192, 8) == load_of(odd, 0, 8192), "it can't be quantised"


@given(some.integers(512, 40_000), some.integers(1, 65_536))
def test_a_smaller_context_takes_no_more_than_is_said(context: int, smaller: int) -> None:
    windows = replace(PLAIN, window=512, windowed=(True, False) * 2, state=10**6)
    load = load_of(windows, 10**8, context)
    assume(smaller <= load.context)
    one_piece = kv_of(PLAIN, 256)  # contexts come in those
    assert load_of(windows, 10**8, smaller).total <= load.at(smaller).total + one_piece


def test_an_entry_of_the_catalogue_is_judged_from_above() -> None:
    entry = CatalogueEntry(
        "m", "M", Source("r", "m.gguf"), size=5 * GB, context=32_768, kv_bytes=100_000
    )
    load = load_of_entry(entry, 8192)
    assert (load.name, load.weights, load.kv, load.context) == ("M", 5 * GB, 819_200_000, 8192)
    assert 10**8 < load.overhead < 10**9
    assert load_of_entry(entry, 10**6).context == 32_768
    assert load_of_entry(replace(entry, kv_bytes=0), 8192).kv > 0
