"""Hashing of whole files: of one that lies there, and of one that grows meanwhile."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from baton.download.child import disk_space
from baton.download.child.hub_client import Stopped
from baton.download.child.partial_file import NOTIFY_BYTES, PartialFile
from baton.download.child.progress_report import ProgressReport
from baton.download.progress import Phase, Progress

READ_BYTES = 1 << 20
"""How much is read at once: large enough that hashing, which needs no lock, is nearly all."""


def hash_file(path: Path, progress: Callable[[Progress], None], stopped: Callable[[], bool]) -> str:
    """Read a file and return its sha256 in hex. Raises Failure and Stopped."""
    with disk_space.explain_read_errors(path):
        return _hash_file(path, progress, stopped)


def _hash_file(
    path: Path, progress: Callable[[Progress], None], stopped: Callable[[], bool]
) -> str:
    sha256, piece = hashlib.sha256(), memoryview(bytearray(READ_BYTES))
    with path.open("rb", buffering=0) as file:
        report = ProgressReport(progress, os.fstat(file.fileno()).st_size)
        done = 0
        while count := file.readinto(piece):
            if stopped():
                raise Stopped
            sha256.update(piece[:count])
            done += count
            report(Phase.VERIFYING, done)
    return sha256.hexdigest()


class PartialHasher:
    """Hashes a partial while it grows, from what is in the file and not from what was meant to be.

    So what an earlier process wrote is checked in the same way as what comes now, side by side with
    the download.
    """

    def __init__(self, partial: PartialFile) -> None:
        self.done = 0
        self._partial = partial

    def run(self) -> str:
        """Return the sha256 in hex once all of it is there. Raises OSError and Stopped."""
        sha256, epoch = hashlib.sha256(), 0
        piece = memoryview(bytearray(READ_BYTES))
        with self._partial.path.open("rb", buffering=0) as file:
            while True:
                size, now = self._wait(epoch)
                if now != epoch:
                    sha256, epoch, self.done = hashlib.sha256(), now, 0
                    file.seek(0)
                elif self.done == self._partial.total:
                    return sha256.hexdigest()
                while self.done < size and self._is_current(epoch):
                    count = file.readinto(piece[: size - self.done]) or 0
                    if not count and self._is_current(epoch):
                        raise OSError(f"{self._partial.path} was cut by somebody else")
                    sha256.update(piece[:count])
                    self.done += count

    def _is_current(self, epoch: int) -> bool:
        return self._partial.epoch == epoch and not self._partial.closed

    def _wait(self, epoch: int) -> tuple[int, int]:
        """Wait until there is a piece, or the last one, or it was begun anew."""
        partial = self._partial

        def due() -> bool:
            enough = min(NOTIFY_BYTES, partial.total - self.done)
            return partial.closed or partial.epoch != epoch or partial.size - self.done >= enough

        with partial.changed:
            partial.changed.wait_for(due)
            if partial.closed:
                raise Stopped
            return partial.size, partial.epoch
