"""How the system asks Baton to end, and how an event loop hears it.

A loop on Windows can't listen by itself; there the interpreter's own handler wakes it. Windows has
no hang-up either.
"""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

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
    """Run a program of the person's at the terminal, and return its exit status.

    Ctrl+C is the program's as long as it runs: an editor has a meaning of its own for it. Raises
    OSError where it can't be started.
    """
    # A handler, as the program would inherit that a signal is ignored.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, env=environ).returncode
    finally:
        signal.signal(signal.SIGINT, before)
