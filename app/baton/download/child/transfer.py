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
from baton.download.child.digest import Follower, digest
from baton.download.child.http_download import Longer, Pace, Puller
from baton.download.child.hub_client import Stopped
from baton.download.child.partial_file import Partial
from baton.download.child.progress_report import EVERY, Report
from baton.download.progress import Phase, Progress
from baton.ipc.parent_channel import Failure
from baton.platform.durable_files import make_folder

PACE = Pace()

_COPIED = 1 << 20

T = TypeVar("T")
Tell = Callable[[Progress], None]
Stop = Callable[[], bool]


def fetch(
    offer: ModelOffer,
    target: Path,
    progress: Tell,
    stopped: Stop,
    *,
    web: hub_client.Web | None = None,
    pace: Pace = PACE,
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
    wanted = _Wanted(offer.size, offer.sha256.lower(), target, str(offer.source))

    way = web or hub_client.web()
    return _bring(wanted, lambda partial: Puller(way, offer, partial, pace), progress, stopped)


def copy(source: Path, target: Path, sha256: str, progress: Tell, stopped: Stop) -> str:
    """Copy a file to `target` and return its sha256, which must be `sha256` unless that is "".

    In all else as `fetch`. Raises Failure and Stopped.
    """
    with disk_space.read(source):
        size = source.stat().st_size
    wanted = _Wanted(size, sha256.lower(), target, str(source))
    return _bring(wanted, lambda partial: _Copier(source, size, sha256, partial), progress, stopped)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file to be had: its length and contents, where it shall lie, and where it comes from."""

    size: int
    sha256: str
    target: Path
    source: str

    @property
    def name(self) -> str:
        return self.target.name


class _Copier:
    """Appends to a partial what is missing of another file."""

    def __init__(self, source: Path, size: int, sha256: str, partial: Partial) -> None:
        self.rests_until = 0.0
        self._source = source
        self._size = size
        self._vouched = bool(sha256)
        self._partial = partial

    def run(self) -> None:
        """Raises Failure, OSError from the disk, and Stopped once the partial is closed."""
        if not self._vouched:
            self._partial.restart()
        with disk_space.read(self._source), self._source.open("rb", buffering=0) as file:
            file.seek(self._partial.size)
            pieces = iter(lambda: file.read(_COPIED), b"")
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
        with disk_space.told(self._partial.path.parent, self._source.name):
            self._partial.append(piece)


_Source = Puller | _Copier


def _bring(
    wanted: _Wanted, begin: Callable[[Partial], _Source], progress: Tell, stopped: Stop
) -> str:
    folder, key = wanted.target.parent, partials.key_of(wanted.sha256, wanted.source)
    path = partials.place(folder, key)
    report = Report(progress, wanted.size)

    def waiting() -> None:
        report(Phase.WAITING, _size(path))

    with disk_space.told(folder, wanted.name):
        make_folder(folder)
        with partials.locked(folder, key, waiting, stopped):
            return _here(wanted, path, report, stopped) or _brought(
                wanted, path, begin, report, stopped
            )


def _here(wanted: _Wanted, path: Path, report: Report, stopped: Stop) -> str:
    """Return the sha256 of a target that is here already, "" if it must be had."""
    if _size(wanted.target) != wanted.size:
        return ""

    def tell(step: Progress) -> None:
        report(Phase.VERIFYING, step.done)

    found = digest(wanted.target, tell, stopped)
    if wanted.sha256 in ("", found):
        return found
    wanted.target.unlink()
    raise _wrong(wanted)


def _brought(
    wanted: _Wanted,
    path: Path,
    begin: Callable[[Partial], _Source],
    report: Report,
    stopped: Stop,
) -> str:
    """Bring what is missing, check all of it, and give the file its name."""
    with Partial(path, wanted.size) as partial:
        vouched = wanted.sha256 or (partial.etag and partial.is_certain)
        if partial.size > wanted.size or not vouched:
            partial.restart()
        disk_space.check(path.parent, wanted.size - partial.size, wanted.name)
        try:
            found = _watched(wanted, partial, begin(partial), report, stopped)
        except (Failure, Stopped) as end:
            if isinstance(end, Longer) or not partial.size:
                partial.discard()
            raise
    if wanted.sha256 not in ("", found):
        partial.discard()
        raise _wrong(wanted)
    partial.become(wanted.target)
    return found


def _watched(
    wanted: _Wanted, partial: Partial, source: _Source, report: Report, stopped: Stop
) -> str:
    """Let bytes come and be hashed and settle on the disk, and tell how far it is."""
    follower = Follower(partial)
    coming, hashing = _start(source.run), _start(follower.run)
    _start(partial.keep_syncing)
    try:
        for _ in _until({coming, hashing}, stopped):
            if coming.done():
                report(Phase.VERIFYING, partial.size, follower.done)
            else:
                rest = source.rests_until - time.monotonic()
                report(Phase.DOWNLOADING, partial.size, wait=rest if rest > 0 else None)
        found = hashing.result()
        if wanted.sha256 in ("", found):
            for _ in _until({_start(partial.sync)}, stopped):
                report(Phase.VERIFYING, wanted.size, wanted.size)
        return found
    finally:
        partial.close()
        wait({hashing}, 1.0)


def _until(works: set[Future[Any]], stopped: Stop) -> Generator[None]:
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
        wait(works, EVERY, FIRST_COMPLETED)


def _start(work: Callable[[], T]) -> Future[T]:
    """Do it in a thread that nobody has to wait for: a name may take long to be looked up."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run).start()
    return future


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _wrong(wanted: _Wanted) -> Failure:
    return Failure(
        "ModelFileError",
        f"{wanted.name} came with other contents than it should have, so it was not kept.",
        "Take it again, or from elsewhere.",
    )
