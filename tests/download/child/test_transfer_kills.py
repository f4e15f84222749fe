"""Downloads in processes of their own, which are killed, or want the same file, or a full disk."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.core.catalogue_types import ModelOffer
from baton.download.messages import Phase
from support.download_processes import FILE, PROCESSES, REPO, Child, here, offer_of
from support.fake_hub import Fault, Hub
from support.small_disk import NEIGHBOUR, on_small_disk

MIB = 1 << 20


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


def add_file(hub: Hub, size: int, seed: int = 1) -> ModelOffer:
    content = random.Random(seed).randbytes(size)
    return offer_of(hub, REPO, FILE, hub.add(REPO, {FILE: content}), size)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    ("kills", "size", "rate"),
    [
        (12, 3 * MIB, 5_000_000),
        pytest.param(200, 80 * MIB, 5_000_000, marks=pytest.mark.long),
    ],
)
def test_killed_at_any_time_it_continues_where_it_was(
    hub: Hub, tmp_path: Path, kills: int, size: int, rate: int
) -> None:
    offer, target = add_file(hub, size), tmp_path / "models" / "m" / FILE
    # Pieces so small that the bytes on their way are few, as on a network.
    hub.choose = lambda seen: Fault(rate=rate) if seen.kind == "store" else None
    dice = random.Random(kills)
    done = 0
    for offset in sorted(dice.randrange(size) for _ in range(kills)):
        child = Child(hub, offer, target)
        done += child.kill_at(offset)
        child.result()
        hub.quiet()
    assert done == kills
    assert {path.suffix for path in target.parent.iterdir()} == {".partial", ".lock"}
    assert here(next(target.parent.glob("*.partial"))) < size
    assert next(target.parent.glob("*.partial")).stat().st_mode & 0o777 == 0o600
    assert target.parent.stat().st_mode & 0o777 == 0o700

    sha256, _ = Child(hub, offer, target).result()

    assert sha256 == offer.sha256
    assert target.read_bytes() == hub.repos[REPO].commits[offer.source.revision][FILE].content
    assert [path.name for path in target.parent.iterdir()] == [FILE]
    hub.quiet()
    asked = hub.contents(FILE)
    again = [
        before.start + before.sent - after.start for before, after in itertools.pairwise(asked)
    ]
    assert max(again) <= MIB - rate // 50  # and at most one piece that was sent in part
    assert hub.served(FILE) <= size + kills * MIB


def test_of_two_that_want_the_same_file_one_fetches_it(hub: Hub, tmp_path: Path) -> None:
    offer, target = add_file(hub, 3 * MIB), tmp_path / "m" / FILE
    hub.choose = lambda seen: Fault(rate=6_000_000) if seen.kind == "store" else None

    both = [Child(hub, offer, target) for _ in range(2)]
    results = [child.result() for child in both]

    assert [sha256 for sha256, _ in results] == [offer.sha256] * 2
    assert sorted(Phase.WAITING in phases for _, phases in results) == [False, True]
    assert len(hub.contents()) == 1
    assert hub.served() == offer.size
    assert [path.name for path in target.parent.iterdir()] == [FILE]


def test_who_waits_continues_when_the_other_is_killed(hub: Hub, tmp_path: Path) -> None:
    offer, target = add_file(hub, 3 * MIB), tmp_path / "m" / FILE
    hub.choose = lambda seen: Fault(rate=6_000_000) if seen.kind == "store" else None

    first = Child(hub, offer, target)
    first.wait_for(lambda: len(hub.contents()) > 0)
    second = Child(hub, offer, target)
    first.kill_at(MIB)
    sha256, phases = second.result()
    first.result()

    assert sha256 == offer.sha256
    assert Phase.DOWNLOADING in phases
    assert [seen.start > 0 for seen in hub.contents()] == [False, True]
    assert [path.name for path in target.parent.iterdir()] == [FILE]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no small disks to be had here")
@pytest.mark.parametrize("offsets", [5, pytest.param(50, marks=pytest.mark.long)])
def test_a_disk_that_becomes_full_harms_nothing(hub: Hub, tmp_path: Path, offsets: int) -> None:
    offer = add_file(hub, 2 * MIB)
    hub.choose = lambda seen: Fault(rate=16_000_000) if seen.kind == "store" else None
    ours, theirs = PROCESSES.Pipe(duplex=False)
    disk = tmp_path / "disk"
    disk.mkdir()
    child = PROCESSES.Process(
        target=on_small_disk, args=(hub.environ, offer, disk, offsets, theirs)
    )
    child.start()
    theirs.close()
    try:
        outcome = ours.recv()
        if outcome == "refused":
            pytest.skip("this system doesn't let this user mount a small disk")
        while outcome != "done":
            assert outcome["failed"]["error"] == "ModelFileError"
            assert "full" in outcome["failed"]["message"]
            assert "Make room" in outcome["failed"]["hint"]
            assert not outcome["target"]
            assert outcome["kept"] >= outcome["room"] - MIB // 4
            assert outcome["neighbour"] == NEIGHBOUR
            assert outcome["then"] == offer.sha256
            assert outcome["left"] == [FILE]
            outcome = ours.recv()
    finally:
        child.join()
        child.close()
        ours.close()
    assert hub.served() <= offsets * (offer.size + MIB)
