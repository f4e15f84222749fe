"""Fetches a whole file from a server or another folder, resumes it, and verifies it.

While one thread appends what arrives to a partial file, another reads the file back and hashes it
(what an earlier attempt left too), and this one reports progress. The target gets its name when
every byte of it was hashed, the hash is right, and all is on the disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from baton.core.catalogue_types import ModelOffer
from baton.core.machine import show_size
from baton.download.child import hub_client, partial_file as partials
from baton.download.child.http_download import FileTooLong, HttpDownload, RetryPolicy
from baton.download.child.hub_client import Stopped
from baton.download.child.partial_file import NOTIFY_BYTES, PartialFile
from baton.download.messages import Phase, Progress
from baton.ipc.parent_channel import Failure
from baton.platform.durable_files import is_disk_full, make_folder

RETRY_POLICY = RetryPolicy()

_COPY_BYTES = 1 << 20

T = TypeVar("T")
ReportProgress = Callable[[Progress], None]
Stop = Callable[[], bool]


def fetch(
    offer: ModelOffer,
    target: Path,
    progress: ReportProgress,
    stopped: Stop,
    *,
    web: hub_client.HubClient | None = None,
    pace: RetryPolicy = RETRY_POLICY,
) -> str:
    """Fetch a file to `target` and return its sha256, continuing where an earlier attempt ended.

    Of several Batons one fetches, the others wait and find the file. What has come stays when it
    fails or is stopped, unless its contents are wrong. Raises Failure and Stopped.
    """
    if offer.size <= 0:
        raise Failure(
            "ModelFileError",
            f"The size of {offer.source} is unknown, so it can't be fetched safely.",
            "Fetch it by other means, and `baton models import` it.",
        )
    wanted = _Target(offer.size, offer.sha256.lower(), target, str(offer.source))

    way = web or hub_client.default_client()
    return _transfer(
        wanted, lambda partial: HttpDownload(way, offer, partial, pace), progress, stopped
    )


def fetch_again(offer: ModelOffer, target: Path, progress: ReportProgress, stopped: Stop) -> str:
    """Fetch a file as `fetch` does, also in place of one whose contents are wrong."""
    was_there = target.exists()
    try:
        return fetch(offer, target, progress, stopped)
    except Failure:
        if not was_there or target.exists():
            raise
    return fetch(offer, target, progress, stopped)


def in_parts(
    work: Callable[[int, ReportProgress], str], sizes: Sequence[int], progress: ReportProgress
) -> str:
    """Do something to each part of a model, and return their hashes in a line.

    `work` is given a part's place, from 0, and what it reports its progress to.
    """
    hashes: list[str] = []
    for place in range(len(sizes)):
        before, total = sum(sizes[:place]), sum(sizes)

        def report(step: Progress, before: int = before, total: int = total) -> None:
            done = before + step.done
            left = (total - done) / step.speed if step.left is not None and step.speed else None
            progress(replace(step, done=done, total=total, left=left))

        hashes.append(work(place, report if len(sizes) > 1 else progress))
    return " ".join(hashes)


def file_sizes(paths: Iterable[Path]) -> list[int]:
    """Return the bytes of some files, 0 of one that isn't there."""
    return [_file_size(path) for path in paths]


def copy(source: Path, target: Path, sha256: str, progress: ReportProgress, stopped: Stop) -> str:
    """Copy a file to `target` and return its sha256, which must be `sha256` unless that is "".

    In all else as `fetch`. Raises Failure and Stopped.
    """
    with explain_read_errors(source):
        size = source.stat().st_size
    wanted = _Target(size, sha256.lower(), target, str(source))
    return _transfer(wanted, lambda partial: _FileCopy(source, size, partial), progress, stopped)


@dataclass(frozen=True, slots=True)
class _Target:
    """A file to fetch: its size and contents, its target, and its source."""

    size: int
    sha256: str
    target: Path
    source: str

    @property
    def name(self) -> str:
        return self.target.name


class _FileCopy:
    """Appends to a partial what is missing of another file."""

    def __init__(self, source: Path, size: int, partial: PartialFile) -> None:
        self.paused_until = 0.0
        self._source = source
        self._size = size
        self._partial = partial

    def run(self) -> None:
        """Raises Failure, OSError from the disk, and Stopped once the partial is closed."""
        with explain_read_errors(self._source), self._source.open("rb", buffering=0) as file:
            file.seek(self._partial.size)
            while piece := file.read(_COPY_BYTES):
                if self._partial.size + len(piece) > self._size:
                    raise self._has_changed("longer")
                with explain_write_errors(self._partial.path.parent, self._source.name):
                    self._partial.append(piece)
        if self._partial.size < self._size:
            raise self._has_changed("shorter")

    def _has_changed(self, how: str) -> Failure:
        return Failure(
            "ModelFileError",
            f"{self._source} became {how} while it was copied.",
            "Copy it when no program writes it any more.",
        )


_Source = HttpDownload | _FileCopy


def _transfer(
    wanted: _Target,
    begin: Callable[[PartialFile], _Source],
    progress: ReportProgress,
    stopped: Stop,
) -> str:
    folder, key = wanted.target.parent, partials.partial_key(wanted.sha256, wanted.source)
    path = partials.partial_path(folder, key)
    report = ProgressReport(progress, wanted.size)

    def waiting() -> None:
        report(Phase.WAITING, _file_size(path))

    with explain_write_errors(folder, wanted.name):
        make_folder(folder)
        with partials.lock_partial(folder, key, waiting, stopped):
            return _existing_hash(wanted, report, stopped) or _complete(
                wanted, path, begin, report, stopped
            )


def _existing_hash(wanted: _Target, report: ProgressReport, stopped: Stop) -> str:
    """Return the sha256 of a target that is here already, "" if it must be had."""
    if _file_size(wanted.target) != wanted.size:
        return ""

    def forward(step: Progress) -> None:
        report(Phase.VERIFYING, step.done)

    found = hash_file(wanted.target, forward, stopped)
    if wanted.sha256 in ("", found):
        return found
    wanted.target.unlink()
    raise _wrong_contents(wanted)


def _complete(
    wanted: _Target,
    path: Path,
    begin: Callable[[PartialFile], _Source],
    report: ProgressReport,
    stopped: Stop,
) -> str:
    """Bring what is missing, check all of it, and give the file its name."""
    with PartialFile(path, wanted.size) as partial:
        vouched = wanted.sha256 or (partial.etag and partial.is_trustworthy)
        if partial.size > wanted.size or not vouched:
            partial.restart()
        check_room(path.parent, wanted.size - partial.size, wanted.name)
        try:
            found = _append_and_hash(wanted, partial, begin(partial), report, stopped)
        except (Failure, Stopped) as end:
            if isinstance(end, FileTooLong) or not partial.size:
                partial.discard()
            raise
    if wanted.sha256 not in ("", found):
        partial.discard()
        raise _wrong_contents(wanted)
    partial.move_to(wanted.target)
    return found


def _append_and_hash(
    wanted: _Target, partial: PartialFile, source: _Source, report: ProgressReport, stopped: Stop
) -> str:
    """Run appending, hashing and syncing side by side, and report progress."""
    follower = PartialHasher(partial)
    coming, hashing = _start_thread(source.run), _start_thread(follower.run)
    _start_thread(partial.keep_syncing)
    try:
        for _ in _poll_until_done({coming, hashing}, stopped):
            if coming.done():
                report(Phase.VERIFYING, partial.size, follower.done)
            else:
                rest = source.paused_until - time.monotonic()
                report(Phase.DOWNLOADING, partial.size, wait=rest if rest > 0 else None)
        found = hashing.result()
        if wanted.sha256 in ("", found):
            for _ in _poll_until_done({_start_thread(partial.sync)}, stopped):
                report(Phase.VERIFYING, wanted.size, wanted.size)
        return found
    finally:
        partial.close()
        wait({hashing}, 1.0)


def _poll_until_done(works: set[Future[Any]], stopped: Stop) -> Generator[None]:
    """Yield every now and then until all is done. Raises what goes wrong first, and Stopped."""
    while True:
        for work in [one for one in works if one.done()]:
            work.result()
            works = works - {work}
        if not works:
            return
        if stopped():
            raise Stopped
        yield
        wait(works, REPORT_SECONDS, FIRST_COMPLETED)


def _start_thread(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a thread that need not be joined: a name lookup may take long."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run).start()
    return future


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _wrong_contents(wanted: _Target) -> Failure:
    return Failure(
        "ModelFileError",
        f"{wanted.name} has other contents than it should have, so it was deleted.",
        "Fetch it again, or from another source.",
    )


READ_BYTES = 1 << 20
"""How much is read at once: large enough that hashing, which needs no lock, is nearly all."""


def hash_file(path: Path, progress: ReportProgress, stopped: Stop) -> str:
    """Read a file and return its sha256 in hex. Raises Failure and Stopped."""
    sha256, piece = hashlib.sha256(), memoryview(bytearray(READ_BYTES))
    with explain_read_errors(path), path.open("rb", buffering=0) as file:
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
                        raise OSError(f"{self._partial.path} was truncated by another program")
                    sha256.update(piece[:count])
                    self.done += count

    def _is_current(self, epoch: int) -> bool:
        return self._partial.epoch == epoch and not self._partial.closed

    def _wait(self, epoch: int) -> tuple[int, int]:
        """Wait until there is a piece to hash, the last one, or a restart."""
        partial = self._partial

        def due() -> bool:
            enough = min(NOTIFY_BYTES, partial.total - self.done)
            return partial.closed or partial.epoch != epoch or partial.size - self.done >= enough

        with partial.changed:
            partial.changed.wait_for(due)
            if partial.closed:
                raise Stopped
            return partial.size, partial.epoch


REPORT_SECONDS = 0.1
"""The least time between two reports of the same phase, in seconds."""

SPEED_WINDOW_SECONDS = 5.0
"""Speed is that of the last so many seconds."""

_MIN_SPEED_SECONDS = 0.2
"""What was seen for a shorter time has no speed yet."""


class ProgressReport:
    """Calls `progress` with how far something of `total` bytes is, at most every 0.1 s."""

    def __init__(self, progress: ReportProgress, total: int) -> None:
        self.total = total
        self._progress = progress
        self._done = 0
        self._phase: Phase | None = None
        self._next = 0.0
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(
        self, phase: Phase, done: int, moved: int | None = None, wait: float | None = None
    ) -> None:
        """Report that `done` bytes are here; speed is measured by `moved`, by `done` if None.

        `wait` is how long nothing will come because a server asked for that, in seconds.
        """
        now = time.monotonic()
        if phase is self._phase and now < self._next:
            return
        if phase is not self._phase:
            self._phase = phase
            self._seen.clear()
        self._next = now + REPORT_SECONDS
        self._done = min(self.total, max(self._done, done))
        moved = done if moved is None else moved
        speed = self._speed(now, moved)
        left = (self.total - moved) / speed if speed else None
        if wait is not None:
            left = wait + (left or 0.0)
        self._progress(Progress(phase, self._done, self.total, speed, left))

    def _speed(self, now: float, moved: int) -> float:
        seen = self._seen
        if seen and moved < seen[-1][1]:
            seen.clear()
        seen.append((now, moved))
        while len(seen) > 2 and now - seen[1][0] >= SPEED_WINDOW_SECONDS:
            seen.popleft()
        since = now - seen[0][0]
        return (moved - seen[0][1]) / since if since >= _MIN_SPEED_SECONDS else 0.0


DISK_MARGIN = 1.1
"""A disk must have room for so much more than what is still to come."""


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
    if is_disk_full(error):
        message = f"The disk became full while {name} was written. What has come is kept."
        hint = "Make room and run it again; it continues where it ended."
    elif error.errno == errno.EFBIG:
        message = f"{name} is larger than a file may be on this disk. What has come is kept."
        hint = "Use a folder on another disk (some formats end at 4 GB), or a higher limit."
    else:
        message = f"{name} can't be kept in {folder}: {error.strerror or error}."
        hint = "Check the folder's owner and permissions, and the disk."
    return Failure("ModelFileError", message, hint)
