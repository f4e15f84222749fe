"""What the screen says, and that one thing has one name on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.errors import WorkerUnavailable
from baton.core.labels import Label
from baton.core.messages import Card, Chunk, Prompt, Request, Text, TurnStatus
from baton.core.ports import NEW
from baton.history import Store
from baton.presentation.run_story import worker_name
from baton.tui.chat.runs import RunController
from support.app_library import TALKER, new_library_setup, open_app_with_library
from support.app_session import CARD, AppSession, open_app


def fails(request: Request) -> Iterable[Chunk]:
    yield Text("Here is")
    raise WorkerUnavailable("The worker died.", "Send it again.")


def footer(session: AppSession) -> str:
    return session.screen_text().splitlines()[-1]


async def lose(path: Path, text: str) -> str:
    """Leave an answer behind whose Baton was killed; return its conversation."""
    store = Store(path)
    begun = await store.begin(Prompt("Tell me of herons"), NEW, Label.CLOUD)
    await store.write(begun.answer, text, TurnStatus.LOST, "small")
    await store.aclose()
    return begun.conversation


async def test_a_worker_has_its_name_everywhere(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        assert footer(session).strip().startswith("SmolLM2 135M ")
        assert "Esc select" in footer(session)
        await session.ask("hello")
        await session.wait_for_text("Baton · SmolLM2 135M ·")
        assert footer(session).strip().startswith("SmolLM2 135M · finished in")
        await session.send("/why")
        await session.wait_for_text("SmolLM2 135M (local) answered.")


def test_workers_of_one_name_are_called_by_their_ids_too() -> None:
    cards = {id: replace(CARD, id=id, name="nice") for id in ("home", "away")} | {"small": CARD}
    names = [worker_name(worker, cards) for worker in ("home", "away", "small", "gone")]
    assert names == ["home (nice)", "away (nice)", CARD.name, "gone"]


async def test_how_the_last_answer_went_is_over_in_a_new_conversation(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.ask("hello")
        assert "finished in" in footer(session)
        await session.press("ctrl+n")
        await session.wait_until(lambda: "finished in" not in footer(session))
        assert "SmolLM2 135M" in footer(session)


async def test_a_failure_is_not_hidden_by_a_download(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path, fails) as session:
        queue = session.chat.downloads.queue
        assert queue is not None
        queue.fetch(library_setup.put(TALKER, here=False))
        await session.wait_until(lambda: "downloading" in footer(session))
        await session.ask("hello")
        assert "SmolLM2 135M · failed" in footer(session)


async def test_a_file_that_is_not_there_stops_a_prompt_once(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.press(*"see @nofile.txt")
        await session.wait_for_text("There is no file nofile.txt.")
        await session.press("enter")
        await session.wait_for_text("Enter sends your prompt without it.")
        assert session.chat.transcript.turns == []
        assert session.chat.composer.text == "see @nofile.txt"
        await session.press("enter")
        await session.wait_until(lambda: session.chat.transcript.turns)
        await session.wait_for_answer()
        await session.send("see @nofile.txt")
        await session.wait_until(lambda: session.chat.composer.text == "see @nofile.txt")
        assert len(session.chat.transcript.turns) == 2, "another prompt stops as well"


async def test_an_edited_prompt_takes_the_files_that_it_names_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[int] = []

    def script(request: Request) -> Iterable[Chunk]:
        seen.append(request.messages[-1].text.count("three words here"))
        yield Text("read")

    (tmp_path / "b.txt").write_text("three words here")
    async with open_app(tmp_path, script) as session:
        await session.ask("see @b.txt, @./b.txt")
        session.chat.composer.edit(session.chat.transcript.turns[0])
        await session.press("enter")
        await session.wait_until(lambda: len(seen) == 2)
        assert seen == [1, 1]


async def test_a_file_that_is_not_text_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.bin").write_bytes(b"\0\1\2")
    (tmp_path / "b.txt").write_text("words")
    async with open_app(tmp_path) as session:
        session.chat.composer.prompt.insert("see @a.bin and @b.txt ")
        await session.wait_for_text("a.bin is not text.", "With b.txt (5 B")
        assert "With a.bin" not in session.screen_text()


async def test_on_an_answer_the_brackets_show_the_versions_of_its_prompt(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.ask("first")
        await session.press("escape", "e")
        session.chat.composer.put("second")
        await session.press("enter")
        await session.wait_until(lambda: session.chat.transcript.turns[0].text == "second")
        await session.wait_for_answer()
        await session.press("escape", "[")
        await session.wait_until(lambda: session.chat.transcript.turns[0].text == "first")
        await session.press("[")
        await session.wait_until(lambda: "there is no version before this one" in footer(session))


@pytest.mark.parametrize("text", ["A heron is", ""])
async def test_an_answer_lost_to_a_crash_can_be_continued(tmp_path: Path, text: str) -> None:
    conversation = await lose(tmp_path / "baton.db", text)
    store = Store(tmp_path / "baton.db")
    async with open_app(tmp_path, store=store, conversation=conversation) as session:
        await session.wait_for_text("the rest was lost. c continues from there; so does /continue.")
        await session.press("escape")
        await session.wait_until(lambda: "c continue" in footer(session))
        await session.press("c")
        await session.wait_until(lambda: session.chat.transcript.turns[-1].status == "done")
        asked = [turn.text for turn in session.chat.transcript.turns[::2]]
        assert asked == (["Tell me of herons", "Go on."] if text else ["Tell me of herons"])
    await store.aclose()


async def test_what_was_computed_is_not_computed_again_by_a_stronger_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = []
    async with open_app(tmp_path) as session:
        await session.ask("hello")
        turn = session.chat.transcript.turns[-1]
        tool = Card("calculator", "tool", "Calculator")
        roster = {**session.chat.context.roster, tool.id: tool}
        monkeypatch.setattr(type(session.chat.context), "roster", roster)
        monkeypatch.setattr(RunController, "send", lambda *_, **__: executed.append(1))
        view = session.chat.transcript.view_of(turn.id)
        assert view is not None
        view.turn = replace(turn, worker="calculator")
        await session.press("escape", "s")
        await session.wait_until(lambda: "this was computed, not written" in footer(session))
        assert not executed


async def test_alt_enter_begins_a_line(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.press("a", "alt+enter", "b")
        assert session.chat.composer.text == "a\nb"
        assert not session.chat.transcript.turns


async def test_a_download_that_stops_again_at_a_start_stays_out_of_the_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.downloads.GROUP_FAILURES_SECONDS", 0.01)
    library_setup = new_library_setup(tmp_path)
    error = WorkerUnavailable("The hub could not be reached.", "Try again.")
    library_setup.model_source.errors = {"talker-9b": error}
    held = library_setup.put(TALKER, here=False)
    async with open_app_with_library(library_setup, tmp_path) as session:
        await session.wait_until(
            lambda: "Talker 9B: download stopped; Ctrl+L shows why" in footer(session)
        )
        assert "could not be reached" not in session.screen_text()
        assert session.chat.downloads.queue is not None
        await session.chat.downloads.queue.resume(held.id)
        await session.wait_for_text("Talker 9B: download stopped. The hub could not be reached.")


async def test_going_online_says_when_is_asked(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.send("/offline on")
        await session.send("/offline off")
        await session.wait_for_text("Online. When to spend: ask each time.")
