"""Changes that wait at the same moment are committed together, and none suffers from another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from baton.core.errors import StoreError
from baton.platform.database_thread import DatabaseThread
from baton.platform.sqlite import HISTORY, Connection, connect, create_database_file


def add(connection: Connection, number: int) -> int:
    if number == 7:
        raise LookupError("seven is refused")
    if number == 8:
        connection.execute("INSERT INTO nowhere VALUES (1)")
    connection.execute("INSERT INTO numbers VALUES (?)", [number])
    return number


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[DatabaseThread[Any]]:
    path = tmp_path / "numbers.db"

    def open_it() -> SimpleNamespace:
        create_database_file(path)
        connection = connect(path)
        connection.execute("CREATE TABLE numbers (number INTEGER)")
        return SimpleNamespace(connection=connection)

    database = DatabaseThread(path, HISTORY, open_it)
    yield database
    await database.aclose()


async def commits(database: DatabaseThread[Any], *numbers: int) -> tuple[list[Any], int]:
    """Add numbers at once; return what became of each, and how many commits that took."""
    statements: list[str] = []
    await database.run(lambda connection: connection.set_trace_callback(statements.append))
    adding = (database.write(add, number) for number in numbers)
    done = await asyncio.gather(*adding, return_exceptions=True)
    return done, statements.count("COMMIT")


async def stored(database: DatabaseThread[Any]) -> list[int]:
    rows = await database.read(lambda c: c.execute("SELECT number FROM numbers").fetchall())
    return [number for (number,) in rows]


async def test_what_waits_is_committed_together(database: DatabaseThread[Any]) -> None:
    done, count = await commits(database, *range(6))
    assert done == await stored(database) == [*range(6)]
    assert count <= 2  # the thread may begin with the first one


async def test_a_change_that_fails_takes_no_other_with_it(database: DatabaseThread[Any]) -> None:
    done, _ = await commits(database, 1, 7, 2, 8, 3)
    assert [one for one in done if isinstance(one, int)] == [1, 2, 3]
    assert isinstance(done[1], LookupError)
    assert isinstance(done[3], StoreError)
    assert await stored(database) == [1, 2, 3]


async def test_a_change_that_is_cancelled_first_is_not_made(database: DatabaseThread[Any]) -> None:
    free = database.submit(lambda: asyncio.run(asyncio.sleep(0.05)))
    tasks = [asyncio.create_task(database.write(add, number)) for number in (1, 2)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    assert await tasks[1] == 2
    assert (await stored(database), free.done()) == ([2], True)
