"""What lies over the conversation: finding, deleting, models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from baton.core.messages import Chunk, Request, Text
from support.app_session import Stage, staged


def say(request: Request) -> Iterable[Chunk]:
    yield Text(f"About {request.messages[-1].text}: nothing much.")


async def opened(stage: Stage, *prompts: str) -> None:
    for prompt in prompts:
        await stage.press("ctrl+n")
        await stage.until(lambda: not stage.chat.transcript.turns)
        await stage.ask(prompt)


async def to_conversations(stage: Stage) -> None:
    await stage.press("ctrl+s")
    await stage.until(lambda: type(stage.app.screen).__name__ == "ConversationsScreen")
    await stage.until(lambda: "conversations" in stage.see().splitlines()[-1])


async def test_search_finds_the_line_and_opens_there(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await opened(stage, "herons in Lisbon", "castles", "gardens")
        await to_conversations(stage)
        lines = stage.see().splitlines()
        assert [n for n in ("gardens", "castles", "herons") if any(n in line for line in lines)]
        await stage.press(*"heron")
        await stage.until(lambda: "2 matches" in stage.see())
        assert "castles" not in stage.see()
        await stage.press("down", "enter")
        await stage.until(lambda: "herons in Lisbon" in stage.see().splitlines()[0])
        assert stage.chat.transcript.turns[0].text == "herons in Lisbon"


async def test_a_deleted_conversation_is_kept_for_a_day(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await opened(stage, "alpha", "beta")
        await to_conversations(stage)
        await stage.press("ctrl+d")
        await stage.until(lambda: "1 conversation" in stage.see() or "deleted" in stage.see())
        assert [c.title for c in await stage.services.store.conversations()] == ["alpha"]
        await stage.press("ctrl+z")
        await stage.until(lambda: "brought back" in stage.see())
        assert len(await stage.services.store.conversations()) == 2
        await stage.press("ctrl+d")
        await stage.until(lambda: "deleted" in stage.see())
        await stage.press("escape")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ChatScreen")
        assert [c.title for c in await stage.services.store.conversations()] == ["alpha"]
        assert await stage.services.store.purge_hidden() == 1, "leaving the list removes nothing"
        await stage.until(lambda: not stage.chat.transcript.turns)


async def test_renaming_in_the_list(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await opened(stage, "alpha", "beta")
        await to_conversations(stage)
        await stage.press("ctrl+r")
        await stage.until(lambda: type(stage.app.screen).__name__ == "RenameScreen")
        await stage.press("ctrl+u", *"gamma", "enter")
        await stage.until(lambda: "gamma" in stage.see())


async def test_choosing_a_model(tmp_path: Path) -> None:
    def strong(request: Request) -> Iterable[Chunk]:
        yield Text("strong")

    async with staged(tmp_path, say, strong) as stage:
        await stage.press("ctrl+l")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ModelsScreen")
        assert "answers now" in stage.see()
        assert "SmolLM2 135M · small · 98.0 MB · Apache-2.0 · 4,096 tokens · CPU" in stage.see()
        await stage.press("down", "enter")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ChatScreen")
        await stage.ask("hello")
        assert "strong" in stage.see()


@pytest.mark.sampled
@pytest.mark.parametrize("theme", ["dark", "light", "high-contrast"])
async def test_looks_can_be_chosen_in_the_palette(tmp_path: Path, theme: str) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.press("ctrl+p")
        await stage.until(lambda: type(stage.app.screen).__name__ == "Palette")
        await stage.press(*f"look {theme}".replace("-", " "))
        await stage.pilot.pause(0.5)
        await stage.press("enter")
        await stage.until(lambda: stage.app.theme == theme)
