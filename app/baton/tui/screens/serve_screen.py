"""Other programs that use Baton: where they find it, and what they ask."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from baton.core.sanitiser import one_line
from baton.presentation.served_requests import request_line, request_title
from baton.presentation.words import count_text
from baton.tui import key_bindings
from baton.tui.screens.overlay import Overlay
from baton.tui.services import OpenEndpoint

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
