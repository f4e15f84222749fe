"""What surrounds a match is seen beside it, and a message of a conversation can be found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from baton.core.history_types import SearchHit
from baton.core.labels import Label
from baton.core.messages import Chunk, Prompt, Request, Role, Text
from baton.core.ports import ConversationPosition
from baton.tui.screens.conversations_screen import MAX_PREVIEW_BEFORE, surroundings
from support.app_session import AppSession, open_app

BEFORE = "Birds stand still for hours. " * 60


def long(request: Request) -> Iterable[Chunk]:
    yield Text(f"{BEFORE}\n\nThen the *{request.messages[-1].text}* flies.\nIt is gone.")


def hit(snippet: str, *spans: tuple[int, int]) -> SearchHit:
    return SearchHit("c", "title", "t", Role.USER, snippet, spans, 0.0)


def marked(content: object) -> list[str]:
    """Return what stands out in a text."""
    plain, spans = content.plain, content.spans  # type: ignore[attr-defined]
    return [plain[span.start : span.end] for span in spans]


async def search(session: AppSession, word: str) -> None:
    await session.press("ctrl+s")
    await session.wait_until(lambda: session.screen_name == "ConversationsScreen")
    await session.press(*word)
    await session.wait_until(lambda: "match" in session.screen_text().splitlines()[-1])


async def test_from_120_columns_the_text_around_a_match_stands_beside_it(tmp_path: Path) -> None:
    async with open_app(tmp_path, long, size=(120, 24)) as session:
        await session.ask("heron")
        await search(session, "heron")
        await session.wait_for_text("It is gone.")
        assert "…" in session.screen_text()
        assert "Then the *heron* flies." in session.screen_text()
        await session.press("down")
        await session.wait_until(lambda: "It is gone." not in session.screen_text())


async def test_enter_opens_what_the_words_before_it_find(tmp_path: Path) -> None:
    """Keys may be quicker than the search: neither a stale row nor none is opened."""
    async with open_app(tmp_path, long, size=(100, 24)) as session:
        await session.ask("heron")
        await session.press("ctrl+n")
        await session.ask("wren")
        await session.press("ctrl+s", *"heron", "enter")
        await session.wait_until(lambda: session.app.screen is session.chat)
        await session.wait_for_text("Then the heron flies.")
        await session.press("ctrl+s", "enter")
        await session.wait_until(lambda: session.app.screen is session.chat)
        await session.wait_for_text("Then the wren flies.")


async def test_below_that_and_without_words_there_is_no_preview(tmp_path: Path) -> None:
    async with open_app(tmp_path, long, size=(119, 24)) as session:
        await session.ask("heron")
        await search(session, "heron")
        assert "It is gone." not in session.screen_text()
    async with open_app(tmp_path, long, size=(120, 24)) as session:
        await session.ask("heron")
        await session.press("ctrl+s")
        await session.wait_until(lambda: "1 conversation" in session.screen_text())
        assert not session.app.screen.query_one("#preview").display


async def test_conversations_of_programs_stand_below_the_own_ones(tmp_path: Path) -> None:
    async with open_app(tmp_path, long, size=(100, 24)) as session:
        await session.ask("heron")
        place = ConversationPosition(program="Claude Code")
        store = session.app.chat.context.services.store
        await store.begin(Prompt("Fix it"), place, Label.CLOUD, "token")
        await session.press("ctrl+s")
        await session.wait_for_text("Of other programs")
        shown = [line.strip() for line in session.screen_text().splitlines()]
        at = {
            word: next(n for n, line in enumerate(shown) if word in line)
            for word in ("2 messages", "Of other programs", "Claude Code")
        }
        assert sorted(at, key=lambda word: at[word]) == list(at)
        await session.press("enter")
        await session.wait_until(lambda: session.app.screen is session.chat)
        await session.wait_for_text("Then the heron flies.")


def test_a_preview_begins_a_little_before_the_match_and_marks_every_one() -> None:
    text = f"{'x ' * 900}\nthe Heron, herons\nand a heron"
    shown = surroundings(text, hit("the Heron, herons", (4, 9), (11, 16)))
    assert shown.plain.startswith("…")
    assert len(shown.plain) < MAX_PREVIEW_BEFORE + 60
    assert marked(shown) == ["Heron", "heron", "heron"]


def test_a_preview_of_a_match_in_a_title_is_the_beginning() -> None:
    shown = surroundings("one two", hit("the title"))
    assert (shown.plain, marked(shown)) == ("one two", [])
    assert surroundings("a\x1b[2Jb", hit("b", (0, 1))).plain == "a�[2Jb"


async def test_find_lists_the_messages_and_goes_to_one(tmp_path: Path) -> None:
    async with open_app(tmp_path, long, size=(100, 24)) as session:
        for text in ("grey heron", "white heron", "castle"):
            await session.ask(text)
        await session.send("/find HERON grey")
        await session.wait_for_text("Messages with HERON grey")
        rows = [line for line in session.screen_text().splitlines() if "heron" in line]
        listed = [line for line in rows if "SmolLM2 135M  " in line or "You  " in line]
        assert ["You" in line for line in listed] == [False, True], "the newest first"
        await session.press("down", "enter")
        transcript = session.chat.transcript
        await session.wait_until(lambda: transcript.has_focus)
        await session.wait_until(lambda: transcript.selected is transcript.views[0])
        assert transcript.views[0].turn.text == "grey heron"
        await session.wait_for_text("grey heron")


async def test_find_says_what_it_did_not_find(tmp_path: Path) -> None:
    async with open_app(tmp_path, long) as session:
        await session.ask("heron")
        await session.send("/find heron castle")
        await session.wait_for_text("no message here has heron castle")
        await session.send("/find")
        await session.wait_for_text("/find and what it is to find")
        assert not session.chat.context.menu.is_open


async def test_signs_and_parts_of_words_are_found_in_the_app(tmp_path: Path) -> None:
    async with open_app(tmp_path, long, size=(100, 24)) as session:
        for text in ("项目评审会议", "Dampfschifffahrt mit C++", "a Café, c"):
            await session.ask(text)
        await session.press("ctrl+s", *"评审")
        await session.wait_until(lambda: "2 matches" in session.screen_text())
        await session.press("escape")
        await session.wait_until(lambda: session.app.screen is session.chat)
        await session.send("/find schiff c++")
        await session.wait_for_text("Messages with schiff c++")
        assert "Café" not in session.screen_text().split("Messages with")[1].splitlines()[1]
        await session.press("escape")
        await session.send("/find cafe")
        await session.wait_for_text("Messages with cafe")
