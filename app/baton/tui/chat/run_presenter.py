"""Between the player and the conversation's screen: every run shown as it begins, goes and ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from baton.core.errors import BatonError
from baton.core.events import Decision
from baton.core.labels import strictest
from baton.core.messages import TurnStatus
from baton.core.ports import Choice, ConversationPosition, Question
from baton.core.run.policy import may_use
from baton.core.view import RunView, activity_text
from baton.presentation.answers import (
    answer_author,
    answer_parts,
    charge_warnings,
    summarise_answer,
)
from baton.tui.prompt_queue import QueuedPrompt, RunFollower, used_context_share
from baton.tui.widgets.composer import Composer
from baton.tui.widgets.turn_view import TurnView

if TYPE_CHECKING:
    from baton.core.plan.plan import Plan
    from baton.core.run.run import Run
    from baton.tui.chat.chat_screen import ChatScreen

EDIT = "edit"
"""The choice that changes a plan, or a prompt, before anything is sent."""

TOO_LONG = Question(
    "The prompt doesn't fit into this conversation any more.",
    (Choice("leave", "Leave it"), Choice("new", "Ask it in a new conversation")),
    "leave",
)


class Presenter:
    """The player's stage: shows the runs, if theirs is the conversation on the screen."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._moment: tuple[object, ...] = ()
        self._spent: tuple[int, ...] = ()
        self._warned: frozenset[str] = frozenset()
        self._shown = asyncio.Event()
        self._edited: tuple[QueuedPrompt, Plan] | None = None

    def begin(self, pending: QueuedPrompt) -> Run:
        """Make the run for a prompt."""
        screen, desk = self._screen, self._screen.desk
        self._shown, self._spent, self._warned = asyncio.Event(), (), frozenset()
        label = strictest([desk.limits.label, pending.chat.label])
        limits = replace(desk.limits, label=label, strategy=screen.strategy)
        limits = replace(limits, preview=pending.preview)
        ask = partial(self._ask, pending)
        if pending.record is not None:
            return desk.orchestra.resume(pending.record, replace(limits, strategy=""), ask)
        place = ConversationPosition(pending.chat.id, pending.after, pending.again)
        worker = pending.worker or screen.worker
        return desk.orchestra.play(pending.prompt, place, limits, ask, worker, pending.plan)

    async def _ask(self, pending: QueuedPrompt, question: Question) -> str:
        """Put a run's question to the person, unless what it offers was forbidden meanwhile."""
        await self._shown.wait()  # what shows the answer would sweep the question away
        offer, terms = question.offer, self._screen.desk.orchestra.terms
        if offer is not None and not may_use(offer.card, pending.chat.label, terms):
            return question.default
        while (choice := await self._screen.ask(question, pending.chat)) == EDIT:
            if question.plan is None:
                break
            if (changed := await self._screen.edit_plan(question.plan)) is not None:
                self._edited = (pending, changed)  # it is shown once this run is over
                break
        return choice

    async def began(self, follower: RunFollower) -> None:
        """Show the prompt and its answer to come; one that can't be shown is written anyway."""
        try:
            await self._show(follower)
        except BatonError as error:
            await self._screen.complain(error)
        finally:
            self._shown.set()
            self._screen.measure()

    async def _show(self, follower: RunFollower) -> None:
        screen = self._screen
        pending, started = follower.pending, follower.view.started
        if pending.chat.id == screen.chat.id:
            pending.chat = screen.chat  # it was opened anew while the prompt waited
        if pending.chat is not screen.chat or started is None:
            return
        if pending.after is not None or pending.again is not None:
            await screen.show(started.conversation)
            pending.chat = screen.chat
        else:
            transcript, store = screen.transcript, screen.desk.store
            if not transcript.turns:
                await transcript.show([])
            for turn in await store.thread(started.conversation, started.answer):
                if turn.id in (started.prompt, started.answer):
                    await transcript.add(turn)
            if not screen.chat.title:
                screen.chat.title = (await store.conversation(started.conversation)).title
            screen.describe()
        self._draw(follower)

    def rejoin(self, follower: RunFollower | None) -> None:
        """Go on drawing a run whose conversation is on the screen again."""
        chat = self._screen.chat
        if follower is not None and follower.pending.chat.id == chat.id is not None:
            follower.pending.chat = chat
            self._draw(follower)

    def _draw(self, follower: RunFollower) -> None:
        """Have an answer drawn where it stands on the screen, if it does."""
        view, roster = self.view_of(follower), self._screen.roster
        if view is None:
            follower.draw = None
        else:
            follower.draw = lambda run: view.draw(answer_parts(run, roster))

    def view_of(self, follower: RunFollower) -> TurnView | None:
        """Return what shows the answer of a run, if it is on the screen."""
        started = follower.view.started
        return self._screen.transcript.view_of(started.answer) if started else None

    def is_typing(self) -> bool:
        """Tell whether the person is typing just now."""
        return self._screen.composer.is_typing

    def changed(self, follower: RunFollower | None) -> None:
        """Show what is happening now."""
        screen = self._screen
        if not screen.is_mounted:
            return
        if follower is not None:
            screen.footer.status = self._status(follower)
            if follower.pending.chat is screen.chat:
                screen.header.context = used_context_share(follower.view) or screen.header.context
                self._learn(follower)
            self._measure(follower.view)
            self._warn(follower)
        moment = (screen.player.is_busy, len(screen.player.waiting))
        if moment != self._moment:
            self._moment = moment
            screen.footer.busy = screen.player.is_busy
            screen.composer.show_waiting([pending.prompt.text for pending in screen.player.waiting])
            screen.composer.post_message(Composer.Paused())  # what waits is kept as a draft
            screen.refresh_bindings()

    def _learn(self, follower: RunFollower) -> None:
        """Show who is writing, as soon as another worker's words replace a draft."""
        if (view := self.view_of(follower)) is not None and follower.view.status == "running":
            facts = summarise_answer(follower.view, self._screen.roster)
            view.show_summary(facts.with_version(view.summary.version, view.summary.versions))

    def _measure(self, run: RunView) -> None:
        """Look at the money again after whatever may have changed it."""
        spent = (len(run.offers), len(run.sent), len(run.calls))
        if spent != self._spent and any(spent[:2]):
            self._spent = spent
            self._screen.measure(bool(run.calls))

    def _warn(self, follower: RunFollower) -> None:
        """Say at once what is wrong with a charge; under the answer it stays."""
        warnings = charge_warnings(follower.view, self._screen.roster)
        new = [warning for warning in warnings if warning not in self._warned]
        self._warned = frozenset(warnings)
        if new:
            self._screen.warn(new, is_shown=self.view_of(follower) is not None)

    def _status(self, follower: RunFollower) -> str:
        run = follower.view
        what = activity_text(run)
        step = run.current_step or answer_author(run)
        worker = step.worker if step else follower.pending.worker or self._screen.worker
        if run.planning and run.status == "running":
            worker = run.planning
        return what if what.startswith(("loading", "asking")) else f"{worker} · {what}"

    async def ended(self, follower: RunFollower) -> None:
        """Show the answer as it ended, or what went wrong."""
        self.changed(follower)
        pending, run = follower.pending, follower.view
        view = self.view_of(follower) if pending.chat is self._screen.chat else None
        if view is not None:
            author = answer_author(run)
            text = run.answer or (author.text if author is not None else "")
            turn = replace(view.turn, text=text, status=_status_of(run))
            if author is not None and run.calls:
                turn = replace(turn, worker=author.worker)
            self._screen.transcript.replace(turn)
            facts = summarise_answer(run, self._screen.roster)
            view.finish(turn, facts.with_version(view.summary.version, view.summary.versions))
        if run.failure is not None:
            await self._mend(pending, run)
        if run.offers:
            await self._after_offer(pending, run)
        edited, self._edited = self._edited, None
        if edited is not None and edited[0] is pending and run.started is not None:
            again = run.started.prompt
            self._screen.play_first(
                QueuedPrompt(
                    pending.chat, pending.prompt, again=again, preview=True, plan=edited[1]
                )
            )
        if run.status == "finished":
            self._screen.advise_again()

    async def _after_offer(self, pending: QueuedPrompt, run: RunView) -> None:
        """Go back to the answer there was, or to the prompt, where nothing was sent."""
        screen, started, offer = self._screen, run.started, run.offers[-1]
        if started is None or offer.decision is Decision.SENT:
            return
        unanswered = run.status in ("cancelled", "failed") and not run.answer
        on_screen = pending.chat is screen.chat
        if pending.again is not None and unanswered:
            versions = await screen.desk.store.siblings(started.answer)
            if started.answer in versions[1:]:
                before = versions[versions.index(started.answer) - 1]
                await screen.desk.store.select(before)
                if on_screen:
                    await screen.show(started.conversation)
                    await screen.tell_unsent(run, offer)
        if offer.decision is Decision.EDIT:
            if not on_screen:
                await screen.open(started.conversation)
            screen.edit_for(started.prompt, offer.worker)

    async def _mend(self, pending: QueuedPrompt, run: RunView) -> None:
        """Give back what couldn't be stored, and offer what helps."""
        assert run.failure is not None
        screen = self._screen
        if run.started is None:
            await screen.transcript.note(f"{run.failure.message} {run.failure.hint}", error=True)
            self._give_back(pending)
        elif run.failure.error == "ContextTooLong":
            alone = len(screen.transcript.turns) <= 2
            if not alone and await screen.ask(TOO_LONG, chat=pending.chat) == "new":
                await screen.open(None)
                screen.play(pending.prompt)

    async def refused(self, pending: QueuedPrompt, error: BatonError) -> None:
        """Say why a prompt could not be played, and give it back."""
        await self._screen.complain(error)
        self._give_back(pending)

    def _give_back(self, pending: QueuedPrompt) -> None:
        """Put a prompt that isn't stored before what is being written now."""
        if pending.again is None:
            self._screen.composer.put_before(pending.prompt)

    def broke(self, error: BaseException) -> None:
        """Hand a bug to the app, which writes it down."""
        assert isinstance(error, Exception)
        self._screen.app._handle_exception(error)


def _status_of(run: RunView) -> TurnStatus:
    if run.status == "failed":
        return TurnStatus.FAILED
    if run.status == "cancelled":
        return TurnStatus.CANCELLED
    return TurnStatus.CUT if run.is_cut else TurnStatus.DONE
