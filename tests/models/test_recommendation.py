"""Which models suit a machine: over machines of all kinds, real ones and random ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from baton.core.catalogue_types import CatalogueEntry, ModelRole, Source, ThinkingMode
from baton.core.machine import Gpu, Hardware
from baton.gguf.memory_fit import Fit, estimate_entry_load, judge_fit
from baton.models.catalogue import read_catalogue
from baton.models.recommendation import (
    CONDUCTOR_LOAD,
    DISK_MARGIN,
    DISK_RESERVE,
    RESERVED_BYTES,
    ROUTER_LOAD,
    Recommendation,
    expected_speed,
    recommend,
    role_level,
    role_worth,
    round_speed,
    usual_starter_speed,
)

GIB = 1 << 30
GB = 10**9
CATALOGUE = read_catalogue()

QUICK = settings(max_examples=12, deadline=None)


def machine(
    memory: float, cores: int = 8, free: float = 0.8, gpu: float = 0, disk: int = 500 * GB
) -> Hardware:
    whole = int(memory * GIB * 0.98)
    cards = (Gpu("NVIDIA GeForce", int(gpu * GIB * 0.97), int(gpu * GIB)),) if gpu else ()
    return Hardware(whole, int(whole * free), cores, 2 * cores, gpus=cards, disk=disk)


def by_role(found: Recommendation) -> dict[ModelRole, str]:
    return {role: pick.entry.id for pick in found.picks for role in pick.roles}


def lightest(entries: tuple[CatalogueEntry, ...]) -> int:
    """Return the least that one model takes that can talk."""
    return min(
        estimate_entry_load(entry, 8192).total
        for entry in entries
        if entry.is_free and ModelRole.CHAT in entry.roles
    )


machines = st.builds(
    machine,
    memory=st.floats(1, 130),
    cores=st.integers(1, 64),
    free=st.floats(0.02, 0.98),
    gpu=st.sampled_from([0, 0, 0, 2, 4, 6, 8, 12, 16, 24, 48, 80]),
    disk=st.sampled_from([0, GB, 2 * GB, 5 * GB, 12 * GB, 30 * GB, 500 * GB]),
)
speeds = st.none() | st.floats(0.5, 3000)


@QUICK
@given(machines, speeds, st.sampled_from([2048, 8192, 32768, 131072]), st.data())
def test_nothing_is_ever_recommended_that_does_not_fit(
    here: Hardware, speed: float | None, context: int, data: st.DataObject
) -> None:
    some = st.lists(st.sampled_from([entry.id for entry in CATALOGUE]), max_size=12)
    without, known = data.draw(some), data.draw(some)
    entries = [entry for entry in CATALOGUE if entry.id not in without]
    found = recommend(entries, here, speed=speed, here=known, context=context)
    assert found.why
    if not found.picks:
        assert found.download == 0
        return
    roles = [role for pick in found.picks for role in pick.roles]
    assert len(roles) == len(set(roles))
    assert ModelRole.CHAT in roles
    assert ModelRole.CONDUCTOR not in roles, "Baton brings its own"
    assert len({pick.entry.id for pick in found.picks}) == len(found.picks)
    for pick in found.picks:
        assert pick.entry in entries
        assert pick.entry.is_free
        assert set(pick.roles) <= set(pick.entry.roles)
        assert pick.load == estimate_entry_load(pick.entry, context)
        assert pick.here == (pick.entry.id in known)
        assert (pick.speed is None) == (speed is None)
        together = [pick.load, CONDUCTOR_LOAD, ROUTER_LOAD]
        assert judge_fit(together, here).fit is not Fit.WONT
        assert sum(load.total for load in together) <= found.memory
        if not here.gpus:
            assert sum(load.total for load in together) <= here.memory - RESERVED_BYTES
    assert found.verdict.fit is not Fit.WONT
    assert found.download == sum(pick.entry.size for pick in found.picks if not pick.here)
    if found.download and here.disk:
        assert found.download * DISK_MARGIN + DISK_RESERVE <= here.disk


@QUICK
@given(machines, speeds, st.floats(1, 4), st.booleans())
def test_more_memory_or_a_larger_gpu_never_gives_a_worse_set(
    here: Hardware, speed: float | None, times: float, card: bool
) -> None:
    if card and here.gpus:
        gpu = here.gpus[0]
        cards = (replace(gpu, free=int(gpu.free * times), total=int(gpu.total * times)),)
        larger = replace(here, gpus=cards)
    else:
        memory, available = int(here.memory * times), int(here.available * times)
        larger = replace(here, memory=memory, available=available)
    one = recommend(CATALOGUE, here, speed=speed)
    other = recommend(CATALOGUE, larger, speed=speed)
    assert not one.picks or other.picks
    assert other.worth >= one.worth - 1e-9


@QUICK
@given(machines, speeds)
def test_what_was_fetched_is_what_is_recommended_from_then_on(
    here: Hardware, speed: float | None
) -> None:
    here = replace(here, disk=0)  # else there is room for more than before
    first = recommend(CATALOGUE, here, speed=speed)
    ids = [pick.entry.id for pick in first.picks]
    again = recommend(CATALOGUE, here, speed=speed, here=ids)
    assert [pick.entry.id for pick in again.picks] == ids
    assert again.download == 0


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
@pytest.mark.parametrize("free", [0.2, 0.5, 0.9])
def test_a_machine_of_2_gb_has_the_starter_model_and_nothing_else(cores: int, free: float) -> None:
    found = recommend(CATALOGUE, machine(2, cores, free), speed=60.0 * cores)
    assert found.picks == ()
    assert found.why.startswith(f"2 GB, {cores} core")


@pytest.mark.parametrize("free", [0.3, 0.5, 0.7, 0.9])
def test_a_machine_of_4_gb_keeps_room_for_everything_else(free: float) -> None:
    here = machine(4, 4, free)
    found = recommend(CATALOGUE, here, speed=150)
    assert bool(found.picks) == (
        here.available > lightest(CATALOGUE) + CONDUCTOR_LOAD.total + ROUTER_LOAD.total + 0.3 * GB
    )
    assert found.memory <= here.memory - RESERVED_BYTES
    assert found.memory <= here.available


def test_the_usual_machines_get_what_they_can_carry() -> None:
    assert by_role(recommend(CATALOGUE, machine(4, 2), speed=100)) == {
        ModelRole.CHAT: "qwen3.5-2b",
        ModelRole.CODER: "qwen2.5-coder-1.5b",
    }
    for memory, cores, starter, chat in (
        (8, 4, 200, "qwen3.5-4b"),
        (16, 8, 300, "qwen3.5-9b"),
        (32, 8, 350, "gemma-4-26b-a4b"),
    ):
        found = recommend(CATALOGUE, machine(memory, cores), speed=starter)
        assert set(by_role(found)) == {ModelRole.CHAT, ModelRole.CODER, ModelRole.REASONING}
        assert by_role(found)[ModelRole.CHAT] == chat
        assert found.verdict.fit in (Fit.FITS, Fit.TIGHT)
        assert all(pick.speed and pick.speed >= 5 for pick in found.picks)


@pytest.mark.parametrize(("gpu", "billions"), [(6, 3), (8, 3), (12, 8), (24, 20)])
def test_a_gpu_carries_its_workers_wholly(gpu: int, billions: float) -> None:
    here = machine(32, 8, gpu=gpu)
    found = recommend(CATALOGUE, here, speed=250)
    for pick in found.picks:
        assert judge_fit([pick.load], here).fit is Fit.FITS
        assert pick.speed is not None
        assert pick.speed >= 15
    chat = next(pick.entry for pick in found.picks if ModelRole.CHAT in pick.roles)
    assert chat.parameters >= billions * GB
    assert f"NVIDIA GeForce with {gpu} GB" in found.why


def test_experts_are_chosen_where_a_dense_model_would_be_slow() -> None:
    found = recommend(CATALOGUE, machine(64, 8), speed=300)
    chat = next(pick.entry for pick in found.picks if ModelRole.CHAT in pick.roles)
    assert chat.active < chat.parameters / 4


@QUICK
@given(machines, speeds)
def test_no_model_is_recommended_that_writes_slowly(here: Hardware, speed: float | None) -> None:
    found = recommend(CATALOGUE, here, speed=speed)
    assert all(pick.speed is None or pick.speed >= 5 for pick in found.picks)


@pytest.mark.parametrize("memory", [8, 16, 32, 64])
@pytest.mark.parametrize("cores", [1, 2, 4, 8])
def test_a_slower_machine_never_gets_a_larger_model(memory: int, cores: int) -> None:
    here, largest, sets = machine(memory, cores), 1e18, []
    for speed in (1000, 500, 350, 200, 100, 60, 40, 25, 15, 8, 4, 2, 1, 0.5):
        found = recommend(CATALOGUE, here, speed=speed)
        sizes = [pick.entry.size * pick.entry.active / pick.entry.parameters
                 if pick.entry.active else pick.entry.size for pick in found.picks
                 if ModelRole.CHAT in pick.roles]  # fmt: skip
        assert sum(sizes) <= largest
        assert all(pick.speed is not None and pick.speed >= 5 for pick in found.picks)
        largest = sum(sizes)
        sets.append(found.picks)
    assert sets[-1] == ()


def test_what_was_recommended_stays_so_while_memory_comes_and_goes() -> None:
    first = recommend(CATALOGUE, machine(16, 8, 0.42), speed=300)
    ids = [pick.entry.id for pick in first.picks]
    fresh = recommend(CATALOGUE, machine(16, 8, 0.44), speed=300)
    assert [pick.entry.id for pick in fresh.picks] != ids, "a little more memory is enough"
    for free in (0.44, 0.4, 0.6):
        again = recommend(CATALOGUE, machine(16, 8, free), speed=300, before=ids)
        assert [pick.entry.id for pick in again.picks] == ids
    much = recommend(CATALOGUE, machine(64, 8, 0.9), speed=900, before=["qwen3.5-0.8b"])
    assert [pick.entry.id for pick in much.picks] != ["qwen3.5-0.8b"]
    little = recommend(CATALOGUE, machine(16, 8, 0.2), speed=300, before=ids)
    assert little.memory <= 0.2 * 16 * GIB


def test_a_slow_machine_gets_what_is_quickest_of_what_is_of_use() -> None:
    found = recommend(CATALOGUE, machine(16, 1), speed=60)
    assert found.picks
    assert all(pick.entry.parameters < 8 * GB for pick in found.picks)
    assert "slow" not in found.why
    assert recommend(CATALOGUE, machine(16, 1), speed=1).picks == ()
    slow = recommend(CATALOGUE, machine(16, 8), speed=100)
    assert "slow when it was measured" in slow.why


def test_who_has_little_free_hears_that_more_would_fit() -> None:
    busy = recommend(CATALOGUE, machine(16, 8, 0.2), speed=300)
    idle = recommend(CATALOGUE, machine(16, 8, 0.9), speed=300)
    assert busy.picks
    assert busy.memory < idle.memory
    assert "only 3.4 GB are free now, else larger ones would fit" in busy.why
    assert "free now" not in idle.why
    none = recommend(CATALOGUE, machine(8, 4, 0.1), speed=200)
    assert none.picks == ()
    has = "8 GB, 4 cores, no GPU"
    assert none.why == f"{has}, but only 841.8 MB are free now: close other programs."


def test_the_disk_limits_the_set_and_is_named_where_it_has_no_room() -> None:
    small = recommend(CATALOGUE, machine(32, 8, disk=6 * GB), speed=300)
    assert 0 < small.download < 5 * GB
    full = recommend(CATALOGUE, machine(32, 8, disk=GB), speed=300)
    assert full.picks == ()
    assert "only 1.0 GB on the disk" in full.why
    ids = [pick.entry.id for pick in recommend(CATALOGUE, machine(32, 8), speed=300).picks]
    there = recommend(CATALOGUE, machine(32, 8, disk=GB), speed=300, here=ids)
    assert [pick.entry.id for pick in there.picks] == ids


def test_the_reason_is_a_sentence_about_this_machine() -> None:
    here = machine(16, 8)
    assert recommend(CATALOGUE, here).why == "16 GB, 8 cores, no GPU."
    cards = tuple(Gpu(name, 8 * GB, 8 * 2**30) for name in ("RTX", "RTX", "GTX"))
    found = recommend(CATALOGUE, replace(here, gpus=cards)).why
    assert found.startswith("16 GB, 8 cores, 2 x RTX with 8 GB, GTX with 8 GB")
    away = replace(here, battery=0.4, plugged=False)
    assert recommend(CATALOGUE, away).why.endswith("; on battery, so slower than plugged in.")
    assert recommend((), here).why == (
        "16 GB, 8 cores, no GPU: too little for more than the starter model."
    )


def test_only_what_needs_no_agreement_and_has_a_size_is_recommended() -> None:
    asks = tuple(replace(entry, licence="gemma") for entry in CATALOGUE)
    assert recommend(asks, machine(32)).picks == ()
    sizeless = tuple(replace(entry, size=0) for entry in CATALOGUE)
    assert recommend(sizeless, machine(32)).picks == ()


def model(**known: object) -> CatalogueEntry:
    source = Source("a/b", "c.gguf")
    entry = CatalogueEntry(
        "m", "M", source, 5 * GB, licence="mit", parameters=8 * GB, active=8 * GB
    )
    return replace(entry, **known)  # type: ignore[arg-type]


def test_a_model_is_as_much_slower_as_it_reads_more() -> None:
    here = machine(32, 8)
    assert expected_speed(model(size=980_000_000), here, 100) == 10
    assert expected_speed(model(size=9_800_000_000), here, 100) == 1
    experts = model(size=9_800_000_000, active=GB)
    assert expected_speed(experts, here, 100) == 8
    assert expected_speed(model(size=0), here, 100) == pytest.approx(2, abs=0.5)
    assert expected_speed(CatalogueEntry("e", "E", Source()), here, 100) == 100


def test_the_part_beside_a_gpu_is_what_takes_the_time() -> None:
    paces = [expected_speed(model(), machine(32, 8, gpu=gpu), 250) for gpu in (2, 4, 6, 8, 24, 48)]
    assert paces == sorted(paces)
    assert paces[-1] > 3 * paces[0]
    apple = replace(machine(32, 8, gpu=24), gpus=(Gpu("Apple M2 Max", 24 * GIB, 24 * GIB),))
    assert 5 < expected_speed(model(), apple, 250) < paces[4]
    several = replace(machine(32, 8), gpus=(Gpu("NVIDIA", 4 * GIB, 4 * GIB),) * 2)
    assert expected_speed(model(), several, 250) > paces[1]


def test_a_speed_is_said_no_more_exactly_than_it_is_known() -> None:
    rounded = [round_speed(tokens) for tokens in (-1, 0, 0.34, 3.7, 12.4, 13, 48, 52, 236)]
    assert rounded == [0, 0, 0.3, 4, 10, 15, 50, 50, 240]
    assert (
        usual_starter_speed(machine(8, 2))
        < usual_starter_speed(machine(8, 8))
        == usual_starter_speed(machine(8, 64))
    )


def test_who_thinks_before_each_answer_is_not_good_company() -> None:
    calm = model(id="calm")
    thinker = model(id="thinker", thinking=ThinkingMode.ALWAYS)
    assert role_worth(calm, ModelRole.CHAT, 20.0) > role_worth(thinker, ModelRole.CHAT, 20.0)
    assert role_level(calm, ModelRole.REASONING) == role_level(thinker, ModelRole.REASONING)
