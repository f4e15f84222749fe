"""Whether a disk has room, and what it means when it refuses, in sentences for people."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from baton.core.byte_format import show_size
from baton.ipc.parent_channel import Failure

DISK_MARGIN = 1.1
"""A disk must have room for so much more than what is still to come."""

_DISK_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_WINDOWS_FULL = {39, 112}  # ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL


def check_room(folder: Path, coming: int, name: str) -> None:
    """Refuse what would not find room in a folder, before it comes. Raises Failure."""
    needed = int(coming * DISK_MARGIN)
    with explain_write_errors(folder, name):
        free = shutil.disk_usage(folder).free
    if coming and free < needed:
        raise Failure(
            "ModelFileError",
            f"The disk has no room for {name}: {show_size(needed - free)} more are needed"
            f" ({show_size(free)} are free, {show_size(needed)} wanted with a margin).",
            "Make room and run it again; what has come is kept.",
        )


@contextmanager
def explain_write_errors(folder: Path, name: str) -> Iterator[None]:
    """Turn what the system refuses into a Failure; `name` is the file's."""
    try:
        yield
    except OSError as error:
        raise _write_failure(error, folder, name) from error


@contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Turn what the system refuses while a file is read into a Failure."""
    try:
        yield
    except OSError as error:
        raise Failure(
            "ModelFileError",
            f"{path} can't be read: {error.strerror or error}.",
            "Check that it is still there, its owner and permissions, and the disk.",
        ) from error


def _write_failure(error: OSError, folder: Path, name: str) -> Failure:
    if error.errno in _DISK_FULL or getattr(error, "winerror", None) in _WINDOWS_FULL:
        message = f"The disk became full while {name} was written. What has come is kept."
        hint = "Make room and run it again; it goes on where it ended."
    elif error.errno == errno.EFBIG:
        message = f"{name} is larger than a file may be on this disk. What has come is kept."
        hint = "Use a folder on another disk (some formats end at 4 GB), or a higher limit."
    else:
        message = f"{name} can't be kept in {folder}: {error.strerror or error}."
        hint = "Check the folder's owner and permissions, and the disk."
    return Failure("ModelFileError", message, hint)
