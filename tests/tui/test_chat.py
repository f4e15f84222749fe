"""The conversation as a person lives it."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

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
from baton.core.ports import ConversationPosition
from baton.core.run.policy import PromptLimits
from baton.history import Store
from baton.tui.prompt_queue import FRAME_SECONDS
from support.app_session import Stage, sorry, staged, until

Script = Iterable[Chunk | BaseException | float]


def slow(request: Request) -> Script:
    """Write for a long time."""
    for number in range(2000):
        yield Text(f"word{number} ")
        yield 0.01


def count(request: Request) -> Script:
    """Say how many messages were seen."""
    yield Text(f"I was shown {len(request.messages)} messages.")


async def test_a_prompt_is_answered_and_kept(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        yield from (
            Loading(0.5),
            Reading(1, 2),
            Text("**Paris**, "),
            Writing(31.0),
            Text("of course."),
        )

    async with staged(tmp_path, script) as stage:
        assert "Nothing leaves it unless you say so." in stage.see()
        await stage.ask("What is the capital of France?")
        seen = stage.see()
        assert "You\n" in seen.replace(" ", "") + "\n"
        assert "What is the capital of France?" in seen
        assert "Paris, of course." in seen, "Markdown is drawn, not shown"
        assert "Baton · small" in seen
        assert "finished in" in seen
        assert "context" in seen
        (kept,) = await stage.services.store.conversations()
        turns = await stage.services.store.thread(kept.id)
        assert [turn.status for turn in turns] == [TurnStatus.DONE, TurnStatus.DONE]
        assert stage.chat.composer.text == ""


async def test_a_prompt_that_is_quicker_than_the_start_stays_on_the_screen(tmp_path: Path) -> None:
    async with staged(tmp_path, slow) as stage:
        await stage.send("Quick")
        await stage.until(lambda: stage.chat.transcript.turns)
        await stage.chat.conversation.begin()  # as if it came only now
        await stage.until(lambda: "word" in stage.see())
        assert "Quick" in stage.see()
        assert stage.chat.context.chat.title == "Quick"


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
    async with staged(tmp_path, slow, settle=False) as stage:
        await asked.wait()
        await stage.send("Quick")
        await stage.until(lambda: stage.chat.transcript.turns)
        go_on.set()
        await stage.until(lambda: "word" in stage.see())
        await stage.pilot.pause(0.2)
        assert "Quick" in stage.see()
        assert stage.chat.context.chat.title == "Quick"


async def test_phases_are_told_in_the_footer(tmp_path: Path) -> None:
    seen: list[str] = []

    def script(request: Request) -> Script:
        yield Loading(0.6)
        yield from until(lambda: len(seen) > 0)
        yield Reading(40, 100)
        yield from until(lambda: len(seen) > 1)
        yield Text("word ")
        yield Writing(31.0)
        yield from until(lambda: len(seen) > 2)

    async with staged(tmp_path, script) as stage:
        await stage.send("hello")
        for words in ("loading small 60 %", "reading prompt 40 %", "writing 31 tokens/s"):
            await stage.shows(words)
            seen.append(words)
        await stage.answered()


async def test_nothing_but_spaces_is_not_sent(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.send("  \n ")
        assert await stage.services.store.conversations() == []


async def test_escape_stops_and_what_there_is_stays(tmp_path: Path) -> None:
    async with staged(tmp_path, slow) as stage:
        await stage.send("write")
        await stage.until(lambda: "word3" in stage.see())
        await stage.press("escape")
        await stage.answered()
        assert "Stopped here." in stage.see()
        turn = stage.chat.transcript.turns[-1]
        assert turn.status is TurnStatus.CANCELLED
        assert turn.text.startswith("word0 word1")
        assert (await stage.services.store.thread(turn.conversation))[-1].text == turn.text


def prompts_of(stage: Stage) -> list[str]:
    return [turn.text for turn in stage.chat.transcript.turns if turn.role is Role.USER]


async def test_escape_stops_what_runs_and_then_gives_back_what_waits(tmp_path: Path) -> None:
    async with staged(tmp_path, slow) as stage:
        await stage.send("first")
        await stage.until(lambda: "word1" in stage.see())
        await stage.send("second")
        await stage.send("third")
        assert "Waiting: second" in stage.see()
        await stage.press("escape")
        await stage.answered()
        assert "Stopped here." in stage.see()
        assert stage.chat.composer.text == ""
        assert [p.prompt.text for p in stage.chat.queue.waiting] == ["second", "third"]
        await stage.press("escape")
        assert stage.chat.composer.text == "third"
        await stage.press("escape")
        assert stage.chat.composer.text == "third", "two prompts don't become one"
        assert "then Esc takes the next one back" in stage.see()
        stage.chat.composer.put("")
        await stage.press("escape")
        assert stage.chat.composer.text == "second"
        assert "Waiting" not in stage.see()
        assert prompts_of(stage) == ["first"]


async def test_what_a_stop_left_waiting_is_played_on_enter(tmp_path: Path) -> None:
    async with staged(tmp_path, slow) as stage:
        await stage.send("first")
        await stage.until(lambda: "word1" in stage.see())
        await stage.send("second")
        await stage.press("escape")
        await stage.answered()
        assert prompts_of(stage) == ["first"]
        await stage.press("enter")
        await stage.until(lambda: stage.chat.queue.is_busy)
        await stage.press("escape")
        await stage.answered()
        assert prompts_of(stage) == ["first", "second"]


async def test_leaving_begins_nothing_that_waits_and_keeps_it_as_a_draft(tmp_path: Path) -> None:
    called: list[str] = []

    def script(request: Request) -> Script:
        called.append(request.messages[-1].text)
        return slow(request)

    store = Store.open(None)
    async with staged(tmp_path, script, store=store) as stage:
        await stage.send("first")
        await stage.until(lambda: "word1" in stage.see())
        await stage.send("second")
        await stage.send("third")
        conversation = stage.chat.context.chat.id
        await stage.chat.close()
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

    async with staged(tmp_path, sorry, cloud=endless, terms={"policy": Policy.BUDGET}) as stage:
        await stage.send("first")
        await stage.until(lambda: "paid1" in stage.see())
        await stage.send("second")
        await stage.press("escape")
        await stage.answered()
        assert called == ["first"]
        assert stage.chat.transcript.turns[-1].status is TurnStatus.CANCELLED
        assert [p.prompt.text for p in stage.chat.queue.waiting] == ["second"]


async def test_a_waiting_prompt_is_played_in_the_same_conversation(tmp_path: Path) -> None:
    sent: list[str] = []

    def script(request: Request) -> Script:
        yield from until(lambda: sent)
        yield Text(f"seen {len(request.messages)}")

    async with staged(tmp_path, script) as stage:
        await stage.send("first")
        await stage.until(lambda: stage.chat.queue.is_busy)
        await stage.send("second")
        sent.append("second")
        await stage.until(lambda: len(stage.chat.transcript.turns) == 4)
        await stage.answered()
        assert "seen 4" in stage.see()
        assert len(await stage.services.store.conversations()) == 1


async def test_an_error_stays_in_the_conversation_with_its_mend(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        yield Text("half an ")
        raise WorkerUnavailable("small fell over.", "Send the prompt again.")

    async with staged(tmp_path, script) as stage:
        await stage.ask("hello")
        assert "half an" in stage.see()
        assert "small fell over. Send the prompt again." in stage.see()
        assert "failed" in stage.see()


async def test_a_prompt_that_could_not_be_stored_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from baton.core.errors import StoreError

    async def begin(*_: object) -> None:
        raise StoreError("The disk is full.", "Free some space.")

    async with staged(tmp_path) as stage:
        monkeypatch.setattr(stage.services.store, "begin", begin)
        await stage.send("precious")
        await stage.until(lambda: "The disk is full. Free some space." in stage.see())
        await stage.until(lambda: stage.chat.composer.text == "precious")


async def test_too_long_for_the_context_offers_a_new_conversation(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        if len(request.messages) > 2:
            raise ContextTooLong(9000, 4096)
        yield Text("fits")

    async with staged(tmp_path, script) as stage:
        await stage.ask("one")
        await stage.send("two")
        await stage.until(lambda: stage.chat.question)
        assert stage.chat.composer.prompt.has_focus, "a question takes no focus"
        await stage.press("escape")  # as it is: don't drop the oldest
        await stage.until(lambda: "Ask it in a new conversation" in stage.see())
        await stage.press("enter")
        assert "Ask it in a new conversation" in stage.see(), "typing can't answer it"
        await stage.press("tab", "right", "enter")
        await stage.until(lambda: len(stage.chat.transcript.turns) == 2)
        await stage.answered()
        assert [turn.text for turn in stage.chat.transcript.turns] == ["two", "fits"]
        assert len(await stage.services.store.conversations()) == 2


async def test_the_footer_tells_that_a_question_is_open(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        if len(request.messages) > 2:
            raise ContextTooLong(9000, 4096)
        yield Text("fits")

    async with staged(tmp_path, script) as stage:
        await stage.ask("one")
        await stage.send("two")
        await stage.until(lambda: stage.chat.question)
        await stage.pilot.pause(3 * FRAME_SECONDS)  # what the run does is drawn, and covered
        assert "waiting for your choice" in stage.see()
        assert "loading" not in stage.see()
        await stage.press("escape")  # don't leave the oldest out
        await stage.until(lambda: "Ask it in a new conversation" in stage.see())
        await stage.until(lambda: "waiting for your choice" in stage.see())
        await stage.press("escape")  # leave it
        await stage.answered()
        assert "waiting for your choice" not in stage.see()
        assert "small · failed" in stage.see()


async def test_regenerating_and_editing_make_versions(tmp_path: Path) -> None:
    answers = iter(["first answer", "second answer", "third answer"])

    def script(request: Request) -> Script:
        yield Text(next(answers))

    async with staged(tmp_path, script) as stage:
        await stage.ask("tell me")
        await stage.press("escape", "r")
        await stage.until(lambda: "second answer" in stage.see())
        await stage.answered()
        await stage.until(lambda: "2 of 2" in stage.see())
        stage.chat.transcript.focus()
        await stage.press("[")
        await stage.until(lambda: "first answer" in stage.see())
        await stage.until(lambda: "1 of 2" in stage.see())
        await stage.press("e")
        assert stage.chat.composer.text == "tell me"
        assert "new version" in stage.see()
        stage.chat.composer.prompt.insert(" more")
        await stage.press("enter")
        await stage.until(lambda: "third answer" in stage.see())
        await stage.answered()
        assert "tell me more" in stage.see()
        await stage.until(lambda: "2 of 2" in stage.see())
        assert len(await stage.services.store.conversations()) == 1


async def test_earlier_prompts_come_back_and_the_draft_too(tmp_path: Path) -> None:
    async with staged(tmp_path, count) as stage:
        await stage.ask("alpha")
        await stage.ask("beta")
        stage.chat.composer.prompt.insert("draft")
        await stage.press("up")
        await stage.until(lambda: stage.chat.composer.text == "beta")
        await stage.press("up")
        assert stage.chat.composer.text == "alpha"
        await stage.press("up", "down", "down")
        assert stage.chat.composer.text == "draft"


async def test_a_draft_is_kept_for_its_conversation(tmp_path: Path) -> None:
    async with staged(tmp_path, count) as stage:
        await stage.ask("alpha")
        stage.chat.composer.prompt.insert("unfinished")
        await stage.press("ctrl+n")
        await stage.until(lambda: stage.chat.composer.text == "")
        (kept,) = await stage.services.store.conversations()
        await stage.chat.conversation.open(kept.id)
        assert stage.chat.composer.text == "unfinished"


async def test_leaving_a_conversation_does_not_stop_its_answer(tmp_path: Path) -> None:
    go = asyncio.Event()

    def script(request: Request) -> Script:
        for number in range(60):
            yield Text(f"word{number} ")
            if number == 9:
                yield from until(go.is_set)

    async with staged(tmp_path, script) as stage:
        await stage.send("write")
        await stage.until(lambda: "word3" in stage.see())
        conversation = stage.chat.context.chat.id
        await stage.press("ctrl+n")
        await stage.until(lambda: "word3" not in stage.see())
        assert stage.chat.queue.is_busy
        await stage.chat.conversation.open(conversation)
        go.set()
        await stage.answered()
        assert "word0 word1" in stage.see()
        assert "word59" in stage.see()


@pytest.mark.sampled(0.5)
async def test_scrolling_up_stays_while_text_streams(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        for number in range(150):
            yield Text(f"line {number}\n\n")
            yield 0.02

    async with staged(tmp_path, script) as stage:
        await stage.send("write")
        transcript = stage.chat.transcript
        await stage.until(lambda: transcript.scroll_y == transcript.max_scroll_y > 10)
        stage.chat.transcript.scroll_to(y=2, animate=False)
        await stage.pilot.pause(0.5)
        assert stage.chat.transcript.scroll_y == 2
        await stage.answered()
        assert stage.chat.transcript.scroll_y == 2


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
    store = Store.open(None)
    conversation = await long_conversation(store, 40)
    async with staged(tmp_path, store=store, conversation=conversation) as stage:
        transcript = stage.chat.transcript
        assert "answer 39" in stage.see()
        assert len(transcript.views) <= 18
        stage.chat.transcript.focus()
        for _ in range(24):
            await stage.press("k")
        assert transcript.selected is not None
        assert transcript.selected.turn.text == "answer 27"
        assert len(transcript.views) <= 18
        await stage.press("g")
        assert "prompt 0" in stage.see()
        await stage.press("G")
        assert "answer 39" in stage.see()
        assert transcript.scroll_y == transcript.max_scroll_y
        transcript.scroll_home(animate=False)
        await stage.until(lambda: "answer 39" not in stage.see())
        assert len(transcript.turns) == 80
    await store.aclose()


async def test_files_are_named_with_their_size_and_sent(tmp_path: Path) -> None:
    note = tmp_path / "notes.md"
    note.write_text("The secret word is heron.", "utf-8")
    shown: list[str] = []

    def script(request: Request) -> Script:
        shown.append(request.messages[-1].text)
        yield Text("read")

    async with staged(tmp_path, script, size=(120, 30)) as stage:
        stage.chat.composer.prompt.insert(f"Summarise @{note}")
        await stage.until(lambda: "notes.md (25 B, about 7 tokens)" in stage.see())
        await stage.press("enter")
        await stage.until(lambda: shown)
        await stage.answered()
        assert "heron" in shown[0]
        assert "notes.md (25 B, about 7 tokens)" in stage.see()


async def test_a_file_that_cannot_be_read_keeps_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "empty.md").touch()
    async with staged(tmp_path, size=(120, 30)) as stage:
        await stage.send(f"Summarise @{tmp_path}/empty.md")
        assert "empty.md is empty." in stage.see()
        assert stage.chat.composer.text.startswith("Summarise")
        assert await stage.services.store.conversations() == []


async def test_a_long_paste_goes_along_as_a_file(tmp_path: Path) -> None:
    from textual.events import Paste

    text = "All work and no play. " * 50_000
    shown: list[str] = []

    def script(request: Request) -> Script:
        shown.append(request.messages[-1].text)
        yield Text("read")

    async with staged(tmp_path, script) as stage:
        stage.app.post_message(Paste(text))
        await stage.until(lambda: "pasted text (1.1 MB" in stage.see())
        assert stage.chat.composer.text == ""
        await stage.ask("What is this?")
        assert shown[0].count("All work") == 50_000


async def test_a_command_keeps_what_was_pasted_and_a_plan_takes_it(tmp_path: Path) -> None:
    from textual.events import Paste

    shown: list[str] = []

    def script(request: Request) -> Script:
        shown.append(request.messages[-1].text)
        yield Text("read")

    async with staged(tmp_path, script) as stage:
        stage.app.post_message(Paste("All work and no play. " * 1_000))
        await stage.until(lambda: "pasted text (" in stage.see())
        await stage.send("/mode mini")
        assert "With pasted text (" in stage.see()
        await stage.send("/plan What is this?")
        await stage.until(lambda: "Play this plan?" in stage.see())
        assert "With pasted text (" not in stage.see()
        await stage.press("tab", "right", "enter")
        await stage.answered()
        assert shown[-1].count("All work") == 1_000


async def test_what_is_typed_while_a_prompt_is_being_sent_is_another_prompt(
    tmp_path: Path,
) -> None:
    from textual.events import Key

    async with staged(tmp_path, lambda request: [Text("yes")]) as stage:
        keys = {"?": "question_mark", "\r": "enter"}
        for letter in "First?\rSecond?\rAnd":
            key = keys.get(letter, letter)
            stage.app.post_message(Key(key, None if key == "enter" else letter))
        await stage.until(lambda: len(stage.chat.transcript.turns) == 4)
        await stage.answered()
        asked = [turn.text for turn in stage.chat.transcript.turns[::2]]
        assert asked == ["First?", "Second?"]
        assert stage.chat.composer.text == "And"


async def test_quitting_while_streaming_keeps_the_text(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    store = Store.open(path)
    async with staged(tmp_path, slow, store=store) as stage:
        await stage.send("write")
        await stage.until(lambda: "word5" in stage.see())
        await stage.press("ctrl+c")
        await stage.answered()
        await stage.send("again")
        await stage.until(lambda: stage.chat.queue.is_busy)
        await stage.press("ctrl+q")
        await stage.until(lambda: not stage.app.is_running)
        assert stage.app.return_code == 0
    (kept,) = await store.conversations()
    turns = await store.thread(kept.id)
    assert [turn.status for turn in turns if turn.role is Role.ASSISTANT] == ["cancelled"] * 2
    assert "word5" in turns[1].text
    await store.aclose()


async def test_ctrl_c_twice_quits(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.press("ctrl+c")
        assert "Ctrl+C again quits" in stage.see()
        await stage.press("ctrl+c")
        await stage.until(lambda: not stage.app.is_running)


async def test_private_conversations_stay_local(tmp_path: Path) -> None:
    async with staged(
        tmp_path, count, limits=PromptLimits(Label.LOCAL), terms={"offline": True}
    ) as stage:
        assert "offline  · private" in stage.see()
        await stage.ask("hello")
        (kept,) = await stage.services.store.conversations()
        assert kept.label is Label.LOCAL


async def test_the_private_command_labels_what_there_is(tmp_path: Path) -> None:
    async with staged(tmp_path, count) as stage:
        await stage.ask("hello")
        await stage.send("/private")
        assert "Nothing of this conversation leaves this machine" in stage.see()
        (kept,) = await stage.services.store.conversations()
        assert kept.label is Label.LOCAL
        await stage.send("/private off")
        (kept,) = await stage.services.store.conversations()
        assert kept.label is Label.CLOUD


async def test_an_answer_at_its_cap_says_so(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        yield Text("and then")
        yield Usage(10, 2, Finish.LENGTH, context=4096)

    async with staged(tmp_path, script) as stage:
        await stage.ask("tell")
        assert "reached its length limit" in stage.see()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("text", "finish", "note"),
    [("", Finish.STOP, "The answer is empty."), ("and", Finish.FILTER, "content filter ended")],
)
async def test_an_answer_that_is_not_whole_says_so(
    tmp_path: Path, text: str, finish: Finish, note: str
) -> None:
    def script(request: Request) -> Script:
        yield Text(text)
        yield Usage(10, 2, finish)

    async with staged(tmp_path, script) as stage:
        await stage.ask("tell")
        assert note in stage.see()


async def test_nothing_is_left_running_when_the_app_is_left(tmp_path: Path) -> None:
    async with staged(tmp_path, slow) as stage:
        await stage.send("write")
        await stage.until(lambda: "word1" in stage.see())
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
    assert not [name for name in names if "Player" in name or "Run" in name]


async def test_an_open_question_does_not_keep_the_app(tmp_path: Path) -> None:
    def script(request: Request) -> Script:
        if len(request.messages) > 2:
            raise ContextTooLong(9000, 4096)
        yield Text("fits")

    async with staged(tmp_path, script) as stage:
        await stage.ask("one")
        await stage.send("two")
        await stage.until(lambda: stage.chat.question)
        stage.app.simulate_key("ctrl+q")  # the pilot would wait for widgets that are gone
        await stage.until(lambda: not stage.app.is_running, seconds=3)
        assert not stage.chat.queue.is_busy


async def test_the_systems_signals_end_it_in_good_order(tmp_path: Path) -> None:
    store = Store.open(None)
    async with staged(tmp_path, slow, store=store) as stage:
        await stage.send("write")
        await stage.until(lambda: "word3" in stage.see())
        stage.chat.composer.prompt.insert("unfinished")
        os.kill(os.getpid(), signal.SIGTERM)
        await stage.until(lambda: not stage.app.is_running)
        (kept,) = await store.conversations()
        turns = await store.thread(kept.id)
        assert turns[-1].status is TurnStatus.CANCELLED
        assert turns[-1].text.startswith("word0 word1")
        assert await store.draft(kept.id) == "unfinished"
    await store.aclose()


async def test_an_edited_message_only_covers_what_was_being_written(tmp_path: Path) -> None:
    async with staged(tmp_path, count) as stage:
        await stage.ask("alpha")
        stage.chat.composer.prompt.insert("half a prompt")
        await stage.press("escape", "e")
        assert stage.chat.composer.text == "alpha"
        await stage.chat.conversation.keep_draft()
        (kept,) = await stage.services.store.conversations()
        assert await stage.services.store.draft(kept.id) == "half a prompt"
        await stage.press("escape")
        assert stage.chat.composer.text == "half a prompt"


async def test_an_answer_that_was_cut_at_its_cap_goes_on(tmp_path: Path) -> None:
    def cut(request: Request) -> list[Chunk]:
        first = len(request.messages) == 2
        ending = Usage(9, 1, Finish.LENGTH if first else Finish.STOP)
        return [Text("Once upon" if first else "a time."), ending]

    async with staged(tmp_path, cut) as stage:
        await stage.ask("Tell me a tale.")
        assert "stops here. c goes on from there; so does /continue." in stage.flat()
        await stage.press("escape", "c")
        await stage.until(lambda: "a time." in stage.see())
        await stage.answered()
        texts = [turn.text for turn in stage.chat.transcript.turns]
        assert texts == ["Tell me a tale.", "Once upon", "Go on.", "a time."]
