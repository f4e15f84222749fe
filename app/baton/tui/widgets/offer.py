"""The card before something leaves this machine: what, to whom, why, and for how much."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from baton.domain.labels import Label
from baton.domain.sanitise import one_line
from baton.engine.ports import Offer, Question
from baton.tui import money
from baton.tui.widgets.plain import Plain
from baton.tui.widgets.question import ChoiceView, QuestionView


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
