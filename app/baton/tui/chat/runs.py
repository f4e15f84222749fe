"""Prompts being answered: sent, stopped, sent again; each run shown as it begins, goes and ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from textual.message import Message

from baton.core.errors import BatonError
from baton.core.events import Decision, Offered
from baton.core.history_types import Signal
from baton.core.labels import strictest
from baton.core.messages import Prompt, TurnStatus
from baton.core.permissions import may_use
from baton.core.ports import Choice, ConversationPosition, Question
from baton.core.sanitiser import one_line
from baton.core.view import RunView, activity_text
from baton.presentation.answers import charge_warnings, declined_text
from baton.presentation.run_story import answer_author
from baton.tui.chat.budget import BudgetController
from baton.tui.chat.context import ChatContext
from baton.tui.chat.conversation import ConversationController, FeedbackController
from baton.tui.chat.onboarding import OnboardingController
from baton.tui.chat.questions import QuestionController
from baton.tui.prompt_queue import QueuedPrompt, RunFollower, used_context_share
from baton.tui.widgets.composer import Composer

if TYPE_CHECKING:
    from baton.core.plan_types import Plan
    from baton.core.run.run import Run

EDIT = "edit"
"""The choice that changes a plan, or a prompt, before anything is sent."""


@dataclass(eq=False, repr=False)
class AnswerEnded(Message):
    """A prompt has its answer, or none: how a notice says it, and how many seconds it took."""

    text: str
    seconds: float


TOO_LONG = Question(
    "The prompt doesn't fit into this conversation any more.",
    (Choice("leave", "Leave it"), Choice("new", "Ask it in a new conversation")),
    "leave",
)


@dataclass(eq=False, repr=False)
class RunController:
    """Sends prompts to the queue and shows their runs, if their conversation is on the screen.

    It observes the queue: what is called for each run stands in `prompt_queue.RunObserver`.
    """

    context: ChatContext
    questions: QuestionController
    budget: BudgetController
    onboarding: OnboardingController
    feedback: FeedbackController
    conversation: ConversationController

    def __post_init__(self) -> None:
        self._services = self.context.services
        self._queue = self.context.queue
        self._queue_state: tuple[object, ...] = ()
        self._spent: tuple[int, ...] = ()
        self._warned: frozenset[str] = frozenset()
        self._shown = asyncio.Event()
        self._edited: QueuedPrompt | None = None

    # What the user asks for

    def send(
        self,
        prompt: Prompt,
        *,
        after: str | None = None,
        again: str | None = None,
        worker: str | None = None,
        preview: bool = False,
    ) -> None:
        """Have a prompt answered as soon as those before it are: see QueuedPrompt."""
        context = self.context
        tool = context.services.orchestra.tool_in_place(prompt.text)
        if worker is None and not context.can_answer and not tool:
            context.screen.run_worker(self.onboarding.keep_prompt(prompt))
            return
        if context.is_previewing:
            context.set_previewing(False)
            preview = True
        self.onboarding.dismiss_advice()
        self._queue.send(QueuedPrompt(context.chat, prompt, after, again, worker, preview))

    def stop(self) -> None:
        """Stop the answer that is being written, and begin nothing that waits."""
        self._queue.stop(hold=True)
        if self._queue.waiting:
            self.context.footer.say("Enter sends what waits, Esc takes it back", 12)

    def send_waiting(self) -> None:
        """Send what a stop left waiting."""
        if self._queue.is_held and self._queue.waiting:
            self._queue.resume()

    def take_back(self, pending: QueuedPrompt | None = None) -> None:
        """Put a prompt that waits (None: the last one) back into the composer, one at a time."""
        composer = self.context.composer
        composer.prompt.focus()
        if not composer.is_empty:
            text = "send this or empty it; then Esc takes the next one back"
            self.context.footer.say(text, 12)
        elif (taken := self._queue.take_back(pending)) is not None:
            composer.put_before(taken.prompt)

    def remove(self, pending: QueuedPrompt) -> None:
        """Take a prompt that waits out of the queue."""
        if self._queue.take_back(pending) is not None:
            self.context.footer.say(f"not sent: {one_line(pending.prompt.text, 60)}")

    def regenerate(self) -> None:
        """Answer the selected prompt again; the answer there is stays as another version."""
        self.feedback.record(self.feedback.selected_answer(), Signal.AGAIN)
        self._run_again(None)

    async def ask_stronger(self) -> None:
        """Answer the selected prompt again with a stronger worker, or say why that can't be."""
        context, view = self.context, self.context.transcript.selected
        if view is None:
            return
        worker = view.turn.worker if view.turn.worker in context.roster else context.worker
        if (card := context.roster.get(worker)) is not None and card.is_tool:
            context.footer.say("this was computed, not written: no worker is stronger at it")
            return
        stronger = await self.budget.stronger_worker(worker)
        if isinstance(stronger, str):
            await context.transcript.note(stronger)
        else:
            self.feedback.record(self.feedback.selected_answer(), Signal.STRONGER)
            self._run_again(stronger.id)

    def _run_again(self, worker: str | None) -> None:
        if (turn := self.conversation.selected_prompt()) is not None:
            self.send(Prompt(turn.text, turn.files), again=turn.id, worker=worker)

    # What the queue reports

    def begin(self, pending: QueuedPrompt) -> Run:
        """Make the run for a prompt."""
        context, services = self.context, self._services
        self._shown, self._spent, self._warned = asyncio.Event(), (), frozenset()
        limits = replace(
            services.limits,
            label=strictest([services.limits.label, pending.chat.label]),
            strategy=context.strategy,
            preview=pending.preview,
        )
        ask = partial(self._ask, pending)
        if pending.record is not None:
            return services.orchestra.resume(pending.record, replace(limits, strategy=""), ask)
        place = ConversationPosition(pending.chat.id, pending.after, pending.again)
        worker = pending.worker or (context.worker if context.can_answer else None)
        return services.orchestra.run(
            pending.prompt, place, limits, ask, worker=worker, plan=pending.plan
        )

    async def _ask(self, pending: QueuedPrompt, question: Question) -> str:
        """Ask the user for a run, unless what the question offers was forbidden meanwhile."""
        await self._shown.wait()  # showing the answer would remove the question
        offer, terms = question.offer, self._services.orchestra.terms
        if offer is not None and not may_use(offer.card, pending.chat.label, terms):
            return question.default
        while True:
            choice, plan = await self.questions.ask_about_plan(question, pending.chat)
            if plan is None or choice == question.default:
                return choice
            if choice != EDIT:
                if plan == question.plan:
                    return choice
                # Its card showed it with its prices: it is run in place of this one.
                self._edited = replace(pending, plan=plan, preview=False)
                return question.default
            if (changed := await self._edit_plan(plan)) is not None:
                self._edited = replace(pending, plan=changed, preview=True)
                return choice

    async def _edit_plan(self, plan: Plan) -> Plan | None:
        """Return a plan as changed in the user's own editor; None if it was not changed."""
        from baton.core.planning import templates

        text: str | None = templates.format_plan(plan)
        while text is not None:
            text = await self.context.edit_text(text, "plan.toml")
            if text is None:
                break
            try:
                return templates.parse_plan(text)
            except BatonError as error:
                choices = (Choice("leave", "Leave it"), Choice(EDIT, "Continue editing"))
                question = Question(f"This plan can't be run. {error}", choices, "leave")
                if await self.questions.ask(question) != EDIT:
                    break
        return None

    async def began(self, follower: RunFollower, *, is_first: bool) -> None:
        """Show a prompt and its answer to come; if that fails, it is answered all the same."""
        try:
            if is_first:
                await self.conversation.forget_first_draft()
            await self._show(follower)
        except BatonError as error:
            await self.context.complain(error)
        finally:
            self._shown.set()
            self.budget.measure()

    async def _show(self, follower: RunFollower) -> None:
        context, conversation = self.context, self.conversation
        pending, started = follower.pending, follower.view.started
        if pending.chat.id == context.chat.id:
            pending.chat = context.chat  # it was opened again while the prompt waited
        if pending.chat is not context.chat or started is None:
            return
        if pending.after is not None or pending.again is not None:
            await conversation.show(started.conversation)
            pending.chat = context.chat
        else:
            transcript, store = context.transcript, self._services.store
            if not transcript.turns:
                await transcript.show([])
            for turn in await store.runs.turns([started.prompt, started.answer]):
                await transcript.add(turn)
            if not context.chat.title:
                context.chat.title = (await store.conversation(started.conversation)).title
            conversation.describe()
        conversation.draw_run(follower)

    def is_typing(self) -> bool:
        """Whether the user is typing just now."""
        return self.context.composer.is_typing

    def changed(self, follower: RunFollower | None) -> None:
        """Show what is happening now."""
        context, queue = self.context, self._queue
        if not context.screen.is_mounted:
            return
        if follower is not None:
            context.footer.status = self._status(follower)
            if follower.pending.chat is context.chat:
                context.header.context = used_context_share(follower.view) or context.header.context
                self._show_author(follower)
            self._measure(follower.view)
            self._warn(follower)
        queue_state = (queue.is_busy, len(queue.waiting))
        if queue_state != self._queue_state:
            self._queue_state = queue_state
            context.footer.busy = queue.is_busy
            context.composer.show_waiting([pending.prompt.text for pending in queue.waiting])
            context.composer.post_message(Composer.Paused())  # what waits is kept as a draft
            context.screen.refresh_bindings()

    def _show_author(self, follower: RunFollower) -> None:
        """Show who is writing, as soon as another worker's words replace a draft."""
        view = self.conversation.view_of(follower)
        if view is not None and follower.view.status == "running":
            summary = self.context.summarise(follower.view)
            view.show_summary(summary.with_version(view.summary.version, view.summary.versions))

    def _measure(self, run: RunView) -> None:
        """Measure the money again after what may have changed it."""
        spent = (len(run.offers), len(run.sent), len(run.calls))
        if spent != self._spent and any(spent[:2]):
            self._spent = spent
            self.budget.measure(bool(run.calls))

    def _warn(self, follower: RunFollower) -> None:
        """Say at once what is wrong with a charge; under the answer it stays."""
        warnings = charge_warnings(follower.view, self.context.roster)
        new = [warning for warning in warnings if warning not in self._warned]
        self._warned = frozenset(warnings)
        if new:
            is_shown = self.conversation.view_of(follower) is not None
            self.budget.warn(new, is_shown=is_shown)

    def _status(self, follower: RunFollower) -> str:
        run = follower.view
        what = activity_text(run, self.context.name_of)
        step = run.current_step or answer_author(run)
        worker = step.worker if step else follower.pending.worker or self.context.worker
        if run.planning and run.status == "running":
            worker = run.planning
        if what.startswith(("loading", "asking")):
            return what
        return f"{self.context.name_of(worker)} · {what}"

    async def ended(self, follower: RunFollower) -> None:
        """Show the answer as it ended, or what went wrong."""
        self.changed(follower)
        pending, run, context = follower.pending, follower.view, self.context
        if run.status == "failed" and context.footer.beside:
            context.footer.say(context.footer.status, 12)
        is_on_screen = pending.chat is context.chat
        view = self.conversation.view_of(follower) if is_on_screen else None
        if view is not None:
            author = answer_author(run)
            text = run.answer or (author.text if author is not None else "")
            turn = replace(view.turn, text=text, status=_status_of(run))
            if author is not None and run.calls:
                turn = replace(turn, worker=author.worker)
            context.transcript.replace(turn)
            summary = context.summarise(run)
            view.show_run(run, context.roster)
            view.finish(turn, summary.with_version(view.summary.version, view.summary.versions))
            if run.offers:  # the draft may be a version of its own now
                versions = await self._services.store.siblings(turn.id)
                place = versions.index(turn.id) + 1 if turn.id in versions else 1
                view.show_summary(summary.with_version(place, len(versions)))
        elif context.is_untouched and not context.screen.query("RecentRow:focus"):
            await self.onboarding.show_home()  # it says how the answers of others stand
        if run.failure is not None:
            await self._recover(pending, run)
        if run.offers:
            await self._undo_unsent(pending, run)
        edited, self._edited = self._edited, None
        if edited is not None and run.started is not None:
            edited = replace(edited, chat=pending.chat, after=None, again=run.started.prompt)
            self._queue.send(edited, first=True)
        if run.status == "finished":
            self.onboarding.advise_again()
        title = pending.chat.title or "The answer"
        ended = "is answered" if run.status == "finished" else "has no answer"
        context.screen.post_message(AnswerEnded(f"{title} {ended}", run.seconds))

    async def _undo_unsent(self, pending: QueuedPrompt, run: RunView) -> None:
        """Go back to the answer before, or to the prompt, where an offer was not sent."""
        store, conversation = self._services.store, self.conversation
        started, offer = run.started, run.offers[-1]
        if started is None or offer.decision is Decision.SENT:
            return
        is_unanswered = run.status in ("cancelled", "failed") and not run.answer
        is_on_screen = pending.chat is self.context.chat
        if pending.again is not None and is_unanswered:
            versions = await store.siblings(started.answer)
            if started.answer in versions[1:]:
                await store.select(versions[versions.index(started.answer) - 1])
                if is_on_screen:
                    await conversation.show(started.conversation)
                    await self._say_unsent(run, offer)
        if offer.decision is Decision.EDIT:
            if not is_on_screen:
                await conversation.open(started.conversation)
            self._edit_prompt(started.prompt, offer.worker)

    async def _say_unsent(self, run: RunView, offer: Offered) -> None:
        """Say in a quiet line why a stronger worker was not asked."""
        if run.failure is not None:
            text = f"{run.failure.message} {run.failure.hint}"
        else:
            text = declined_text(offer, self.context.roster)
        await self.context.transcript.note(text)

    def _edit_prompt(self, prompt: str, worker: str) -> None:
        """Put a stored prompt into the composer, to be changed before that worker is asked."""
        turns, composer = self.context.transcript.turns, self.context.composer
        turn = next((turn for turn in turns if turn.id == prompt), None)
        if turn is not None:
            composer.edit(turn, worker, self.context.name_of(worker))
            composer.prompt.focus()

    async def _recover(self, pending: QueuedPrompt, run: RunView) -> None:
        """Give a prompt back that couldn't be stored; offer a new conversation for a long one."""
        assert run.failure is not None
        transcript = self.context.transcript
        if run.started is None:
            await transcript.note(f"{run.failure.message} {run.failure.hint}", error=True)
            self._give_back(pending)
        elif run.failure.error == "ContextTooLong":
            is_alone = len(transcript.turns) <= 2
            if not is_alone and await self.questions.ask(TOO_LONG, pending.chat) == "new":
                await self.conversation.open(None)
                self.send(pending.prompt)

    async def refused(self, pending: QueuedPrompt, error: BatonError) -> None:
        """Say why a prompt could not be run, and give it back."""
        await self.context.complain(error)
        self._give_back(pending)

    def _give_back(self, pending: QueuedPrompt) -> None:
        """Put a prompt that isn't stored before the one that is being written."""
        if pending.again is None:
            self.context.composer.put_before(pending.prompt)

    def broke(self, error: BaseException) -> None:
        """Pass a bug in a run to the app."""
        self.context.report_bug(error)


def _status_of(run: RunView) -> TurnStatus:
    if run.status == "failed":
        return TurnStatus.FAILED
    if run.status == "cancelled":
        return TurnStatus.CANCELLED
    return TurnStatus.CUT if run.is_cut or run.is_all_thoughts else TurnStatus.DONE
