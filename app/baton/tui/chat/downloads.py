"""Downloads of models in the background, a few at a time, and how the chat screen reports them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.errors import BatonError, WorkerUnavailable
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.machine import show_speed
from baton.core.sanitiser import one_line
from baton.download import Phase, Progress
from baton.models import LibraryModel
from baton.presentation.words import duration_text, join_words, percent_done
from baton.tui import key_bindings
from baton.tui.chat.context import ChatContext

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


Steps = AsyncGenerator[Progress | LibraryModel]
Done = Callable[[LibraryModel], Awaitable[None]]


class Downloads:
    """Fetches, links and verifies models in the background, a few at a time.

    `coming` is what is on its way now, by id; also what waits its turn. `ended_count` is how many
    have ended, whichever way: then other models may be here. `errors` are
    what went wrong, by id, until it is tried again.
    """

    def __init__(self, library: Library, observer: DownloadController) -> None:
        self._library = library
        self._observer = observer
        self.coming: dict[str, ActiveDownload] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(MAX_PARALLEL)
        self._report_timer: asyncio.TimerHandle | None = None
        self._closing = False
        self.ended_count = 0
        self.errors: dict[str, BatonError] = {}

    def fetch(self, held: LibraryModel) -> None:
        """Fetch a wanted model, or resume it."""
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
        """Use another program's file where it is, once it has been verified."""
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
        self.coming[coming.id] = coming
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
        """Remember how far it is, and report that, but not more often than a user can read."""
        self.coming[coming.id] = replace(coming, progress=progress)
        if self._report_timer is None:
            loop = asyncio.get_running_loop()
            self._report_timer = loop.call_later(REPORT_SECONDS, self._report)

    def _report(self) -> None:
        self._report_timer = None
        self._observer.downloads_changed()

    def _forget(self, id: str) -> None:
        """Take one off the list before its end is reported."""
        self.coming.pop(id, None)
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


GROUP_FAILURES_SECONDS = 3.0
"""Downloads that fail within that time because there is no network share one message."""

REPEAT_HINT_SECONDS = 60.0
"""Within that time a second message leaves out what to do about it."""

STICK_HINT = (
    "Without a network, carry models over on a stick: `baton models export DIR` on a machine that "
    "has them, `baton models import DIR` here."
)


class DownloadController:
    """Starts and resumes downloads, and shows them; `queue` has them."""

    def __init__(self, context: ChatContext) -> None:
        self._context = context
        self._services = context.services
        self.queue = Downloads(context.services.library, self)
        self._resumed: set[str] = set()
        self._unreached: list[str] = []
        self._unreached_at, self._unreached_shown = 0.0, dict[str, None]()

    async def pull(self, model: str = "") -> None:
        """Download a model by its name in the catalogue or at a hub. To be run in a worker."""
        from baton.tui.screens.overlay import request_model

        context, library = self._context, self._services.library
        transcript, footer = context.transcript, context.footer
        if not model.strip():
            await transcript.note(
                "Which model? /pull qwen3.5-4b, for example, or /pull hf.co/USER/REPO; the models "
                "(Ctrl+L) list what fits this machine."
            )
            return
        footer.say("looking it up")
        try:
            held = await request_model(context.screen.app, library, model.strip())
        except BatonError as error:
            await self.complain_of_network(error)
            return
        finally:
            footer.message = ""
        if held is None:
            return
        if held.state.is_usable:
            await transcript.note(f"{held.record.name} is here already.")
        else:
            self.queue.fetch(held)

    def resume(self) -> None:
        """Resume what an earlier start of Baton left unfinished, and say so in a quiet line."""
        self._context.start(self._resume, "downloads")

    async def _resume(self) -> None:
        library, mention = self._services.library, self._context.transcript.mention
        models = await asyncio.to_thread(library.models)
        unfinished = [held for held in models if held.is_unfinished]
        paused = [held for held in unfinished if held.record.paused]
        resumed = [held for held in unfinished if not held.record.paused]
        if resumed and library.offline:
            await mention(f"Baton is offline, so {_names(resumed)} must wait.")
        elif resumed:
            self._resumed = {held.record.name for held in resumed}
            for held in resumed:
                self.queue.fetch(held)
            await mention(f"Resuming the download of {_names(resumed)}.")
        if paused:
            which = "The download of {} is" if len(paused) == 1 else "The downloads of {} are"
            names = which.format(_names(paused))
            await mention(f"{names} paused; p in the models (Ctrl+L) resumes it.")

    async def complain_of_network(self, error: BatonError) -> None:
        """Say what went wrong, and how to bring models to a machine without a network."""
        if isinstance(error, WorkerUnavailable):
            error = WorkerUnavailable(error.message, f"{error.hint} {STICK_HINT}".strip())
        await self._context.complain(error)

    # What `Downloads` reports

    def downloads_changed(self) -> None:
        """Show the downloads in the footer, where nothing else is shown."""
        if self._context.screen.is_mounted:
            self._context.footer.beside = downloads_text(self.queue.coming)

    async def arrived(self, held: LibraryModel) -> None:
        """Make a worker of a model that is complete now."""
        before = self._services.orchestra.default
        try:
            line = await asyncio.to_thread(self._services.add_model, held)
        except BatonError as error:
            await self._context.complain(error)
            return
        self._context.follow_default(before)
        if self._context.screen.is_mounted:
            await self._mention(line)

    async def verified(self, held: LibraryModel) -> None:
        """Show the result of reading a model's file again."""
        name = held.record.name
        if held.state.is_usable:
            await self._mention(f"{name} is as it was when it came.")
        else:
            why = held.record.wrong or f"{held.missing} isn't there any more"
            text = f"{name} is not used any more: {why}. Ctrl+L and Enter download it again."
            await self._context.transcript.note(text, error=True)

    async def _mention(self, text: str) -> None:
        """Say something in a quiet line, and on the screen above the conversation."""
        await self._context.transcript.mention(text)
        self._context.say_above(text)

    async def failed(self, name: str, error: BatonError) -> None:
        """Say why a model did not come; without a network once for all of them."""
        if not isinstance(error, WorkerUnavailable):
            is_named = name in error.message
            shown = error if is_named else BatonError(f"{name}: {error.message}", error.hint)
            await self._context.complain(shown)
            return
        self._unreached.append(name)
        if len(self._unreached) == 1:
            show = partial(self._show_unreached, error)
            self._context.screen.set_timer(GROUP_FAILURES_SECONDS, show)

    async def _show_unreached(self, error: WorkerUnavailable) -> None:
        names, self._unreached = dict.fromkeys(self._unreached), []
        listed = join_words(list(names))
        if names.keys() <= self._resumed:  # the user did nothing, and knows it from before
            self._resumed -= names.keys()
            key = key_bindings.configured_keys(self._context.screen.app, "chat.models")
            self._context.footer.say(f"{listed}: download stopped; {key} shows why", 12)
            return
        shown = self._unreached_shown
        is_recent = time.monotonic() - self._unreached_at < REPEAT_HINT_SECONDS
        self._unreached_at, self._unreached_shown = time.monotonic(), names
        if shown and is_recent and not shown.keys() & names.keys():
            self._unreached_shown = shown | names
            text = f"{listed}: download stopped, too."
            await self._context.transcript.note(text, error=True)
            return
        text = f"{listed}: download stopped. {error.message}"
        hint = f"{error.hint} p in the models (Ctrl+L) resumes it."
        await self.complain_of_network(WorkerUnavailable(text, hint))

    def broke(self, error: BaseException) -> None:
        """Pass a bug in a download to the app."""
        self._context.report_bug(error)


def _names(models: list[LibraryModel]) -> str:
    parts = [
        f"{one_line(held.record.name, 40)} ({100 * held.bytes // held.record.size} % is here)"
        if held.record.size and held.bytes
        else one_line(held.record.name, 40)
        for held in models
    ]
    return join_words(parts)
