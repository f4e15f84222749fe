"""The card before something leaves this machine: what, to whom, why, and for how much."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from baton.core.labels import Label
from baton.core.ports import CallOffer, Question
from baton.core.sanitiser import one_line
from baton.tui import money_text
from baton.tui.widgets.scrollable_question import ScrollableQuestion


class OfferCard(ScrollableQuestion):
    """Shows what would leave this machine, all of it, before it does; and what it could cost."""

    def __init__(self, question: Question, offer: CallOffer) -> None:
        self._offer = offer
        super().__init__(question, offer.text)

    def heading(self) -> Content:
        """Return the question with the price."""
        price = money_text.price_text(self._offer.most, self._offer.left, self._offer.scope)
        text = one_line(self.question.text)
        return Content.assemble((text, "bold"), "   ", (price, "$accent"))

    def body(self) -> ComposeResult:
        """Lay out price, reason, text and draft, in the order in which they matter."""
        offer = self._offer
        yield self._title
        yield _fact_line("Why", offer.why)
        yield Static(destination_text(offer), markup=False)
        yield self._text
        if offer.draft:
            yield _fact_line("Local answer so far", one_line(offer.draft, 300))


def _fact_line(name: str, text: str) -> Static:
    content = Content.assemble((f"{name}: ", "$muted"), one_line(text, 300))
    return Static(content, classes="line")


def destination_text(offer: CallOffer) -> str:
    """Say where the text would go, and what was hidden in it."""
    things = sum(
        int(n) for n in (p.split()[0] for p in offer.hidden.split(", ") if p) if n.isdigit()
    )
    hidden = ""
    if offer.hidden:
        noun = "thing" if things == 1 else "things"
        hidden = f" ({things} {noun} hidden: {one_line(offer.hidden)})"
    card = offer.card
    whose = one_line(card.address or card.provider, 80)
    if not card.address and (card.kind != "cloud" or not whose):
        whose = "your network" if card.privacy is Label.LAN else "the cloud"
    return f"Leaves this machine for {whose}{hidden}:"
