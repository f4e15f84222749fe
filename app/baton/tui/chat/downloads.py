"""Background downloads on the chat screen; a model that is complete can answer at once."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from baton.core.errors import BatonError, WorkerUnavailable
from baton.core.sanitiser import one_line
from baton.models import LibraryModel
from baton.presentation.words import join_words
from baton.tui import background_downloads, key_bindings
from baton.tui.background_downloads import Downloads
from baton.tui.chat.context import ChatContext
from baton.tui.recommendation_text import STICK_HINT

GROUP_FAILURES_SECONDS = 3.0
"""Downloads that fail within that time because there is no network share one message."""

REPEAT_HINT_SECONDS = 60.0
"""Within that time a second message leaves out what to do about it."""

NO_LIBRARY = "There are no models to choose from here."


class DownloadController:
    """Starts and resumes downloads, and shows them. `queue` is None without a library."""

    def __init__(self, context: ChatContext) -> None:
        self._context = context
        self._services = context.services
        library = context.services.library
        self.queue = Downloads(library, self) if library is not None else None
        self._resumed: set[str] = set()
        self._unreached: list[str] = []
        self._unreached_at, self._unreached_shown = 0.0, dict[str, None]()

    @property
    def is_downloading(self) -> bool:
        """Whether a model is on its way."""
        return self.queue is not None and bool(self.queue.coming)

    async def pull(self, model: str = "") -> None:
        """Download a model by its name in the catalogue or at a hub. To be run in a worker."""
        from baton.tui.screens.dialogs import request_model

        context, library = self._context, self._services.library
        transcript, footer = context.transcript, context.footer
        if library is None or self.queue is None:
            await transcript.note(NO_LIBRARY)
            return
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
            footer.said = ""
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
        if library is None or self.queue is None:
            return
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
            await mention(f"Going on with the download of {_names(resumed)}.")
        if paused:
            which = "The download of {} is" if len(paused) == 1 else "The downloads of {} are"
            names = which.format(_names(paused))
            await mention(f"{names} paused; p in the models (Ctrl+L) goes on.")

    async def set_offline(self, offline: bool) -> None:
        """Stop the downloads while Baton is offline, and resume them after it."""
        if self.queue is None:
            return
        if offline:
            await self.queue.stop()
        else:
            self.resume()

    async def close(self) -> None:
        """Stop all downloads; what has arrived is kept."""
        if self.queue is not None:
            await self.queue.close()

    async def complain_of_network(self, error: BatonError) -> None:
        """Say what went wrong, and how models come to a machine without a network."""
        if isinstance(error, WorkerUnavailable):
            error = WorkerUnavailable(error.message, f"{error.hint} {STICK_HINT}".strip())
        await self._context.complain(error)

    # What `Downloads` reports

    def downloads_changed(self) -> None:
        """Show the downloads in the footer, where nothing else is said."""
        if self.queue is not None and self._context.screen.is_mounted:
            self._context.footer.beside = background_downloads.downloads_text(self.queue.coming)

    async def arrived(self, held: LibraryModel) -> None:
        """Make a worker of a model that is complete now."""
        before = self._services.orchestra.default
        try:
            said = await asyncio.to_thread(self._services.join, held)
        except BatonError as error:
            await self._context.complain(error)
            return
        self._context.follow_default(before)
        if self._context.screen.is_mounted:
            await self._mention(said)

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
            said = error if is_named else BatonError(f"{name}: {error.message}", error.hint)
            await self._context.complain(said)
            return
        self._unreached.append(name)
        if len(self._unreached) == 1:
            show = partial(self._show_unreached, error)
            self._context.screen.set_timer(GROUP_FAILURES_SECONDS, show)

    async def _show_unreached(self, error: WorkerUnavailable) -> None:
        names, self._unreached = dict.fromkeys(self._unreached), []
        listed = join_words(list(names))
        if names.keys() <= self._resumed:  # the person did nothing, and knows it from before
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
        hint = f"{error.hint} p in the models (Ctrl+L) goes on."
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
