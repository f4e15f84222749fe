"""Requests in both directions: those of other programs, and those that left this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from baton.core.ledger_types import Egress
from baton.core.sanitiser import one_line
from baton.presentation.served_requests import request_line, request_title
from baton.presentation.words import charge_text, count_text
from baton.tui import key_bindings
from baton.tui.chat.context import OpenEndpoint
from baton.tui.screens.overlay import Overlay
from baton.tui.widgets.text_widgets import TextView

if TYPE_CHECKING:
    from baton.money import Ledger


REFRESH_SECONDS = 0.5

MARGIN_CELLS = 6
"""How much narrower than the screen its list is."""

STOP = "stop"
"""What the screen is left with where serving is to be stopped."""


class ServeScreen(Overlay[str]):
    """Shows the endpoint's address and its requests, the newest first, as they come."""

    BINDINGS = key_bindings.SERVE
    HEADING = "Other programs"

    def __init__(self, endpoint: OpenEndpoint) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._shown: list[tuple[str, str]] = []

    def body(self) -> ComposeResult:
        """Lay out the address over the requests."""
        about = Content.assemble(
            ("Programs on this machine find Baton at ", "$muted"),
            (one_line(self._endpoint.url), "bold"),
            ("\nas the models baton/auto, baton/local, baton/mini and baton/ultra.", "$muted"),
            ("\nThey need the token; `baton serve --print-config NAME` sets one up.", "$muted"),
        )
        yield Static(about, classes="about")
        yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Show what there is, and what comes."""
        self._show()
        self.set_interval(REFRESH_SECONDS, self._show)

    def _show(self) -> None:
        requests = self._endpoint.requests[::-1]
        running = sum(not request.is_over for request in requests)
        served = f"{count_text(len(requests), 'request')}, {running} running"
        self.footer.status = served if requests else "no request yet"
        room = self.size.width - MARGIN_CELLS
        lines = [(request_title(one), request_line(one, room)) for one in requests]
        if lines == self._shown:
            return
        self._shown = lines
        listing = self.query_one(OptionList)
        at = listing.highlighted
        listing.set_options(
            Option(_request_option(title, line, one.failure))
            for (title, line), one in zip(lines, requests, strict=True)
        )
        listing.highlighted = (
            at if at is not None and at < len(requests) else 0 if requests else None
        )

    async def action_copy(self) -> None:
        """Copy the token of what is free."""
        await self.copy_text(self._endpoint.token, "the token for what is free")

    def action_stop(self) -> None:
        """Serve no more."""
        self.dismiss(STOP)


def _request_option(title: str, line: str, failure: str) -> Content:
    return Content.assemble((title, "bold"), (f"\n{line}", "$error" if failure else "$muted"))


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
        self._sent = await self._ledger.egress(self._run)
        if not self.is_open:
            return
        self.refresh_bindings()
        listing = self.query_one(OptionList)
        listing.add_options(Option(_egress_option(one)) for one in self._sent)
        listing.highlighted = 0 if self._sent else None
        count, size = len(self._sent), sum(one.size for one in self._sent)
        requests = count_text(count, "request")
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
        parts = [at, one_line(sent.worker, 30), f"{sent.size:,} bytes"]
        charged = charge_text(sent.status, sent.held, sent.charged)
        about = Content.assemble(
            (f"To {one_line(sent.destination, 80)}", "bold"),
            ("\n" + " · ".join([*parts, charged]), "$muted"),
            (f"\nSHA-256 {one_line(sent.sha256)}", "$muted"),
        )
        yield Static(about, classes="about")
        body = GONE_TEXT if sent.body is None else sent.body.decode("utf-8", "replace")
        yield TextView(body, focusable=True)


def _egress_option(sent: Egress) -> Content:
    at = time.strftime("%d %b %H:%M", time.localtime(sent.at))
    charged = charge_text(sent.status, sent.held, sent.charged)
    return Content.assemble(
        (one_line(sent.destination, 80), "bold"),
        (f"  {at}", "$muted"),
        f"\n{one_line(sent.worker, 30)} · {sent.size:,} bytes · {charged}",
    )
