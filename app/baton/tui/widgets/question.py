"""A question to the person, in the conversation. It takes no focus, so typing can't answer it."""

from __future__ import annotations

import asyncio

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from baton.domain.labels import Label
from baton.domain.sanitise import one_line, sanitise
from baton.engine.ports import Choice, Offer, Question
from baton.tui import keys, money
from baton.tui.widgets.plain import Plain


class ChoiceView(Static):
    """One answer that may be given."""

    BINDINGS = keys.QUESTION
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
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def compose(self) -> ComposeResult:
        """Lay out the question over its choices, the safe one first."""
        yield from self.body()
        default = self.question.default
        with Horizontal(classes="choices"):
            for choice in sorted(self.question.choices, key=lambda c: c.id != default):
                yield ChoiceView(choice)
        yield Static(self.NOTE, markup=False, classes="note")

    def body(self) -> ComposeResult:
        """Lay out the question."""
        yield Static(sanitise(self.question.text), markup=False, classes="text")

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


class OfferView(QuestionView):
    """Shows what would leave this machine, all of it, before it does; and what it could cost."""

    NOTE = "Tab, arrows, Enter choose; Esc takes the first."
    ROW = 84
    """From how many columns on the choices stand side by side."""

    def __init__(self, question: Question, offer: Offer) -> None:
        super().__init__(question)
        self._offer = offer
        self._text = Plain(offer.text)

    def body(self) -> ComposeResult:
        """Lay out price, reason, text and draft, in the order in which they matter."""
        offer = self._offer
        price = money.price_line(offer.most, offer.left, offer.scope)
        title = Content.assemble((one_line(self.question.text), "bold"), "   ", (price, "$accent"))
        yield Static(title, classes="title")
        yield _line("Why", offer.why)
        yield Static(_leaving(offer), markup=False)
        self._fit()
        yield self._text
        if offer.draft:
            yield _line("Local answer so far", one_line(offer.draft, 300))

    def on_resize(self, event: events.Resize) -> None:
        """Put the choices into two rows where they don't fit into one."""
        self.set_class(event.size.width < self.ROW, "-narrow")
        self._fit()

    def _fit(self) -> None:
        """Leave so much of the text in sight that all the rest of the card is, too."""
        self._text.styles.max_height = max(4, self.app.size.height // 4)
        self.call_after_refresh(self._tell_rest)

    def _tell_rest(self) -> None:
        """Say how much of the text is out of sight."""
        more = self._text.lines - self._text.size.height
        lines = "line" if more == 1 else "lines"
        rest = f" PgDn: {more:,} more {lines}." if more > 0 else ""
        self.query_one(".note", Static).update(self.NOTE + rest)

    def on_choice_view_scrolling(self, event: ChoiceView.Scrolling) -> None:
        """Show more of what would leave."""
        event.stop()
        page = max(1, self._text.size.height - 1)
        self._text.scroll_relative(y=event.pages * page, animate=False)


def ask_with(question: Question) -> QuestionView:
    """Return what puts a question to the person."""
    offer = question.offer
    return QuestionView(question) if offer is None else OfferView(question, offer)


def _line(name: str, text: str) -> Static:
    content = Content.assemble((f"{name}: ", "$muted"), one_line(text, 300))
    return Static(content, classes="line")


def _leaving(offer: Offer) -> str:
    things = sum(
        int(n) for n in (p.split()[0] for p in offer.hidden.split(", ") if p) if n.isdigit()
    )
    hidden = ""
    if offer.hidden:
        noun = "thing" if things == 1 else "things"
        hidden = f" ({things} {noun} hidden: {one_line(offer.hidden)})"
    card = offer.card
    whose = one_line(card.provider, 40)
    if card.kind != "cloud" or not whose:
        whose = "your network" if card.privacy is Label.LAN else "the cloud"
    return f"Leaves this machine for {whose}{hidden}:"
