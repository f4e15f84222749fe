"""Which models suit this machine: shown at the first start and on request; the models screen."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.catalogue_types import STARTER_ID, ModelRole, recommended_roles
from baton.core.errors import BatonError
from baton.core.machine import Hardware, show_memory, show_size
from baton.core.ports import Choice
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.platform.durable_files import make_folder
from baton.presentation.model_rows import gpu_text, licence_text
from baton.presentation.run_story import record_view
from baton.presentation.words import count_text, join_words
from baton.tui.chat.context import ChatContext
from baton.tui.chat.downloads import STICK_HINT, DownloadController
from baton.tui.widgets.question_view import RecommendationView
from baton.tui.widgets.transcript import Notice

if TYPE_CHECKING:
    from baton.core.messages import Prompt
    from baton.models import ExternalModel, Pick, Recommendation
    from baton.presentation.chat_texts import RecentText


MEASURE_SECONDS = 2.0
"""How long the starter model writes, so that the speed of others can be estimated."""

MAX_RECENT = 3
"""How many conversations the home offers to continue."""

TO_FETCH = (
    "There is no model yet that could answer; your prompt is kept. Ctrl+L shows the models that "
    "suit this machine, and Enter there downloads one."
)
COMING = "No model is here yet that could answer; your prompt is kept. Enter sends it once one is."

KEPT = "no model can answer yet; your prompt is kept"
TO_THE_OFFER = "your prompt is kept; Tab goes to the offer"

OFFLINE = "Baton is offline, so nothing is downloaded; /offline off lifts that."


class OnboardingController:
    """Recommends models to a user who has none, and again when asked; prompts come first.

    `advice` is the recommendation in the conversation; `starter_speed` are the tokens per second
    that the starter model wrote on this machine (None: not measured).
    """

    def __init__(self, context: ChatContext, downloads: DownloadController) -> None:
        self._context = context
        self._services = context.services
        self._downloads = downloads
        self.advice: RecommendationView | None = None
        self.starter_speed: float | None = None
        self._is_undecided = False
        self._recommendation: Recommendation | None = None
        self._unanswered: Notice | None = None

    @property
    def choices(self) -> RecommendationView | None:
        """The recommendation, while there is something to choose in it."""
        return self.advice if self.advice is not None and self.advice.choosable else None

    async def greet(self, *, first: bool = False) -> None:
        """Show the home; recommend models to a user who has no history, `first` to all."""
        recent = await self.show_home()
        if first or not recent:
            await self._recommend_unasked(is_new=not recent)

    async def show_home(self) -> Sequence[RecentText]:
        """Show what an empty conversation begins with, unless a prompt was quicker."""
        from baton.presentation.chat_texts import recent_text
        from baton.tui.widgets.home_view import HomeView

        conversations = await self._services.store.runs.recent_conversations(MAX_RECENT)
        now = time.time()
        recent = [
            recent_text(one, record_view(one.run) if one.run else RunView(), now)
            for one in conversations
        ]
        if self._context.is_untouched:
            await self._context.show_home(HomeView(recent))
        return recent

    async def _recommend_unasked(self, *, is_new: bool) -> None:
        if await self._is_equipped() or not self._context.is_untouched:
            return
        self._is_undecided = is_new  # to others the offer was made before
        self.advise()

    async def _is_equipped(self) -> bool:
        """Whether there is more than the starter model, or the user put that off."""
        workers = {id for id, card in self._context.roster.items() if not card.is_tool}
        if self._context.can_answer and workers - {STARTER_ID}:
            return True
        state, library = self._services.state, self._services.library
        return await asyncio.to_thread(lambda: is_put_off(state) or bool(library.models()))

    async def keep_prompt(self, prompt: Prompt) -> None:
        """Give a prompt back that no worker can answer yet, and say what to do: once, at length."""
        transcript, footer = self._context.transcript, self._context.footer
        self._context.composer.put_before(prompt)
        is_downloading, notice = bool(self._downloads.queue.coming), self._unanswered
        text = COMING if is_downloading else TO_FETCH
        if notice is None or not notice.is_attached:
            self._unanswered = await transcript.note(text)
        elif notice.text != text:  # a download has begun or ended since
            await notice.remove()
            self._unanswered = await transcript.note(text)
        elif not is_downloading and self.choices is not None:
            transcript.highlight(self.choices)
            footer.say(TO_THE_OFFER)
        else:
            transcript.highlight(notice)
            footer.say(KEPT)

    # The recommendation

    def advise(self, *, follow: bool = True) -> None:
        """Say which models suit this machine, at the end of the conversation.

        The speed is measured while the user waits for no answer. Without `follow` the
        conversation stays where the user reads.
        """
        self._context.start(partial(self._advise, follow), "advice", exclusive=True)

    async def _advise(self, follow: bool) -> None:
        before, self.advice = self.advice, None
        if before is not None and before.is_attached:
            await before.offer(())
            await before.remove()
        view = self.advice = RecommendationView(LOOKING_TEXT)
        await self._context.transcript.insert(view, follow=follow)
        try:
            await self._fill_advice(view)
        except BatonError as error:
            view.say(str(error))

    async def _fill_advice(self, view: RecommendationView) -> None:
        from baton.workers.local import is_machine_busy, measure_speed

        library, context = self._services.library, self._context
        machine = await library.inspect_machine()
        foreign = foreign_text(await asyncio.to_thread(library.external_models))
        # What to do without a network, where Baton knows that it has none.
        stick = f"{OFFLINE} {STICK_HINT}" if library.offline else ""

        async def show(advice: Recommendation) -> None:
            self._recommendation = advice
            models = recommendation_text(advice, machine, alone=not context.can_answer)
            view.say("\n".join(part for part in (models, foreign, stick) if part))
            await view.offer(_choices(advice, library.offline, bool(foreign)))

        if self.starter_speed is None:
            self.starter_speed = library.memory.speed(machine)
        advice = await library.recommend(self.starter_speed)
        await show(advice)
        if not advice.picks or context.is_waited_for or self.starter_speed is not None:
            return
        if not context.can_answer:
            return  # there is nothing to measure with
        busy = await is_machine_busy()
        self.starter_speed = await measure_speed(self._services.orchestra.worker(), MEASURE_SECONDS)
        if self.starter_speed is None:
            return
        library.memory.save_speed(self.starter_speed, machine, busy=busy)
        timed = await library.recommend(self.starter_speed)
        picks = [pick.entry.id for pick in timed.picks]
        # What a user has gone to doesn't change under their hand.
        if not view.has_focus_within or picks == [pick.entry.id for pick in advice.picks]:
            await show(timed)

    def dismiss_advice(self) -> None:
        """Remove the recommendation for a prompt: nothing is looked up or measured meanwhile."""
        if self._context.screen.is_running:  # else the app is ending, which ends its workers
            self._cancel_advice()
            if self.advice is not None and self.advice.is_attached:
                self.advice.remove()
        self.advice = None

    def _cancel_advice(self) -> None:
        screen = self._context.screen
        screen.workers.cancel_group(screen, "advice")

    def advise_again(self) -> None:
        """Show a recommendation that was not decided about again after an answer, but only once."""
        is_undecided, self._is_undecided = self._is_undecided, False
        if is_undecided and not self._downloads.queue.coming:
            self.advise(follow=False)

    async def choose(self, event: RecommendationView.Chosen) -> None:
        """Do what the user chose under the recommendation."""
        event.stop()
        self._cancel_advice()  # what was chosen from doesn't change any more
        if event.choice == DOWNLOAD:
            self._context.start(partial(self._fetch, event.view), "want", exclusive=True)
        elif event.choice == LATER:
            self._is_undecided = False
            await asyncio.to_thread(remember_put_off, self._services.state)
            await event.view.offer(())
            self._context.footer.say(PUT_OFF_TEXT, 12)
        else:
            work = partial(self.show_models, at_best=True)
            self._context.start(work, "overlay", exclusive=True)

    async def _fetch(self, view: RecommendationView) -> None:
        """Download all models of the recommendation."""
        from baton.tui.screens.overlay import request_model

        context, advice, library = self._context, self._recommendation, self._services.library
        if advice is None:
            return
        await view.offer(())
        begun: list[str] = []
        context.footer.say("looking it up", 60)
        try:
            for pick in missing_picks(advice):
                roles = recommended_roles(pick.roles)
                held = await request_model(context.screen.app, library, pick.entry.id, roles)
                if held is not None:
                    self._downloads.queue.fetch(held)
                    begun.append(held.record.name)
        except BatonError as error:
            await self._downloads.complain_of_network(error)
        finally:
            context.footer.message = ""
        if not begun:
            await view.offer(_choices(advice, library.offline))
            return
        self._is_undecided = False
        names = one_line(join_words(begun), 160)
        card = context.roster.get(context.worker)
        who = f"Until then {card.name}" if card is not None else "The first that is here"
        await context.transcript.note(
            f"On the way: {names} ({show_size(advice.download)}). {who} answers;"
            " Ctrl+L shows how far it is."
        )

    # All models

    async def show_models(self, *, at_best: bool = False) -> None:
        """Show the models, `at_best` from the best on, and choose which answers from now on.

        To be run in a worker.
        """
        from baton.tui.screens.models_screen import ModelsScreen

        context = self._context
        screen = ModelsScreen(
            context, self._downloads.queue, starter_speed=self.starter_speed, at_best=at_best
        )
        chosen = await context.screen.app.push_screen_wait(screen)
        if chosen and chosen != context.worker and chosen in context.roster:
            context.choose_worker(chosen)

    async def set_worker(self, worker: str) -> None:
        """Choose which worker answers from now on."""
        context = self._context
        if worker not in context.roster:
            known = ", ".join(context.roster)
            await context.transcript.note(f"There is no worker {worker!r}; there are: {known}.")
        elif worker != context.worker:
            context.choose_worker(worker)


def _choices(advice: Recommendation, offline: bool, has_others: bool = False) -> list[Choice]:
    can_fetch = bool(missing_picks(advice)) and not offline
    can_choose = can_fetch or has_others or not advice.picks
    return [*([DOWNLOAD] if can_fetch else []), *([CHOOSE] if can_choose else []), LATER]


DOWNLOAD = Choice("download", "Download in the background")
CHOOSE = Choice("choose", "Choose")
LATER = Choice("later", "Later")

LOOKING_TEXT = "Looking at this machine, for models that suit it …"
NONE_FITS_TEXT = "No model of the catalogue that is better than the one here fits this machine."
PUT_OFF_TEXT = "/recommend shows this again, and so do the models (Ctrl+L)."

_ROLE_PURPOSES = {
    ModelRole.CHAT: "to chat",
    ModelRole.CONDUCTOR: "to draw plans",
    ModelRole.CODER: "to write code",
    ModelRole.REASONING: "to think hard",
}


def machine_text(machine: Hardware) -> str:
    """Say in brackets what there is to run models on: "16 GB, 8 cores, no GPU"."""
    gpu = gpu_text(machine.gpus[0]) if machine.gpus else "no GPU"
    if len(machine.gpus) > 1:
        together = sum(gpu.total for gpu in machine.gpus)
        gpu = f"{len(machine.gpus)} GPUs with {show_memory(together)}"
    parts = [show_memory(machine.memory), count_text(machine.cores, "core"), gpu]
    if machine.battery is not None and not machine.plugged:
        parts.append("on battery")
    return ", ".join(parts)


def missing_picks(advice: Recommendation) -> Sequence[Pick]:
    """Return what would have to be fetched."""
    return [pick for pick in advice.picks if not pick.here]


def recommendation_text(advice: Recommendation, machine: Hardware, *, alone: bool = False) -> str:
    """Say what suits the machine, how much of it is to be fetched, and about how fast it is.

    With `alone` there is no model yet that they could be better than.
    """
    if not advice.picks:
        return f"{NONE_FITS_TEXT} {one_line(advice.why, 300)}".strip()
    picks = ", ".join(
        f"{one_line(pick.entry.name, 40)} {_roles_text(pick)}" for pick in advice.picks
    )
    wanted = missing_picks(advice)
    begins = "Better for" if wanted and not alone else "What suits"
    besides = one_line(advice.why.partition("; ")[2].rstrip("."), 200)
    has = "; ".join(filter(None, (machine_text(machine), besides)))
    parts = [f"{begins} this machine ({has}): {picks}."]
    if wanted:
        licences = dict.fromkeys(licence_text(pick.entry.licence) for pick in wanted)
        parts.append(f"{show_size(advice.download)}, {', '.join(licences)}.")
    else:
        parts.append("All of it is here.")
    parts.append(_speed_text(advice))
    return " ".join(part for part in parts if part)


def _roles_text(pick: Pick) -> str:
    return " and ".join(_ROLE_PURPOSES[role] for role in pick.roles) + (
        " (here)" if pick.here else ""
    )


def _speed_text(advice: Recommendation) -> str:
    """Say about how fast the one writes that chats, or else the first; "" if unknown."""
    speeds = sorted(
        (ModelRole.CHAT not in pick.roles, pick.speed) for pick in advice.picks if pick.speed
    )
    if not speeds:
        return ""
    speed = speeds[0][1] or 0.0
    return f"About {speed:.0f} tokens/s." if speed >= 1.5 else "About 1 token/s, or less."


def foreign_text(external: Sequence[ExternalModel]) -> str:
    """Say what other programs have that could be used where it is, or return ""."""
    if not external:
        return ""
    models = Counter(one_line(model.program, 30) for model in external)
    (first, number), *others = models.items()
    counts = [
        f"{count_text(number, 'model')} of {first}",
        *(f"{count} of {name}" for name, count in others),
    ]
    size = show_size(sum(model.size for model in external))
    return f"Also found: {join_words(counts)}, {size}: Choose."


# Put off


def _marker_file(state: Path) -> Path:
    return state / "models-later"


def is_put_off(state: Path) -> bool:
    """Whether the user put the models off."""
    return _marker_file(state).exists()


def remember_put_off(state: Path) -> None:
    """Remember that models can wait; where that can't be kept, it is asked again."""
    with suppress(OSError):
        make_folder(state)
        _marker_file(state).touch(0o600)
