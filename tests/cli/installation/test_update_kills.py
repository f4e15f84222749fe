"""`baton self` killed at any step or time, on a full disk, or where nothing can be written.

The old or the new version is there, never neither.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.http_server import Fault
from support.packaged_machine import serve_release
from support.sample_releases import keys, program, publish
from support.update_processes import (
    NEW,
    OLD,
    CommandResult,
    World,
    baton_self,
    memory,
    on_a_disk_of,
    read_only,
)

pytestmark = [
    pytest.mark.sampled(0.5),
    pytest.mark.skipif(sys.platform == "win32", reason="there it is a folder build"),
]

OLDER = "0.0.9"
SOME = 3
SEED = os.environ["BATON_TEST_SAMPLE"]


@pytest.fixture(scope="module")
def quick() -> Iterator[Path]:
    with memory() as folder:
        yield folder


@pytest.fixture(scope="module")
def public(quick: Path) -> str:
    """Publish a release, and return the key that it is checked with."""
    key, public = keys(quick / "keys")
    publish(quick / "release", key, NEW)
    return public


_number = 0


def world(quick: Path, public: str, source: str = "") -> World:
    global _number
    _number += 1
    root = quick / f"m{_number}"
    root.mkdir()
    return World(root, public, source or str(quick / "release")).install(previous=OLDER)


def check_recovery(machine: World, coming: str) -> None:
    """After any interruption one of the two starts, and the next command repairs the rest."""
    here = machine.version()
    assert here in (OLD, coming)
    command = "update" if coming == NEW else "rollback"
    if command == "rollback" and here == coming and not (machine.share / "switch.json").exists():
        assert baton_self(machine, command).code == 0  # it was complete, and is undone by this
    result = baton_self(machine, command)
    assert result.code == 0, result.text
    there = {path.name for path in machine.target.parent.iterdir()}
    assert there == {"baton"}
    assert machine.version() == coming
    assert machine.version(machine.share / "previous") == OLD
    assert machine.receipt()["version"] == coming
    names = {path.name for path in machine.share.iterdir()} - {".switch.json.new"}
    assert names == {"install.json", "previous", "previous.json"}
    result = baton_self(machine, "rollback")
    assert (result.code, machine.version()) == (0, OLD), result.text
    assert machine.version(machine.share / "previous") == coming


def some(result: CommandResult, count: int | None) -> list[int]:
    """Return the numbers of all steps, or of so many, among them the one that changes it all."""
    numbers = list(range(1, len(result.steps) + 1))
    [moment] = [n for n, step in enumerate(result.steps, 1) if step.endswith(" /bin/baton")][-1:]
    if count is None:
        return numbers
    return sorted({moment, moment + 1, *draw_numbers(numbers, count - 2)})


def draw_numbers(numbers: Sequence[int], count: int) -> list[int]:
    """Return so many of the numbers, others for each seed."""
    return random.Random(SEED).sample(numbers, count)


@pytest.mark.parametrize("count", [SOME, pytest.param(None, marks=pytest.mark.long)])
@pytest.mark.parametrize(("command", "coming"), [("update", NEW), ("rollback", OLDER)])
def test_killed_before_a_step(
    quick: Path, public: str, command: str, coming: str, count: int | None
) -> None:
    unharmed = baton_self(world(quick, public), command)
    assert unharmed.code == 0, unharmed.text
    assert len(unharmed.steps) > 25
    for number in some(unharmed, count):
        machine = world(quick, public)
        result = baton_self(machine, command, kill_at=number)
        assert result.code is None, f"it was to be killed before {unharmed.steps[number - 1]}"
        check_recovery(machine, coming)


@pytest.mark.parametrize("count", [1, pytest.param(None, marks=pytest.mark.long)])
def test_killed_in_the_child_too(quick: Path, public: str, count: int | None) -> None:
    """All of it ends before a step of the process that brings the file."""
    unharmed = baton_self(machine := world(quick, public), "update", child=0)
    assert unharmed.code == 0, unharmed.text
    steps = (machine.root / "child steps").read_text().splitlines()
    assert any("os.rename" in step for step in steps)
    assert len(steps) > 5
    numbers = range(1, len(steps) + 1)
    for number in numbers if count is None else draw_numbers(numbers, count):
        machine = world(quick, public)
        result = baton_self(machine, "update", child=number)
        assert result.code is None, f"it was to be killed before {steps[number - 1]}"
        assert machine.version() == OLD
        check_recovery(machine, NEW)


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.long)])
def test_killed_at_any_time(quick: Path, public: str, kills: int) -> None:
    dice = random.Random(kills)
    with serve_release(quick / "release") as mirror:
        for name in (file.name for file in (quick / "release").iterdir()):
            mirror.fault[name] = Fault(rate=200_000)
        machine = world(quick, public, mirror.address)
        for _ in range(kills):
            baton_self(machine, "update", kill_after=dice.uniform(0.05, 1.2))
            assert machine.version() in (OLD, NEW)
        mirror.fault.clear()
        check_recovery(machine, NEW)


@pytest.mark.parametrize("count", [4, pytest.param(None, marks=pytest.mark.long)])
def test_a_disk_that_becomes_full_at_any_step(quick: Path, public: str, count: int | None) -> None:
    """From some step on nothing more fits, until room is made."""
    size = len(program(NEW))
    ended = on_a_disk_of(6 * size, quick, public, count)
    if ended is None:
        pytest.skip("this system doesn't let this user mount a small disk")
    assert ended
    for outcome in ended:
        assert outcome["here"] in (OLD, NEW), outcome
        assert outcome["code"] in (0, 1), outcome
        assert "hit a bug" not in outcome["text"], outcome
        assert outcome["code"] == 0 or "room" in outcome["text"], outcome
        assert outcome["then"] == (0, NEW, OLD), outcome
    assert any(outcome["code"] for outcome in ended)


def test_a_disk_that_is_too_small_is_said_before_anything_comes(quick: Path, public: str) -> None:
    size = len(program(NEW))
    ended = on_a_disk_of(2 * size + (1 << 15), quick, public, 0)
    if ended is None:
        pytest.skip("this system doesn't let this user mount a small disk")
    [outcome] = ended
    assert outcome["code"] == 1
    assert "has no room for baton-" in outcome["text"]
    assert "Make room" in outcome["text"]
    assert outcome["here"] == OLD


def test_where_nothing_can_be_written_it_is_said(quick: Path, public: str) -> None:
    endings = read_only(world(quick, public))
    if endings is None:
        pytest.skip("this system doesn't let this user mount anything")
    for command, code, text in endings:
        assert code == 1, (command, text)
        assert "can't be changed: Read-only file system; nothing was changed" in text, command
        assert "hit a bug" not in text
