"""Which process is still there: in doubt it is, so that what it holds counts."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from baton.platform.processes import Owner, current_process, is_alive


def test_this_process_is_there_and_an_earlier_one_of_its_number_is_not() -> None:
    here = current_process()
    assert is_alive(here)
    assert not is_alive(Owner(here.pid, here.started - 100))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no zombies")
def test_an_unreaped_process_that_ended_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(Owner(child.pid, psutil.Process(child.pid).create_time()))
    assert not is_alive(Owner(child.pid, 0))


def test_a_process_that_cannot_be_looked_at_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: psutil.Process) -> str:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "status", refuse)
    assert is_alive(current_process())
