"""A file that is not complete yet: what is written of it stays, however the process ends.

Beside the target are, while it is on its way:

    <key>.partial         what has come, from the first byte on
    <key>.partial.etag    its version; only where no sha256 is known that proves it at the end
    <key>.lock            held by the one who writes

`key` is the sha256 of the complete file, or of its source's text where that is unknown.

Bytes are appended with `append` alone, unbuffered: once that has returned, the system keeps them,
and a process that is killed loses nothing but the piece in its hands. A power cut may lose more, or
leave zeros in place of what was written last; so nothing that was written is believed. All of it is
read back from the file and hashed before the target gets its name, and on disk (fsync) before.
Where no sha256 is known to compare with, nothing from before the machine was started is used.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from baton.download.child.hub_client import Stopped
from baton.platform.durable_files import hold_lock, open_private, sync_folder

POLL_SECONDS = 0.1
"""How often to look whether another Baton is done, in seconds."""

NOTIFY_BYTES = 4 << 20
"""How many bytes must be new before a waiting thread is woken: more often costs more than
hashing."""

SYNC_BYTES = 64 << 20
"""After how many further bytes it is synced to the disk."""


class PartialFile:
    """The file at `path`, made if need be; one thread appends, others may watch it grow.

    `changed` is notified when it has grown by NOTIFY_BYTES or to its `total`, and whenever `epoch`
    or `closed` change; `epoch` counts its restarts.
    """

    def __init__(self, path: Path, total: int) -> None:
        self.path = path
        self.total = total
        self.epoch = 0
        self.closed = False
        self.changed = threading.Condition()
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._unsynced: OSError | None = None
        self._file = open(path, "r+b", buffering=0, opener=_open_private)  # noqa: SIM115
        self.size = self._file.seek(0, os.SEEK_END)

    def append(self, data: bytes | memoryview) -> None:
        """Write at the end. Raises OSError; what was written before stays and counts."""
        rest = memoryview(data)
        while rest:
            with self._writing:
                if self.closed:
                    raise Stopped
                count = self._file.write(rest)
            rest = rest[count:]
            with self.changed:
                step, self.size = self.size // NOTIFY_BYTES, self.size + count
                if self.size // NOTIFY_BYTES > step or self.size >= self.total:
                    self.changed.notify_all()

    @property
    def is_trustworthy(self) -> bool:
        """Whether what is here is what was written: the machine has run ever since."""
        import psutil

        return os.fstat(self._file.fileno()).st_mtime > psutil.boot_time()

    def restart(self) -> None:
        """Start again from the first byte: nothing that is here belongs to the file."""
        with self._writing:
            if self.closed:
                raise Stopped
            # The watching threads know first, before what they read changes.
            with self.changed:
                self.size = 0
                self.epoch += 1
                self.changed.notify_all()
            self._file.truncate(0)
            self._file.seek(0)
        self.etag = ""

    def wait(self, seconds: float) -> None:
        """Wait so long. Raises Stopped once it is closed."""
        with self.changed:
            if self.changed.wait_for(lambda: self.closed, seconds):
                raise Stopped

    def sync(self) -> None:
        """Return when all of it is on the disk. After one failure, every call raises it."""
        with self._syncing:
            if self._unsynced is not None:
                raise self._unsynced
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                self._unsynced = error
                raise

    def keep_syncing(self) -> None:
        """Sync it to the disk while it grows, so that little is left to do at the end."""
        synced = self.size

        def due() -> bool:
            return self.closed or self.size - synced >= SYNC_BYTES

        while True:
            with self.changed:
                self.changed.wait_for(due)
                if self.closed:
                    return
                synced = self.size
            self.sync()

    @property
    def etag(self) -> str:
        """The version that it is of, as the server names it; "" if unknown."""
        with suppress(OSError, ValueError):
            return self._etag.read_text("utf-8")
        return ""

    @etag.setter
    def etag(self, etag: str) -> None:
        with self._writing:
            if self.closed:
                raise Stopped
            if etag:
                with open(self._etag, "w", encoding="utf-8", opener=open_private) as file:
                    file.write(etag)
            else:
                self._etag.unlink(missing_ok=True)

    @property
    def _etag(self) -> Path:
        return self.path.with_name(f"{self.path.name}.etag")

    def close(self) -> None:
        """Close the file for writers, after the write that is in progress."""
        with self._writing, self.changed:
            self.closed = True
            self._file.close()
            self.changed.notify_all()

    def discard(self) -> None:
        """Delete it; it is closed."""
        self._etag.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def move_to(self, target: Path) -> None:
        """Take the target's name and place; it is closed, and was read and synced before."""
        self.path.replace(target)
        sync_folder(target.parent)
        self._etag.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def partial_key(sha256: str, source: object) -> str:
    """Return what a file's partial is named by."""
    return sha256 or hashlib.sha256(str(source).encode("utf-8", "replace")).hexdigest()


def partial_path(folder: Path, key: str) -> Path:
    """Return the path of the partial file."""
    return folder / f"{key}.partial"


@contextmanager
def lock_partial(
    folder: Path, key: str, waiting: Callable[[], None], stopped: Callable[[], bool]
) -> Iterator[None]:
    """Hold the lock of a partial file; `waiting` is called while another process holds it.

    The lock's file is taken away again. Raises Stopped.
    """
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(hold_lock(folder / f"{key}.lock", POLL_SECONDS))
                break
            except TimeoutError:
                if stopped():
                    raise Stopped from None
                waiting()
        yield


def _open_private(path: str, flags: int) -> int:
    return open_private(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0))
