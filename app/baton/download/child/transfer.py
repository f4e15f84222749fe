"""Getting a whole file, from a server or another folder: it goes on where it ended, and is checked.

While one thread appends what comes to a partial, another reads that back and hashes it (what an
earlier attempt left too), and this one tells how far it is. The target gets its name when every
byte of it was hashed, the hash is right, and all is on the disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from baton.core.catalogue_types import ModelOffer
from baton.download.child import disk_space, hub_client
from baton.download.child import partial_file as partials
from baton.download.child.digest import PartialHasher, hash_file
from baton.download.child.http_download import FileTooLong, HttpDownload, RetryPolicy
from baton.download.child.hub_client import Stopped
from baton.download.child.partial_file import PartialFile
from baton.download.child.progress_report import REPORT_SECONDS, ProgressReport
from baton.download.progress import Phase, Progress
from baton.ipc.parent_channel import Failure
from baton.platform.durable_files import make_folder

RETRY_POLICY = RetryPolicy()

_COPY_BYTES = 1 << 20

T = TypeVar("T")
Tell = Callable[[Progress], None]
Stop = Callable[[], bool]


def fetch(
    offer: ModelOffer,
    target: Path,
    progress: Tell,
    stopped: Stop,
    *,
    web: hub_client.HubClient | None = None,
    pace: RetryPolicy = RETRY_POLICY,
) -> str:
    """Fetch a file to `target` and return its sha256, going on where an earlier attempt ended.

    Of several Batons one fetches, the others wait and find the file. What has come stays when it
    fails or is stopped, unless its contents are wrong. Raises Failure and Stopped.
    """
    if offer.size <= 0:
        raise Failure(
            "ModelFileError",
            f"Nobody says how large {offer.source} is, so it can't be fetched safely.",
            "Fetch it by other means, and `baton models import` it.",
        )
    wanted = _Target(offer.size, offer.sha256.lower(), target, str(offer.source))

    way = web or hub_client.default_client()
    return _transfer(
        wanted, lambda partial: HttpDownload(way, offer, partial, pace), progress, stopped
    )


def copy(source: Path, target: Path, sha256: str, progress: Tell, stopped: Stop) -> str:
    """Copy a file to `target` and return its sha256, which must be `sha256` unless that is "".

    In all else as `fetch`. Raises Failure and Stopped.
    """
    with disk_space.explain_read_errors(source):
        size = source.stat().st_size
    wanted = _Target(size, sha256.lower(), target, str(source))
    return _transfer(
        wanted, lambda partial: _FileCopy(source, size, sha256, partial), progress, stopped
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """A file to be had: its length and contents, where it shall lie, and where it comes from."""

    size: int
    sha256: str
    target: Path
    source: str

    @property
    def name(self) -> str:
        return self.target.name


class _FileCopy:
    """Appends to a partial what is missing of another file."""

    def __init__(self, source: Path, size: int, sha256: str, partial: PartialFile) -> None:
        self.paused_until = 0.0
        self._source = source
        self._size = size
        self._vouched = bool(sha256)
        self._partial = partial

    def run(self) -> None:
        """Raises Failure, OSError from the disk, and Stopped once the partial is closed."""
        if not self._vouched:
            self._partial.restart()
        with (
            disk_space.explain_read_errors(self._source),
            self._source.open("rb", buffering=0) as file,
        ):
            file.seek(self._partial.size)
            pieces = iter(lambda: file.read(_COPY_BYTES), b"")
            for piece in pieces:
                self._append(piece)
        if self._partial.size < self._size:
            raise Failure(
                "ModelFileError",
                f"{self._source} became shorter while it was copied.",
                "Copy it when nobody writes it any more.",
            )

    def _append(self, piece: bytes) -> None:
        if self._partial.size + len(piece) > self._size:
            raise Failure(
                "ModelFileError",
                f"{self._source} became longer while it was copied.",
                "Copy it when nobody writes it any more.",
            )
        with disk_space.explain_write_errors(self._partial.path.parent, self._source.name):
            self._partial.append(piece)


_Source = HttpDownload | _FileCopy


def _transfer(
    wanted: _Target, begin: Callable[[PartialFile], _Source], progress: Tell, stopped: Stop
) -> str:
    folder, key = wanted.target.parent, partials.partial_key(wanted.sha256, wanted.source)
    path = partials.partial_path(folder, key)
    report = ProgressReport(progress, wanted.size)

    def waiting() -> None:
        report(Phase.WAITING, _file_size(path))

    with disk_space.explain_write_errors(folder, wanted.name):
        make_folder(folder)
        with partials.lock_partial(folder, key, waiting, stopped):
            return _existing_hash(wanted, path, report, stopped) or _complete(
                wanted, path, begin, report, stopped
            )


def _existing_hash(wanted: _Target, path: Path, report: ProgressReport, stopped: Stop) -> str:
    """Return the sha256 of a target that is here already, "" if it must be had."""
    if _file_size(wanted.target) != wanted.size:
        return ""

    def tell(step: Progress) -> None:
        report(Phase.VERIFYING, step.done)

    found = hash_file(wanted.target, tell, stopped)
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
        disk_space.check_room(path.parent, wanted.size - partial.size, wanted.name)
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
    """Let bytes come and be hashed and settle on the disk, and tell how far it is."""
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
    """Do it in a thread that nobody has to wait for: a name may take long to be looked up."""
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
        f"{wanted.name} came with other contents than it should have, so it was not kept.",
        "Take it again, or from elsewhere.",
    )
