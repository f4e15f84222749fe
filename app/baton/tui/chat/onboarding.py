"""A conversation that begins with advice: which models suit this machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import work

from baton.core.byte_format import show_size
from baton.core.errors import BatonError
from baton.core.model_roles import STARTER_ID, recommended_roles
from baton.core.sanitiser import one_line
from baton.presentation.words import join_words
from baton.tui.chat.model_setup import NO_LIBRARY, EquippingScreen
from baton.tui.recommendation_text import (
    CHOOSE,
    DOWNLOAD,
    LATER,
    LOOKING_TEXT,
    PUT_OFF_TEXT,
    STICK_HINT,
    foreign_text,
    is_put_off,
    missing_picks,
    recommendation_text,
    remember_put_off,
)
from baton.tui.services import AppServices

if TYPE_CHECKING:
    from baton.core.messages import Prompt
    from baton.core.ports import Choice
    from baton.models.library import Library
    from baton.models.recommendation import Recommendation
    from baton.tui.widgets.question_view import RecommendationView
    from baton.tui.widgets.transcript import Notice

MEASURED_SECONDS = 2.0
"""How long the starter model writes, so that the speed of others can be told."""

NOTHING_HERE = "Nothing answers here yet: this Baton came without a model."
TO_FETCH = (
    "There is no model yet that could answer; your prompt is kept. Ctrl+L shows the models that "
    "suit this machine, and Enter there downloads one."
)
COMING = "No model is here yet that could answer; your prompt is kept. Enter sends it once one is."

KEPT = "nobody can answer yet; your prompt is kept"
TO_THE_OFFER = "your prompt is kept; Tab goes to the offer"

OFFLINE = "Baton is offline, so nothing is downloaded; /offline off lifts that."


class AdvisingScreen(EquippingScreen):
    """Recommends models to who has none, and again when asked; a prompt always comes first."""

    def __init__(self, desk: AppServices) -> None:
        super().__init__(desk)
        self.advice: RecommendationView | None = None
        self._undecided = False
        self._advised: Recommendation | None = None
        self._unanswered: Notice | None = None

    async def welcome(self, text: str) -> None:
        """Greet with `text`, if the person is new here; offer models to one who has none."""
        library = self.desk.library
        if not self.is_answered:
            text = f"{text}\n{NOTHING_HERE}".strip()
        if library is None or await self._equipped(library):
            if text:
                await self.transcript.note(text if self.is_answered else f"{text} {PUT_OFF_TEXT}")
            return
        if self.starter_speed is None:
            uses = await self.desk.store.worker_usage()
            self.starter_speed = uses.get(STARTER_ID, (None,))[0]
        self._undecided = bool(text)  # who knows this already isn't offered it twice
        self.advise(text)

    async def _equipped(self, library: Library) -> bool:
        """Tell whether there is more than the starter, or whether the person put that off."""
        workers = {card.id for card in self.desk.orchestra.roster if not card.is_tool}
        if self.is_answered and workers - {STARTER_ID}:
            return True
        return await asyncio.to_thread(
            lambda: is_put_off(self.desk.state) or bool(library.models())
        )

    async def keep_for_later(self, prompt: Prompt) -> None:
        """Give a prompt back that nobody can answer yet, and say what to do: once, at length."""
        self.composer.put_before(prompt)
        coming = self.downloads is not None and self.downloads.coming
        text, said = COMING if coming else TO_FETCH, self._unanswered
        if said is None or not said.is_attached:
            self._unanswered = await self.transcript.note(text)
        elif said.text != text:  # a download has begun or ended since
            await said.remove()
            self._unanswered = await self.transcript.note(text)
        elif not coming and self.advice is not None and self.advice.choosable:
            self.transcript.highlight(self.advice)
            self.footer.say(TO_THE_OFFER)
        else:
            self.transcript.highlight(said)
            self.footer.say(KEPT)

    @work(exclusive=True, group="advice")
    async def advise(self, text: str = "", *, follow: bool = True) -> None:
        """Say which models suit this machine, at the end of the conversation.

        `text` comes before that. The speed is measured while nobody waits for an answer. Without
        `follow`, whoever reads further up stays there.
        """
        from baton.tui.widgets.question_view import RecommendationView

        await self._drop_advice()
        view = self.advice = RecommendationView(f"{text}\n{LOOKING_TEXT}".strip())
        await self.transcript.insert(view, follow=follow)
        try:
            await self._fill_advice(view, text)
        except BatonError as error:
            view.say(f"{text}\n{error}".strip())

    async def _fill_advice(self, view: RecommendationView, text: str) -> None:
        from baton.workers.local.speed_benchmark import measure_speed

        library = self.desk.library
        assert library is not None
        machine = await library.inspect_machine()
        foreign = foreign_text(await asyncio.to_thread(library.external_models))
        stick = self._stick()

        async def say(found: Recommendation) -> None:
            self._advised = found
            parts = (
                text,
                recommendation_text(found, machine, alone=not self.is_answered),
                foreign,
                stick,
            )
            view.say("\n".join(part for part in parts if part))
            await view.offer(self._choices(found, bool(foreign)))

        found = await library.recommend(self.starter_speed)
        await say(found)
        if not found.picks or self.waited_for or self.starter_speed is not None:
            return
        if not self.is_answered:
            return  # there is nothing to measure with
        self.starter_speed = await measure_speed(self.desk.orchestra.worker(), MEASURED_SECONDS)
        if self.starter_speed is None:
            return
        timed = await library.recommend(self.starter_speed)
        picks = [pick.entry.id for pick in timed.picks]
        # What a person has gone to doesn't change under their hand.
        if not view.has_focus_within or picks == [pick.entry.id for pick in found.picks]:
            await say(timed)

    def _stick(self) -> str:
        """Say what to do without a network, where Baton knows that it has none."""
        assert self.desk.library is not None
        return f"{OFFLINE} {STICK_HINT}" if self.desk.library.offline else ""

    def _choices(self, found: Recommendation, others: bool) -> list[Choice]:
        assert self.desk.library is not None
        fetch = bool(missing_picks(found)) and not self.desk.library.offline
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
            self.advise(follow=False)

    async def on_recommendation_view_chosen(self, event: RecommendationView.Chosen) -> None:
        """Do what the person chose under the advice."""
        event.stop()
        self.workers.cancel_group(self, "advice")  # what was chosen from doesn't change any more
        if event.choice == DOWNLOAD:
            self._fetch_advised(event.view)
        elif event.choice == LATER:
            self._undecided = False
            await asyncio.to_thread(remember_put_off, self.desk.state)
            await event.view.offer(())
            self.footer.say(PUT_OFF_TEXT, 12)
        else:
            self.action_models(at_best=True)

    @work(exclusive=True, group="want")
    async def _fetch_advised(self, view: RecommendationView) -> None:
        """Have all of a recommended set fetched."""
        from baton.tui.screens.dialogs import request_model

        found, library, coming = self._advised, self.desk.library, self.downloads
        if found is None or library is None or coming is None:
            return
        choices = self._choices(found, False)
        await view.offer(())
        begun: list[str] = []
        self.footer.say("looking it up", 60)
        try:
            for pick in missing_picks(found):
                roles = recommended_roles(pick.roles)
                held = await request_model(self.app, library, pick.entry.id, roles)
                if held is not None:
                    coming.fetch(held)
                    begun.append(held.record.name)
        except BatonError as error:
            await self.complain_of_network(error)
        finally:
            self.footer.said = ""
        if not begun:
            await view.offer(choices)
            return
        self._undecided = False
        names = one_line(join_words(begun), 160)
        card = self.roster.get(self.worker)
        who = f"Until then {card.name}" if card is not None else "The first that is here"
        await self.transcript.note(
            f"On the way: {names} ({show_size(found.download)}). {who} answers;"
            " Ctrl+L shows how far it is."
        )

    async def action_recommend(self) -> None:
        """Say which models suit this machine."""
        if self.desk.library is None:
            await self.transcript.note(NO_LIBRARY)
        else:
            self.advise()
