"""The header names the conversation at every width; what stands beside it is worded to fit."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from baton.tui.themes import DARK
from baton.tui.widgets.status_lines import Header

TITLE = "Three days in Lisbon with two children"
POLICY = (("local first", "screen.mode"), ("conductor", "screen.strategy"), ("plan first", ""))
MONEY = ("$0.24 of $2.00 · $0.18 unconfirmed", "$0.24/2.00")


class HeaderApp(App[None]):
    """Shows nothing but a header."""

    def compose(self) -> ComposeResult:
        """Lay it out with Baton's colours."""
        self.register_theme(DARK)
        self.theme = DARK.name
        yield Header()


async def header_at(columns: int, **set_to: object) -> str:
    """Return the header as it is read at that width, its blanks in one."""
    app = HeaderApp()
    async with app.run_test(size=(columns, 3)) as pilot:
        header = app.query_one(Header)
        for name, value in {"title": TITLE, "policy": POLICY, "money": MONEY, **set_to}.items():
            setattr(header, name, value)
        await pilot.pause()
        return " ".join(header.render_line(0).text.split())


@pytest.mark.parametrize(
    ("columns", "read"),
    [
        (140, f"baton {TITLE} local first · conductor · plan first · context 5 % · {MONEY[0]}"),
        (
            100,
            "baton Three days in Lisbon with … "
            "local first · conductor · plan first · context 5 % · $0.24/2.00",
        ),
        (80, "baton Three days in Lisbon with two children local first · 5 % · $0.24/2.00"),
        (60, "baton Three days in Lisbo… local first · 5 % · $0.24/2.00"),
    ],
)
async def test_the_title_is_kept_at_every_width(columns: int, read: str) -> None:
    assert await header_at(columns, context=0.05) == read


async def test_what_was_unknown_leaves_no_gap() -> None:
    assert await header_at(80, policy=(), money=()) == f"baton {TITLE}"
    assert await header_at(80, title="Tea", money=()) == (
        "baton Tea local first · conductor · plan first"
    )


async def test_that_the_cloud_is_frozen_or_off_shows_at_every_width() -> None:
    narrow = await header_at(60, money=("cloud frozen",), offline=True, context=0.5)
    assert narrow.endswith("offline · local first · 50 % · cloud frozen")
