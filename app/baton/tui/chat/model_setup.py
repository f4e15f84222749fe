"""A conversation for which models come: fetched in the background, and taking over."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from textual import work

from baton.core.errors import BatonError, WorkerUnavailable
from baton.core.sanitiser import one_line
from baton.models.model_types import LibraryModel
from baton.presentation.words import join_words
from baton.tui import background_downloads
from baton.tui.background_downloads import Downloads
from baton.tui.chat.plan_controls import ConductingScreen
from baton.tui.recommendation_text import STICK_HINT
from baton.tui.screens.overlay import Overlay
from baton.tui.services import AppServices

TOGETHER_SECONDS = 3.0
"""Downloads that fail for want of a network within that time are told of in one sentence."""

AGAIN_SECONDS = 60.0
"""Within that time what to do about it isn't told again."""

NOBODY = "no model yet"

NO_LIBRARY = "There are no models to choose from here."


class EquippingScreen(ConductingScreen):
    """Has models fetched, and lets those that arrive take over."""

    def __init__(self, desk: AppServices) -> None:
        super().__init__(desk)
        self.worker = desk.worker or desk.orchestra.default
        self.downloads = Downloads(desk.library, self) if desk.library is not None else None
        self.starter_speed: float | None = None
        self._unreached: list[str] = []
        self._unreached_at, self._unreached_told = 0.0, dict[str, None]()

    @property
    def is_answered(self) -> bool:
        """Whether there is anybody who could answer a prompt."""
        return self.worker in self.roster

    @property
    def waited_for(self) -> bool:
        """Whether the person waits for an answer."""
        raise NotImplementedError

    @work(group="want")
    async def action_pull(self, model: str = "") -> None:
        """Have a model fetched, by its name in the catalogue or at a hub."""
        from baton.tui.screens.dialogs import request_model

        if self.desk.library is None or self.downloads is None:
            await self.transcript.note(NO_LIBRARY)
            return
        if not model.strip():
            await self.transcript.note(
                "Which model? /pull qwen3.5-4b, for example, or /pull hf.co/USER/REPO; the models "
                "(Ctrl+L) list what fits this machine."
            )
            return
        self.footer.say("looking it up")
        try:
            held = await request_model(self.app, self.desk.library, model.strip())
        except BatonError as error:
            await self.complain_of_network(error)
            return
        finally:
            self.footer.said = ""
        if held is None:
            return
        if held.state.is_usable:
            await self.transcript.note(f"{held.record.name} is here already.")
        else:
            self.downloads.fetch(held)

    # What comes

    @work(group="downloads")
    async def resume_downloads(self) -> None:
        """Go on with what an earlier Baton began, and say so in a quiet line."""
        library = self.desk.library
        if library is None or self.downloads is None:
            return
        models = await asyncio.to_thread(library.models)
        unfinished = [held for held in models if held.is_unfinished]
        paused = [held for held in unfinished if held.record.paused]
        going = [held for held in unfinished if not held.record.paused]
        if going and library.offline:
            await self.transcript.mention(f"Baton is offline, so {_names(going)} must wait.")
        elif going:
            for held in going:
                self.downloads.fetch(held)
            await self.transcript.mention(f"Going on with the download of {_names(going)}.")
        if paused:
            one = len(paused) == 1
            which = "The download of {} is" if one else "The downloads of {} are"
            await self.transcript.mention(
                f"{which.format(_names(paused))} paused; p in the models (Ctrl+L) goes on."
            )

    def downloads_changed(self) -> None:
        """Show what is on its way where nothing else is said."""
        if self.downloads is not None and self.is_mounted:
            self.footer.beside = background_downloads.downloads_text(self.downloads.coming)

    async def arrived(self, held: LibraryModel) -> None:
        """Let a model take over that is here now."""
        before = self.desk.orchestra.default
        try:
            said = await asyncio.to_thread(self.desk.join, held)
        except BatonError as error:
            await self.complain(error)
            return
        self.follow_default(before)
        if self.is_mounted:
            await self._tell(said)

    async def verified(self, held: LibraryModel) -> None:
        """Say how a model's file is that was read again."""
        if held.state.is_usable:
            await self._tell(f"{held.record.name} is as it was when it came.")
        else:
            why = held.record.wrong or "its file isn't there any more"
            name = held.record.name
            await self.transcript.note(
                f"{name} is not used any more: {why}. Ctrl+L and Enter fetch it anew.", error=True
            )

    async def _tell(self, said: str) -> None:
        """Say it in a quiet line, and below what the person looks at meanwhile."""
        await self.transcript.mention(said)
        if isinstance(self.app.screen, Overlay):
            self.app.screen.footer.say(said)

    async def failed(self, name: str, error: BatonError) -> None:
        """Say why a model didn't come, and what to do; once, where none can come."""
        if not isinstance(error, WorkerUnavailable):
            known = name in error.message
            said = error if known else BatonError(f"{name}: {error.message}", error.hint)
            await self.complain(said)
            return
        self._unreached.append(name)
        if len(self._unreached) == 1:
            self.set_timer(TOGETHER_SECONDS, partial(self._tell_unreached, error))

    async def _tell_unreached(self, error: WorkerUnavailable) -> None:
        names, self._unreached = dict.fromkeys(self._unreached), []
        told = self._unreached_told
        recent = time.monotonic() - self._unreached_at < AGAIN_SECONDS
        self._unreached_at, self._unreached_told = time.monotonic(), names
        if told and recent and not told.keys() & names.keys():
            self._unreached_told = told | names
            await self.transcript.note(f"{join_words(list(names))} didn't come either.", error=True)
            return
        text = f"{join_words(list(names))} didn't come. {error.message}"
        hint = f"{error.hint} p in the models (Ctrl+L) goes on."
        await self.complain_of_network(WorkerUnavailable(text, hint))

    def broke(self, error: BaseException) -> None:
        """Hand a bug to the app, which writes it down."""
        assert isinstance(error, Exception)
        self.app._handle_exception(error)

    async def complain_of_network(self, error: BatonError) -> None:
        """Say what went wrong, and how models come to a machine without a network."""
        if isinstance(error, WorkerUnavailable):
            error = WorkerUnavailable(error.message, f"{error.hint} {STICK_HINT}".strip())
        await self.complain(error)

    async def action_offline(self, state: str = "") -> None:
        """Connect to nothing but this machine, or lift that again; downloads wait meanwhile."""
        before = self.desk.orchestra.terms.offline
        await super().action_offline(state)
        offline = self.desk.orchestra.terms.offline
        if self.downloads is None or before == offline:
            return
        if offline:
            await self.downloads.stop()
        else:
            self.resume_downloads()

    # Who answers

    def use(self, worker: str) -> None:
        """Have this worker answer from here on."""
        self.worker = worker
        self.describe()
        self.say_who_answers()
        if self.is_answered and not self.waited_for:
            self.desk.orchestra.worker(worker).warm()

    def say_who_answers(self) -> None:
        """Name in the footer who answers, as long as nothing goes on."""
        self.footer.status = one_line(self.worker, 40) if self.is_answered else NOBODY

    def follow_default(self, before: str) -> None:
        """Go over to whoever answers by default now, unless the person chose somebody else."""
        default = self.desk.orchestra.default
        gone = self.worker not in self.roster
        if gone or (self.worker == before != default):
            self.use(default)

    @work(group="overlay", exclusive=True)
    async def action_models(self, worker: str = "", *, at_best: bool = False) -> None:
        """See the models, if wanted from the best on, and choose who answers from here on."""
        from baton.tui.screens.models_screen import ModelsScreen

        if not worker:
            chosen = await self.app.push_screen_wait(ModelsScreen(self, at_best=at_best))
            worker = chosen or ""
        elif worker not in self.roster:
            known = ", ".join(self.roster)
            await self.transcript.note(f"There is no worker {worker!r}; there are: {known}.")
            return
        if worker and worker != self.worker and worker in self.roster:
            self.use(worker)


def _names(models: list[LibraryModel]) -> str:
    parts = [
        f"{one_line(held.record.name, 40)} ({100 * held.bytes // held.record.size} % is here)"
        if held.record.size and held.bytes
        else one_line(held.record.name, 40)
        for held in models
    ]
    return join_words(parts)
