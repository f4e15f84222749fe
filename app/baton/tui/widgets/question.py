"""A question to the person, in the conversation. It takes no focus, so typing can't answer it."""

from __future__ import annotations

import asyncio

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from baton.domain.sanitise import one_line, sanitise
from baton.engine.ports import Choice, Question
from baton.tui import keys


class ChoiceView(Static):
    """One answer that may be given."""

    BINDINGS = keys.QUESTION
    can_focus = True

    class Chosen(Message):
        """The person decided."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, choice: Choice) -> None:
        super().__init__(Content(f" {one_line(choice.label, 60)} "))
        self.choice = choice

    def on_click(self, event: events.Click) -> None:
        """Take this answer."""
        event.stop()
        self.action_choose()

    def action_choose(self) -> None:
        """Take this answer."""
        self.post_message(self.Chosen(self.choice))

    def action_step(self, step: int) -> None:
        """Go to the next answer."""
        choices = list(self.parent.query(ChoiceView)) if self.parent else [self]
        choices[(choices.index(self) + step) % len(choices)].focus()


class QuestionView(Vertical):
    """Shows a question until it is answered; `answer` waits for that."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def compose(self) -> ComposeResult:
        """Lay out the question over its choices, the safe one first."""
        yield Static(sanitise(self._question.text), markup=False, classes="text")
        default = self._question.default
        with Horizontal():
            for choice in sorted(self._question.choices, key=lambda c: c.id != default):
                yield ChoiceView(choice)
        yield Static("Tab chooses among them, Esc takes the first.", markup=False, classes="note")

    async def answer(self) -> str:
        """Wait for the person's choice."""
        return await self._answer

    def on_unmount(self) -> None:
        """Decide by default when the conversation was left without an answer."""
        self.take_default()

    def on_choice_view_chosen(self, event: ChoiceView.Chosen) -> None:
        """Pass the decision on."""
        event.stop()
        self._take(event.choice.id)

    def take_default(self) -> None:
        """Decide as if nobody were there."""
        self._take(self._question.default)

    def _take(self, choice: str) -> None:
        if not self._answer.done():
            self._answer.set_result(choice)
