"""What a user says of answers and does with them is kept, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.selection import SELECT_ALL

from baton.core.errors import StoreError
from baton.core.history_types import Signal
from baton.core.ledger_types import Policy
from baton.core.messages import Role
from baton.tui.widgets.answer import AnswerView
from baton.tui.widgets.turn_view import TurnView
from support.app_session import GPT, AppSession, open_app, remote_script, saying, slow

SAY = saying("Hello there.\n\n```\ncode\n```\n")


async def stored_signals(session: AppSession, conversation: str = "") -> list[set[Signal]]:
    """Return what is kept of each answer on the screen's branch."""
    await session.settled()
    store = session.services.store
    turns = await store.thread(conversation or session.chat.context.chat.id or "")
    done = await store.feedback.signals([turn.id for turn in turns])
    return [set(done.get(turn.id, ())) for turn in turns if turn.role is Role.ASSISTANT]


def head(session: AppSession, number: int = -1) -> str:
    """Return the first line of an answer on the screen."""
    views = [view for view in session.chat.transcript.views if view.turn.role is Role.ASSISTANT]
    return views[number]._head.left.plain


async def test_an_answer_is_marked_and_the_mark_is_taken_back(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("Hi")
        await session.press("tab", "+")
        assert await stored_signals(session) == [{Signal.GOOD}]
        assert head(session).endswith("· good")
        assert "marked as good" in session.screen_text()
        await session.press("-")
        assert await stored_signals(session) == [{Signal.BAD}]
        assert head(session).endswith("· bad")
        await session.press("-")
        assert await stored_signals(session) == [set()]
        assert "bad" not in head(session)
        assert "the mark is taken back" in session.screen_text()


async def test_a_mark_on_a_prompt_is_for_its_answer(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("first")
        await session.ask("second")
        await session.press("tab", "g", "+")
        assert await stored_signals(session) == [{Signal.GOOD}, set()]
        assert head(session, 0).endswith("· good")


async def test_a_mark_is_there_again_when_the_conversation_is_opened(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("Hi")
        await session.send("/good")
        assert await stored_signals(session) == [{Signal.GOOD}]
        id = session.chat.context.chat.id
        await session.press("ctrl+n")
        assert not session.chat.transcript.turns
        await session.chat.conversation.open(id)
        await session.wait_until(lambda: head(session).endswith("· good"))
        await session.send("/bad")
        assert await stored_signals(session) == [{Signal.BAD}]


async def test_there_is_nothing_to_mark_before_an_answer(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow) as session:
        await session.send("/good")
        assert "there is no message here yet" in session.screen_text()
        await session.send("write")
        await session.wait_until(lambda: "word3" in session.screen_text())
        await session.press("tab", "+")
        assert await stored_signals(session) == [set()]
        assert "still being written" in session.screen_text()
        await session.press("escape")
        await session.wait_for_answer()
        await session.press("y", "r")
        await session.wait_until(lambda: session.chat.queue.is_busy)
        await session.press("escape")
        await session.wait_for_answer()
        assert await stored_signals(session) == [set()], (
            "what is done with half an answer says nothing"
        )


async def test_the_letters_mean_nothing_in_the_prompt(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("Hi")
        await session.press("+", "-")
        assert session.chat.composer.text == "+-"
        assert await stored_signals(session) == [set()]


async def test_copies_of_an_answer_are_kept_those_of_a_prompt_not(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("Hi")
        await session.press("tab", "k", "y", "u")
        assert await stored_signals(session) == [set()]
        await session.press("j", "u")
        assert await stored_signals(session) == [{Signal.COPIED}]
        await session.press("tab")
        await session.ask("Hi again")
        await session.press("tab", "y", "y", "y")
        assert await stored_signals(session) == [{Signal.COPIED}, {Signal.COPIED}]


async def test_a_copied_selection_is_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(tmp_path, SAY) as session:
        copied: list[str] = []
        monkeypatch.setattr(session.app, "copy_to_clipboard", copied.append)
        await session.ask("first")
        await session.ask("second")
        session.chat.selections = {session.chat.query(AnswerView).first(): SELECT_ALL}
        await session.press("ctrl+c")
        assert "Hello there." in copied[0]
        assert await stored_signals(session) == [{Signal.COPIED}, set()]
        [prompt, *_] = session.chat.transcript.query(TurnView)
        session.chat.selections = {prompt.query(".text").first(): SELECT_ALL}
        await session.press("ctrl+c")
        assert copied[1:] == ["first"]
        assert await stored_signals(session) == [{Signal.COPIED}, set()]


async def test_asking_again_is_kept_with_the_answer_there_was(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("Hi")
        old = session.chat.transcript.turns[-1].id
        await session.press("tab", "r")
        await session.wait_until(lambda: session.chat.transcript.turns[-1].id != old)
        await session.wait_for_answer()
        assert await stored_signals(session) == [set()]
        assert set((await session.services.store.feedback.signals([old]))[old]) == {Signal.AGAIN}


async def test_asking_a_stronger_worker_is_kept_with_the_answer_there_was(tmp_path: Path) -> None:
    terms = {"policy": Policy.BUDGET}
    async with open_app(tmp_path, SAY, cloud=remote_script("Better."), terms=terms) as session:
        await session.ask("Hi")
        old = session.chat.transcript.turns[-1].id
        await session.press("tab", "s")
        await session.wait_until(lambda: session.chat.transcript.turns[-1].id != old)
        await session.wait_until(lambda: "Better." in session.screen_text())
        await session.wait_for_answer()
        assert session.chat.transcript.turns[-1].worker == GPT.id
        assert await stored_signals(session) == [set()]
        assert set((await session.services.store.feedback.signals([old]))[old]) == {Signal.STRONGER}


async def test_where_there_is_no_stronger_worker_nothing_was_asked(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("Hi")
        await session.press("tab", "s")
        assert await stored_signals(session) == [set()]


async def test_an_edited_prompt_is_kept_with_its_answer_once_it_is_sent(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("Hi")
        old = session.chat.transcript.turns[-1].id
        await session.press("tab", "e", "escape")
        assert await stored_signals(session) == [set()], "it was left as it was"
        await session.press("tab", "e", "!")
        await session.ask("")
        assert [t.text for t in session.chat.transcript.turns if t.role is Role.USER] == ["Hi!"]
        assert set((await session.services.store.feedback.signals([old]))[old]) == {Signal.EDITED}


async def test_a_store_that_takes_nothing_is_not_an_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("Hi")

        async def full(*_: object) -> None:
            raise StoreError("The disk is full.", "Make room.")

        monkeypatch.setattr(session.services.store.feedback, "add_signal", full)
        monkeypatch.setattr(session.services.store.feedback, "rate", full)
        await session.press("tab", "y", "+")
        await session.wait_until(lambda: "The disk is full." in session.screen_text())
        assert "good" not in head(session)
