"""Background downloads: models fetched in parallel while the person goes on, reported quietly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from baton.core.byte_format import show_speed
from baton.core.errors import BatonError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.download import Phase, Progress
from baton.models import LibraryModel
from baton.presentation.words import duration_text, percent_done

if TYPE_CHECKING:
    from baton.models import Library

MAX_PARALLEL = 3
"""How many models come at once: more would only share the same line."""

REPORT_SECONDS = 0.5
"""How often progress is shown: the screen has more important things to draw."""

STOP_SECONDS = 1.5
"""How long stopped downloads may take to end before they are not waited for any longer."""


@frozen_dataclass
class ActiveDownload:
    """A model that is being fetched or verified, and how far that is.

    `label` names it in few columns.
    """

    id: str
    name: str
    label: str
    progress: Progress


class DownloadObserver(Protocol):
    """Receives the progress of downloads."""

    def downloads_changed(self) -> None:
        """Something came, began or ended."""
        ...

    async def arrived(self, held: LibraryModel) -> None:
        """A model is here, verified."""
        ...

    async def verified(self, held: LibraryModel) -> None:
        """A model's file was read again; this is how it stands."""
        ...

    async def failed(self, name: str, error: BatonError) -> None:
        """This one didn't come, or couldn't be read."""
        ...

    def broke(self, error: BaseException) -> None:
        """A bug ended it."""
        ...


Steps = AsyncGenerator[Progress | LibraryModel]
Done = Callable[[LibraryModel], Awaitable[None]]


class Downloads:
    """Fetches, links and verifies models in the background, a few at a time.

    `ended_count` is how many have ended, whichever way: then other models may be here. `errors` are
    what went wrong, by id, until it is tried again.
    """

    def __init__(self, library: Library, observer: DownloadObserver) -> None:
        self._library = library
        self._observer = observer
        self._coming: dict[str, ActiveDownload] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(MAX_PARALLEL)
        self._report_timer: asyncio.TimerHandle | None = None
        self._closing = False
        self.ended_count = 0
        self.errors: dict[str, BatonError] = {}

    @property
    def coming(self) -> Mapping[str, ActiveDownload]:
        """What is on its way now, by id; also what waits its turn."""
        return self._coming

    def fetch(self, held: LibraryModel) -> None:
        """Fetch a wanted model, or go on with it."""
        from baton.models import ModelDownload

        waits = Progress(Phase.WAITING, held.bytes, held.record.size)
        coming = ActiveDownload(held.id, held.record.name, held.id, waits)
        download = ModelDownload(self._library)
        self._start(coming, lambda: download.fetch(held.id), self._observer.arrived)

    def verify(self, held: LibraryModel) -> None:
        """Read a model's file again."""
        begins = Progress(Phase.VERIFYING, 0, held.record.size)
        coming = ActiveDownload(held.id, held.record.name, held.id, begins)
        self._start(coming, lambda: self._library.verify(held.id), self._observer.verified)

    def link(self, path: Path, name: str, size: int) -> None:
        """Use another program's file where it lies, once it has been verified."""
        from baton.models import ModelImport

        coming = ActiveDownload(str(path), name, name, Progress(Phase.VERIFYING, 0, size))
        files = ModelImport(self._library)
        self._start(coming, lambda: files.add(path, link=True), self._observer.arrived)

    async def pause(self, id: str) -> None:
        """Stop a download, and keep what has come; it doesn't continue by itself."""
        await self.stop(id)
        await asyncio.to_thread(self._library.pause, id)

    async def resume(self, id: str) -> None:
        """Continue a download that was paused or broken off."""
        self.fetch(await asyncio.to_thread(self._library.pause, id, False))

    async def stop(self, *ids: str) -> None:
        """Stop these, or all: what has come is kept."""
        tasks = {task for id, task in self._tasks.items() if not ids or id in ids}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)

    async def close(self) -> None:
        """Stop all, and begin nothing more."""
        self._closing = True
        await self.stop()
        if self._report_timer is not None:
            self._report_timer.cancel()

    def _start(self, coming: ActiveDownload, steps: Callable[[], Steps], done: Done) -> None:
        if coming.id in self._tasks or self._closing:
            return
        self.errors.pop(coming.id, None)
        self._coming[coming.id] = coming
        task = asyncio.create_task(self._run(coming, steps, done))
        self._tasks[coming.id] = task
        task.add_done_callback(lambda task: self._finish(coming.id, task))
        self._observer.downloads_changed()

    async def _run(self, coming: ActiveDownload, steps: Callable[[], Steps], done: Done) -> None:
        here: list[LibraryModel] = []
        try:
            async with self._slots, aclosing(steps()) as going:
                async for step in going:
                    if isinstance(step, LibraryModel):
                        here.append(step)
                    else:
                        self._record_progress(coming, step)
        except BatonError as error:
            self._forget(coming.id)
            self.errors[coming.id] = error
            await self._observer.failed(coming.name, error)
            return
        self._forget(coming.id)
        for held in here:
            await done(held)

    def _record_progress(self, coming: ActiveDownload, progress: Progress) -> None:
        """Remember how far it is, and report that, but not more often than a person can read."""
        self._coming[coming.id] = replace(coming, progress=progress)
        if self._report_timer is None:
            loop = asyncio.get_running_loop()
            self._report_timer = loop.call_later(REPORT_SECONDS, self._report)

    def _report(self) -> None:
        self._report_timer = None
        self._observer.downloads_changed()

    def _forget(self, id: str) -> None:
        """Take one off the list before its end is reported."""
        self._coming.pop(id, None)
        self._tasks.pop(id, None)

    def _finish(self, id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(id) is task:
            self._forget(id)
        self.ended_count += 1
        self._observer.downloads_changed()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._observer.broke(error)


# In words


def downloads_text(coming: Mapping[str, ActiveDownload]) -> str:
    """Say in a few words what is on its way, or return ""."""
    if not coming:
        return ""
    if len(coming) == 1:
        return download_text(next(iter(coming.values())))
    all_of_them = [one.progress for one in coming.values()]
    done, total = (sum(getattr(p, part) for p in all_of_them) for part in ("done", "total"))
    speed = sum(progress.speed for progress in all_of_them)
    left = (total - done) / speed if speed else None
    progress = Progress(Phase.DOWNLOADING, done, total, speed, left)
    return f"downloading {len(coming)} models {progress_text(progress)}"


def download_text(coming: ActiveDownload) -> str:
    """Say how far one model is."""
    progress = coming.progress
    what = "waiting for" if progress.phase is Phase.WAITING else progress.phase
    return f"{what} {coming.label} {progress_text(progress)}".rstrip()


def progress_text(progress: Progress) -> str:
    """Say how far, how fast, and how long still."""
    parts = [f"{percent_done(progress.done, progress.total)} %"] if progress.total else []
    if progress.phase is not Phase.WAITING:
        parts += [show_speed(progress.speed)] if progress.speed >= 1000 else []
        parts += [f"{duration_text(progress.left)} left"] if progress.left is not None else []
    return ", ".join(parts)
