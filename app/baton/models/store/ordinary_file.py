"""Opens ordinary files, and nothing that could be waited for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def open_regular_file(path: Path, *, itself: bool = False) -> Iterator[BinaryIO]:
    """Open an ordinary file; with `itself`, one that isn't a link. Raises OSError.

    It is told apart before it is opened, since opening a device may do something; and after it, in
    case it was changed for a pipe just now.
    """
    try:
        _require_regular((path.lstat() if itself else path.stat()).st_mode)
        handle = os.open(path, _OPEN_FLAGS | _NO_FOLLOW if itself else _OPEN_FLAGS)
    except ValueError as error:  # no name that the system knows
        raise OSError(0, str(error)) from error
    with os.fdopen(handle, "rb") as file:
        _require_regular(os.fstat(handle).st_mode)
        yield file


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(0, "it isn't an ordinary file")
