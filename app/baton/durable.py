"""What a folder holds outlasts a power cut only once the folder itself was brought to the disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def settle(folder: Path) -> None:
    """Make sure that a folder's names outlast a power cut, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder that only this person can open, where there is none. Raises OSError."""
    if not folder.is_dir():
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        settle(folder.parent)
