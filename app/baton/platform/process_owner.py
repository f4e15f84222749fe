"""Which process a call or a run is in progress in, and whether that process is still there."""

from __future__ import annotations

import os
from pathlib import Path

from baton.core.frozen_dataclass import frozen_dataclass

_CLOCK_TOLERANCE_SECONDS = 60
"""By so much a process's begin by the system's clock may move, and it is still the same one."""

_MIN_EPOCH_SECONDS = 10**9
"""No machine has been up for so many seconds, and no process began so early since the epoch."""


@frozen_dataclass
class Owner:
    """A process: its id, and when it began, in seconds.

    On Linux since the boot: there, the time since the epoch moves when the clock is set. On others,
    and where an older Baton wrote it, since the epoch.
    """

    pid: int
    started: float


def current_process() -> Owner:
    """Return the process that this is."""
    started = _start_since_boot(os.getpid())
    if started is None:
        import psutil

        started = psutil.Process().create_time()
    return Owner(os.getpid(), started)


def is_alive(owner: Owner) -> bool:
    """Whether a process is still there, and not a later one that got its id.

    In doubt it is: what it holds then counts for longer than it must.
    """
    import psutil

    try:
        process = psutil.Process(owner.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        started = _start_since_boot(owner.pid)
        if started is not None and owner.started < _MIN_EPOCH_SECONDS:
            return started == owner.started
        return bool(process.create_time() <= owner.started + _CLOCK_TOLERANCE_SECONDS)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


def _start_since_boot(pid: int) -> float | None:
    """Return when a process began, in seconds since the boot, where the system says it so."""
    try:
        # Behind the name, which may hold spaces and parentheses: field 22 of proc_pid_stat(5).
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
