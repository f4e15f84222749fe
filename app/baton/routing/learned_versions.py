"""What was learned from a person's answers, and what it was before: small files of numbers.

The newest is what the router reads. No lock is needed: every file has a name of its own until it
takes the newest one's place, so of two Batons that learn at once the later one counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from baton.core.errors import StoreError
from baton.platform.durable_files import create_file, make_folder

KEPT = 5
"""How many earlier versions can be gone back to."""

STALE_SECONDS = 24 * 3600
"""After how long what a Baton that was killed had begun is removed."""

_EARLIER, _UNDECIDED = "before-*.npz", "new-*.npz"


class Versions:
    """The versions of one learned file, in its folder."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._folder = file.parent

    @property
    def at(self) -> float | None:
        """When the newest version was learned, in seconds since 1970 (None: there is none)."""
        try:
            return self.file.stat().st_mtime
        except OSError:
            return None

    @property
    def earlier(self) -> list[Path]:
        """The versions before it, oldest first."""
        return sorted(self._folder.glob(_EARLIER))

    def begin(self) -> Path:
        """Return a file of its own to learn into, with the newest version in it, if there is one.

        Raises StoreError.
        """
        with _told(self._folder):
            make_folder(self._folder)
            for left in self._folder.glob(_UNDECIDED):
                with suppress(FileNotFoundError):  # another Baton's, which is done with it
                    if time.time() - left.stat().st_mtime > STALE_SECONDS:
                        left.unlink()
            draft = self._folder / f"new-{os.getpid()}-{os.urandom(4).hex()}.npz"
            with suppress(FileNotFoundError):
                _copy(self.file, draft)
            return draft

    def keep(self, draft: Path) -> None:
        """Make what was learned into `draft` the newest version. Raises StoreError."""
        with _told(self._folder):
            number = max((_number(path) for path in self.earlier), default=0) + 1
            with suppress(FileNotFoundError):
                self._put_aside(number)
            draft.replace(self.file)
            for old in self.earlier[:-KEPT]:
                old.unlink(missing_ok=True)

    def _put_aside(self, number: int) -> None:
        while True:
            try:
                return _copy(self.file, self._folder / f"before-{number:06d}.npz")
            except FileExistsError:  # another Baton's, a moment ago
                number += 1

    def drop(self, draft: Path) -> None:
        """Forget what was learned into `draft`."""
        with _told(self._folder):
            draft.unlink(missing_ok=True)

    def undo(self) -> bool:
        """Go back to the version before, or to none; tell whether there was anything to undo.

        Raises StoreError.
        """
        if self.at is None:
            return False
        with _told(self._folder):
            if earlier := self.earlier:
                earlier[-1].replace(self.file)
            else:
                self.file.unlink(missing_ok=True)
            return True

    def forget(self) -> int:
        """Remove every version; return how many there were. Raises StoreError."""
        with _told(self._folder):
            there = [*self.earlier, *([self.file] if self.at is not None else [])]
            for path in (*there, *self._folder.glob(_UNDECIDED)):
                path.unlink(missing_ok=True)
            return len(there)


def _copy(source: Path, target: Path) -> None:
    """Copy a file to a place where there is none, with its time."""
    data, status = source.read_bytes(), source.stat()
    create_file(target, data)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _number(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"What is learned can't be kept in {folder}: {error.strerror}. Nothing was changed.",
            "Check the folder's owner and permissions, and that the disk isn't full.",
        ) from error
