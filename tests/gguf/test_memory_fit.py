"""Whether models fit: what always holds, and which sentences people see."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings, strategies as some

from baton.core.catalogue_types import CatalogueEntry, Source
from baton.core.machine import Gpu, Hardware
from baton.gguf.header import Header
from baton.gguf.memory_fit import (
    GPU_RESERVED_BYTES,
    SPARE_BYTES,
    Fit,
    ModelLoad,
    estimate_entry_load,
    estimate_load,
    judge_fit,
    kv_cache_bytes,
    layers_on_gpu,
)

GB = 10**9
RANKS = {fit: rank for rank, fit in enumerate(Fit)}

sizes = some.integers(10**6, 40 * GB)


@some.composite
def loads(draw: some.DrawFn) -> ModelLoad:
    kv = draw(some.integers(0, 20 * GB))
    return ModelLoad(
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


def rank(models: list[ModelLoad], machine: Hardware) -> int:
    return RANKS[judge_fit(models, machine).fit]


@pytest.mark.sampled(0.5)
@given(
    sets,
    machines(),
    some.integers(512, 262_144),
    some.integers(0, 64 * GB),
    some.integers(0, 64 * GB),
    loads(),
)
@settings(max_examples=400, deadline=None)
def test_verdicts_are_in_order(
    models: list[ModelLoad],
    machine: Hardware,
    context: int,
    more: int,
    more_there: int,
    model: ModelLoad,
) -> None:
    """Drawing a set and a machine takes far longer than the checks, which share them."""
    check_that_more_context_never_fits_better(models, machine, context)
    check_that_more_memory_never_fits_worse(models, machine, more, more_there)
    check_that_one_more_model_never_fits_better(models, machine, model)
    check_that_what_is_said_to_fit_does(models, machine)
    check_that_a_remedy_helps(models, machine)


def check_that_more_context_never_fits_better(
    models: list[ModelLoad], machine: Hardware, context: int
) -> None:
    smaller = [model.with_context(context) for model in models]
    assert rank(smaller, machine) <= rank(models, machine)
    assert all(one.total <= other.total for one, other in zip(smaller, models, strict=True))


def check_that_more_memory_never_fits_worse(
    models: list[ModelLoad], machine: Hardware, more: int, more_there: int
) -> None:
    larger = replace(
        machine, memory=machine.memory + more, available=machine.available + min(more, more_there)
    )
    assert rank(models, larger) <= rank(models, machine)
    gpus = tuple(replace(gpu, free=gpu.free + more_there) for gpu in machine.gpus)
    if any(gpu.free > GPU_RESERVED_BYTES for gpu in machine.gpus):
        assert rank(models, replace(machine, gpus=gpus)) <= rank(models, machine)


def check_that_one_more_model_never_fits_better(
    models: list[ModelLoad], machine: Hardware, more: ModelLoad
) -> None:
    assert rank([*models, more], machine) >= rank(models, machine)
    assert judge_fit([*models, more], machine).needed == sum(x.total for x in [*models, more])


def check_that_what_is_said_to_fit_does(models: list[ModelLoad], machine: Hardware) -> None:
    verdict = judge_fit(models, machine)
    if verdict.fit in (Fit.FITS, Fit.TIGHT) and not machine.gpus:
        assert verdict.needed <= verdict.room <= machine.memory
        assert verdict.needed + SPARE_BYTES <= machine.available
    assert verdict.why.endswith(".")
    assert verdict.remedy or verdict.fit is not Fit.WONT
    assert not verdict.remedy or verdict.fit is not Fit.FITS


def check_that_a_remedy_helps(models: list[ModelLoad], machine: Hardware) -> None:
    verdict = judge_fit(models, machine)
    if context := re.match(r"(\d+)k instead of", verdict.remedy):
        improved = judge_fit(
            [model.with_context(int(context[1]) * 1024) for model in models], machine
        )
        assert RANKS[improved.fit] < RANKS[verdict.fit]
    elif left_out := re.match(r"Without (\w+) it fits", verdict.remedy):
        found = [model for model in models if model.name == left_out[1]]
        rests = ([other for other in models if other is not model] for model in found)
        assert any(judge_fit(rest, machine).fit is not Fit.WONT for rest in rests)
    elif smaller := re.search(r"up to ([\d.]+) ([GM])B", verdict.remedy):
        most = round(float(smaller[1]) * (GB if smaller[2] == "G" else 10**6))
        fitting = replace(models[0], weights=most).with_context(2048)
        emptied = replace(machine, available=machine.memory)
        assert judge_fit([fitting], emptied).fit is not Fit.WONT
    elif verdict.remedy.startswith("Close"):
        emptied = replace(machine, available=machine.memory)
        assert judge_fit(models, emptied).fit is not Fit.WONT


@given(loads(), some.integers(0, 60 * GB), some.integers(0, GB))
def test_layers_on_a_gpu(load: ModelLoad, free: int, more: int) -> None:
    layers = load.layers or 32
    fitting = layers_on_gpu(load, free)
    assert 0 <= fitting <= layers + 1
    assert fitting <= layers_on_gpu(load, free + more)
    assert fitting == layers + 1 or fitting < layers
    if 0 < fitting < layers:
        assert (load.weights + load.kv) * fitting // layers + load.scratch <= free
    assert layers_on_gpu(load, load.weights + load.kv + load.scratch) == layers + 1


BIG = ModelLoad("Big", 5 * GB, 4 * GB, 32_768, GB // 2, 32, 0, GB // 4)


def machine(memory: int, available: int, *gpus: int) -> Hardware:
    return Hardware(
        memory * GB, available * GB, 4, 8, gpus=tuple(Gpu("G", n * GB, n * GB) for n in gpus)
    )


@pytest.mark.parametrize(
    ("here", "fit", "why", "remedy"),
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
def test_which_sentences_people_see(here: Hardware, fit: Fit, why: str, remedy: str) -> None:
    verdict = judge_fit([BIG], here)
    assert (verdict.fit, verdict.why, verdict.remedy) == (fit, why, remedy)


def test_memory_that_a_gpu_shares_with_the_machine_counts_once() -> None:
    mac = replace(machine(24, 20), gpus=(Gpu("Apple M2", 18 * GB, 18 * GB),))
    assert judge_fit([BIG], mac).fit is Fit.FITS
    laptop = replace(mac, gpus=(Gpu("Intel Arc", 18 * GB, 18 * GB, integrated=True),))
    assert judge_fit([BIG], laptop) == judge_fit([BIG], mac)
    larger = replace(BIG, weights=20 * GB)
    assert judge_fit([larger], laptop) == judge_fit([larger], mac)
    verdict = judge_fit([larger], mac)
    assert verdict.fit is Fit.WONT
    assert verdict.why == "It needs 24.5 GB, and 19.2 GB of 24 GB can be used now."
    assert judge_fit([larger], replace(mac, gpus=(Gpu("RTX", 18 * GB, 18 * GB),))).fit is Fit.SPILLS
    assert judge_fit([BIG], replace(mac, available=8 * GB)).fit is Fit.WONT


def test_several_are_judged_together() -> None:
    here = machine(16, 14)
    assert judge_fit([BIG], here).fit is not Fit.WONT
    small = ModelLoad("Small", GB, GB, 2048, GB // 10)
    verdict = judge_fit([BIG, small, small, BIG], here)
    assert verdict.why.startswith("Together they need 23.2 GB")
    assert judge_fit([], here).fit is Fit.FITS


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
    assert kv_cache_bytes(PLAIN, 1024) == 1024 * 4 * 2 * 128 * 2
    assert kv_cache_bytes(PLAIN, 1000) == kv_cache_bytes(PLAIN, 1024), "in pieces of 256"
    assert kv_cache_bytes(PLAIN, 1024, 8.5) == kv_cache_bytes(PLAIN, 1024) * 8.5 / 16
    windows = replace(PLAIN, window=512, windowed=(True, False) * 2)
    assert kv_cache_bytes(windows, 8192) == (2 * 8192 + 2 * 768) * 2 * 128 * 2
    assert kv_cache_bytes(windows, 512) == kv_cache_bytes(PLAIN, 512)
    recurrent = replace(PLAIN, kv_heads=(0, 0, 0, 2), state=10**6)
    assert kv_cache_bytes(recurrent, 1024) == kv_cache_bytes(PLAIN, 1024) // 4 + 10**6
    wide = replace(windows, window_value_length=128)
    assert kv_cache_bytes(wide, 8192) > kv_cache_bytes(wide, 8192, 8.5) * 2, (
        "values are padded unless quantised"
    )


def test_a_load_is_of_the_context_that_the_model_can_have() -> None:
    load = estimate_load(PLAIN, 100_000_000, 100_000)
    assert (load.context, load.layers, load.name) == (32_768, 4, "Plain")
    assert load.kv == kv_cache_bytes(PLAIN, 32_768)
    assert estimate_load(PLAIN, 0, 2048).weights == 100_000_000
    assert estimate_load(PLAIN, 300_000_000, 2048).weights == 300_000_000
    assert estimate_load(PLAIN, 0, 8192, 8).kv < estimate_load(PLAIN, 0, 8192).kv
    odd = replace(PLAIN, key_length=80)
    assert estimate_load(odd, 0, 8192, 8) == estimate_load(odd, 0, 8192), "it can't be quantised"


@given(some.integers(512, 40_000), some.integers(1, 65_536))
def test_a_smaller_context_takes_no_more_than_is_said(context: int, smaller: int) -> None:
    windows = replace(PLAIN, window=512, windowed=(True, False) * 2, state=10**6)
    load = estimate_load(windows, 10**8, context)
    assume(smaller <= load.context)
    one_piece = kv_cache_bytes(PLAIN, 256)  # contexts come in those
    assert (
        estimate_load(windows, 10**8, smaller).total <= load.with_context(smaller).total + one_piece
    )


def test_an_entry_of_the_catalogue_is_judged_from_above() -> None:
    entry = CatalogueEntry(
        "m", "M", Source("r", "m.gguf"), size=5 * GB, context=32_768, kv_bytes=100_000
    )
    load = estimate_entry_load(entry, 8192)
    assert (load.name, load.weights, load.kv, load.context) == ("M", 5 * GB, 819_200_000, 8192)
    assert 10**8 < load.overhead < 10**9
    assert estimate_entry_load(entry, 10**6).context == 32_768
    assert estimate_entry_load(replace(entry, kv_bytes=0), 8192).kv > 0
