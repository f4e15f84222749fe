"""Processes of other parents: whether they run, or have ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

import psutil


def is_over(process: psutil.Process) -> bool:
    """Whether a process has ended, be it that its parent has not noticed yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_over(processes: Iterable[psutil.Process], seconds: float = 30) -> None:
    """Wait until all of them have ended. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    for process in processes:
        while not is_over(process):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{process} has not ended.")
            time.sleep(0.01)


def wait_for_child(parent: psutil.Process, name: str, seconds: float = 60) -> psutil.Process:
    """Wait until a Baton has its child process of this name. Raises AssertionError."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for child in parent.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.cmdline()[-2:] == ["--child", name]:
                    return child
        time.sleep(0.02)
    raise AssertionError(f"no {name} within {seconds} s")
