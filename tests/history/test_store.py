"""What is said is kept as a tree, with its labels, and can be changed and deleted."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given, strategies as st

from baton.core import ports
from baton.core.errors import ConfigError, StoreError
from baton.core.events import Called, Cancelled, Event, Failed, Finished, Planned, Started
from baton.core.labels import Label, strictest
from baton.core.ledger_types import Policy
from baton.core.messages import Attachment, Finish, Prompt, Purpose, Role, TurnStatus
from baton.core.plan_types import KINDS, Need, Plan, Step, single_step_plan
from baton.core.ports import ConversationPosition
from baton.history import Store, rows
from baton.platform.sqlite import DatabaseDamaged, sqlite_version, version_warning
from support.store_conversations import ask
from support.stored_runs import call_event


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store(tmp_path / "data" / "baton.db")
    yield opened
    await opened.aclose()


def test_the_bundled_sqlite_is_sound() -> None:
    assert version_warning() == "", sqlite_version()


async def test_it_is_the_store_the_engine_asks_for(store: Store) -> None:
    engine_store: ports.Store = store
    begun = await engine_store.begin(Prompt("hello"), ConversationPosition(), Label.CLOUD)
    assert [turn.text for turn in begun.turns] == ["hello"]


async def test_a_prompt_is_there_before_its_answer(store: Store) -> None:
    begun = await store.begin(
        Prompt("Who are you?", system="Be kind."), ConversationPosition(), Label.CLOUD
    )
    prompt, answer = await store.thread(begun.conversation)
    assert (prompt.text, prompt.role, prompt.status) == (
        "Who are you?",
        Role.USER,
        TurnStatus.DONE,
    )
    assert (answer.text, answer.role, answer.status) == ("", Role.ASSISTANT, TurnStatus.STREAMING)
    assert (answer.parent, answer.run) == (prompt.id, begun.run)
    conversation = await store.conversation(begun.conversation)
    assert (conversation.title, conversation.turns) == ("Who are you?", 2)
    assert (conversation.head, conversation.system, begun.system) == (
        answer.id,
        "Be kind.",
        "Be kind.",
    )


async def test_a_message_of_another_conversation_is_none_of_this_one(store: Store) -> None:
    first, second = await ask(store), await ask(store)
    for leaf in (second.answer, "no such message"):
        with pytest.raises(ConfigError, match="There is no message"):
            await store.thread(first.conversation, leaf)


async def test_an_answer_is_on_disk_while_it_is_written(store: Store) -> None:
    begun = await store.begin(Prompt("Hello"), ConversationPosition(), Label.CLOUD)
    await store.save_progress({begun.answer: "Hello th", "one that is gone": "Hi"})
    _, answer = await store.thread(begun.conversation)
    assert (answer.text, answer.status) == ("Hello th", TurnStatus.STREAMING)


async def test_of_prompts_at_the_same_time_none_is_before_that_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is listed goes by keys, which begin as times and are never given twice."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    for number in range(20):
        await ask(store, f"Question {number}")
    with closing(sqlite3.connect(tmp_path / "data" / "baton.db")) as database:
        count, least = database.execute("SELECT count(key), min(key) FROM turns").fetchone()
    assert (count, least) == (40, int(now * 1000))


async def test_a_conversation_continues_where_it_was(store: Store) -> None:
    first = await ask(store, "one", "eins")
    second = await ask(store, "two", "zwei", ConversationPosition(first.conversation))
    assert [turn.text for turn in second.turns] == ["one", "eins", "two"]
    texts = [turn.text for turn in await store.thread(first.conversation)]
    assert texts == ["one", "eins", "two", "zwei"]
    assert (await store.thread(first.conversation))[-1].worker == "small"
    assert await store.latest() == first.conversation


async def test_files_stay_with_their_prompt(store: Store) -> None:
    file = Attachment("notes.txt", "some\0 text \ud800", 12, Label.LAN)
    begun = await ask(store, files=(file, Attachment("b", "", 0)))
    assert [f.name for f in begun.turns[0].files] == ["notes.txt", "b"]
    [prompt, _] = await store.thread(begun.conversation)
    assert prompt.files[0] == Attachment("notes.txt", "some\0 text �", 12, Label.LAN)


async def test_edited_prompts_and_new_answers_are_branches(store: Store) -> None:
    first = await ask(store, "one", "eins")
    second = await ask(store, "two", "zwei", ConversationPosition(first.conversation))
    again = await ask(
        store, "", "ZWEI", ConversationPosition(first.conversation, again=second.prompt)
    )
    edited = await ask(
        store, "deux", "dos", ConversationPosition(first.conversation, after=first.answer)
    )
    restart = await ask(store, "un", "uno", ConversationPosition(first.conversation, after=""))
    assert again.prompt == second.prompt
    assert [turn.text for turn in again.turns] == ["one", "eins", "two"]
    assert [turn.text for turn in edited.turns] == ["one", "eins", "deux"]
    assert [turn.text for turn in restart.turns] == ["un"]
    assert await store.siblings(second.answer) == (second.answer, again.answer)
    assert await store.siblings(edited.prompt) == (second.prompt, edited.prompt)
    assert await store.siblings(restart.prompt) == (first.prompt, restart.prompt)
    assert (await store.conversation(first.conversation)).turns == 9

    async def current() -> list[str]:
        return [turn.text for turn in await store.thread(first.conversation)]

    assert await current() == ["un", "uno"]
    await store.select(first.prompt)  # the newest leaf beneath it
    assert await current() == ["one", "eins", "deux", "dos"]
    await store.select(second.prompt)
    assert await current() == ["one", "eins", "two", "ZWEI"]
    await store.select(second.answer)
    assert await current() == ["one", "eins", "two", "zwei"]
    branch = await store.thread(first.conversation, edited.answer)
    assert [turn.text for turn in branch] == ["one", "eins", "deux", "dos"]


@pytest.mark.parametrize(
    "place",
    [
        ConversationPosition("nothing"),
        ConversationPosition(after="nothing"),
        ConversationPosition(again="nothing"),
        ConversationPosition("other", after="answer"),
        ConversationPosition(again="answer"),
    ],
)
async def test_a_place_that_does_not_exist_is_refused(
    store: Store, place: ConversationPosition
) -> None:
    begun, other = await ask(store), await ask(store)
    ids = {"answer": begun.answer, "other": other.conversation}
    before = await store.archive.export()
    named = ConversationPosition(
        ids.get(place.conversation or "", place.conversation),
        ids.get(place.after or "", place.after),
        ids.get(place.again or "", place.again),
    )
    with pytest.raises(ConfigError):
        await store.begin(Prompt("lost"), named, Label.CLOUD)
    assert await store.archive.export() == before


async def test_what_was_left_out_is_not_sent_again(store: Store) -> None:
    first = await ask(store, "one")
    second = await ask(store, "two", place=ConversationPosition(first.conversation))
    await store.trim(first.conversation, second.prompt)
    third = await ask(store, "three", "tres", ConversationPosition(first.conversation))
    assert [turn.text for turn in third.turns] == ["two", "Paris.", "three"]
    assert len(await store.thread(first.conversation)) == 6
    assert (await store.conversation(first.conversation)).sent_from == second.prompt
    branch = await ask(
        store, "four", place=ConversationPosition(first.conversation, after=first.answer)
    )
    assert [turn.text for turn in branch.turns] == ["one", "Paris.", "four"]


async def test_an_answer_that_is_gone_gets_no_draft(store: Store) -> None:
    with pytest.raises(StoreError, match="was deleted"):
        await store.add_draft("no such answer", "A draft.", "starter")


async def test_when_a_conversation_may_spend_is_kept(store: Store) -> None:
    begun = await ask(store, "Hello")
    for policy in (Policy.NEVER, None):
        await store.allow(begun.conversation, policy)
        assert (await store.conversation(begun.conversation)).policy is policy


async def test_a_private_conversation_stays_private(store: Store) -> None:
    first = await ask(store, label=Label.LOCAL)
    second = await ask(store, place=ConversationPosition(first.conversation), label=Label.CLOUD)
    assert second.label is Label.LOCAL
    assert {turn.label for turn in await store.thread(first.conversation)} == {Label.LOCAL}
    assert (await store.conversation(first.conversation)).label is Label.LOCAL


async def test_a_private_prompt_makes_private_all_that_follows_from_it(store: Store) -> None:
    first = await ask(store, label=Label.CLOUD)
    private = await ask(store, place=ConversationPosition(first.conversation), label=Label.LOCAL)
    third = await ask(store, place=ConversationPosition(first.conversation), label=Label.CLOUD)
    assert (private.label, third.label) == (Label.LOCAL, Label.LOCAL)
    assert (await store.conversation(first.conversation)).label is Label.LOCAL
    branch = await ask(store, place=ConversationPosition(first.conversation, after=first.answer))
    assert branch.label is Label.LOCAL
    [conversation] = (await store.archive.export())["conversations"]
    [change] = conversation["label_changes"]
    assert (change["old"], change["label"]) == ("cloud", "local")


async def test_a_private_file_makes_its_answer_private(store: Store) -> None:
    begun = await ask(store, files=(Attachment("diary", "dear", 4, Label.LOCAL),))
    assert begun.label is Label.LOCAL
    assert [turn.label for turn in await store.thread(begun.conversation)] == [Label.LOCAL] * 2


labels = st.sampled_from(Label)


@given(first=labels, later=st.lists(st.tuples(labels, labels), max_size=4))
def test_an_answer_has_the_strictest_label_of_all_it_was_shown(
    first: Label, later: list[tuple[Label, Label]]
) -> None:
    async def main() -> None:
        store = Store(None)
        begun = await ask(store, label=first)
        shown = [first]
        for label, of_file in later:
            files = (Attachment("f", "", 0, of_file),)
            place = ConversationPosition(begun.conversation)
            begun = await ask(store, place=place, label=label, files=files)
            shown += [label, of_file]
            assert begun.label is strictest(shown)
            assert (await store.thread(begun.conversation))[-1].label is begun.label
        await store.aclose()

    asyncio.run(main())


async def test_a_file_stricter_than_its_turn_makes_answers_as_strict(tmp_path: Path) -> None:
    store = Store(tmp_path / "baton.db")
    begun = await ask(store, files=(Attachment("f", "text", 4),))
    with closing(sqlite3.connect(tmp_path / "baton.db")) as other:
        other.execute("UPDATE files SET label = 'local'")
        other.commit()
    after = await ask(store, place=ConversationPosition(begun.conversation))
    assert (begun.label, after.label) == (Label.CLOUD, Label.LOCAL)
    await store.aclose()


async def test_loosening_a_label_is_an_act_that_is_recorded(store: Store) -> None:
    files = (Attachment("f", "", 0, Label.LOCAL),)
    begun = await ask(store, label=Label.LOCAL, files=files)
    await store.relabel(begun.conversation, Label.CLOUD)
    after = await ask(store, place=ConversationPosition(begun.conversation))
    assert after.label is Label.CLOUD
    [conversation] = (await store.archive.export())["conversations"]
    [change] = conversation["label_changes"]
    assert (change["old"], change["label"]) == ("local", "cloud")


async def test_a_run_leaves_its_events(store: Store) -> None:
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)
    call = Called(
        1, "small", Purpose.ANSWER, 9, 2, 3, 4096, 0, True, 0.5, 0.1, 0.0, Finish.STOP, at=1.0
    )
    events: list[Event] = [
        Started(begun.run, begun.conversation, begun.prompt, begun.answer),
        Planned(single_step_plan("small", ("a.txt",)), at=0.1),
        call,
        Failed("WorkerError", "It broke \udcff.", "Try again.", at=1.5),
    ]
    assert (await store.runs.get(begun.run)).status == "running"
    for event in events:
        await store.append(begun.run, event)
    record = await store.runs.get(begun.run[:6])
    assert record.events[:3] == tuple(events[:3])
    assert record.events[3] == Failed("WorkerError", "It broke �.", "Try again.", at=1.5)
    assert (record.status, record.answer) == ("failed", begun.answer)
    assert await store.runs.last() == record
    assert await store.runs.last(begun.conversation) == record
    assert await store.runs.last("nothing") is None
    assert [(run.id, run.events) for run in await store.runs.newest()] == [(begun.run, ())]


@pytest.mark.parametrize(
    "event", [Finished(at=1.0), Cancelled(at=1.0), Failed("a", "b", "c", at=1.0)]
)
async def test_a_terminal_event_ends_the_run(store: Store, event: Event) -> None:
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)
    await store.append(begun.run, event)
    assert (await store.runs.get(begun.run)).status == type(event).__name__.lower()


no_surrogates = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.sampled_from(sorted(rows.EVENT_TYPES.items())).flatmap(lambda item: st.from_type(item[1]))
)
def test_every_event_survives_being_stored(event: Event) -> None:
    encoded = rows.encode_json(event)
    assert rows.decode_event(type(event).__name__, encoded) == event


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    texts = no_surrogates.filter(str.strip)
    kinds, levels = st.sampled_from(KINDS), st.integers(1, 5)
    steps = st.builds(
        Step,
        no_surrogates,
        texts,
        st.just(("prompt", "history")),
        st.builds(Need, kinds, levels),
        st.booleans(),
        st.booleans(),
    )
    drawn = draw(st.lists(steps, min_size=1, max_size=4))
    numbers = st.integers(1, len(drawn))
    return Plan(tuple(drawn), tuple(draw(st.lists(numbers, min_size=1, unique=True))))


async def test_a_plan_that_no_baton_wrote_is_damage(store: Store) -> None:
    with pytest.raises(DatabaseDamaged), rows.reject_bad_values():
        rows.decode_event("Planned", '{"at":1.0,"plan":{"steps":[],"answer":[1]}}')


st.register_type_strategy(Plan, plans())
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(str, no_surrogates)


async def test_ids_may_be_shortened_while_they_are_clear(store: Store) -> None:
    begun = await ask(store)
    for typed in (begun.conversation, begun.conversation[:5], f" {begun.conversation.upper()} "):
        assert (await store.conversation(typed)).id == begun.conversation
    seen: set[str] = set()
    letter = begun.conversation[0]
    while letter not in seen:
        seen.add(letter)
        letter = (await ask(store)).conversation[0]
    with pytest.raises(ConfigError, match="More than one conversation"):
        await store.conversation(letter)
    for typed in ("", "  ", "xyz", "%", "\ud800", "\0", begun.conversation + "0"):
        with pytest.raises(ConfigError, match="There is no conversation"):
            await store.conversation(typed)
    with pytest.raises(ConfigError, match="There is no run"):
        await store.runs.get("xyz")


async def test_deleting_can_be_undone_until_it_is_meant(store: Store) -> None:
    begun, other = await ask(store, "the secret word"), await ask(store, "else")
    await store.hide(begun.conversation)
    assert [c.id for c in await store.conversations()] == [other.conversation]
    assert await store.search("secret") == []
    assert await store.runs.recent_prompts() == ["else"]
    assert [run.id for run in await store.runs.newest()] == [other.run]
    with pytest.raises(ConfigError):
        await store.conversation(begun.conversation)
    with pytest.raises(ConfigError):
        await store.runs.get(begun.run)
    await store.hide(begun.conversation, undo=True)
    assert len(await store.search("secret")) == 1
    await store.hide(begun.conversation)
    assert await store.purge_hidden(older_than_seconds=60) == 0
    assert await store.purge_hidden() == 1
    with pytest.raises(ConfigError):
        await store.hide(begun.conversation, undo=True)
    assert len(await store.search("else")) == 1


async def test_writing_into_a_deleted_conversation_brings_it_back(store: Store) -> None:
    begun = await ask(store)
    await store.hide(begun.conversation)
    await ask(store, place=ConversationPosition(begun.conversation))
    assert await store.latest() == begun.conversation


async def test_a_run_whose_conversation_is_purged_is_reported(store: Store) -> None:
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)
    await store.purge(begun.conversation)
    with pytest.raises(StoreError, match="deleted"):
        await store.write(begun.answer, "text", TurnStatus.STREAMING)
    with pytest.raises(StoreError, match="deleted"):
        await store.append(begun.run, Finished(at=1.0))


def all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


@pytest.mark.parametrize("at_once", [True, False])
async def test_nothing_of_a_purged_conversation_remains_in_the_file(
    tmp_path: Path, at_once: bool
) -> None:
    path = tmp_path / "baton.db"
    store = Store(path)
    words = ["Xylophonquartz", "Zwiebelkuchen", "Quetzalcoatlus", "Brombeerstrauch", "Ypsilanti"]
    prompt, answer, file, error, title = words
    kept = await ask(store, "What stays?", "Mangosteen " * 50)
    for number in range(30):
        await ask(store, f"filler {number} " * 20, "Lorem ipsum. " * number)
    begun = await store.begin(
        Prompt(f"Tell {prompt}", (Attachment("n", file * 3000, 1),)),
        ConversationPosition(),
        Label.CLOUD,
    )
    for length in range(1, 40):  # a growing text leaves copies of itself behind
        await store.write(begun.answer, f"{answer} " * length * 20, TurnStatus.STREAMING)
    await store.write(begun.answer, f"{answer} " * 900, TurnStatus.DONE)
    await store.append(begun.run, Failed("WorkerError", error, "", at=1.0))
    await store.rename(begun.conversation, title)
    await store.save_draft(begun.conversation, prompt)
    assert await store.search(answer[:6])
    if at_once:
        await store.purge(begun.conversation)
    else:
        await store.hide(begun.conversation)
        assert await store.purge_hidden() == 1
    content = all_bytes(tmp_path).lower()
    assert b"mangosteen" in content
    for word in words:
        # The index stores what words have in common once, so their ends must be gone as well.
        assert word.lower().encode() not in content
        assert word.lower()[2:].encode() not in content
    assert len(await store.thread(kept.conversation)) == 2
    assert await store.search("mangosteen")
    await store.aclose()


async def test_a_closed_history_is_one_whole_file(tmp_path: Path) -> None:
    """Who copies it then has all of it: nothing is left in a log beside it."""
    store = Store(tmp_path / "baton.db")
    await ask(store)
    assert (tmp_path / "baton.db-wal").exists()
    await store.aclose()
    assert not (tmp_path / "baton.db-wal").exists()


async def test_long_conversations_can_be_purged(store: Store) -> None:
    document = await store.archive.export([(await ask(store)).conversation])
    [conversation] = document["conversations"]
    last = conversation["turns"][-1]
    for number in range(3000):  # deeper than SQLite lets triggers call each other
        last = last | {"id": f"{number:012x}", "parent": last["id"], "run": None}
        conversation["turns"].append(last)
    assert (await store.archive.import_(document)).turns == 3002
    [copy] = [c for c in await store.conversations() if c.turns == 3002]
    await store.select(copy.head or "")
    assert len(await store.thread(copy.id)) == 3002
    await store.purge(copy.id)
    assert [c.turns for c in await store.conversations()] == [2]


async def test_drafts_and_earlier_prompts_come_back(store: Store) -> None:
    assert await store.draft("") == ""
    await store.save_draft("", "half a th\udc00")
    await store.save_draft("abc", "other")
    assert (await store.draft(""), await store.draft("abc")) == ("half a th�", "other")
    await store.save_draft("", "")
    assert await store.draft("") == ""
    for text in ("one", "two", "one", "three"):
        await ask(store, text)
    assert await store.runs.recent_prompts() == ["two", "one", "three"]
    assert await store.runs.recent_prompts(2) == ["one", "three"]


async def test_prompts_of_one_moment_come_back_in_their_order(store: Store) -> None:
    texts = [str(number) for number in range(50)]
    for text in texts:
        await ask(store, text)
    assert await store.runs.recent_prompts(50) == texts


async def test_conversations_come_newest_first(store: Store) -> None:
    first, second, third = [(await ask(store, name)).conversation for name in ("a", "b", "c")]
    await ask(store, place=ConversationPosition(first))
    assert [c.id for c in await store.conversations()] == [first, third, second]
    assert [c.id for c in await store.conversations(1)] == [first]
    half, whole = [
        await store.begin(Prompt(name), ConversationPosition(), Label.CLOUD) for name in "de"
    ]
    await store.write(whole.answer, "all", TurnStatus.DONE)
    await store.write(half.answer, "some", TurnStatus.STREAMING)
    assert [c.id for c in await store.conversations(1)] == [whole.conversation], "still writing"
    await store.write(half.answer, "some more", TurnStatus.CANCELLED)
    assert [c.id for c in await store.conversations(1)] == [half.conversation]
    await store.rename(second, "B, the second")
    assert (await store.conversation(second)).title == "B, the second"
    with pytest.raises(ConfigError):
        await store.rename("nothing", "x")


async def test_recent_conversations_say_how_each_ended(store: Store) -> None:
    done = await ask(store, "done")
    await store.append(done.run, call_event(1, "gpt", 1.0, 2_000_000))
    again = await ask(store, "again", place=ConversationPosition(done.conversation))
    await store.append(again.run, call_event(1, "gpt", 1.0, 1_000_000))
    broken = await store.begin(Prompt("broken"), ConversationPosition(), Label.CLOUD)
    await store.write(broken.answer, "half", TurnStatus.FAILED)
    await store.append(broken.run, Failed("WorkerUnavailable", "It died.", ""))
    hidden = await ask(store, "hidden")
    await store.hide(hidden.conversation)
    first, second = await store.runs.recent_conversations(3)
    assert (first.title, first.turn, first.status) == ("broken", broken.answer, TurnStatus.FAILED)
    assert first.run is not None
    assert isinstance(first.run.events[-1], Failed)
    assert (second.title, second.turn, second.cost) == ("done", again.answer, 3_000_000)
    assert second.run is None, "what ended well is not read"
    assert [one.title for one in await store.runs.recent_conversations(1)] == ["broken"]


@given(st.text(), st.text())
def test_any_text_is_kept_as_it_was(prompt: str, answer: str) -> None:
    async def main() -> None:
        store = Store(None)
        begun = await ask(store, prompt, answer)
        kept = [turn.text for turn in await store.thread(begun.conversation)]
        assert kept == [
            text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            for text in (prompt, answer)
        ]
        await store.aclose()

    asyncio.run(main())


async def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "baton.db"
    store = Store(path)
    await ask(store)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes) == {"baton.db", "baton.db-wal", "baton.db-shm", "baton.db-checked"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await store.aclose()
    path.chmod(0o644)
    store = Store(path)
    await ask(store)
    assert all(not file.stat().st_mode & 0o077 for file in path.parent.iterdir())
    await store.aclose()


def test_opening_loads_what_migrates_only_where_there_is_something_to_migrate(
    tmp_path: Path,
) -> None:
    script = f"""
import asyncio, pathlib, sys
from baton.history import Store, schema
from baton.platform import sqlite
file = pathlib.Path({str(tmp_path / "baton.db")!r})
if sys.argv[1:]:
    sqlite.create_database_file(file)
    sqlite.open_database(file, schema.MIGRATIONS[:1]).close()
    assert "sqlite_utils" not in sys.modules
store = Store(file)
assert store.warning == ""
asyncio.run(store.aclose())
print(sorted({{"sqlite_utils", "psutil", "textual", "pydantic"}} & set(sys.modules)))
"""
    python = [sys.executable, "-c", script]
    loaded = [
        subprocess.run([*python, *older], capture_output=True, text=True, check=True)
        for older in (["older"], [])
    ]
    assert [done.stdout for done in loaded] == ["['sqlite_utils']\n", "[]\n"]
