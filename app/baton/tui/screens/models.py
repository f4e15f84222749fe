"""The workers there are, and choosing which one answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from baton.domain.chat import Card
from baton.domain.money import show_usd
from baton.domain.sanitise import one_line
from baton.tui import keys
from baton.tui.screens.overlay import Overlay
from baton.tui.widgets.turn import show_size

NOTHING_KNOWN: Mapping[str, str] = {}


class ModelsScreen(Overlay[str]):
    """Shows a card per worker and returns the id of the chosen one.

    `good` says by worker what it is good at.
    """

    BINDINGS = keys.MODELS
    HEADING = "Models"

    def __init__(
        self, roster: Sequence[Card], current: str, good: Mapping[str, str] = NOTHING_KNOWN
    ) -> None:
        super().__init__()
        self._roster = roster
        self._current = current
        self._good = good

    def body(self) -> ComposeResult:
        """Lay out the workers."""
        yield OptionList(
            *(
                Option(_describe(card, card.id == self._current, self._good.get(card.id, "")))
                for card in self._roster
            ),
            markup=False,
        )

    def on_mount(self) -> None:
        """Point at the worker that answers now."""
        ids = [card.id for card in self._roster]
        self.query_one(OptionList).highlighted = ids.index(self._current)
        total = sum(card.size for card in self._roster)
        count = len(ids)
        self.footer.status = f"{count} {'model' if count == 1 else 'models'}" + (
            f" · {show_size(total)} on disk" if total else ""
        )

    def action_choose(self) -> None:
        """Take the worker under the cursor."""
        self.query_one(OptionList).action_select()

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._roster[event.option_index].id)


def _describe(card: Card, current: bool, good: str) -> Content:
    where = {"local": "this machine", "lan": "this network", "cloud": "cloud"}[card.privacy.value]
    facts = [
        one_line(card.name, 40),
        where,
        _price(card),
        show_size(card.size) if card.size else "",
        f"{card.context:,} tokens" if card.context else "",
        one_line(card.hardware, 40),
        one_line(card.licence, 20),
    ]
    answers = " · answers now" if current else ""
    first = Content.assemble(
        (one_line(card.id, 30), "bold"),
        (answers, "$primary"),
        "\n",
        " · ".join(fact for fact in facts if fact),
    )
    told = f"{good[:1].upper()}{good[1:]}"
    more = "".join(f"\n{text}" for text in (told, one_line(card.note)) if text)
    return Content.assemble(first, (more, "$muted")) if more else first


def _price(card: Card) -> str:
    """Say what a worker elsewhere costs; those on this machine cost nothing and say nothing."""
    if not card.is_outside:
        return ""
    if card.price is None:
        return "price unknown: not asked until you enter one"
    if card.price.is_free:
        return "costs nothing"
    rates = card.price.rates
    return f"{show_usd(rates.input)} in, {show_usd(rates.output)} out per million tokens"
