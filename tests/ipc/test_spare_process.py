"""Processes that are started ahead of their use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from baton.ipc import spare_process

ECHO = [sys.executable, "-c", "import sys; sys.stdout.write(sys.stdin.read())"]


@pytest.fixture(autouse=True)
def _no_spares() -> Iterator[None]:
    yield
    spare_process.end_spares()


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def test_a_spare_process_is_taken_once_and_only_for_the_very_same() -> None:
    before = children()
    spare_process.start_spare(ECHO, {"A": "1"}, "/")
    [spare] = children() - before
    other = spare_process.start_process(ECHO, {"A": "2"}, "/")
    first, second = (spare_process.start_process(ECHO, {"A": "1"}, "/") for _ in range(2))
    assert first.pid == spare
    assert len({spare, other.pid, second.pid}) == 3
    for process in (other, first, second):
        assert process.communicate(b"said", timeout=60) == (b"said", b"")


def test_spare_processes_that_nothing_took_are_ended() -> None:
    before = children()
    spare_process.start_spare(ECHO, {}, None)
    assert len(children() - before) == 1
    spare_process.end_spares()
    assert children() == before


def test_a_spare_process_that_cannot_be_started_is_none() -> None:
    spare_process.start_spare(["/nowhere/at/all"], {}, None)
    with pytest.raises(FileNotFoundError):
        spare_process.start_process(["/nowhere/at/all"], {}, None)


def test_a_spare_process_ends_with_its_parent() -> None:
    script = (
        "import os, subprocess\n"
        "from baton.ipc import spare_process\n"
        f"spare_process.start_spare({ECHO!r}, dict(os.environ), None)\n"
        "[process] = spare_process._spares.values()\n"
        "print(process.pid, flush=True)\n"
        "os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    pid = int(done.stdout)
    if psutil.pid_exists(pid):
        psutil.wait_procs([psutil.Process(pid)], timeout=30)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
