"""What can be read of a damaged history, one short of a column, or a newer Baton's is read."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from baton.core.errors import StoreError
from baton.core.messages import Attachment, TurnStatus
from baton.core.ports import ConversationPosition
from baton.history import Store, query_rows
from baton.history.schema import MIGRATIONS
from baton.platform import sqlite
from support.damaged_database import broken_files
from support.store_conversations import ask

CONVERSATIONS, EXCHANGES = 3, 40


@pytest.fixture(scope="module")
def sound_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with some long conversations, closed."""
    path = tmp_path_factory.mktemp("sound") / "baton.db"

    async def main() -> None:
        store = Store(path)
        for number in range(CONVERSATIONS):
            place = ConversationPosition()
            for exchange in range(EXCHANGES):
                text = f"question {number} {exchange}"
                files = (Attachment("a.txt", f"file {number} {exchange}", 9),)
                begun = await ask(
                    store, text, f"answer {number} {exchange} " * 60, place, files=files
                )
                place = ConversationPosition(begun.conversation)
        gone = await ask(store, "deleted")
        await store.hide(gone.conversation)
        await store.search("question")
        await store.aclose()

    asyncio.run(main())
    return path


@pytest.fixture
def history(tmp_path: Path, sound_history: Path) -> Path:
    """A copy of it to spoil."""
    return Path(shutil.copy(sound_history, tmp_path / "baton.db"))


async def read(path: Path) -> tuple[str, list[str]]:
    """Open a history; return what it says, and every text in its export, by time."""
    store = Store(path)
    try:
        document = await store.archive.export()
        turns = [turn for one in document["conversations"] for turn in one["turns"]]
        for one in await store.conversations():
            assert len(await store.thread(one.id)) > 1
        return store.warning, [turn["text"].strip() for turn in turns]
    finally:
        await store.aclose()


def change(path: Path, *statements: str) -> None:
    connection = sqlite.connect(path)
    connection.execute("PRAGMA foreign_keys = OFF")
    for statement in statements:
        connection.execute(statement)
    connection.close()
    sqlite.check_stamp(path).unlink(missing_ok=True)


def columns() -> Iterator[tuple[str, str]]:
    connection = sqlite.open_in_memory(MIGRATIONS)
    tables = ("conversations", "turns", "files", "runs", "events", "signals", "label_changes")
    for table in tables:
        for row in connection.execute(f"PRAGMA table_info({table})"):
            yield table, row["name"]
    connection.close()


LOST_WITH_THEM = {("turns", "conversation"), ("turns", "text"), ("turns", "key")}
"""Without these there is nothing to recover, or nothing that says what belongs together."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("table", "column"), [c for c in columns() if c not in LOST_WITH_THEM])
def test_one_missing_column_costs_no_text(history: Path, table: str, column: str) -> None:
    before = asyncio.run(read(history))[1]
    # What was made from a column is missing with it: dropping one that is indexed is refused.
    change(history, f"ALTER TABLE {table} RENAME COLUMN {column} TO lost_{column}")
    warning, texts = asyncio.run(read(history))
    assert f"{CONVERSATIONS} conversations were recovered" in warning or "deleted" in texts
    assert set(before) <= set(texts)
    assert asyncio.run(read(history)) == ("", texts)


@pytest.mark.parametrize(
    "table", ["files", "events", "signals", "label_changes", "answer_pieces", "search_pending"]
)
def test_one_missing_table_costs_no_text(history: Path, table: str) -> None:
    before = asyncio.run(read(history))[1]
    change(history, f"DROP TABLE {table}")
    warning, texts = asyncio.run(read(history))
    assert (texts, f"{CONVERSATIONS} conversations were recovered" in warning) == (before, True)


@pytest.mark.parametrize("exchange", [2, 5, 20, 38])
def test_a_damaged_page_costs_what_stood_on_it(history: Path, exchange: int) -> None:
    """Each conversation is on many pages: none is lost as a whole."""
    before = asyncio.run(read(history))[1]
    spoilt = bytearray(history.read_bytes())
    page = spoilt.index(f"answer 1 {exchange} answer".encode()) // 4096
    spoilt[page * 4096 : page * 4096 + 8] = b"\xff" * 8
    history.write_bytes(spoilt)
    sqlite.check_stamp(history).unlink(missing_ok=True)
    warning, texts = asyncio.run(read(history))
    assert f"{CONVERSATIONS} conversations were recovered, " in warning
    assert "of them in part" in warning
    lost = set(before) - set(texts)
    assert 0 < len(lost) <= 8, "as many as are on a page"
    assert "deleted" not in texts
    [aside] = broken_files(history)
    assert aside.read_bytes() == spoilt


@pytest.mark.parametrize("table", ["conversations", "runs", "events", "files"])
def test_a_damaged_table_costs_no_text_of_the_others(history: Path, table: str) -> None:
    before = asyncio.run(read(history))[1]
    connection = sqlite.connect(history)
    query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    [root] = connection.execute(query, [table]).fetchone()
    connection.close()
    spoilt = bytearray(history.read_bytes())
    spoilt[root * 4096 - 4096 : root * 4096 - 4088] = b"\xff" * 8
    history.write_bytes(spoilt)
    sqlite.check_stamp(history).unlink(missing_ok=True)
    warning, texts = asyncio.run(read(history))
    assert "recovered" in warning
    assert set(before) <= set(texts)


def make_newer(path: Path, *statements: str) -> None:
    number = len(MIGRATIONS) + 1
    change(path, *statements, f"PRAGMA user_version = {number}")


NEWER: dict[str, tuple[str, ...]] = {
    "more columns": ("ALTER TABLE turns ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'",),
    "an event that is unknown here": (
        "INSERT INTO events SELECT id, 99, 'Dreamt', '{\"at\": 1}' FROM runs",
    ),
    "one column less": ("ALTER TABLE conversations DROP COLUMN policy",),
    "another index": ("DROP TABLE search_grams", "DROP TABLE search_pending"),
    "a migration that it counts": ("INSERT INTO migrations VALUES ('0099_future', 0)",),
}


@pytest.mark.parametrize("kind", NEWER)
def test_a_newer_history_is_read_and_exported_and_never_written(history: Path, kind: str) -> None:
    texts = asyncio.run(read(history))[1]
    make_newer(history, *NEWER[kind])
    before = history.read_bytes()

    async def main() -> None:
        store = Store(history)
        assert "newer Baton; nothing was changed" in store.warning
        assert "can be read and exported" in store.warning
        assert len(await store.conversations()) == CONVERSATIONS
        assert [hit.snippet[:12] for hit in await store.search("swer 1 39")] == ["answer 1 39 "]
        writes: list[Callable[[], object]] = [
            lambda: ask(store),
            lambda: store.purge("aaaaaaaaaaaa"),
            lambda: store.write("aaaaaaaaaaaa", "text", TurnStatus.DONE),
        ]
        for write in writes:
            with pytest.raises(StoreError, match="newer Baton"):
                await write()  # type: ignore[misc]
        await store.aclose()

    asyncio.run(main())
    assert asyncio.run(read(history))[1] == texts
    [row] = query_rows(history, "SELECT count(*) AS turns FROM turns")
    assert row["turns"] == len(texts) + 2
    assert history.read_bytes() == before
    assert broken_files(history) == []
