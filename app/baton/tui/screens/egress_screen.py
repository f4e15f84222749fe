"""What left this machine: every request, to whom, when, for how much, and its exact bytes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from baton.core.errors import BatonError
from baton.core.ledger_types import Egress
from baton.core.sanitiser import one_line
from baton.tui import key_bindings
from baton.tui.money_text import charge_text
from baton.tui.screens.overlay import Overlay
from baton.tui.widgets.text_view import TextView

if TYPE_CHECKING:
    from baton.money import Ledger

GONE_TEXT = (
    "What was sent is not kept any more: its conversation was deleted, or kept no history. "
    "Its size and its hash stay."
)


class EgressScreen(Overlay[None]):
    """Lists what left, of one run or of all; Enter shows one request."""

    BINDINGS = key_bindings.EGRESS
    HEADING = "What left this machine"

    def __init__(self, ledger: Ledger, run: str | None = None) -> None:
        super().__init__()
        self._ledger = ledger
        self._run = run
        self._sent: list[Egress] = []

    def body(self) -> ComposeResult:
        """Lay out the list."""
        yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Find what was sent."""
        self._load()

    @work
    async def _load(self) -> None:
        try:
            self._sent = await self._ledger.egress(self._run)
        except BatonError as error:
            self.footer.say(str(error), 12)
            return
        if not self.is_open:
            return
        self.refresh_bindings()
        listing = self.query_one(OptionList)
        listing.add_options(Option(_egress_option(one)) for one in self._sent)
        listing.highlighted = 0 if self._sent else None
        count, size = len(self._sent), sum(one.size for one in self._sent)
        requests = f"{count} {'request' if count == 1 else 'requests'}"
        self.footer.status = f"{requests}, {size:,} bytes" if count else "nothing left yet"
        if count == 1 and self._run is not None:
            self.app.push_screen(SentScreen(self._sent[0]))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to show something only where there is something."""
        return bool(self._sent) if action == "open" else True

    def action_open(self) -> None:
        """Show what the cursor is on."""
        self.query_one(OptionList).action_select()

    @on(OptionList.OptionSelected)
    def _select(self, event: OptionList.OptionSelected) -> None:
        self.app.push_screen(SentScreen(self._sent[event.option_index]))


class SentScreen(Overlay[None]):
    """Shows one request as it left, keys removed."""

    HEADING = "What was sent"

    def __init__(self, sent: Egress) -> None:
        super().__init__()
        self._sent = sent

    def body(self) -> ComposeResult:
        """Lay out to whom and what."""
        sent = self._sent
        at = time.strftime("%d %b %Y %H:%M:%S", time.localtime(sent.at))
        facts = [at, one_line(sent.worker, 30), f"{sent.size:,} bytes"]
        money = charge_text(sent.status, sent.held, sent.charged)
        about = Content.assemble(
            (f"To {one_line(sent.destination, 80)}", "bold"),
            ("\n" + " · ".join([*facts, money]), "$muted"),
            (f"\nSHA-256 {one_line(sent.sha256)}", "$muted"),
        )
        yield Static(about, classes="about")
        body = GONE_TEXT if sent.body is None else sent.body.decode("utf-8", "replace")
        yield TextView(body, focusable=True)


def _egress_option(sent: Egress) -> Content:
    at = time.strftime("%d %b %H:%M", time.localtime(sent.at))
    money = charge_text(sent.status, sent.held, sent.charged)
    return Content.assemble(
        (one_line(sent.destination, 80), "bold"),
        (f"  {at}", "$muted"),
        f"\n{one_line(sent.worker, 30)} · {sent.size:,} bytes · {money}",
    )
