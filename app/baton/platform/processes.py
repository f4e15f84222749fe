"""Processes and signals: how the system asks Baton to end, and which process still runs.

A loop on Windows can't listen by itself; there the interpreter's own handler wakes it. Windows has
no hang-up either.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from baton.core.frozen_dataclass import frozen_dataclass

HANGUP_SIGNAL: int | None = getattr(signal, "SIGHUP", None)
"""The terminal is gone."""
ENDING_SIGNALS: tuple[int, ...] = tuple(
    number for number in (signal.SIGTERM, HANGUP_SIGNAL) if number
)


def add_signal_handler(number: int, act: Callable[..., object], *args: object) -> None:
    """Have the running loop do that at each such signal; only the main thread can ask for it."""
    loop = asyncio.get_running_loop()
    if sys.platform != "win32":
        loop.add_signal_handler(number, act, *args)
    else:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(act, *args))


def remove_signal_handler(number: int) -> None:
    """Have that signal do again what it does by default."""
    if sys.platform != "win32":
        asyncio.get_running_loop().remove_signal_handler(number)
    else:
        signal.signal(number, signal.SIG_DFL)


def is_ignored(number: int) -> bool:
    """Whether this process was started to ignore a signal (`nohup`, `&`)."""
    return signal.getsignal(number) is signal.SIG_IGN


def run_in_foreground(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program of the user at the terminal, and return its exit status.

    Ctrl+C is the program's as long as it runs: an editor has a meaning of its own for it. Raises
    OSError where it can't be started.
    """
    # A handler, as the program would inherit that a signal is ignored.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, env=environ).returncode
    finally:
        signal.signal(signal.SIGINT, before)


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


# Where this process runs


CONTAINER_FILES = (".dockerenv", "run/.containerenv")
CONTAINER_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")

CI_VARIABLES = ("BUILD_NUMBER", "CI", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "TF_BUILD")
"""What automatic builds set; "" and "false" count as not set."""


def is_interactive() -> bool:
    """Whether the user is at the terminal: never in a pipe, in cron, or as a service."""
    return os.isatty(0) and os.isatty(2)


def is_in_container(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> bool:
    """Whether this runs in a container, where processes that stay would keep it from ending."""
    if any(environ.get(name) for name in CONTAINER_VARIABLES):
        return True
    return any((root / name).exists() for name in CONTAINER_FILES)


def is_in_ci(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this runs in an automatic build."""
    return any(environ.get(name, "").lower() not in ("", "0", "false") for name in CI_VARIABLES)


def may_leave_process(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> bool:
    """Whether a process may stay behind when this one ends."""
    return is_interactive() and not (is_in_ci(environ) or is_in_container(environ, root))
