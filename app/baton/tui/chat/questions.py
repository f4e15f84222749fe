"""Questions of runs to the user: shown in the conversation, one at a time, and over it."""

from __future__ import annotations

import asyncio

from textual.containers import Vertical
from textual.message import Message

from baton.core.aio import uninterrupted
from baton.core.plan_types import Plan
from baton.core.ports import Question
from baton.core.sanitiser import one_line
from baton.presentation.run_story import CardsById
from baton.tui.chat.context import ChatContext
from baton.tui.prompt_queue import ConversationState
from baton.tui.widgets.question_view import ChoiceView, OfferCard, QuestionLine, QuestionView
from baton.tui.workflow_picture import WorkflowView

ANOTHER_CONVERSATION = "In another conversation: "


class QuestionController:
    """Asks the user, and shows the open question on every screen: `view` does, if there is one."""

    def __init__(self, context: ChatContext) -> None:
        self._context = context
        self.view: QuestionView | None = None
        self._asker: ConversationState | None = None
        self._asking = asyncio.Lock()
        self._closed = False

    @property
    def text(self) -> str:
        """The open question, with the conversation that it comes from; "" if none is open."""
        return f"{self.view.whose}{self.view.question.text}" if self.view is not None else ""

    async def ask(self, question: Question, chat: ConversationState | None = None) -> str:
        """Ask a question of the conversation `chat`, after those that are open."""
        choice, _ = await self.ask_about_plan(question, chat)
        return choice

    async def ask_about_plan(
        self, question: Question, chat: ConversationState | None = None
    ) -> tuple[str, Plan | None]:
        """Ask about a plan; return the choice, and the plan as the user has changed it."""
        async with self._asking:
            if self._closed or not self._context.screen.is_running:
                return question.default, question.plan
            self._asker = chat
            view = question_view(question, self._context.roster)
            choice = await self._put(view)
            return choice, getattr(view, "plan", None)

    def take_default(self) -> None:
        """Answer the open question with its default."""
        if self.view is not None:
            self.view.take_default()

    def decline_offer(self) -> bool:
        """Decline the open question if it offers to send something, and return whether it does."""
        if self.view is None or self.view.question.offer is None:
            return False
        self.view.take_default()
        return True

    def close(self) -> None:
        """Answer the open question, and all to come, with their defaults."""
        self._closed = True
        self.take_default()

    def show(self) -> None:
        """Say which conversation the open question is from, here and on the screens above."""
        if self.view is not None:
            self.view.attribute_to(self._origin())
        for screen in self._context.screen.app.screen_stack:
            for line in screen.query(QuestionLine):
                line.show(self.text)
            for picture in screen.query(WorkflowView):
                picture.show_question(is_open=self.view is not None)
            for mirror in screen.query(QuestionMirror):
                mirror.show(self.view)

    def _origin(self) -> str:
        """Name the conversation that the question is from; "" for the one on the screen."""
        chat, shown = self._asker, self._context.chat
        if chat is None or chat is shown or chat.id == shown.id is not None:
            return ""
        if not chat.title:
            return ANOTHER_CONVERSATION
        return f"In \u201c{one_line(chat.title, 40)}\u201d: "

    async def _put(self, view: QuestionView) -> str:
        context, self.view = self._context, view
        context.footer.asking = True
        self.show()
        try:
            # If mounting or removing is cancelled half-way, a widget is left that never ends.
            await uninterrupted(context.transcript.insert(view))
            context.screen.refresh_bindings()
            return await view.answer()
        finally:
            self.view = None
            context.footer.asking = False
            if context.screen.is_running:
                self.show()
            await uninterrupted(self._remove(view))

    async def _remove(self, view: QuestionView) -> None:
        screen = self._context.screen
        if screen.is_running and view.is_attached:
            if isinstance(screen.focused, ChoiceView):
                self._context.composer.prompt.focus()
            await view.remove()
            screen.refresh_bindings()


def question_view(question: Question, roster: CardsById) -> QuestionView:
    """Return what puts a question to the user."""
    if question.offer is not None:
        return OfferCard(question, question.offer)
    if question.plan is not None:
        from baton.tui.widgets.plan_card import PlanCard  # not before the first frame

        return PlanCard(question, question.plan, roster)
    return QuestionView(question)


class QuestionMirror(Vertical):
    """Puts the open question on a screen that covers the conversation, with the same choices."""

    class Changed(Message):
        """Another question is open now, or none."""

    def __init__(self, roster: CardsById) -> None:
        super().__init__()
        self._roster = roster
        self._original: QuestionView | None = None
        self.display = False

    def on_mount(self) -> None:
        """Show a question that waits already."""
        questions = getattr(self.app.screen_stack[0], "questions", None)
        self.show(questions.view if questions is not None else None)

    def show(self, original: QuestionView | None) -> None:
        """Show another question (None: none waits)."""
        if original is self._original:
            return
        self._original = original
        self.display = original is not None
        self.screen.set_class(original is not None, "-asking")
        self.run_worker(self._mount_copy(), exclusive=True)
        self.post_message(self.Changed())

    async def _mount_copy(self) -> None:
        await self.remove_children()
        if (original := self._original) is not None:
            copy = question_view(original.question, self._roster)
            await self.mount(copy)
            copy.attribute_to(original.whose)
        self.screen.refresh_bindings()

    def take_default(self) -> None:
        """Take the safe choice."""
        if self._original is not None:
            self._original.take_default()

    def on_question_view_decided(self, event: QuestionView.Decided) -> None:
        """Answer the question as the user did here."""
        event.stop()
        if self._original is not None:
            self._original.take_from(event.view)
