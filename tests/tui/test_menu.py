"""The one menu above the prompt, in the real app: `/`, `@`, Ctrl+P and choices."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from baton.core.messages import Chunk, Request, Text
from baton.tui.menu_entries import MenuEntry
from baton.tui.widgets.menu_view import MenuRows, MenuView
from support.app_session import AppSession, open_app


def say(request: Request) -> Iterable[Chunk]:
    yield Text(f"About {request.messages[-1].text}: nothing much.")


def menu_of(session: AppSession) -> MenuView:
    return session.app.chat.context.menu


def names(session: AppSession) -> list[str]:
    rows = menu_of(session).query_one(MenuRows).rows
    return [row.name for row in rows if isinstance(row, MenuEntry)]


async def opened(session: AppSession, *keys: str) -> None:
    await session.press(*keys)
    await session.wait_until(lambda: menu_of(session).is_open)


async def test_everything_is_found_and_done(tmp_path: Path) -> None:
    async with open_app(tmp_path, say) as session:
        await opened(session, "ctrl+p")
        assert "Ctrl+N" in session.screen_text()
        assert "Conversation" in session.screen_text()
        await session.press(*"exit")
        assert names(session)[0] == "/quit"
        assert "Ctrl+Q" in session.screen_text()
        await session.press(*["backspace"] * 4, *"money", "enter")
        await session.wait_until(lambda: type(session.app.screen).__name__ == "MoneyScreen")
        assert not menu_of(session).is_open
