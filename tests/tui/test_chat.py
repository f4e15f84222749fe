"""The conversation as the user sees it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest
from textual import events

from baton.core.errors import ContextTooLong, WorkerUnavailable
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import (
    Chunk,
    Finish,
    Loading,
    Prompt,
    Reading,
    Request,
    RequestSent,
    Role,
    Text,
    TurnStatus,
    Usage,
    Writing,
)
from baton.core.permissions import PromptLimits
from baton.core.ports import ConversationPosition
from baton.history import Store
from baton.tui.chat.conversation import ConversationController
from baton.tui.chat.runs import RunController
from baton.tui.prompt_queue import RunFollower
from support.app_session import AppSession, open_app, slow, sorry, until

Script = Iterable[Chunk | BaseException | float]


def count(request: Request) -> Script:
    """Say how many messages were seen."""
    yield Text(f"I was shown {len(request.messages)} messages.")


async def test_a_user_at_another_window_hears_of_a_long_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.app.NOTICE_SECONDS", 0.0)
    written: list[str] = []
    is_away = False

    def answer(request: Request) -> Iterable[Chunk | float]:
        yield from until(lambda: not session.app.app_focus or not is_away)
        yield Text("It is the Rhine.")

    async with open_app(tmp_path, answer) as session:
        assert session.app._driver is not None
        monkeypatch.setattr(session.app._driver, "write", written.append)
        await session.ask("Name a \x1b]0;river\x07")
        assert not [text for text in written if "\x1b]9;" in text], "they see it"
        is_away = True
        await session.send("and another")  # a key is a sign of being here
        session.app.post_message(events.AppBlur())
        await session.wait_until(lambda: [text for text in written if "\x1b]9;" in text])
        [notice] = [text for text in written if "\x1b]9;" in text]
        assert notice.startswith("\x1b]9;Baton: Name a")
        assert notice.endswith("is answered\x07\x07")
        assert notice.count("\x1b") == 1, "a title can't end the sequence"


async def test_the_lines_of_a_poem_stay_lines_and_no_word_of_a_table_is_cut(tmp_path: Path) -> None:
    text = (
        "Roses are red,\nviolets are blue.\n\n"
        "| temperature and pressure | internationalisation |\n|---|---|\n"
        "| " + "warm " * 30 + "| " + "x" * 70 + " |\n| cold | y |\n"
    )
    async with open_app(tmp_path, lambda request: [Text(text)]) as session:
        await session.ask("Write a poem.")
        lines = [line.strip() for line in session.screen_text().splitlines()]
        assert "Roses are red," in lines
        assert "violets are blue." in lines
        assert not any("\u2026" in line and "warm" in line for line in lines)
        assert sum(line.count("x") for line in lines) >= 70


async def test_a_doubt_stands_under_the_answer_once_in_full_and_then_short(tmp_path: Path) -> None:
    async with open_app(tmp_path, lambda request: [Text("Sunny.")]) as session:
        await session.ask("What's the weather in Lisbon today?")
        assert "No worker here can look up what is happening now" in session.screen_line()
        await session.ask("And the weather in Porto today?")
        assert "Not looked up." in session.screen_line()
        await session.ask("Who wrote Emma?")
        assert session.screen_line().count("look up") == 1


async def test_a_prompt_is_answered_and_kept(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        yield from (
            Loading(0.5),
            Reading(1, 2),
            Text("**Paris**, "),
            Writing(31.0),
            Text("of course."),
        )

    async with open_app(tmp_path, script) as session:
        assert "Small questions stay on this machine" in session.screen_text()
        await session.ask("What is the capital of France?")
        seen = session.screen_text()
        assert "You\n" in seen.replace(" ", "") + "\n"
        assert "What is the capital of France?" in seen
        assert "Paris, of course." in seen, "Markdown is drawn, not shown"
        assert "Baton · SmolLM2 135M" in seen
        assert "finished in" in seen
        assert "context" in seen
        (kept,) = await session.services.store.conversations()
        turns = await session.services.store.thread(kept.id)
        assert [turn.status for turn in turns] == [TurnStatus.DONE, TurnStatus.DONE]
        assert session.chat.composer.text == ""


async def test_a_prompt_that_is_quicker_than_the_start_stays_on_the_screen(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow) as session:
        await session.send("Quick")
        await session.wait_until(lambda: session.chat.transcript.turns)
        await session.chat.conversation.begin()  # as if it came only now
        await session.wait_until(lambda: "word" in session.screen_text())
        assert "Quick" in session.screen_text()
        assert session.chat.context.chat.title == "Quick"


async def test_a_prompt_that_comes_while_the_start_asks_the_history_stays_on_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()
    read = Store.draft

    async def slowly(store: Store, conversation: str) -> str:
        asked.set()
        await go_on.wait()
        return await read(store, conversation)

    monkeypatch.setattr(Store, "draft", slowly)
    async with open_app(tmp_path, slow, settle=False) as session:
        await asked.wait()
        await session.send("Quick")
        await session.wait_until(lambda: session.chat.transcript.turns)
        go_on.set()
        await session.wait_until(lambda: "word" in session.screen_text())
        await session.pilot.pause(0.2)
        assert "Quick" in session.screen_text()
        assert session.chat.context.chat.title == "Quick"


async def test_phases_are_shown_in_the_footer(tmp_path: Path) -> None:
    seen: list[str] = []

    def script(request: Request) -> Script:
        yield Loading(0.6)
        yield from until(lambda: len(seen) > 0)
        yield Reading(40, 100)
        yield from until(lambda: len(seen) > 1)
        yield Text("word ")
        yield Writing(31.0)
        yield from until(lambda: len(seen) > 2)

    async with open_app(tmp_path, script) as session:
        await session.send("hello")
        for words in ("loading SmolLM2 135M 60 %", "reading prompt 40 %", "writing 31 tokens/s"):
            await session.wait_for_text(words)
            seen.append(words)
        await session.wait_for_answer()


async def test_nothing_but_spaces_is_not_sent(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.send("  \n ")
        assert await session.services.store.conversations() == []


async def test_escape_stops_and_what_there_is_stays(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow) as session:
        await session.send("write")
        await session.wait_until(lambda: "word3" in session.screen_text())
        await session.press("escape")
        await session.wait_for_answer()
        assert "Stopped here." in session.screen_text()
        turn = session.chat.transcript.turns[-1]
        assert turn.status is TurnStatus.CANCELLED
        assert turn.text.startswith("word0 word1")
        assert (await session.services.store.thread(turn.conversation))[-1].text == turn.text


def prompts_of(session: AppSession) -> list[str]:
    return [turn.text for turn in session.chat.transcript.turns if turn.role is Role.USER]


async def test_escape_stops_what_runs_and_then_gives_back_what_waits(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow) as session:
        await session.send("first")
        await session.wait_until(lambda: "word1" in session.screen_text())
        await session.send("second")
        await session.send("third")
        assert "Waiting: second" in session.screen_text()
        await session.press("escape")
        await session.wait_for_answer()
        assert "Stopped here." in session.screen_text()
        assert session.chat.composer.text == ""
        assert [p.prompt.text for p in session.chat.queue.waiting] == ["second", "third"]
        await session.press("escape")
        assert session.chat.composer.text == "third"
        await session.press("escape")
        assert session.chat.composer.text == "third", "two prompts don't become one"
        assert "then Esc takes the next one back" in session.screen_text()
        session.chat.composer.put("")
        await session.press("escape")
        assert session.chat.composer.text == "second"
        assert "Waiting" not in session.screen_text()
        assert prompts_of(session) == ["first"]


async def test_enter_sends_what_a_stop_left_waiting(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow) as session:
        await session.send("first")
        await session.wait_until(lambda: "word1" in session.screen_text())
        await session.send("second")
        await session.press("escape")
        await session.wait_for_answer()
        assert prompts_of(session) == ["first"]
        await session.press("enter")
        await session.wait_until(lambda: session.chat.queue.is_busy)
        await session.press("escape")
        await session.wait_for_answer()
        assert prompts_of(session) == ["first", "second"]


async def test_enter_in_the_moment_of_the_stop_sends_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue has looked for the last time whether to continue, and its task is about to end."""
    changed = RunController.changed

    def change_and_press_enter(runs: RunController, follower: RunFollower | None) -> None:
        changed(runs, follower)
        if follower is None:
            asyncio.get_running_loop().call_soon(runs.send_waiting)

    monkeypatch.setattr(RunController, "changed", change_and_press_enter)
    async with open_app(tmp_path, slow) as session:
        await session.send("first")
        await session.wait_until(lambda: "word1" in session.screen_text())
        await session.send("second")
        await session.press("escape")
        await session.wait_until(lambda: "second" in prompts_of(session))


async def test_leaving_begins_nothing_that_waits_and_keeps_it_as_a_draft(tmp_path: Path) -> None:
    called: list[str] = []

    def script(request: Request) -> Script:
        called.append(request.messages[-1].text)
        return slow(request)

    store = Store(None)
    async with open_app(tmp_path, script, store=store) as session:
        await session.send("first")
        await session.wait_until(lambda: "word1" in session.screen_text())
        await session.send("second")
        await session.send("third")
        conversation = session.chat.context.chat.id
        await session.chat.close()
        assert called == ["first"]
        assert await store.draft(conversation or "") == "second\n\nthird"
        assert [turn.text for turn in await store.thread(conversation or "")][::2] == ["first"]
    await store.aclose()


async def test_the_first_escape_stops_a_paid_call(tmp_path: Path) -> None:
    called: list[str] = []

    def endless(request: Request) -> Script:
        called.append(request.messages[-1].text)
        yield RequestSent("api.openai.com", 10)
        for number in itertools.count():
            yield Text(f"paid{number} ")
            yield 0.02

    async with open_app(tmp_path, sorry, cloud=endless, terms={"policy": Policy.BUDGET}) as session:
        await session.send("first")
        await session.wait_until(lambda: "paid1" in session.screen_text())
        await session.send("second")
        await session.press("escape")
        await session.wait_for_answer()
        assert called == ["first"]
        assert session.chat.transcript.turns[-1].status is TurnStatus.CANCELLED
        assert [p.prompt.text for p in session.chat.queue.waiting] == ["second"]


async def test_a_waiting_prompt_runs_in_the_same_conversation(tmp_path: Path) -> None:
    sent: list[str] = []

    def script(request: Request) -> Script:
        yield from until(lambda: sent)
        yield Text(f"seen {len(request.messages)}")

    async with open_app(tmp_path, script) as session:
        await session.send("first")
        await session.wait_until(lambda: session.chat.queue.is_busy)
        await session.send("second")
        sent.append("second")
        await session.wait_until(lambda: len(session.chat.transcript.turns) == 4)
        await session.wait_for_answer()
        assert "seen 4" in session.screen_text()
        assert len(await session.services.store.conversations()) == 1


async def test_an_error_stays_in_the_conversation_with_its_remedy(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        yield Text("half an ")
        raise WorkerUnavailable("small crashed.", "Send the prompt again.")

    async with open_app(tmp_path, script) as session:
        await session.ask("hello")
        assert "half an" in session.screen_text()
        assert "small crashed. Send the prompt again." in session.screen_text()
        assert "failed" in session.screen_text()


async def test_a_prompt_that_could_not_be_stored_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from baton.core.errors import StoreError

    async def begin(*_: object) -> None:
        raise StoreError("The disk is full.", "Free some space.")

    async with open_app(tmp_path) as session:
        monkeypatch.setattr(session.services.store, "begin", begin)
        await session.send("precious")
        await session.wait_until(
            lambda: "The disk is full. Free some space." in session.screen_text()
        )
        await session.wait_until(lambda: session.chat.composer.text == "precious")


async def test_too_long_for_the_context_offers_a_new_conversation(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        if len(request.messages) > 2:
            raise ContextTooLong(9000, 4096)
        yield Text("fits")

    async with open_app(tmp_path, script) as session:
        await session.ask("one")
        await session.send("two")
        await session.wait_until(lambda: session.chat.question)
        assert session.chat.composer.prompt.has_focus, "a question takes no focus"
        await session.press("escape")  # as it is: don't drop the oldest
        await session.wait_until(lambda: "Ask it in a new conversation" in session.screen_text())
        await session.press("enter")
        assert "Ask it in a new conversation" in session.screen_text(), "typing can't answer it"
        await session.press("tab", "right", "enter")
        await session.wait_until(lambda: len(session.chat.transcript.turns) == 2)
        await session.wait_for_answer()
        assert [turn.text for turn in session.chat.transcript.turns] == ["two", "fits"]
        assert len(await session.services.store.conversations()) == 2


async def test_the_footer_shows_that_a_question_is_open(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        if len(request.messages) > 2:
            raise ContextTooLong(9000, 4096)
        yield Text("fits")

    async with open_app(tmp_path, script) as session:
        await session.ask("one")
        await session.send("two")
        await session.wait_until(lambda: session.chat.question)
        await session.settled()  # what the run does is drawn, and covered
        assert "waiting for your choice" in session.screen_text()
        assert "loading" not in session.screen_text()
        await session.press("escape")  # don't leave the oldest out
        await session.wait_until(lambda: "Ask it in a new conversation" in session.screen_text())
        session.chat.footer.message = ""  # as after twelve seconds
        await session.wait_until(lambda: "waiting for your choice" in session.screen_text())
        await session.press("escape")  # leave it
        await session.wait_for_answer()
        assert "waiting for your choice" not in session.screen_text()
        assert "SmolLM2 135M · failed" in session.screen_text()


async def test_regenerating_and_editing_make_versions(tmp_path: Path) -> None:
    answers = iter(["first answer", "second answer", "third answer"])

    def script(request: Request) -> Script:
        yield Text(next(answers))

    async with open_app(tmp_path, script) as session:
        await session.ask("tell me")
        await session.press("escape", "r")
        await session.wait_until(lambda: "second answer" in session.screen_text())
        await session.wait_for_answer()
        await session.wait_until(lambda: "2 of 2" in session.screen_text())
        session.chat.transcript.focus()
        await session.press("[")
        await session.wait_until(lambda: "first answer" in session.screen_text())
        await session.wait_until(lambda: "1 of 2" in session.screen_text())
        await session.press("e")
        assert session.chat.composer.text == "tell me"
        assert "new version" in session.screen_text()
        session.chat.composer.prompt.insert(" more")
        await session.press("enter")
        await session.wait_until(lambda: "third answer" in session.screen_text())
        await session.wait_for_answer()
        assert "tell me more" in session.screen_text()
        await session.wait_until(lambda: "2 of 2" in session.screen_text())
        assert len(await session.services.store.conversations()) == 1


async def test_earlier_prompts_come_back_and_the_draft_too(tmp_path: Path) -> None:
    async with open_app(tmp_path, count) as session:
        await session.ask("alpha")
        await session.ask("beta")
        session.chat.composer.prompt.insert("draft")
        await session.press("up")
        await session.wait_until(lambda: session.chat.composer.text == "beta")
        await session.press("up")
        assert session.chat.composer.text == "alpha"
        await session.press("up", "down", "down")
        assert session.chat.composer.text == "draft"


async def test_a_draft_is_kept_for_its_conversation(tmp_path: Path) -> None:
    async with open_app(tmp_path, count) as session:
        await session.ask("alpha")
        session.chat.composer.prompt.insert("unfinished")
        await session.press("ctrl+n")
        await session.wait_until(lambda: session.chat.composer.text == "")
        (kept,) = await session.services.store.conversations()
        await session.chat.conversation.open(kept.id)
        assert session.chat.composer.text == "unfinished"


async def test_a_first_prompt_isnt_a_draft_once_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the emptied prompt is kept late, in the conversation that was made meanwhile."""
    keep_draft = ConversationController.keep_draft

    async def keep_late(conversation: ConversationController) -> None:
        for _ in range(300):
            if text or session.chat.context.chat.id is not None:
                break
            await asyncio.sleep(0.01)
        await keep_draft(conversation)

    async with open_app(tmp_path, count) as session:
        store = session.services.store
        text = "alpha"
        session.chat.composer.put(text)
        for _ in range(1500):  # machines are busy at times
            if await store.draft("") == text:
                break
            await asyncio.sleep(0.02)
        text = ""
        monkeypatch.setattr(ConversationController, "keep_draft", keep_late)
        await session.press("enter")
        await session.wait_for_answer()
        assert await store.draft("") == ""


async def test_leaving_a_conversation_does_not_stop_its_answer(tmp_path: Path) -> None:
    go = asyncio.Event()

    def script(request: Request) -> Script:
        for number in range(60):
            yield Text(f"word{number} ")
            if number == 9:
                yield from until(go.is_set)

    async with open_app(tmp_path, script) as session:
        await session.send("write")
        await session.wait_until(lambda: "word3" in session.screen_text())
        conversation = session.chat.context.chat.id
        await session.press("ctrl+n")
        await session.wait_until(lambda: "word3" not in session.screen_text())
        assert session.chat.queue.is_busy
        await session.chat.conversation.open(conversation)
        go.set()
        await session.wait_for_answer()
        assert "word0 word1" in session.screen_text()
        assert "word59" in session.screen_text()


async def test_scrolling_up_stays_while_text_streams(tmp_path: Path) -> None:
    heights: list[int] = []

    def script(request: Request) -> Script:
        for number in range(60):
            yield Text(f"line {number}\n\n")
            if number == 30:
                yield from until(lambda: heights)
            yield 0.01

    async with open_app(tmp_path, script) as session:
        await session.send("write")
        transcript = session.chat.transcript
        await session.wait_until(lambda: transcript.scroll_y == transcript.max_scroll_y > 10)
        transcript.scroll_to(y=2, animate=False)
        heights.append(transcript.max_scroll_y)
        await session.wait_until(lambda: transcript.max_scroll_y > heights[0] + 10)
        assert session.chat.transcript.scroll_y == 2
        await session.wait_for_answer()
        assert session.chat.transcript.scroll_y == 2


async def long_conversation(store: Store, prompts: int) -> str:
    conversation: str | None = None
    for number in range(prompts):
        begun = await store.begin(
            Prompt(f"prompt {number}"), ConversationPosition(conversation), Label.CLOUD
        )
        conversation = begun.conversation
        await store.write(begun.answer, f"answer {number}", TurnStatus.DONE, "small")
    assert conversation is not None
    return conversation


async def test_a_long_conversation_shows_its_end_and_the_rest_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.widgets.transcript.STEP_TURNS", 6)
    monkeypatch.setattr("baton.tui.widgets.transcript.MAX_TURNS", 18)
    store = Store(None)
    conversation = await long_conversation(store, 40)
    async with open_app(tmp_path, store=store, conversation=conversation) as session:
        transcript = session.chat.transcript
        assert "answer 39" in session.screen_text()
        assert len(transcript.views) <= 18
        session.chat.transcript.focus()
        for _ in range(24):
            await session.press("k")
        assert transcript.selected is not None
        assert transcript.selected.turn.text == "answer 27"
        assert len(transcript.views) <= 18
        await session.press("g")
        assert "prompt 0" in session.screen_text()
        await session.press("G")
        assert "answer 39" in session.screen_text()
        assert transcript.scroll_y == transcript.max_scroll_y
        transcript.scroll_home(animate=False)
        await session.wait_until(lambda: "answer 39" not in session.screen_text())
        assert len(transcript.turns) == 80
    await store.aclose()


async def test_files_are_named_with_their_size_and_sent(tmp_path: Path) -> None:
    note = tmp_path / "notes.md"
    note.write_text("The secret word is heron.", "utf-8")
    shown: list[str] = []

    def script(request: Request) -> Script:
        shown.append(request.messages[-1].text)
        yield Text("read")

    async with open_app(tmp_path, script, size=(120, 30)) as session:
        session.chat.composer.prompt.insert(f"Summarise @{note}")
        await session.wait_until(lambda: "notes.md (25 B, about 7 tokens)" in session.screen_text())
        await session.press("enter")
        await session.wait_until(lambda: shown)
        await session.wait_for_answer()
        assert "heron" in shown[0]
        assert "notes.md (25 B, about 7 tokens)" in session.screen_text()


async def test_a_file_that_cannot_be_read_keeps_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "empty.md").touch()
    async with open_app(tmp_path, size=(118, 30)) as session:
        await session.send(f"Summarise @{tmp_path}/empty.md")
        await session.wait_for_text("empty.md is empty.")
        assert session.chat.composer.text.startswith("Summarise")
        assert await session.services.store.conversations() == []


async def test_a_long_paste_goes_along_as_a_file(tmp_path: Path) -> None:
    from textual.events import Paste

    text = "All work and no play. " * 50_000
    shown: list[str] = []

    def script(request: Request) -> Script:
        shown.append(request.messages[-1].text)
        yield Text("read")

    async with open_app(tmp_path, script) as session:
        session.app.post_message(Paste(text))
        await session.wait_until(lambda: "pasted text (1.1 MB" in session.screen_text())
        assert session.chat.composer.text == ""
        await session.ask("What is this?")
        assert shown[0].count("All work") == 50_000


async def test_a_command_keeps_what_was_pasted_and_a_plan_takes_it(tmp_path: Path) -> None:
    from textual.events import Paste

    shown: list[str] = []

    def script(request: Request) -> Script:
        shown.append(request.messages[-1].text)
        yield Text("read")

    async with open_app(tmp_path, script) as session:
        session.app.post_message(Paste("All work and no play. " * 1_000))
        await session.wait_until(lambda: "pasted text (" in session.screen_text())
        await session.send("/mode mini")
        assert "With pasted text (" in session.screen_text()
        await session.send("/plan What is this?")
        await session.wait_until(lambda: "Run this plan?" in session.screen_text())
        assert "With pasted text (" not in session.screen_text()
        await session.press("tab", "right", "enter")
        await session.wait_for_answer()
        assert shown[-1].count("All work") == 1_000


async def test_what_is_typed_while_a_prompt_is_being_sent_is_another_prompt(
    tmp_path: Path,
) -> None:
    from textual.events import Key

    async with open_app(tmp_path, lambda request: [Text("yes")]) as session:
        keys = {"?": "question_mark", "\r": "enter"}
        for letter in "First?\rSecond?\rAnd":
            key = keys.get(letter, letter)
            session.app.post_message(Key(key, None if key == "enter" else letter))
        await session.wait_until(lambda: len(session.chat.transcript.turns) == 4)
        await session.wait_for_answer()
        asked = [turn.text for turn in session.chat.transcript.turns[::2]]
        assert asked == ["First?", "Second?"]
        assert session.chat.composer.text == "And"


async def test_quitting_while_streaming_keeps_the_text(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    store = Store(path)
    async with open_app(tmp_path, slow, store=store) as session:
        await session.send("write")
        await session.wait_until(lambda: "word5" in session.screen_text())
        await session.press("ctrl+c")
        await session.wait_for_answer()
        await session.send("again")
        await session.wait_until(lambda: session.chat.queue.is_busy)
        await session.press("ctrl+q")
        await session.wait_until(lambda: not session.app.is_running)
        assert session.app.return_code == 0
    (kept,) = await store.conversations()
    turns = await store.thread(kept.id)
    assert [turn.status for turn in turns if turn.role is Role.ASSISTANT] == ["cancelled"] * 2
    assert "word5" in turns[1].text
    await store.aclose()


async def test_ctrl_c_twice_quits(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.press("ctrl+c")
        assert "Ctrl+C again quits" in session.screen_text()
        await session.press("ctrl+c")
        await session.wait_until(lambda: not session.app.is_running)


async def test_private_conversations_stay_local(tmp_path: Path) -> None:
    async with open_app(
        tmp_path, count, limits=PromptLimits(Label.LOCAL), terms={"offline": True}
    ) as session:
        assert "offline  · private" in session.screen_text()
        await session.ask("hello")
        (kept,) = await session.services.store.conversations()
        assert kept.label is Label.LOCAL


async def test_the_private_command_labels_what_there_is(tmp_path: Path) -> None:
    async with open_app(tmp_path, count) as session:
        await session.ask("hello")
        await session.send("/private")
        assert "this conversation stays on this machine" in session.screen_text()
        (kept,) = await session.services.store.conversations()
        assert kept.label is Label.LOCAL
        await session.send("/private off")
        (kept,) = await session.services.store.conversations()
        assert kept.label is Label.CLOUD


async def test_an_answer_at_its_cap_says_so(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        yield Text("and then")
        yield Usage(10, 2, Finish.LENGTH, context=4096)

    async with open_app(tmp_path, script) as session:
        await session.ask("tell")
        assert "reached its length limit" in session.screen_text()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("text", "finish", "note"),
    [
        ("", Finish.STOP, "The answer is empty."),
        ("and", Finish.FILTER, "content filter ended"),
        ("", Finish.LENGTH, "length cap went into thoughts"),
    ],
)
async def test_an_answer_that_is_not_whole_says_so(
    tmp_path: Path, text: str, finish: Finish, note: str
) -> None:
    def script(request: Request) -> Script:
        yield Text(text)
        yield Usage(10, 2, finish)

    async with open_app(tmp_path, script) as session:
        await session.ask("tell")
        assert note in session.screen_text()
        assert "/continue" not in session.screen_text()


async def test_nothing_is_left_running_when_the_app_is_left(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow) as session:
        await session.send("write")
        await session.wait_until(lambda: "word1" in session.screen_text())
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
    assert not [name for name in names if "Player" in name or "Run" in name]


async def test_an_open_question_does_not_keep_the_app(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        if len(request.messages) > 2:
            raise ContextTooLong(9000, 4096)
        yield Text("fits")

    async with open_app(tmp_path, script) as session:
        await session.ask("one")
        await session.send("two")
        await session.wait_until(lambda: session.chat.question)
        session.app.simulate_key("ctrl+q")  # the pilot would wait for widgets that are gone
        await session.wait_until(lambda: not session.app.is_running, seconds=3)
        assert not session.chat.queue.is_busy


async def test_the_systems_signals_end_it_in_good_order(tmp_path: Path) -> None:
    store = Store(None)
    async with open_app(tmp_path, slow, store=store) as session:
        await session.send("write")
        await session.wait_until(lambda: "word3" in session.screen_text())
        session.chat.composer.prompt.insert("unfinished")
        os.kill(os.getpid(), signal.SIGTERM)
        await session.wait_until(lambda: not session.app.is_running)
        (kept,) = await store.conversations()
        turns = await store.thread(kept.id)
        assert turns[-1].status is TurnStatus.CANCELLED
        assert turns[-1].text.startswith("word0 word1")
        assert await store.draft(kept.id) == "unfinished"
    await store.aclose()


async def test_an_edited_message_only_covers_what_was_being_written(tmp_path: Path) -> None:
    async with open_app(tmp_path, count) as session:
        await session.ask("alpha")
        session.chat.composer.prompt.insert("half a prompt")
        await session.press("escape", "e")
        assert session.chat.composer.text == "alpha"
        await session.chat.conversation.keep_draft()
        (kept,) = await session.services.store.conversations()
        assert await session.services.store.draft(kept.id) == "half a prompt"
        await session.press("escape")
        assert session.chat.composer.text == "half a prompt"


async def test_an_answer_that_was_cut_at_its_cap_continues(tmp_path: Path) -> None:
    def cut(request: Request) -> list[Chunk]:
        first = len(request.messages) == 2
        ending = Usage(9, 1, Finish.LENGTH if first else Finish.STOP)
        return [Text("Once upon" if first else "a time."), ending]

    async with open_app(tmp_path, cut) as session:
        await session.ask("Tell me a tale.")
        assert "stops here. c continues from there; so does /continue." in session.screen_line()
        await session.press("escape", "c")
        await session.wait_until(lambda: "a time." in session.screen_text())
        await session.wait_for_answer()
        texts = [turn.text for turn in session.chat.transcript.turns]
        assert texts == ["Tell me a tale.", "Once upon", "Go on.", "a time."]
