"""The card that puts a question to the person, and its copy on a screen over the conversation."""

from __future__ import annotations

from textual.containers import Vertical
from textual.message import Message

from baton.core.ports import Question
from baton.presentation.run_story import CardsById
from baton.tui.widgets.question_view import OfferCard, QuestionView


def question_view(question: Question, roster: CardsById) -> QuestionView:
    """Return what puts a question to the person."""
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
        """Answer the question as the person did here."""
        event.stop()
        if self._original is not None:
            self._original.take_from(event.view)
