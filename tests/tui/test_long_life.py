"""An app that stands open for long keeps no more than what it shows."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from baton.tui.widgets.transcript import MAX_TURNS, Notice
from support.app_session import AppSession, open_app, saying


async def have_conversation(session: AppSession) -> str:
    await session.press("ctrl+n")
    await session.ask("Say something")
    assert session.chat.context.chat.id is not None
    return session.chat.context.chat.id


async def visit(session: AppSession, *conversations: str) -> None:
    for conversation in conversations:
        await session.chat.conversation.open(conversation)
        await session.settled()


async def test_nothing_stays_of_a_conversation_that_was_left(tmp_path: Path) -> None:
    """Neither its widgets, nor the lines that Textual drew of them."""
    async with open_app(tmp_path, saying("An *answer*.")) as session:
        first, second = await have_conversation(session), await have_conversation(session)
        await visit(session, first)
        views = session.chat.transcript.views
        left = [weakref.ref(part) for view in views for part in (view, view._styles_cache)]
        del views
        await visit(session, second, first, second)
        assert len(left) == 4
        assert [ref() for ref in left] == [None] * 4


async def test_visits_leave_nothing_behind(tmp_path: Path) -> None:
    async with open_app(tmp_path, saying("An *answer*.")) as session:
        first, second = await have_conversation(session), await have_conversation(session)
        await visit(session, *[first, second] * 4)
        before = gc.get_freeze_count()
        await visit(session, *[first, second] * 4)
        assert gc.get_freeze_count() < before * 1.02


async def test_a_conversation_that_continues_shows_its_newest_turns(tmp_path: Path) -> None:
    async with open_app(tmp_path, saying("Yes.")) as session:
        transcript = session.chat.transcript
        for number in range(MAX_TURNS // 2 + 4):
            await session.ask(f"Question {number}")
            if number in (0, MAX_TURNS // 2 + 3):
                await transcript.note(f"After question {number}.")
        assert len(transcript.turns) == MAX_TURNS + 8
        assert [view.turn.id for view in transcript.views] == [
            turn.id for turn in transcript.turns[8:]
        ]
        notices = [notice.text for notice in transcript.query(Notice)]
        assert notices == [f"After question {MAX_TURNS // 2 + 3}."]
        assert f"Question {MAX_TURNS // 2 + 3}" in session.screen_text()
        await session.press("tab", "g")  # the earlier ones are still there
        await session.wait_for_text("Question 0")
        await session.press("G")
        await session.ask("And now?")
        await session.wait_for_text("And now?")
