"""How long a search through 100,000 messages takes, next to the bare FTS5 query on the same index.

    scripts/bench_search             100,000 messages (three minutes, most of it for making them)
    scripts/bench_search 10000       another number

The messages are sentences from Python's own reference manual, and in every fourth conversation
ones of Chinese characters, drawn as often as such are used. One in eighty is twenty times as
long as others. Both sides are called in turn. The index may be three times as large as the texts.
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

from baton.core.folded_search import SearchQuery
from baton.history import Store
from baton.history.search import match_expression
from baton.platform.sqlite import check_stamp

ROUNDS = 20
MUST_SEARCH, MUST_OPEN = 50.0, 10.0
HAN, HAN_SIGNS = 0x4E00, 3000
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
    "nothing, of common parts": "therationing",
    "a part of words": "class",
    "a part that begins no word": "etaclas",
    "two letters within words": "gh",
    "signs": "__init__",
    "a common and a sign": "C++",
    "one Chinese character": chr(HAN + 40),
    "a common one": chr(HAN),
    "two": chr(HAN + 40) + chr(HAN + 7),
    "four": "".join(chr(HAN + at) for at in (40, 7, 11, 3)),
    "two of which there are none": chr(HAN + 5000) + chr(HAN),
}
MAX_INDEX_RATIO = 3.0


def document(messages: int) -> dict[str, Any]:
    """Return an export with so many messages, in conversations of 40."""
    dice = random.Random(2)
    sentences = [
        " ".join(sentence.split())
        for topic in topics.values()
        for sentence in re.split(r"(?<=[.:])\s+", topic)
        if len(sentence) > 20
    ]
    signs = [chr(HAN + at) for at in range(HAN_SIGNS)]
    weights = [1 / (at + 10) for at in range(HAN_SIGNS)]
    chinese = [
        "".join(dice.choices(signs, weights, k=dice.randint(6, 30))) + "\u3002" for _ in range(5000)
    ]
    ids = iter(range(1 << 40))
    created = 1.7e9
    conversations: list[dict[str, Any]] = []
    for _ in range(messages // 40):
        turns: list[dict[str, Any]] = []
        for number in range(40):
            created += dice.randint(1, 600)
            length = 20 if number == 1 and len(conversations) % 2 else 1
            count = 1 + number % 2 * dice.randint(1, 8) * length
            said = chinese if len(conversations) % 4 == 3 else sentences
            text = " ".join(dice.choices(said, k=count))
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
    """Print how large the index is, and how long each query takes."""
    store = Store(path)
    print(
        line(
            "the first search, which makes the index",
            [await elapsed_milliseconds(lambda: store.search("x"))],
            [1.0],
            None,
        )
    )
    bare = pysqlite3.connect(path)
    size = (
        bare.execute("SELECT sum(length(block)) FROM search_grams_data").fetchone()[0]
        + bare.execute("SELECT sum(8 + length(sz)) FROM search_grams_docsize").fetchone()[0]
    )
    texts = bare.execute("SELECT sum(octet_length(text)) FROM turns").fetchone()[0]
    ratio = size / texts
    print(
        f"The index has {size / 1e6:.0f} MB for {texts / 1e6:.0f} MB of text: "
        f"{ratio:.2f} times as much."
    )
    assert ratio <= MAX_INDEX_RATIO
    query = (
        "SELECT key, text FROM search_grams JOIN turns ON key = search_grams.rowid "
        "WHERE search_grams MATCH ? ORDER BY search_grams.rowid DESC LIMIT 50"
    )
    for name, text in QUERIES.items():

        async def plain(expression: str = match_expression(SearchQuery.of(text))) -> object:
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
        store = Store(path)
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
        store = Store(path)
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
