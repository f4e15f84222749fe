"""A question to the person, in the conversation. It takes no focus, so typing can't answer it."""

from __future__ import annotations

import asyncio

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from baton.core.ports import Choice, Question
from baton.core.sanitiser import one_line, sanitise
from baton.tui import key_bindings
from baton.tui.answer_summary import CardsById


class ChoiceView(Static):
    """One answer that may be given."""

    BINDINGS = key_bindings.QUESTION
    can_focus = True

    class Chosen(Message):
        """The person decided."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    class Scrolling(Message):
        """The person wants to read on in the text that the question is about."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

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
        # At once, so that the next key of a quick hand reaches the choice that it is meant for.
        self.screen.set_focus(choices[(choices.index(self) + step) % len(choices)])

    def action_page(self, pages: int) -> None:
        """Read on, or back."""
        self.post_message(self.Scrolling(pages))


class QuestionView(Vertical):
    """Shows a question until it is answered; `answer` waits for that."""

    NOTE = "Tab chooses among them, Esc takes the first."

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question
        self.whose = ""
        self._title = Static(self.heading(), markup=False, classes="title")
        self.note = Static(self.NOTE, markup=False, classes="note")
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def compose(self) -> ComposeResult:
        """Lay out the question over its choices, the safe one first."""
        yield from self.body()
        default = self.question.default
        with Horizontal(classes="choices"):
            for choice in sorted(self.question.choices, key=lambda c: c.id != default):
                yield ChoiceView(choice)
        yield self.note

    def body(self) -> ComposeResult:
        """Lay out the question."""
        yield self._title

    def heading(self) -> Content:
        """Return the question as it stands above its choices."""
        return Content(sanitise(self.question.text))

    def attribute_to(self, whose: str) -> None:
        """Say which conversation it is from ("": the one on the screen)."""
        if whose != self.whose:
            self.whose = whose
            self._title.update(Content.assemble((whose, "bold"), self.heading()))

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
        self._take(self.question.default)

    def _take(self, choice: str) -> None:
        if not self._answer.done():
            self._answer.set_result(choice)


def question_view(question: Question, roster: CardsById) -> QuestionView:
    """Return what puts a question to the person."""
    if question.offer is not None:
        from baton.tui.widgets.offer_card import OfferCard

        return OfferCard(question, question.offer)
    if question.plan is not None:
        from baton.tui.widgets.plan_card import PlanCard

        return PlanCard(question, question.plan, roster)
    return QuestionView(question)


class QuestionLine(Static):
    """Shows the open question on other screens, and the key that leads to it."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.display = False

    def on_mount(self) -> None:
        """Show a question that waits already."""
        self.show(getattr(self.app.screen_stack[0], "question", ""))

    def show(self, question: str) -> None:
        """Show another question ("": none waits)."""
        key = key_bindings.binding_keys(key_bindings.BY_ID["app.answer"], self.app._keymap)
        self.update(f"{one_line(question)} {key} answers." if question else "")
        self.display = bool(question)
        self.screen.refresh_bindings()
