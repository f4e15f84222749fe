"""Which process a call is on its way in, and whether that process is still there."""

from __future__ import annotations

import os
from dataclasses import dataclass

_CLOCK_SECONDS = 60
"""By so much the system's clock may be set while a process runs, and it is still the same one."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: its id, and when it began."""

    pid: int
    started: float


def this_process() -> Owner:
    """Return the process that this is."""
    import psutil

    return Owner(os.getpid(), psutil.Process().create_time())


def is_alive(owner: Owner) -> bool:
    """Tell whether a process is still there, and not a later one that got its id.

    In doubt it is: what it holds then counts for longer than it must.
    """
    import psutil

    try:
        process = psutil.Process(owner.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return bool(process.create_time() <= owner.started + _CLOCK_SECONDS)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
