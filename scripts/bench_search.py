"""How long a search through 100,000 messages takes, next to the bare FTS5 query on the same index.

    scripts/bench_search             100,000 messages (two minutes, most of it for making them)
    scripts/bench_search 10000       another number

The messages are sentences from Python's own reference manual. Both sides are called in turn.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pysqlite3

from baton.history import Store
from baton.history.queries import match_expression
from baton.platform.sqlite import check_stamp

ROUNDS = 20
MUST_SEARCH, MUST_OPEN = 50.0, 10.0
QUERIES = {
    "a very common word": "the",
    "its first letter": "t",
    "its first two letters": "th",
    "two common words": "the of",
    "five common words": "the of and is a",
    "a common and a rare word": "the walrus",
    "a word with punctuation": "don't",
    "a rare word": "metaclass",
    "nothing to be found": "zyzzyva",
}


def document(messages: int) -> dict[str, Any]:
    """Return an export with so many messages, in conversations of 40."""
    dice = random.Random(2)
    sentences = [
        " ".join(sentence.split())
        for topic in topics.values()
        for sentence in re.split(r"(?<=[.:])\s+", topic)
        if len(sentence) > 20
    ]
    ids = iter(range(1 << 40))
    created = 1.7e9
    conversations: list[dict[str, Any]] = []
    for _ in range(messages // 40):
        turns: list[dict[str, Any]] = []
        for number in range(40):
            created += dice.randint(1, 600)
            text = " ".join(dice.choices(sentences, k=1 + number % 2 * dice.randint(1, 8)))
            turn: dict[str, Any] = {
                "id": f"{next(ids):012x}",
                "role": ("user", "assistant")[number % 2],
            }
            turn |= {"parent": turns[-1]["id"] if turns else None, "text": text, "status": "done"}
            turn |= {"label": "cloud", "created": created, "worker": "small", "run": None}
            turns.append(turn | {"files": []})
        title = f"Conversation {len(conversations)}"
        conversation: dict[str, Any] = {"id": f"{next(ids):012x}", "title": title}
        conversation |= {"label": "cloud", "system": None, "created": created, "updated": created}
        conversation |= {"head": turns[-1]["id"], "sent_from": None, "label_changes": []}
        conversations.append(conversation | {"turns": turns, "runs": []})
    return {"baton_export": 1, "conversations": conversations}


async def elapsed_milliseconds(work: Callable[[], Awaitable[object]]) -> float:
    """Return how many milliseconds it takes."""
    start = time.perf_counter()
    await work()
    return (time.perf_counter() - start) * 1000


def line(name: str, ours: list[float], bare: list[float], must: float | None) -> str:
    """Return one line of the table, from milliseconds."""
    median, p95 = statistics.median(ours), sorted(ours)[int(len(ours) * 0.95)]
    other = statistics.median(bare)
    verdict = "" if must is None else f"{must:.0f} ms | {'yes' if p95 <= must else '**no**'}"
    return (
        f"| {name} | {median:.1f} ms | {p95:.1f} ms | {other:.1f} ms | {median / other:.1f} | "
        f"{verdict or '- |'} |"
    )


async def searches(path: Path) -> None:
    """Print how long each query takes."""
    store = Store.open(path)
    bare = pysqlite3.connect(path)
    query = (
        "SELECT rowid, text FROM turns_search WHERE turns_search MATCH ? "
        "ORDER BY rowid DESC LIMIT 50"
    )
    for name, text in QUERIES.items():

        async def plain(expression: str = match_expression(text)) -> object:
            return bare.execute(query, [expression]).fetchall()

        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            ours.append(await elapsed_milliseconds(lambda text=text: store.search(text)))  # type: ignore[misc]
            theirs.append(await elapsed_milliseconds(plain))
        found = len(await store.search(text))
        print(line(f"search: {name} ({found} shown)", ours, theirs, MUST_SEARCH), flush=True)
    bare.close()
    await store.aclose()


async def openings(path: Path) -> None:
    """Print how long it takes until the history can be used: on most days, and once a day."""

    async def ours() -> None:
        store = Store.open(path)
        assert store.warning == ""
        await store.latest()
        await store.aclose()

    async def bare() -> None:
        connection = pysqlite3.connect(path)
        connection.execute("SELECT id FROM conversations ORDER BY updated DESC LIMIT 1").fetchone()
        connection.close()

    def age() -> None:
        os.utime(check_stamp(path), (0, 0))

    both = [
        (await elapsed_milliseconds(ours), await elapsed_milliseconds(bare)) for _ in range(ROUNDS)
    ]
    ours_usual, theirs = (list(times) for times in zip(*both, strict=True))
    print(line("open, read, close", ours_usual, theirs, MUST_OPEN))
    daily = []
    for _ in range(3):
        age()
        daily.append(await elapsed_milliseconds(ours))
    print(line("the same with the check of once a day", daily, theirs, None))


async def main(messages: int) -> None:
    """Make the messages, then measure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "baton.db"
        store = Store.open(path)
        start = time.perf_counter()
        await store.archive.import_(document(messages))
        await store.aclose()
        size = path.stat().st_size / 1e6
        print(f"{messages:,} messages, {size:.0f} MB, in {time.perf_counter() - start:.0f} s\n")
        print("| figure | median | p95 | bare SQLite, median | ratio | must | holds |")
        print("|---|---|---|---|---|---|---|")
        await searches(path)
        await openings(path)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
