"""The conversation: what Baton is opened for."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from textual import work
from textual.app import ComposeResult
from textual.widget import Widget

from baton.core.errors import BatonError
from baton.core.events import Offered
from baton.core.feedback import Signal
from baton.core.messages import Prompt as Asked
from baton.core.ports import Question
from baton.core.run.metered_worker import uninterrupted
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.presentation.answers import declined_offer_text, worker_name
from baton.tui import key_bindings
from baton.tui.chat.onboarding import AdvisingScreen
from baton.tui.chat.run_presenter import Presenter
from baton.tui.prompt_queue import ConversationState, PromptQueue, QueuedPrompt
from baton.tui.services import AppServices
from baton.tui.widgets.question_view import ChoiceView, QuestionLine, QuestionView, question_view
from baton.tui.widgets.turn_view import TurnView

WELCOME = "Baton answers on this machine. Nothing leaves it unless you say so."

ANOTHER_CONVERSATION = "In another conversation: "

OF_A_MESSAGE = frozenset(
    ("copy", "copy_code", "why", "edit", "regenerate", "stronger", "branch", "good", "bad", "route")
)
"""What is done with a message, so not where there is none."""

DELETED_SECONDS = 24 * 3600
"""For how long at least a deleted conversation is kept, since another Baton may bring it back."""


class ChatScreen(AdvisingScreen):
    """Where prompts are answered: opens conversations, plays prompts and puts questions."""

    BINDINGS = key_bindings.CHAT
    AUTO_FOCUS = "PromptArea"

    def __init__(self, desk: AppServices) -> None:
        super().__init__(desk)
        self.presenter = Presenter(self)
        self.player = PromptQueue(self.presenter)
        self._question: QuestionView | None = None
        self._asker: ConversationState | None = None
        self._asking = asyncio.Lock()
        self._left = False

    def compose(self) -> ComposeResult:
        """Lay out the conversation between the header and the prompt."""
        yield self.header
        yield self.transcript
        yield self.composer
        yield self.footer

    def on_mount(self) -> None:
        """Do all that isn't needed for the first frame after it."""
        self.say_who_answers()
        self.describe()
        self.call_after_refresh(self._start)

    @work
    async def _start(self) -> None:
        gc.enable()  # off since the app's start, which it would hold up
        if self.is_answered:
            self.desk.orchestra.worker(self.worker).warm()
        if self.desk.orchestra.router is not None:
            self.desk.orchestra.router.warm()
        self.desk.tell_later(lambda text: self.run_worker(self.transcript.note(text)))
        await self.begin()
        if self.desk.greeting:
            await self.transcript.note(self.desk.greeting)
        self.resume_downloads()
        self.desk.warm_cloud()
        import baton.tui.widgets.answer
        import baton.tui.widgets.question_view  # noqa: F401 (so that the first answer needn't wait)

    def describe(self) -> None:
        """Show in the header what conversation this is, and that a worker elsewhere answers it."""
        super().describe()
        card = self.roster.get(self.worker)
        if card is not None and card.remote and self.header.policy == "local first":
            self.header.policy = f"{card.privacy.value} worker"
        parts = (self.header.policy, *self.told_way())
        self.header.policy = " · ".join(part for part in parts if part)
        self._show_question()

    async def begin(self) -> None:
        """Show what Baton was opened with, unless a prompt was quicker: its answer stays.

        A new conversation is on the screen already. Nothing of it is replaced, since its first
        prompt may be sent at any moment, also while the history is asked.
        """
        if self.desk.conversation is not None:
            return await self.open(self.desk.conversation)
        try:
            draft = await self.desk.store.draft("")
            if self._untouched and self.composer.is_empty:
                self.composer.put(draft)
            if self._untouched:
                await self._welcome(first=True)
            gc.freeze()  # else collecting garbage looks at all of history, and typing waits 0.1 s
        except BatonError as error:
            await self.complain(error)
        self.measure()

    @property
    def _untouched(self) -> bool:
        """Whether nothing was asked yet in the conversation on the screen."""
        return not (self.player.is_busy or self.chat.id or self.transcript.turns)

    async def open(self, conversation: str | None, at: str | None = None) -> None:
        """Show another conversation, with what was being written in it."""
        try:
            written = (self.composer.text, self.composer.pasted)
            fresh = self.chat.id is None and not self.transcript.turns
            if not fresh:
                await self.keep_draft()
            draft = await self.desk.store.draft(conversation or "")
            await self.show(conversation, at)  # from here on a pause in typing keeps another one
            draft = draft.removeprefix(self.queued(conversation)).lstrip("\n")
            unchanged = (self.composer.text, self.composer.pasted) == written
            if unchanged and not (fresh and any(written)):
                self.composer.editing = None
                self.composer.put(draft)
            if conversation is None:
                await self._welcome()
            gc.freeze()  # else collecting garbage looks at all of history, and typing waits 0.1 s
        except BatonError as error:
            await self.complain(error)
        self.presenter.rejoin(self.player.current)
        self.measure()

    async def _welcome(self, *, first: bool = False) -> None:
        """Greet who has no history yet; advise whoever has no model, `first` of all."""
        text = ""
        if await self.desk.store.latest() is None:
            text = WELCOME
            if (card := self.roster.get(self.worker)) is not None:
                note = f" ({card.note[0].lower()}{card.note[1:].rstrip('.')})" if card.note else ""
                text += f"\nReady now: {card.name}{note}."
        if text or first:
            await self.welcome(text)

    async def action_editor(self) -> None:
        """Write the prompt in the person's own editor, which would hold up an answer's saving."""
        if self.player.is_busy:
            self.footer.say("the editor opens when the answer is finished")
        else:
            await super().action_editor()

    def queued(self, conversation: str | None) -> str:
        """Return the conversation's prompts that wait their turn, which no run has recorded yet."""
        waiting = [p.prompt.text for p in self.player.waiting if p.chat.id == conversation]
        return "\n\n".join(waiting)

    async def close(self) -> None:
        """Stop what runs and keep everything, before the app is left."""
        self._left = True
        self.action_take_default()
        self.pass_advice()
        downloads = () if self.downloads is None else (self.downloads.close(),)
        await asyncio.gather(self.player.close(), *downloads)
        try:
            await self.keep_draft()
            store = self.desk.store
            if runs := await store.hidden_runs(older_than_seconds=DELETED_SECONDS):
                await self.desk.ledger.forget(runs)  # first: what is deleted is not found again
            await store.purge_hidden(older_than_seconds=DELETED_SECONDS)
        except BatonError:
            pass  # the history can't be written, which was said when it happened

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what would do something now."""
        match action:
            case "take_default":
                return self._question is not None
            case "to_question":
                return self._asked is not None and not isinstance(self.focused, ChoiceView)
            case "take_back":
                return bool(self.player.waiting)
            case "stop":
                return self.player.is_busy and not (self.player.is_held and self.player.waiting)
            case "go_on":
                view = self.transcript.selected
                return view is not None and view.can_go_on
            case "leave_edit":
                return self.composer.editing is not None
            case _ if action in OF_A_MESSAGE:
                return bool(self.transcript.turns)
            case _:
                return True

    @property
    def waited_for(self) -> bool:
        """Whether the person waits for an answer."""
        return self.player.is_busy or bool(self.player.waiting)

    # Prompts being answered

    def play(
        self,
        prompt: Asked,
        *,
        after: str | None = None,
        again: str | None = None,
        worker: str | None = None,
        preview: bool = False,
    ) -> None:
        """Have a prompt answered as soon as those before it are: see QueuedPrompt."""
        if worker is None and not self.is_answered:
            self.run_worker(self.keep_for_later(prompt))
            return
        preview = self.take_preview() or preview
        self.pass_advice()
        self.player.send(QueuedPrompt(self.chat, prompt, after, again, worker, preview))

    def play_first(self, pending: QueuedPrompt) -> None:
        """Have this played before whatever waits."""
        self.player.send(pending, first=True)

    def run_of(self, view: TurnView) -> Callable[[], RunView] | None:
        """Return what tells how the run stands that is writing this answer, if one is."""
        current = self.player.current
        if current is None or self.presenter.view_of(current) is not view:
            return None
        return lambda: current.view

    def action_stop(self) -> None:
        """Stop the answer that is being written, and begin nothing that waits."""
        self.player.stop(hold=True)
        if self.player.waiting:
            self.footer.say("Enter sends what waits, Esc takes it back", 12)

    def go_on(self) -> None:
        """Play what was left waiting by a stop."""
        if self.player.is_held and self.player.waiting:
            self.player.resume()

    def action_take_back(self) -> None:
        """Take the prompt back that waits last, to change it or to drop it; one at a time."""
        if not self.composer.is_empty:
            self.footer.say("send this prompt, or empty it; then Esc takes the next one back", 12)
        elif (pending := self.player.take_back()) is not None:
            self.composer.put_before(pending.prompt)
            self.composer.prompt.focus()

    def action_regenerate(self) -> None:
        """Answer the selected prompt again; the answer there is stays as another version."""
        self.note(self.selected_answer(), Signal.AGAIN)
        self._again(None)

    @work(group="stronger", exclusive=True)
    async def action_stronger(self) -> None:
        """Answer the selected prompt again with a stronger worker, or say why that can't be."""
        if (view := self.transcript.selected) is None:
            return
        worker = view.turn.worker if view.turn.worker in self.roster else self.worker
        found = await self.stronger(worker)
        if isinstance(found, str):
            await self.transcript.note(found)
        else:
            self.note(self.selected_answer(), Signal.STRONGER)
            self._again(found.id)

    def _again(self, worker: str | None) -> None:
        if (turn := self.selected_prompt()) is not None:
            self.play(Asked(turn.text, turn.files), again=turn.id, worker=worker)

    # Questions to the person

    async def ask(self, question: Question, chat: ConversationState | None = None) -> str:
        """Put a question of a conversation to the person; after those that are open."""
        async with self._asking:
            if self._left or not self.is_running:
                return question.default
            self._asker = chat
            return await self._put(question_view(question, self.roster))

    @property
    def question(self) -> str:
        """The open question's text; "" while none waits."""
        view = self._question
        return f"{view.whose}{view.question.text}" if view is not None else ""

    def _show_question(self) -> None:
        """Say whose the question is, and show it on all screens over the conversation."""
        if self._question is not None:
            self._question.attribute_to(self._whose())
        for screen in self.app.screen_stack:
            for line in screen.query(QuestionLine):
                line.show(self.question)

    def _whose(self) -> str:
        """Name the conversation that the question is from, where another one is on the screen."""
        chat = self._asker
        if chat is None or chat is self.chat or chat.id == self.chat.id is not None:
            return ""
        if not chat.title:
            return ANOTHER_CONVERSATION
        return f"In \u201c{one_line(chat.title, 40)}\u201d: "

    async def _put(self, view: QuestionView) -> str:
        self._question = view
        self.footer.asking = True
        self._show_question()
        try:
            # Cancelled half-way, mounting or removing would leave a widget that never ends.
            await uninterrupted(self.transcript.insert(view))
            self.refresh_bindings()
            return await view.answer()
        finally:
            self._question = None
            self.footer.asking = False
            if self.is_running:
                self._show_question()
            await uninterrupted(self._take_away(view))

    async def _take_away(self, view: QuestionView) -> None:
        if self.is_running and view.is_attached:
            if isinstance(self.focused, ChoiceView):
                self.composer.prompt.focus()
            await view.remove()
            self.refresh_bindings()

    def keep_here(self) -> None:
        """Stop what could still leave this machine, after the person forbade that."""
        current = self.player.current
        if self._question is not None and self._question.question.offer is not None:
            self._question.take_default()
        elif current is not None and may_leave(current.view):
            self.player.stop()

    async def tell_unsent(self, run: RunView, offer: Offered) -> None:
        """Say in a quiet line why a stronger worker was not asked."""
        if run.failure is not None:
            await self.transcript.note(f"{run.failure.message} {run.failure.hint}")
        else:
            name = worker_name(offer.worker, self.roster)
            await self.transcript.note(declined_offer_text(offer, name, direct=True))

    def edit_for(self, prompt: str, worker: str) -> None:
        """Take a prompt back, to be changed before it goes to that worker."""
        turn = next((turn for turn in self.transcript.turns if turn.id == prompt), None)
        if turn is not None:
            self.composer.edit(turn, worker)
            self.composer.prompt.focus()

    @property
    def _asked(self) -> Widget | None:
        """Where there is something to choose: the open question, or else the advice."""
        if self._question is not None:
            return self._question
        return self.advice if self.advice is not None and self.advice.choosable else None

    def action_to_question(self) -> None:
        """Go to the choices of the open question."""
        if self._asked is not None:
            self.set_focus(self._asked.query(ChoiceView).first())

    def action_take_default(self) -> None:
        """Leave the open question as it would be without an answer."""
        if self._question is not None:
            self._question.take_default()

    # Other conversations, other workers

    async def action_new(self) -> None:
        """Begin a new conversation."""
        await self.open(None)
        self.composer.prompt.focus()

    @work(group="overlay", exclusive=True)
    async def action_conversations(self, words: str = "") -> None:
        """Find an earlier conversation, and open it."""
        from baton.tui.screens.conversations_screen import ConversationsScreen

        chosen = await self.app.push_screen_wait(
            ConversationsScreen(self.desk.store, self.export, words)
        )
        if chosen is not None:
            await self.open(chosen.conversation, chosen.turn)
        elif self.chat.id is not None:
            await self._catch_up(self.chat.id)

    async def _catch_up(self, conversation: str) -> None:
        """Follow what was done to this conversation elsewhere: renamed, or deleted."""
        try:
            self.chat.title = (await self.desk.store.conversation(conversation)).title
        except BatonError:
            await self.open(None)
        else:
            self.describe()


def may_leave(run: RunView) -> bool:
    """Tell whether something of a run could still leave this machine."""
    routed = run.routed
    return routed is None or run.draft or bool(run.planning) or routed.where != "local"
