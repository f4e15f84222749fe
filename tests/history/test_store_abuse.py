"""What is acknowledged stays, with any fault of the process, the disk or the file."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from baton.core.errors import BatonError, StoreError
from baton.core.events import Finished, StepFinished
from baton.core.history_types import RunRecord
from baton.core.labels import Label
from baton.core.messages import Finish, Prompt, TurnStatus
from baton.core.ports import ConversationPosition
from baton.history import Store, store as store_module
from baton.history.schema import MIGRATIONS
from baton.platform import sqlite
from baton.platform.sqlite import check_stamp
from support.damaged_database import broken_files
from support.forked_programs import Program
from support.store_conversations import ask, is_next

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills processes with signals")


def kept_texts(path: Path) -> set[str]:
    connection = sqlite.connect(path)
    found = {row["text"] for row in connection.execute("SELECT text FROM turns")}
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    connection.close()
    return found


# Two Batons, and killed ones


@pytest.mark.parametrize("turns", [100, pytest.param(1700, marks=pytest.mark.long)])
def test_two_batons_at_once_lose_nothing(tmp_path: Path, turns: int) -> None:
    """Both begin with no database at all; each turn is three writes."""
    path = tmp_path / "data" / "baton.db"
    names = ("Ann", "Bob")
    both = [Program(f"talk.chat(pathlib.Path({str(path)!r}), {name!r}, {turns})") for name in names]
    for one in both:
        out, err = one.communicate(timeout=500)
        assert (one.returncode, err, len(out.splitlines())) == (0, "", turns)
    texts = kept_texts(path)
    for name in names:
        for number in range(turns):
            assert {f"{name} asks {number}", f"{name} answers {number}"} <= texts
    assert broken_files(path) == []


def test_many_first_starts_at_once_make_one_database(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    processes = [Program(f"talk.chat(pathlib.Path({str(path)!r}), 'P{n}', 1)") for n in range(6)]
    for one in processes:
        assert one.communicate(timeout=60)[1] == ""
        assert one.returncode == 0
    assert len(kept_texts(path)) == 12
    assert broken_files(path) == []


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.long)])
def test_a_killed_baton_has_kept_what_it_acknowledged(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "baton.db"
    for kill in range(kills):
        child = Program(f"talk.chat(pathlib.Path({str(path)!r}), 'K{kill}', 100000)")
        lines = [child.stdout.readline() for _ in range(random.randint(1, 5))]
        time.sleep(random.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        rest, err = child.communicate()
        assert err == ""
        texts = kept_texts(path)
        for number in range(len(lines + rest.splitlines())):
            assert {f"K{kill} asks {number}", f"K{kill} answers {number}"} <= texts
    store = Store(path)
    assert store.warning == ""
    asyncio.run(_is_settled(store))


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.long)])
def test_a_killed_run_has_kept_every_step_that_was_shown_as_finished(
    tmp_path: Path, kills: int
) -> None:
    """What is published before it is on disk is stored with the next event, in order."""
    path = tmp_path / "baton.db"
    shown: list[str] = []
    for _ in range(kills):
        child = Program(f"talk.run_plans(pathlib.Path({str(path)!r}))")
        lines = [child.stdout.readline() for _ in range(random.randint(1, 60))]
        time.sleep(random.random() * 0.02)
        child.send_signal(signal.SIGKILL)
        rest, err = child.communicate()
        assert err == ""
        shown += [line for line in (*lines, *rest.splitlines(True)) if line.endswith("\n")]
    asyncio.run(_must_be_kept(Store(path), shown))


async def _must_be_kept(store: Store, shown: list[str]) -> None:
    seen: dict[str, list[str]] = {}
    for line in shown:
        run, event = line.split()
        seen.setdefault(run, []).append(event)
    for run, events in seen.items():
        kept = [type(event).__name__ for event in (await store.runs.get(run)).events]
        last = max((n for n, name in enumerate(events) if name in KEPT), default=-1)
        assert kept[: last + 1] == events[: last + 1]
    await store.aclose()


KEPT = ("StepFinished", "Finished")


async def _is_settled(store: Store) -> None:
    document = await store.archive.export()
    for conversation in document["conversations"]:
        assert {turn["status"] for turn in conversation["turns"]} <= {"done", "lost"}
        assert {run["status"] for run in conversation["runs"]} <= {"finished", "lost"}
    await store.aclose()


async def test_an_answer_whose_baton_was_killed_is_lost_and_found(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    code = f"""
from support.store_conversations import *
async def main():
    store = Store(pathlib.Path({str(path)!r}))
    begun = await store.begin(Prompt("Why?"), ConversationPosition(), Label.CLOUD)
    await store.write(begun.answer, "Because halfway", TurnStatus.STREAMING)
    print(begun.conversation, flush=True)
    input()
asyncio.run(main())"""
    child = await asyncio.to_thread(Program, code)
    conversation = (await asyncio.to_thread(child.stdout.readline)).strip()
    while_it_lives = Store(path)
    [_, answer] = await while_it_lives.thread(conversation)
    assert answer.status is TurnStatus.STREAMING
    await while_it_lives.aclose()
    child.kill()
    await asyncio.to_thread(child.communicate)
    store = Store(path)
    [_, answer] = await store.thread(conversation)
    assert (answer.text, answer.status) == ("Because halfway", TurnStatus.LOST)
    assert [hit.turn for hit in await store.search("halfway")] == [answer.id]
    run = await store.runs.last(conversation)
    assert run is not None
    assert run.status == "lost"
    await ask(store, "Again?", place=ConversationPosition(conversation))
    await store.aclose()


@pytest.mark.parametrize("change", ["started = started - 100", "started = NULL, created = 1e9"])
async def test_a_process_that_only_inherited_a_number_is_not_an_owner(
    tmp_path: Path, change: str
) -> None:
    path = tmp_path / "baton.db"
    store = Store(path)
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)
    await store.aclose()
    connection = sqlite.connect(path)
    connection.execute(f"UPDATE runs SET {change}")  # long before this process
    connection.close()
    store = Store(path)
    assert (await store.runs.get(begun.run)).status == "lost"
    await store.aclose()


async def test_a_clock_that_is_set_on_makes_no_run_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system says by its clock when a process began, so setting that moves the beginning."""
    store = Store(tmp_path / "baton.db")
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)
    began = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: began(process) + 3600)
    other = Store(tmp_path / "baton.db")
    assert (await other.runs.get(begun.run)).status == "running"
    await other.aclose()
    await store.aclose()


# Damaged files


@pytest.fixture(scope="module")
def sound_database() -> Iterator[Path]:
    """A database with some history, closed."""
    folder = Path(tempfile.mkdtemp(prefix="baton-"))
    path = folder / "baton.db"

    async def main() -> None:
        store = Store(path)
        for number in range(25):
            begun = await ask(store, f"question {number} " * 5, f"answer {number} " * 60)
            await ask(store, "and then?", "nothing " * 20, ConversationPosition(begun.conversation))
        await store.save_draft("", "a draft")
        await store.search("question")  # which makes the index
        await store.aclose()

    asyncio.run(main())
    yield path
    shutil.rmtree(folder)


VERSION = slice(60, 64)
"""Where SQLite's header has the version of the schema."""


def without_counters(data: bytes | bytearray) -> bytes:
    """Return a database without what counts its writes, one of which may have done nothing."""
    return bytes(data[:24] + data[28:92] + data[96:])


async def use(path: Path) -> tuple[str, int]:
    """Do a bit of everything; return the warning and how many conversations there were."""
    store = Store(path)
    try:
        warning = store.warning
        conversations = await store.conversations()
        for conversation in conversations:
            await store.thread(conversation.id)
        await store.search("question")
        await store.search("ans")
        await store.runs.newest()
        begun = await ask(store, "Still there?", "Yes.")
        assert len(await store.thread(begun.conversation)) == 2
        return warning, len(conversations)
    finally:
        await store.aclose()


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("databases", [20, pytest.param(200, marks=pytest.mark.long)])
def test_flipped_bits_are_reported_and_nothing_is_reset(
    tmp_path: Path, sound_database: Path, databases: int
) -> None:
    sound = sound_database.read_bytes()
    dice = random.Random(databases)
    warned = 0
    for number in range(databases):
        path = tmp_path / str(number) / "baton.db"
        path.parent.mkdir()
        spoilt = bytearray(sound)
        reach = 120 if number % 4 == 0 else len(sound)  # the header is a few bytes, but vital
        for _ in range(dice.choice([1, 1, 10, 300])):
            spoilt[dice.randrange(reach)] ^= 1 << dice.randrange(8)
        path.write_bytes(spoilt)
        message = ""
        for start in range(3):  # the second one may find what the first one noticed too late
            try:
                warning, conversations = asyncio.run(use(path))
            except BatonError as error:
                message = str(error)
                continue
            if warning:
                warned += 1
                [aside] = broken_files(path)
                assert str(aside) in warning
                is_migrated = spoilt[VERSION] != sound[VERSION]  # as if it were an older one
                kept = without_counters(aside.read_bytes())
                assert start > 0 or is_migrated or kept == without_counters(spoilt)
            else:
                assert conversations >= 25 or broken_files(path)
        assert "\n" not in message
    assert warned > 0


def test_a_damaged_file_is_kept_and_what_can_be_read_is_recovered(
    tmp_path: Path, sound_database: Path
) -> None:
    path = tmp_path / "baton.db"
    spoilt = bytearray(sound_database.read_bytes())
    place = spoilt.index(b"answer 7 answer 7")
    page = place // 4096 * 4096
    spoilt[page : page + 8] = b"\xff" * 8  # the page's header
    path.write_bytes(spoilt)
    warning, conversations = asyncio.run(use(path))
    [aside] = broken_files(path)
    assert aside.read_bytes() == spoilt
    assert str(aside) in warning
    assert f"{conversations} conversations were recovered" in warning
    assert 0 < conversations < 25
    assert asyncio.run(use(path)) == ("", conversations + 1)


@pytest.mark.parametrize("older", [True, False], ids=["of an older Baton", "its marks broken"])
def test_conversations_are_recovered_though_marks_on_them_can_not_be(
    tmp_path: Path, sound_database: Path, older: bool
) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    connection = sqlite.connect(path)
    if older:
        undo_search(connection)
        connection.execute("DROP INDEX events_of_plans")
        connection.execute("DROP INDEX events_of_warnings")
        connection.execute("ALTER TABLE runs DROP COLUMN started")
        connection.execute("DROP TABLE signals")
        connection.execute("DELETE FROM migrations WHERE name >= '0004_signals'")
        connection.execute("PRAGMA user_version = 3")
    else:
        [root] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'signals'")
    connection.close()
    spoilt = bytearray(path.read_bytes())
    page = spoilt.rindex(b"Finished") // 4096 if older else root[0] - 1
    spoilt[page * 4096 : page * 4096 + 8] = b"\xff" * 8
    path.write_bytes(spoilt)
    warning, conversations = asyncio.run(use(path))
    assert f"{conversations} conversations were recovered" in warning
    assert conversations > (0 if older else 24)


@pytest.mark.parametrize(
    "content", [b"not a database " * 1000, b"\0" * 50_000, b"SQLite format 3\0"]
)
def test_what_is_not_a_database_is_kept_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "baton.db"
    path.write_bytes(content)
    warning, conversations = asyncio.run(use(path))
    [aside] = broken_files(path)
    assert aside.read_bytes() == content
    assert "nothing in it could be read" in warning
    assert conversations == 0


def test_names_of_what_is_kept_aside_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "20261123-120000")
    path = tmp_path / "baton.db"
    for number in range(3):
        path.write_text(str(number))
        sqlite.set_aside(path)
    names = [f"baton.db.broken-20261123-120000{end}" for end in ("", "-2", "-3")]
    assert [(tmp_path / name).read_text() for name in names] == ["0", "1", "2"]


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    path.touch()
    assert asyncio.run(use(path)) == ("", 0)
    assert asyncio.run(use(path)) == ("", 1)


@pytest.mark.parametrize("lost", ["emptied", "removed", "only a log is left"])
def test_a_history_that_was_lost_is_reported_once(
    tmp_path: Path, sound_database: Path, lost: str
) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    assert asyncio.run(use(path)) == ("", 25)
    if lost == "emptied":
        path.write_bytes(b"")
    else:
        path.unlink()
    if lost == "only a log is left":
        check_stamp(path).unlink()
        path.with_name("baton.db-wal").write_bytes(b"7 pages")
    warning, conversations = asyncio.run(use(path))
    assert warning.startswith("The history file was emptied or removed")
    assert conversations == 0
    kept = [file.read_bytes() for file in tmp_path.glob("baton.db.broken-*-wal")]
    assert kept == ([b"7 pages"] if lost == "only a log is left" else [])
    assert asyncio.run(use(path)) == ("", 1)


def test_damage_that_shows_later_is_looked_for_at_the_next_start(
    tmp_path: Path, sound_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search index is checked only when something was wrong with it."""
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    connection = sqlite.connect(path)
    connection.execute("UPDATE search_grams_data SET block = randomblob(100) WHERE id > 10")
    connection.close()
    check_stamp(path).touch()
    with pytest.raises(StoreError, match="Start Baton again"):
        asyncio.run(use(path))
    assert not check_stamp(path).exists()
    warning, conversations = asyncio.run(use(path))
    assert "25 conversations were recovered" in warning
    assert conversations == 25
    assert asyncio.run(use(path)) == ("", 26)


def test_an_older_database_is_checked_once_it_is_migrated(
    tmp_path: Path, sound_database: Path
) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    age(path)
    connection = sqlite.connect(path)
    [root] = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'label_changes_by_conversation'"
    ).fetchone()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    spoilt = bytearray(path.read_bytes())
    spoilt[root * 4096 - 4096 : root * 4096 - 4088] = b"\xff" * 8
    path.write_bytes(spoilt)
    with pytest.raises(sqlite.DatabaseDamaged):
        sqlite.open_database(path, MIGRATIONS)


def test_large_files_are_checked_once_a_day(
    tmp_path: Path, sound_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "baton.db"
    spoilt = bytearray(sound_database.read_bytes())
    place = spoilt.index(b"answer 7 answer 7") // 4096 * 4096
    spoilt[place : place + 8] = b"\xff" * 8
    path.write_bytes(spoilt)
    check_stamp(path).touch()
    monkeypatch.setattr(sqlite, "CHECK_ALWAYS_BYTES", 0)
    store = Store(path)
    assert store.warning == ""
    asyncio.run(store.aclose())
    yesterday = time.time() - 25 * 3600
    os.utime(check_stamp(path), (yesterday, yesterday))
    assert "recovered" in asyncio.run(use(path))[0]


def test_the_history_of_a_newer_baton_is_left_alone(tmp_path: Path, sound_database: Path) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    connection = sqlite.connect(path)
    connection.execute("INSERT INTO migrations VALUES ('0002_future', 0)")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer Baton"):
        asyncio.run(use(path))
    assert path.read_bytes() == before
    assert broken_files(path) == []


# Answers while they are written


@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=pytest.mark.long)])
def test_what_was_saved_of_an_answer_survives_a_kill_at_any_moment(
    tmp_path: Path, kills: int
) -> None:
    """The text grows, is replaced by another draft, and is ended, in turns."""
    path = tmp_path / "baton.db"
    dice = random.Random(kills)
    for kill in range(kills):
        code = f"talk.write_slowly(pathlib.Path({str(path)!r}), {kill})"
        child = Program(code)
        for _ in range(dice.randint(1, 40)):
            child.stdout.readline()
        time.sleep(dice.random() * 0.02)
        child.send_signal(signal.SIGKILL)
        assert child.communicate()[1] == ""
    acknowledged: dict[str, list[str]] = {}
    for line in (tmp_path / "acknowledged").read_text().splitlines():
        answer, _, text = line.partition(" ")
        acknowledged.setdefault(answer, []).append(text)

    async def read() -> dict[str, tuple[str, TurnStatus]]:
        store = Store(path)
        document = await store.archive.export()
        turns = [turn for one in document["conversations"] for turn in one["turns"]]
        assert await store.search("iece")
        await store.aclose()
        return {turn["id"]: (turn["text"], TurnStatus(turn["status"])) for turn in turns}

    kept = asyncio.run(read())
    assert len(acknowledged) >= kills // 2
    for answer, texts in acknowledged.items():
        text, status = kept[answer]
        assert status in (TurnStatus.LOST, TurnStatus.DONE)
        # What was being written when it was killed may be there as well: one step more.
        assert text == texts[-1] or is_next(texts[-1], text)
    connection = sqlite.connect(path)
    assert connection.execute("SELECT count(*) FROM answer_pieces").fetchone()[0] == 0
    connection.close()


@pytest.mark.parametrize("chars", [34_000, 76_000])
async def test_what_an_answer_writes_grows_with_its_length(tmp_path: Path, chars: int) -> None:
    store = Store(tmp_path / "baton.db")
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)
    await store._database.run(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").close())
    await store._database.run(lambda db: db.execute("PRAGMA wal_autocheckpoint = 0").close())
    text = "".join(f"word {number} " for number in range(chars // 9))[:chars]
    for saved in range(500, chars + 500, 500):
        await store.save_progress({begun.answer: text[:saved]})
    await store.write(begun.answer, text, TurnStatus.DONE)
    await store.search("x")
    written = (tmp_path / "baton.db-wal").stat().st_size
    assert written < 40 * chars, f"{written / chars:.1f} times the text"
    assert (await store.thread(begun.conversation))[-1].text == text
    await store.aclose()


async def test_an_answer_that_is_read_while_it_is_written_has_all_its_pieces(
    tmp_path: Path,
) -> None:
    store, other = Store(tmp_path / "baton.db"), Store(tmp_path / "baton.db")
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)
    for text in ("one", "one two", "one two three", "another draft", "another draft at last"):
        await store.save_progress({begun.answer: text})
        assert (await other.thread(begun.conversation))[-1].text == text
        [conversation] = (await other.archive.export())["conversations"]
        assert conversation["turns"][-1]["text"] == text
        assert await other.search("draft") == []
    await store.write(begun.answer, "the end", TurnStatus.DONE)
    assert (await other.thread(begun.conversation))[-1].text == "the end"
    await store.aclose()
    await other.aclose()


# Room on the disk


async def test_what_is_removed_gives_its_room_back(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    store = Store(path)
    begun = [await ask(store, f"question {n}", f"answer {n} " * 5_000) for n in range(60)]
    await store.search("answer")
    before = store.archive.disk_bytes
    assert before > 3_000_000
    await store.purge(*(one.conversation for one in begun[:50]))
    assert store.archive.disk_bytes < before / 4
    assert len(await store.search("question")) == 10
    for one in begun[50:59]:
        await store.hide(one.conversation)
    assert await store.purge_hidden() == 9
    assert store.archive.disk_bytes < before / 20
    assert len(await store.thread(begun[59].conversation)) == 2
    await store.aclose()
    assert kept_texts(path) == {"question 59", "answer 59 " * 5_000}


def test_a_history_that_gave_no_room_back_is_converted_and_that_is_said_once(
    tmp_path: Path, sound_database: Path
) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    connection = sqlite.connect(path)
    for statement in ("PRAGMA auto_vacuum = NONE", "VACUUM", "CREATE TABLE x (y)"):
        connection.execute(statement)
    connection.execute("INSERT INTO x VALUES (zeroblob(3000000))")
    connection.execute("DROP TABLE x")
    connection.close()
    before = kept_texts(path)
    assert path.stat().st_size > 3_000_000
    warning, conversations = asyncio.run(use(path))
    assert (warning.startswith("The history was rewritten, once"), conversations) == (True, 25)
    assert path.stat().st_size < 1_000_000
    assert before < kept_texts(path)
    assert asyncio.run(use(path)) == ("", 26)


def test_a_history_that_can_not_be_converted_now_is_used_as_it_is(
    tmp_path: Path, sound_database: Path
) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    connection = sqlite.connect(path)
    connection.execute("PRAGMA auto_vacuum = NONE")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("BEGIN IMMEDIATE")
    other = sqlite.connect(path)
    other.execute("PRAGMA busy_timeout = 10")
    assert sqlite.enable_vacuum(other) is False
    other.close()
    connection.execute("ROLLBACK")
    connection.close()
    assert asyncio.run(use(path)) == ("", 25)
    connection = sqlite.connect(path)
    assert connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 2
    connection.close()


# Migrations

_SECOND = sqlite.Migration(
    "0002_colour",
    (
        "ALTER TABLE conversations ADD COLUMN colour TEXT",
        "UPDATE conversations SET colour = 'red'",
        "CREATE INDEX conversations_by_colour ON conversations (colour)",
    ),
)


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that Baton's next version has one more migration."""
    longer = (*MIGRATIONS, _SECOND)
    monkeypatch.setattr(store_module, "MIGRATIONS", longer)


def test_a_migration_keeps_everything_and_a_copy(
    tmp_path: Path, sound_database: Path, next_version: None
) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    assert asyncio.run(use(path)) == ("", 25)
    connection = sqlite.connect(path)
    assert (
        connection.execute("SELECT count(*) FROM migrations").fetchone()[0] == len(MIGRATIONS) + 1
    )
    assert connection.execute("SELECT count(DISTINCT colour) FROM conversations").fetchone()[0] == 1
    connection.close()
    copy = path.with_name("baton.db.before-0002_colour")
    assert kept_texts(copy) == kept_texts(sound_database)
    assert not copy.stat().st_mode & 0o077


def undo_search(connection: sqlite.Connection) -> None:
    """Have the search index, and nothing for pieces of answers, as before 0010."""
    for kind, name in (
        *(("TRIGGER", f"turns_{name}") for name in ("added", "changed", "gone")),
        *(("TRIGGER", f"titles_{name}") for name in ("added", "changed", "gone")),
        *(("TABLE", name) for name in ("search_grams", "search_pending", "answer_pieces")),
        ("INDEX", "events_of_weighings"),
    ):
        connection.execute(f"DROP {kind} {name}")
    for statement in MIGRATIONS[0].statements:
        if "_search" in statement:
            connection.execute(statement)
    for table, text in (("turns", "text"), ("conversations", "title")):
        index = "turns_search" if table == "turns" else "titles_search"
        connection.execute(f"INSERT INTO {index} (rowid, {text}) SELECT key, {text} FROM {table}")


def age(path: Path) -> None:
    """Make the database what an older Baton, of two migrations, would have left."""
    connection = sqlite.connect(path)
    undo_search(connection)
    connection.execute("DELETE FROM migrations WHERE name >= '0003_steps'")
    connection.execute("DROP TABLE signals")
    connection.execute("DROP INDEX events_of_plans")
    connection.execute("DROP INDEX events_of_warnings")
    connection.execute("ALTER TABLE runs DROP COLUMN started")
    connection.execute("DROP TABLE private_marks")
    for index in ("by_fingerprint", "by_opening", "by_said", "by_whole", "unknown"):
        connection.execute(f"DROP INDEX turns_{index}")
    for column in ("client", "fingerprint", "opening", "said", "length", "whole"):
        connection.execute(f"ALTER TABLE turns DROP COLUMN {column}")
    connection.execute("ALTER TABLE conversations DROP COLUMN program")
    connection.execute("PRAGMA user_version = 2")
    connection.close()


def test_many_batons_may_meet_an_older_database_at_once(
    tmp_path: Path, sound_database: Path
) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    age(path)
    before = kept_texts(path)
    processes = [Program(f"talk.chat(pathlib.Path({str(path)!r}), 'P{n}', 1)") for n in range(6)]
    assert [one.communicate(timeout=60)[1] for one in processes] == [""] * 6
    assert len(kept_texts(path) - before) == 12
    assert kept_texts(path.with_name("baton.db.before-0003_steps")) == before
    assert [file.name for file in tmp_path.glob("*.part")] == []
    assert broken_files(path) == []


def test_who_looks_while_another_baton_migrates_takes_nothing_for_damaged(
    tmp_path: Path, sound_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version was read before, its contents after: they must not seem to disagree."""
    path, connect, migrated = tmp_path / "baton.db", sqlite.connect, list[int]()
    shutil.copy(sound_database, path)
    age(path)

    def another(statement: str) -> None:
        if "FROM migrations" in statement and not migrated:
            migrated.append(2)
            quicker = connect(path)
            sqlite.migrate(quicker, MIGRATIONS)
            quicker.close()

    def watched(path: Path, mode: str = "rw") -> sqlite.Connection:
        connection = connect(path, mode)
        connection.set_trace_callback(another)
        return connection

    monkeypatch.setattr(sqlite, "connect", watched)
    sqlite.open_database(path, MIGRATIONS).close()
    assert migrated == [2]
    assert broken_files(path) == []


def test_a_database_whose_version_is_not_its_contents_is_not_used(
    tmp_path: Path, sound_database: Path
) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    connection = sqlite.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) - 1}")
    connection.close()
    with pytest.raises(sqlite.DatabaseDamaged, match="disagree"):
        sqlite.open_database(path, MIGRATIONS)


def test_a_schema_that_baton_did_not_make_is_noticed(tmp_path: Path, sound_database: Path) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    connection = sqlite.connect(path)
    connection.execute("DROP INDEX events_of_warnings")
    connection.close()
    sqlite.check_stamp(path).unlink(missing_ok=True)
    with pytest.raises(sqlite.DatabaseDamaged, match="isn't as Baton made it"):
        sqlite.open_database(path, MIGRATIONS)


def test_a_draft_of_an_older_baton_is_the_text_of_its_step(
    tmp_path: Path, sound_database: Path
) -> None:
    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    connection = sqlite.connect(path)
    run, last = connection.execute("SELECT run, max(seq) FROM events").fetchone()
    connection.execute(
        "INSERT INTO events VALUES (?, ?, 'Drafted', ?)",
        [run, last + 1, '{"at": 1.5, "step": 1, "text": "as it was"}'],
    )
    connection.close()
    age(path)

    async def read() -> RunRecord:
        store = Store(path)
        try:
            return await store.runs.get(run)
        finally:
            await store.aclose()

    (*_, event) = asyncio.run(read()).events
    assert event == StepFinished(1, Finish.STOP, "as it was", at=1.5)


def test_a_migration_that_is_killed_never_happened(tmp_path: Path, sound_database: Path) -> None:
    path = tmp_path / "baton.db"
    for kill_after in range(5):
        shutil.copy(sound_database, path)
        code = f"""
from baton.platform import sqlite
from baton.history import schema
statements = ({", ".join(map(repr, _SECOND.statements))}, "CREATE TABLE t (x)")
class KillingStatements(tuple):
    def __iter__(self):
        for number, statement in enumerate(super().__iter__()):
            if number == {kill_after}:
                os.kill(os.getpid(), signal.SIGKILL)
            yield statement
second = sqlite.Migration("0002_colour", KillingStatements(statements))
sqlite.migrate(sqlite.connect(pathlib.Path({str(path)!r})), (*schema.MIGRATIONS, second))
"""
        child = Program(code)
        assert child.communicate()[1] == ""
        killed = kill_after < 4
        assert child.returncode == (-signal.SIGKILL if killed else 0)
        connection = sqlite.connect(path)
        columns = [row["name"] for row in connection.execute("PRAGMA table_info(conversations)")]
        assert sqlite.schema_version(connection) == len(MIGRATIONS) + (not killed)
        assert ("colour" in columns) is not killed
        connection.close()
        for side in ("-wal", "-shm"):
            path.with_name(path.name + side).unlink(missing_ok=True)


# Disks


def test_a_full_disk_loses_only_what_did_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    code = f"""
import resource
from support.store_conversations import *
from baton.core.errors import StoreError
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
async def main():
    store = Store(pathlib.Path({str(path)!r}))
    await ask(store, "before")
    limit(2_000_000)
    number = failures = 0
    while failures < 3:
        try:
            begun = await ask(store, f"asks {{number}}", f"answers {{number}} " * 500)
            number += 1
        except StoreError as error:
            failures += 1
            print(error, flush=True)
    print(len(await store.conversations()), number)
    limit(resource.RLIM_INFINITY)
asyncio.run(main())"""
    out, err = Program(code).communicate(timeout=100)
    assert err == ""
    *sentences, last = out.splitlines()
    assert len(sentences) == 3
    assert all("everything before it was" in sentence for sentence in sentences)
    texts = kept_texts(path)
    shown, number = map(int, last.split())
    assert number > 5
    assert shown >= number + 1
    assert {"before"} | {f"asks {n}" for n in range(number)} <= texts
    assert {f"answers {n} " * 500 for n in range(number)} <= texts
    assert asyncio.run(use(path))[0] == ""


async def test_a_store_continues_once_there_is_room_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "baton.db")
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)

    async def limit(pages: int) -> None:
        await store._database.run(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").close())

    await limit(1)
    with pytest.raises(StoreError, match="The disk is full"):
        await store.write(begun.answer, "much " * 100_000, TurnStatus.STREAMING)
    assert (await store.thread(begun.conversation))[-1].text == ""
    await limit(1 << 30)
    await store.write(begun.answer, "much " * 100_000, TurnStatus.DONE)
    await store.append(begun.run, Finished(at=1.0))
    assert len((await store.thread(begun.conversation))[-1].text) == 500_000
    await store.aclose()


@pytest.mark.parametrize("obstacle", ["a file for a folder", "a folder for the file"])
def test_a_path_that_cannot_be_is_one_sentence(tmp_path: Path, obstacle: str) -> None:
    path = tmp_path / "data" / "baton.db"
    if obstacle == "a file for a folder":
        path.parent.touch()
    else:
        path.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"can't be used: .*--no-history"):
        asyncio.run(use(path))


@pytest.mark.parametrize("denied", ["folder", "file"])
def test_what_may_not_be_written_is_one_sentence(denied: str, sound_database: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="baton-"))
    path = folder / "baton.db"
    shutil.copy(sound_database, path)
    path.chmod(0o666 if denied == "folder" else 0o444)
    folder.chmod(0o555 if denied == "folder" else 0o777)
    code = f"""
from support.store_conversations import *
from baton.core.errors import StoreError
from baton.history import export as transfer
if os.geteuid() == 0:
    os.setuid(65534)
try:
    asyncio.run(Store(pathlib.Path({str(path)!r})).conversations())
except StoreError as error:
    print(error)
"""
    before = path.read_bytes()
    out, err = Program(code).communicate()
    folder.chmod(0o700)
    assert err == ""
    assert "--no-history" in out
    assert path.read_bytes() == before
    shutil.rmtree(folder)


def test_a_disk_that_fails_at_the_start_is_one_sentence(
    tmp_path: Path, sound_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is sound and was opened; what the last Baton left can't be marked as lost."""

    def failing(_: sqlite.Connection) -> None:
        raise OSError(5, "Input/output error")

    path = tmp_path / "baton.db"
    shutil.copy(sound_database, path)
    monkeypatch.setattr(store_module, "mark_lost_runs", failing)
    with pytest.raises(StoreError, match="Input/output error"):
        asyncio.run(use(path))
    assert broken_files(path) == []


def test_an_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MIN_SAFE_VERSION", (99, 0, 0))
    with pytest.raises(StoreError, match="pysqlite3"):
        asyncio.run(use(tmp_path / "baton.db"))
    assert not (tmp_path / "baton.db").exists()


def test_a_lock_that_is_held_too_long_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "baton.db"
    asyncio.run(use(path))
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    other = sqlite.connect(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="Another program"):
        asyncio.run(use(path))
    other.execute("ROLLBACK")
    other.close()
    assert asyncio.run(use(path)) == ("", 1)
