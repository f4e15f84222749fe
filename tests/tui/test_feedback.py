"""What a person says of answers and does with them is kept, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.selection import SELECT_ALL

from baton.core.errors import StoreError, WorkerError
from baton.core.feedback import Signal
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Chunk, Prompt, Request, Role, Text, TurnStatus
from baton.core.ports import ConversationPosition
from baton.core.routing_types import Candidate, RatedAnswer, RefitResult
from baton.history import Store
from baton.routing import LearnedVersions
from baton.routing.personalisation import Personaliser
from baton.tui.chat.feedback import LEARN_HINT_ANSWERS
from baton.tui.widgets.answer import AnswerView
from baton.tui.widgets.turn_view import TurnView
from baton.workers.scripted_worker import Script
from support.app_session import GPT, Stage, remote_script, staged


def say(request: Request) -> Iterable[Chunk]:
    """Answer with a block of code."""
    yield Text("Hello there.\n\n```\ncode\n```\n")


def slow(request: Request) -> Iterable[Chunk | float]:
    """Write for a long time."""
    for number in range(2000):
        yield Text(f"word{number} ")
        yield 0.01


async def kept(stage: Stage, conversation: str = "") -> list[set[Signal]]:
    """Return what is kept of each answer on the screen's branch."""
    await stage.app.workers.wait_for_complete()
    store = stage.services.store
    turns = await store.thread(conversation or stage.chat.context.chat.id or "")
    done = await store.feedback.signals([turn.id for turn in turns])
    return [set(done.get(turn.id, ())) for turn in turns if turn.role is Role.ASSISTANT]


def head(stage: Stage, number: int = -1) -> str:
    """Return the first line of an answer on the screen."""
    views = [view for view in stage.chat.transcript.views if view.turn.role is Role.ASSISTANT]
    return views[number]._head.left.plain


async def test_an_answer_is_marked_and_the_mark_is_taken_back(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("Hi")
        await stage.press("tab", "+")
        assert await kept(stage) == [{Signal.GOOD}]
        assert head(stage).endswith("· good")
        assert "marked as good" in stage.see()
        await stage.press("-")
        assert await kept(stage) == [{Signal.BAD}]
        assert head(stage).endswith("· bad")
        await stage.press("-")
        assert await kept(stage) == [set()]
        assert "bad" not in head(stage)
        assert "the mark is taken back" in stage.see()


async def test_a_mark_on_a_prompt_is_for_its_answer(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("first")
        await stage.ask("second")
        await stage.press("tab", "g", "+")
        assert await kept(stage) == [{Signal.GOOD}, set()]
        assert head(stage, 0).endswith("· good")


async def test_a_mark_is_there_again_when_the_conversation_is_opened(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("Hi")
        await stage.send("/good")
        assert await kept(stage) == [{Signal.GOOD}]
        id = stage.chat.context.chat.id
        await stage.press("ctrl+n")
        assert not stage.chat.transcript.turns
        await stage.chat.conversation.open(id)
        await stage.until(lambda: head(stage).endswith("· good"))
        await stage.send("/bad")
        assert await kept(stage) == [{Signal.BAD}]


async def test_there_is_nothing_to_mark_before_an_answer(tmp_path: Path) -> None:
    async with staged(tmp_path, slow) as stage:
        await stage.send("/good")
        assert "there is no message here yet" in stage.see()
        await stage.send("write")
        await stage.until(lambda: "word3" in stage.see())
        await stage.press("tab", "+")
        assert await kept(stage) == [set()]
        assert "still being written" in stage.see()
        await stage.press("escape")
        await stage.answered()
        await stage.press("y", "r")
        await stage.until(lambda: stage.chat.queue.is_busy)
        await stage.press("escape")
        await stage.answered()
        assert await kept(stage) == [set()], "what is done with half an answer says nothing"


async def test_the_letters_mean_nothing_in_the_prompt(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("Hi")
        await stage.press("+", "-")
        assert stage.chat.composer.text == "+-"
        assert await kept(stage) == [set()]


async def test_copies_of_an_answer_are_kept_those_of_a_prompt_not(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("Hi")
        await stage.press("tab", "k", "y", "u")
        assert await kept(stage) == [set()]
        await stage.press("j", "u")
        assert await kept(stage) == [{Signal.COPIED}]
        await stage.press("tab")
        await stage.ask("Hi again")
        await stage.press("tab", "y", "y", "y")
        assert await kept(stage) == [{Signal.COPIED}, {Signal.COPIED}]


async def test_a_copied_selection_is_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path, say) as stage:
        copied: list[str] = []
        monkeypatch.setattr(stage.app, "copy_to_clipboard", copied.append)
        await stage.ask("first")
        await stage.ask("second")
        stage.chat.selections = {stage.chat.query(AnswerView).first(): SELECT_ALL}
        await stage.press("ctrl+c")
        assert "Hello there." in copied[0]
        assert await kept(stage) == [{Signal.COPIED}, set()]
        [prompt, *_] = stage.chat.transcript.query(TurnView)
        stage.chat.selections = {prompt.query(".text").first(): SELECT_ALL}
        await stage.press("ctrl+c")
        assert copied[1:] == ["first"]
        assert await kept(stage) == [{Signal.COPIED}, set()]


async def test_asking_again_is_kept_with_the_answer_there_was(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("Hi")
        old = stage.chat.transcript.turns[-1].id
        await stage.press("tab", "r")
        await stage.until(lambda: stage.chat.transcript.turns[-1].id != old)
        await stage.answered()
        assert await kept(stage) == [set()]
        assert set((await stage.services.store.feedback.signals([old]))[old]) == {Signal.AGAIN}


async def test_asking_a_stronger_worker_is_kept_with_the_answer_there_was(tmp_path: Path) -> None:
    terms = {"policy": Policy.BUDGET}
    async with staged(tmp_path, say, cloud=remote_script("Better."), terms=terms) as stage:
        await stage.ask("Hi")
        old = stage.chat.transcript.turns[-1].id
        await stage.press("tab", "s")
        await stage.until(lambda: stage.chat.transcript.turns[-1].id != old)
        await stage.until(lambda: "Better." in stage.see())
        await stage.answered()
        assert stage.chat.transcript.turns[-1].worker == GPT.id
        assert await kept(stage) == [set()]
        assert set((await stage.services.store.feedback.signals([old]))[old]) == {Signal.STRONGER}


async def test_where_there_is_no_stronger_worker_nothing_was_asked(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("Hi")
        await stage.press("tab", "s")
        assert await kept(stage) == [set()]


async def test_an_edited_prompt_is_kept_with_its_answer_once_it_is_sent(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("Hi")
        old = stage.chat.transcript.turns[-1].id
        await stage.press("tab", "e", "escape")
        assert await kept(stage) == [set()], "it was left as it was"
        await stage.press("tab", "e", "!")
        await stage.ask("")
        assert [t.text for t in stage.chat.transcript.turns if t.role is Role.USER] == ["Hi!"]
        assert set((await stage.services.store.feedback.signals([old]))[old]) == {Signal.EDITED}


async def test_a_store_that_takes_nothing_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("Hi")

        async def full(*_: object) -> None:
            raise StoreError("The disk is full.", "Make room.")

        monkeypatch.setattr(stage.services.store.feedback, "add_signal", full)
        monkeypatch.setattr(stage.services.store.feedback, "rate", full)
        await stage.press("tab", "y", "+")
        await stage.until(lambda: "The disk is full." in stage.see())
        assert "good" not in head(stage)


# Learning from it


async def teach(rated: Sequence[RatedAnswer], target: Path) -> RefitResult:
    """Learn something from any answers."""
    await asyncio.to_thread(target.write_text, "numbers")
    return RefitResult(len(rated), 3, 0.2, 0.18, True, ("It trusts small more.",))


@asynccontextmanager
async def taught(tmp_path: Path, *scripts: Script) -> AsyncIterator[Stage]:
    """Open the app with something that learns."""
    store, versions = Store.open(None), LearnedVersions(tmp_path / "router" / "learned.npz")
    tutor = Personaliser(store.feedback, lambda: [Candidate("small")], teach, versions)
    async with staged(tmp_path, *scripts, store=store, tutor=lambda: tutor) as stage:
        yield stage
    await store.aclose()


async def judged(store: Store, count: int) -> None:
    """Have so many good answers in the history."""
    for number in range(count):
        begun = await store.begin(Prompt(f"Question {number}"), ConversationPosition(), Label.CLOUD)
        await store.write(begun.answer, "Answer", TurnStatus.DONE, "small")
        await store.feedback.rate(begun.answer, Signal.GOOD)


async def test_learning_says_what_came_of_it_and_is_taken_back(tmp_path: Path) -> None:
    async with taught(tmp_path, say) as stage:
        await stage.send("/learn")
        await stage.until(lambda: "There is no answer to learn from yet." in stage.see())
        await judged(stage.services.store, 12)
        await stage.send("/learn")
        await stage.until(lambda: "It trusts small more." in stage.see())
        assert "There are 12 answers to learn from: 12 you marked good." in stage.see()
        assert "/learn undo takes that back." in stage.see()
        await stage.until(lambda: "learning from your answers" not in stage.see())
        await stage.send("/learn undo")
        await stage.until(lambda: "What was learned is undone." in stage.see())
        await stage.send("/learn forget")
        await stage.until(lambda: "There is nothing to forget" in stage.see())
        await stage.send("/learn everything")
        await stage.until(lambda: "/learn everything is not understood." in stage.see())


async def test_now_and_then_a_mark_says_what_it_is_good_for(tmp_path: Path) -> None:
    async with taught(tmp_path, say) as stage:
        await judged(stage.services.store, LEARN_HINT_ANSWERS - 2)
        hint = f"{LEARN_HINT_ANSWERS} new: /learn learns from them"
        for text in ("marked as good ", f"marked as good · {hint}"):
            await stage.ask("Hi")
            await stage.press("tab", "+")
            assert text in stage.see()
            await stage.press("tab")


async def test_a_fall_while_learning_is_said(tmp_path: Path) -> None:
    async def fall(rated: Sequence[RatedAnswer], target: Path) -> RefitResult:
        raise WorkerError("The router failed while it was learning. Nothing was changed.")

    store, versions = Store.open(None), LearnedVersions(tmp_path / "router" / "learned.npz")
    tutor = Personaliser(store.feedback, lambda: [Candidate("small")], fall, versions)
    async with staged(tmp_path, say, store=store, tutor=lambda: tutor) as stage:
        await judged(store, 12)
        await stage.send("/learn")
        await stage.until(lambda: "The router failed" in stage.see())
        await stage.until(lambda: "learning from your answers" not in stage.see())
    await store.aclose()
