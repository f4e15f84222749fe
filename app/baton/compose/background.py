"""The background process as front ends see it: borrow from it, hand models over to it, end it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from baton.platform import processes
from baton.platform.paths import Paths
from baton.platform.settings import Settings

if TYPE_CHECKING:
    from baton.ipc.borrower import Borrower
    from baton.ipc.lending_protocol import Description
    from baton.ipc.process import Child

STOP_COMMAND = "baton serve --stop"

ENDING_SECONDS = 1.0
"""After what time without a borrower it ends where it may not stay."""

_NOTICE = "lender-noticed"
"""The file that says that the user knows of the background process."""


def borrower(settings: Settings, paths: Paths) -> Borrower | None:
    """Return what borrows models, None where nothing is lent or may be borrowed."""
    return _find_lender(paths) if settings.daemon else None


def _find_lender(paths: Paths) -> Borrower | None:
    """Return what asks the background process, None where none can be.

    Where none runs, that costs one look at the disk, and no import.
    """
    if not paths.has_lender:
        return None
    from baton.ipc.borrower import Borrower

    return Borrower(paths.state)


def hand_over(children: Sequence[Child], settings: Settings, paths: Paths) -> str:
    """Give loaded models to a new background process; return what the user must know, or "".

    What can't be given ends with this process.
    """
    from baton.ipc.borrower import start_lender

    fault, idle_seconds = _make_folder(paths.state), settings.daemon_minutes * 60
    if fault or not start_lender(paths.state, idle_seconds, children):
        for child in children:
            child.kill()
        return fault
    return _first_notice(paths.state / _NOTICE, settings.daemon_minutes)


def share(settings: Settings, paths: Paths, *, stays: bool = True) -> str:
    """Have this process's models held where others can use them, too; return what to say, or "".

    Where no process may stay behind, or it isn't to (`stays`), it ends as soon as nothing is
    borrowed any more.
    """
    if not (settings.daemon and os.name == "posix"):
        return ""
    from baton.ipc.borrower import Borrower, start_lender

    if fault := _make_folder(paths.state):
        return fault
    if Borrower(paths.state).description() is not None:
        return ""
    stays = stays and processes.may_leave_process()
    idle_seconds = settings.daemon_minutes * 60 if stays else ENDING_SECONDS
    is_started = start_lender(paths.state, idle_seconds, ())
    return (
        _first_notice(paths.state / _NOTICE, settings.daemon_minutes)
        if is_started and stays
        else ""
    )


def _make_folder(state: Path) -> str:
    """Make the folder of the background process's socket; say why that can't be, or return ""."""
    from baton.platform.durable_files import folder_fault, make_folder

    try:
        make_folder(state)
    except OSError as error:
        why = folder_fault(state) or f"{state} can't be used ({error.strerror})"
        return f"Models aren't shared with other Batons: {why}."
    return ""


def may_start(settings: Settings, paths: Paths) -> bool:
    """Whether a background process may be started here, and there is none."""
    if not (settings.daemon and os.name == "posix" and processes.may_leave_process()):
        return False
    found = _find_lender(paths)
    # Where it is alone, its socket was left behind.
    return found is None or (found.description() is None and found.is_alone)


def description(paths: Paths) -> Description | None:
    """Return what the background process holds, None where there is none."""
    found = _find_lender(paths)
    return None if found is None else found.description()


def stop(paths: Paths) -> bool:
    """End the background process and its models; return whether there was one."""
    found = _find_lender(paths)
    return found is not None and found.stop()


def _first_notice(file: Path, minutes: float) -> str:
    """Return a line on the background process the first time that there is one."""
    from baton.platform.durable_files import create_file

    with suppress(OSError):
        create_file(file, "")
        how_long = f"until it was not used for {minutes:g} minutes" if minutes else "until stopped"
        return (
            f"A background process keeps the model loaded {how_long};"
            f" `{STOP_COMMAND}` ends it, `daemon = false` in the settings forbids it."
        )
    return ""
