"""What covers the conversation: finding, deleting, models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from baton.core.messages import Chunk, Request, Text
from baton.tui.screens import conversations_screen
from support.app_session import AppSession, open_app


def say(request: Request) -> Iterable[Chunk]:
    yield Text(f"About {request.messages[-1].text}: nothing much.")


async def open_conversations(session: AppSession, *prompts: str) -> None:
    for prompt in prompts:
        await session.press("ctrl+n")
        await session.wait_until(lambda: not session.chat.transcript.turns)
        await session.ask(prompt)


async def to_conversations(session: AppSession) -> None:
    await session.press("ctrl+s")
    await session.wait_until(lambda: session.screen_name == "ConversationsScreen")
    await session.wait_until(lambda: "conversations" in session.screen_text().splitlines()[-1])


async def test_search_finds_the_line_and_opens_there(tmp_path: Path) -> None:
    async with open_app(tmp_path, say) as session:
        await open_conversations(session, "herons in Lisbon", "castles", "gardens")
        await to_conversations(session)
        lines = session.screen_text().splitlines()
        assert [n for n in ("gardens", "castles", "herons") if any(n in line for line in lines)]
        await session.press(*"heron")
        await session.wait_until(lambda: "2 matches" in session.screen_text())
        assert "castles" not in session.screen_text()
        await session.press("down", "enter")
        await session.wait_until(
            lambda: "herons in Lisbon" in session.screen_text().splitlines()[0]
        )
        assert session.chat.transcript.turns[0].text == "herons in Lisbon"


async def test_matches_stand_under_their_conversation(tmp_path: Path) -> None:
    async with open_app(tmp_path, say) as session:
        await open_conversations(session, "herons in Lisbon", "castles")
        await session.ask("and herons")
        await to_conversations(session)
        await session.press(*"heron")
        await session.wait_until(lambda: "4 matches" in session.screen_text())
        lines = [line.strip() for line in session.screen_text().splitlines()]
        titles = [line.split("  ")[0] for line in lines if line.endswith("2 matches")]
        assert titles == ["castles", "herons in Lisbon"]
        heads = [lines.index(line) for line in lines if line.endswith("2 matches")]
        assert heads[1] == heads[0] + 3
        answer, prompt = lines[heads[0] + 1 : heads[0] + 3]
        assert answer.endswith("SmolLM2 135M  About and herons: nothing much.")
        assert prompt.endswith("you  and herons")
        assert lines[-1].startswith("4 matches")
        await session.press("down", "enter")
        await session.wait_until(lambda: "castles" in session.screen_text().splitlines()[0])


async def test_every_conversation_and_every_match_can_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations_screen, "FIRST_ROWS", 2)
    async with open_app(tmp_path, say) as session:
        prompts = [f"heron number {number}" for number in range(5)]
        await open_conversations(session, *prompts)
        await to_conversations(session)
        assert "the newest 2 conversations" in session.screen_text()
        await go_down_until(session, "5 conversations")
        assert "heron number 0" in session.screen_text()
        await session.press(*"heron")
        await session.wait_until(lambda: "the newest 2 matches" in session.screen_text())
        await go_down_until(session, "10 matches")
        await session.press("pagedown", "pagedown", "enter")
        await session.wait_until(lambda: "heron number 0" in session.screen_text().splitlines()[0])


async def go_down_until(session: AppSession, status: str) -> None:
    """Go down step by step until the last line begins with that."""
    for _ in range(60):
        if session.screen_text().splitlines()[-1].strip().startswith(status):
            return
        await session.press("down")
        await session.settled()
    raise AssertionError(session.screen_text())


async def test_a_deleted_conversation_is_kept_for_a_day(tmp_path: Path) -> None:
    async with open_app(tmp_path, say) as session:
        await open_conversations(session, "alpha", "beta")
        await to_conversations(session)
        await session.press("ctrl+d")
        await session.wait_until(
            lambda: "1 conversation" in session.screen_text() or "deleted" in session.screen_text()
        )
        assert [c.title for c in await session.services.store.conversations()] == ["alpha"]
        await session.press("ctrl+z")
        await session.wait_until(lambda: "brought back" in session.screen_text())
        assert len(await session.services.store.conversations()) == 2
        await session.press("ctrl+d")
        await session.wait_until(lambda: "deleted" in session.screen_text())
        await session.press("escape")
        await session.wait_until(lambda: session.screen_name == "ChatScreen")
        assert [c.title for c in await session.services.store.conversations()] == ["alpha"]
        assert await session.services.store.purge_hidden() == 1, "leaving the list removes nothing"
        await session.wait_until(lambda: not session.chat.transcript.turns)


async def test_renaming_in_the_list(tmp_path: Path) -> None:
    async with open_app(tmp_path, say) as session:
        await open_conversations(session, "alpha", "beta")
        await to_conversations(session)
        await session.press("ctrl+r")
        await session.wait_until(lambda: session.screen_name == "RenameScreen")
        await session.press("ctrl+u", *"gamma", "enter")
        await session.wait_until(lambda: "gamma" in session.screen_text())


async def test_choosing_a_model(tmp_path: Path) -> None:
    def strong(request: Request) -> Iterable[Chunk]:
        yield Text("strong")

    async with open_app(tmp_path, say, strong) as session:
        await session.press("ctrl+l")
        await session.wait_until(lambda: session.screen_name == "ModelsScreen")
        assert "answers now" in session.screen_text()
        assert (
            "SmolLM2 135M · small · 98.0 MB · Apache-2.0 · 4,096 tokens · CPU"
            in session.screen_text()
        )
        await session.press("down", "enter")
        await session.wait_until(lambda: session.screen_name == "ChatScreen")
        await session.ask("hello")
        assert "strong" in session.screen_text()


@pytest.mark.sampled
@pytest.mark.parametrize("theme", ["light", "high-contrast", "nord"])
async def test_themes_can_be_chosen_in_the_menu(tmp_path: Path, theme: str) -> None:
    async with open_app(tmp_path, say) as session:
        await session.press("ctrl+p", *"color", "enter")
        await session.wait_for_text("Theme", "> dark")
        await session.press(*theme[:5], "enter")
        await session.wait_until(lambda: session.app.theme == theme)
        await session.wait_until((tmp_path / "config.toml").exists)
        assert f'theme = "{theme}"' in (tmp_path / "config.toml").read_text("utf-8")
