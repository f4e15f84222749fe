"""Makes a long history and its ledger, for scripts/bench_life.

The messages are sentences from Python's own reference manual, and in every fourth conversation
ones of Chinese characters, drawn as often as such are used. One in eighty is twenty times as
long as others. Each answer has a run with all its events; every tenth run was remote, so that it
is in the ledger with what it sent.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pysqlite3

from baton.core.ledger_types import HoldRequest, Scope
from baton.core.messages import Card, Prompt, Purpose
from baton.core.money import NANO, BilledTokens, Price, Rates
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from baton.money import Ledger
from baton.platform.paths import Paths
from baton.workers.scripted_worker import ScriptedWorker

LONG, SHORT = 10_000, 80
"""How many turns (a prompt and its answer) the long conversation has; messages of the others."""

REMOTE_EVERY = 10
CONVERSATIONS_AT_ONCE = 100
HAN, HAN_SIGNS = 0x4E00, 3000
LONG_TITLE, LAST_WORDS = "The long conversation", "These are the last words."
DAY_SECONDS = 86400.0
CARD = Card("small", "local", "Small", context=4096)


class TextSource:
    """Draws what is said, the same at each use."""

    def __init__(self) -> None:
        self._dice = random.Random(2)
        self._english = [
            " ".join(sentence.split())
            for topic in topics.values()
            for sentence in re.split(r"(?<=[.:])\s+", topic)
            if len(sentence) > 20
        ]
        signs = [chr(HAN + at) for at in range(HAN_SIGNS)]
        weights = [1 / (at + 10) for at in range(HAN_SIGNS)]
        self._chinese = [
            "".join(self._dice.choices(signs, weights, k=self._dice.randint(6, 30))) + "\u3002"
            for _ in range(5000)
        ]

    def draw(self, conversation: int, number: int) -> str:
        """Return the text of a message: prompts are one sentence, answers several."""
        longer = 20 if number == 1 and conversation % 2 else 1
        count = 1 + number % 2 * self._dice.randint(1, 8) * longer
        said = self._chinese if conversation % 4 == 3 else self._english
        return " ".join(self._dice.choices(said, k=count))


def fill_home(paths: Paths, messages: int, long: int = LONG) -> None:
    """Make the history and the ledger of a home; the long conversation is the latest."""
    asyncio.run(_fill(paths, messages, long))


async def _fill(paths: Paths, messages: int, long: int) -> None:
    paths.data.mkdir(parents=True, exist_ok=True)
    events, source = await _sample_events(), TextSource()
    lengths = [SHORT] * ((messages - 2 * long) // SHORT) + [2 * long]
    # As if one message had come after the other in the last half year.
    created = time.time() - 180 * DAY_SECONDS
    step, ids = 180 * DAY_SECONDS / sum(lengths), iter(range(1, 1 << 40))
    store = Store(paths.database)
    remote: list[dict[str, Any]] = []
    for first in range(0, len(lengths), CONVERSATIONS_AT_ONCE):
        listed = []
        for number, length in enumerate(lengths[first : first + CONVERSATIONS_AT_ONCE], first):
            texts = [source.draw(number, place) for place in range(length)]
            title = f"Conversation {number}"
            if number == len(lengths) - 1:
                texts[-1], title = LAST_WORDS, LONG_TITLE
            listed.append(_conversation(title, texts, events, ids, created, step))
            created += step * length
        remote += [run for held in listed for run in held["runs"][::REMOTE_EVERY]]
        await store.archive.import_({"baton_export": 1, "conversations": listed})
    await store.aclose()
    await _spend(paths, remote)


def _conversation(
    title: str,
    texts: list[str],
    events: list[dict[str, Any]],
    ids: Iterator[int],
    created: float,
    step: float,
) -> dict[str, Any]:
    """Return a conversation as an export holds it."""
    turns: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    id = f"{next(ids):012x}"
    for number, text in enumerate(texts):
        own = f"{next(ids):012x}"
        is_answer = number % 2 == 1
        turn: dict[str, Any] = {"id": own, "role": "assistant" if is_answer else "user"}
        turn |= {"parent": turns[-1]["id"] if turns else None, "text": text, "status": "done"}
        turn |= {"label": "cloud", "created": created + number * step, "files": []}
        turn |= {"worker": "small" if is_answer else "", "run": None}
        if is_answer:
            run, prompt = f"{next(ids):012x}", turns[-1]["id"]
            turn["run"] = run
            place = {"run": run, "conversation": id, "prompt": prompt, "answer": own}
            own_events = [
                {"kind": one["kind"], "data": one["data"] | place}
                if one["kind"] == "Started"
                else one
                for one in events
            ]
            kept = {"id": run, "prompt": prompt, "answer": own, "status": "finished"}
            runs.append(kept | {"created": created + number * step, "events": own_events})
        turns.append(turn)
    conversation: dict[str, Any] = {"id": id, "title": title, "label": "cloud", "system": None}
    conversation |= {"created": created, "updated": turns[-1]["created"], "head": turns[-1]["id"]}
    conversation |= {"sent_from": None, "label_changes": [], "turns": turns, "runs": runs}
    return conversation


async def _sample_events() -> list[dict[str, Any]]:
    """Return the events of a run, as an export holds them."""
    store = Store(None)
    orchestra = Orchestra(Services({"small": ScriptedWorker(card=CARD)}, store), "small")
    async with orchestra.run(Prompt("Say something about the walrus.")) as run:
        async for _ in run:
            pass
    document = await store.archive.export()
    await store.aclose()
    events: list[dict[str, Any]] = document["conversations"][0]["runs"][0]["events"]
    return events


async def _spend(paths: Paths, runs: list[dict[str, Any]]) -> None:
    """Charge a call for each of these runs, with what it sent: one as Baton does, then copies."""
    price = Price(Rates(*[NANO // 1_000_000] * 4), source="a bench")
    ledger = Ledger(paths.ledger, records=paths.ledger_records, history=paths.database)
    bill = HoldRequest(runs[0]["id"], "c0ffee", "gpt", "openai", "openai/gpt-5-mini",
                       Purpose.STEP, price, 400, 800, {Scope.DAY: NANO})  # fmt: skip
    hold = await ledger.hold(bill)
    body = json.dumps({"model": "gpt-5-mini", "messages": "What was asked. " * 40})
    await ledger.sent(hold.call, "api.openai.com", body.encode())
    await ledger.settle(hold.call, BilledTokens(400, 200))
    await ledger.aclose()
    connection = pysqlite3.connect(paths.ledger)
    names = [row[1] for row in connection.execute("PRAGMA table_info(calls)")]
    for number, run in enumerate(runs[1:], start=1):
        at = run["created"]
        day = time.strftime("%Y-%m-%d", time.localtime(at))
        own = {"key": None, "id": f"{number:012x}", "at": at, "changed": at, "day": day}
        own |= {"month": day[:7], "run": run["id"]}
        values = ", ".join(f":{name}" if name in own else name for name in names)
        connection.execute(f"INSERT INTO calls SELECT {values} FROM calls WHERE key = 1", own)
        connection.execute(
            "INSERT INTO egress SELECT NULL, :id, :at, destination, size, sha256, body "
            "FROM egress WHERE key = 1",
            own,
        )
    connection.commit()
    connection.close()


def multiply(database: Path, times: int) -> None:
    """Add copies of all conversations, under other ids, until there are so many times as many."""
    connection = pysqlite3.connect(database)
    connection.execute("PRAGMA foreign_keys = OFF")
    columns = {
        table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for table in ("conversations", "turns", "runs", "events")
    }
    span = connection.execute("SELECT max(key) - min(key) + 1 FROM turns").fetchone()[0]
    for copy in range(1, times):
        # The ids that were made here begin with a 0.
        other = {
            name: f"'{copy:x}' || substr({name}, 2)"
            for name in ("id", "conversation", "parent", "run", "head", "prompt", "answer")
        }
        shifted = {
            "created": f"created - {copy * span / 1000}",
            "updated": f"updated - {copy * span / 1000}",
        }
        for table, names in columns.items():
            key: Mapping[str, str] = {"key": f"key - {copy * span}" if table == "turns" else "NULL"}
            values = {name: name for name in names} | {
                name: value for name, value in {**other, **shifted, **key}.items() if name in names
            }
            if table == "conversations":
                values["title"] = f"title || ', copy {copy}'"
            connection.execute(
                f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values.values())} "
                f"FROM {table} WHERE {'run' if table == 'events' else 'id'} < '1'"
            )
        connection.commit()
    connection.close()
