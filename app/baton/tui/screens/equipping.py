"""A conversation for which models come: recommended, fetched in the background, taking over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import work

from baton.domain.errors import BatonError, WorkerUnavailable
from baton.domain.library import Held, State
from baton.domain.sanitise import one_line
from baton.tui import downloads
from baton.tui.desk import Desk
from baton.tui.downloads import Downloads
from baton.tui.screens.conducting import ConductingScreen
from baton.tui.widgets.turn import show_size

if TYPE_CHECKING:
    from baton.engine.library import Library
    from baton.engine.ports import Choice
    from baton.engine.recommend import Recommendation
    from baton.tui.widgets.advice import AdviceView

MEASURED_SECONDS = 2.0
"""How long the starter model writes, so that the speed of others can be told."""

OFFLINE = "Baton is offline, so nothing is downloaded; /offline off lifts that."
NO_LIBRARY = "There are no models to choose from here."


class EquippingScreen(ConductingScreen):
    """Recommends models, has them fetched, and lets those that arrive take over."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.worker = desk.worker or desk.orchestra.default
        self.downloads = Downloads(desk.library, self) if desk.library is not None else None
        self.advice: AdviceView | None = None
        self.starter_speed: float | None = None
        self._undecided = False
        self._advised: Recommendation | None = None

    @property
    def waited_for(self) -> bool:
        """Whether the person waits for an answer."""
        raise NotImplementedError

    # What would suit this machine

    async def welcome(self, text: str) -> None:
        """Greet a person who is new here; offer models to one who has none."""
        library = self.desk.library
        if library is None or await self._equipped(library):
            await self.transcript.note(text)
            return
        self._undecided = True
        self.advise(text)

    async def _equipped(self, library: Library) -> bool:
        """Tell whether there is more than the starter, or whether the person put that off."""
        from baton.tui.advice import is_put_off

        workers = [card for card in self.desk.orchestra.roster if not card.is_tool]
        if len(workers) > 1:
            return True
        return await asyncio.to_thread(
            lambda: is_put_off(self.desk.state) or bool(library.models())
        )

    @work(exclusive=True, group="advice")
    async def advise(self, text: str = "") -> None:
        """Say which models suit this machine, at the end of the conversation.

        `text` comes before that. The speed is measured while nobody waits for an answer.
        """
        from baton.tui.advice import LOOKING
        from baton.tui.widgets.advice import AdviceView

        await self._drop_advice()
        view = self.advice = AdviceView(f"{text}\n{LOOKING}".strip())
        await self.transcript.insert(view)
        try:
            await self._fill_advice(view, text)
        except BatonError as error:
            view.say(f"{text}\n{error}".strip())

    async def _fill_advice(self, view: AdviceView, text: str) -> None:
        from baton.engine.speed import measure
        from baton.tui.advice import told, told_foreign

        library = self.desk.library
        assert library is not None
        machine = await library.machine()
        foreign = told_foreign(await asyncio.to_thread(library.foreign))
        stick = self._stick()

        async def say(found: Recommendation) -> None:
            self._advised = found
            parts = (text, told(found, machine), foreign, stick)
            view.say("\n".join(part for part in parts if part))
            await view.offer(self._choices(found, bool(foreign)))

        found = await library.recommend(self.starter_speed)
        await say(found)
        if not found.picks or self.waited_for or self.starter_speed is not None:
            return
        self.starter_speed = await measure(self.desk.orchestra.worker(), MEASURED_SECONDS)
        if self.starter_speed is None:
            return
        timed = await library.recommend(self.starter_speed)
        picks = [pick.entry.id for pick in timed.picks]
        # What a person has gone to doesn't change under their hand.
        if not view.has_focus_within or picks == [pick.entry.id for pick in found.picks]:
            await say(timed)

    def _stick(self) -> str:
        """Say what to do without a network, where Baton knows that it has none."""
        from baton.tui.advice import STICK

        assert self.desk.library is not None
        return f"{OFFLINE} {STICK}" if self.desk.library.offline else ""

    def _choices(self, found: Recommendation, others: bool) -> list[Choice]:
        from baton.tui.advice import CHOOSE, DOWNLOAD, LATER, missing

        assert self.desk.library is not None
        fetch = bool(missing(found)) and not self.desk.library.offline
        choose = fetch or others or not found.picks
        return [*([DOWNLOAD] if fetch else []), *([CHOOSE] if choose else []), LATER]

    async def _drop_advice(self) -> None:
        view, self.advice = self.advice, None
        if view is not None and view.is_attached:
            await view.offer(())
            await view.remove()

    def pass_advice(self) -> None:
        """Do what the person asks for first: nothing is looked up or measured meanwhile."""
        if self.is_running:  # else the app is being left, which ends them anyway
            self.workers.cancel_group(self, "advice")
            if self.advice is not None and self.advice.is_attached:
                self.advice.remove()
        self.advice = None

    def advise_again(self) -> None:
        """After the first answer, show what was passed by: once more, and then not again."""
        undecided, self._undecided = self._undecided, False
        if undecided and self.downloads is not None and not self.downloads.coming:
            self.advise()

    async def on_advice_view_chosen(self, event: AdviceView.Chosen) -> None:
        """Do what the person chose under the advice."""
        from baton.tui.advice import DOWNLOAD, LATER, PUT_OFF, put_off

        event.stop()
        if event.choice == DOWNLOAD:
            self._fetch_advised(event.view)
        elif event.choice == LATER:
            self._undecided = False
            await asyncio.to_thread(put_off, self.desk.state)
            await event.view.offer(())
            self.footer.say(PUT_OFF, 12)
        else:
            self.action_models()

    @work(exclusive=True, group="want")
    async def _fetch_advised(self, view: AdviceView) -> None:
        """Have all of a recommended set fetched."""
        from baton.tui.advice import missing
        from baton.tui.screens.getting import wanted

        found, library, coming = self._advised, self.desk.library, self.downloads
        if found is None or library is None or coming is None:
            return
        choices = self._choices(found, False)
        await view.offer(())
        begun: list[str] = []
        try:
            for pick in missing(found):
                held = await wanted(self.app, library, pick.entry.id, pick.roles)
                if held is not None:
                    coming.fetch(held)
                    begun.append(held.record.name)
        except BatonError as error:
            await self._complain_of_network(error)
        if not begun:
            await view.offer(choices)
            return
        self._undecided = False
        answers = self.desk.orchestra.worker(self.worker).card.name
        names = one_line(" and ".join(begun), 120)
        await self.transcript.note(
            f"On the way: {names} ({show_size(found.download)}). Until then {answers} answers;"
            " Ctrl+L shows how far it is."
        )

    async def action_recommend(self) -> None:
        """Say which models suit this machine."""
        if self.desk.library is None:
            await self.transcript.note(NO_LIBRARY)
        else:
            self.advise()

    @work(group="want")
    async def action_pull(self, model: str = "") -> None:
        """Have a model fetched, by its name in the catalogue or at a hub."""
        from baton.tui.screens.getting import wanted

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
            held = await wanted(self.app, self.desk.library, model.strip())
        except BatonError as error:
            await self._complain_of_network(error)
            return
        if held is None:
            return
        if held.state.usable:
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
        unfinished = [held for held in models if _is_unfinished(held)]
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
            self.footer.beside = downloads.told(self.downloads.coming)

    async def arrived(self, held: Held) -> None:
        """Let a model take over that is here now."""
        before = self.desk.orchestra.default
        try:
            said = await asyncio.to_thread(self.desk.join, held)
        except BatonError as error:
            await self.complain(error)
            return
        self.follow_default(before)
        if self.is_mounted:
            await self.transcript.mention(said)

    async def verified(self, held: Held) -> None:
        """Say how a model's file is that was read again."""
        if held.state.usable:
            await self.transcript.mention(f"{held.record.name} is as it was when it came.")
        else:
            why = held.record.wrong or "its file isn't there any more"
            name = held.record.name
            await self.transcript.note(
                f"{name} is not used any more: {why}. Ctrl+L and Enter fetch it anew.", error=True
            )

    async def failed(self, name: str, error: BatonError) -> None:
        """Say why a model didn't come, and what to do."""
        await self._complain_of_network(error)

    def broke(self, error: BaseException) -> None:
        """Hand a bug to the app, which writes it down."""
        assert isinstance(error, Exception)
        self.app._handle_exception(error)

    async def _complain_of_network(self, error: BatonError) -> None:
        """Say what went wrong, and how models come to a machine without a network."""
        from baton.tui.advice import STICK

        if isinstance(error, WorkerUnavailable):
            error = WorkerUnavailable(error.message, f"{error.hint} {STICK}".strip())
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
        self.footer.status = one_line(worker, 40)
        if not self.waited_for:
            self.desk.orchestra.worker(worker).warm()

    def follow_default(self, before: str) -> None:
        """Go over to whoever answers by default now, unless the person chose somebody else."""
        default = self.desk.orchestra.default
        gone = self.worker not in self.roster
        if gone or (self.worker == before != default):
            self.use(default)

    @work(group="overlay", exclusive=True)
    async def action_models(self, worker: str = "") -> None:
        """See the models, and choose which worker answers from here on."""
        from baton.tui.screens.models import ModelsScreen

        if not worker:
            chosen = await self.app.push_screen_wait(ModelsScreen(self))
            worker = chosen or ""
        elif worker not in self.roster:
            known = ", ".join(self.roster)
            await self.transcript.note(f"There is no worker {worker!r}; there are: {known}.")
            return
        if worker and worker != self.worker and worker in self.roster:
            self.use(worker)


def _is_unfinished(held: Held) -> bool:
    """Tell whether a model was still on its way when Baton was left."""
    unseen = held.state is State.CHANGED and held.record.stamp is None and not held.record.link
    return held.state is State.COMING or unseen


def _names(models: list[Held]) -> str:
    parts = [
        f"{one_line(held.record.name, 40)} ({100 * held.bytes // held.record.size} % is here)"
        if held.record.size
        else one_line(held.record.name, 40)
        for held in models
    ]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
