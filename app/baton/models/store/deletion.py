"""Deleting, and what that frees. Links are taken away, what they lead to never is."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def delete_files(paths: Iterable[Path]) -> int:
    """Delete files; return the bytes freed. What is gone already, and folders, are passed over.

    A file that has other names elsewhere takes as much room as before.
    """
    size = 0
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                continue
            path.unlink()
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                size += status.st_size
    return size
