"""The corpus of providers' streams: what each sends, and what must be read of it.

tests/workers/cloud/streams/README.md describes the files.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from baton.core.money import Price, Rates

FOLDER = Path(__file__).parents[1] / "workers" / "cloud" / "streams"
PRICE = Price(Rates(10**9, 4 * 10**9, 10**8, 1_250_000_000), source="the corpus")
"""At which the charges of the corpus are stated."""

NAMED = ("messages", "responses", "cohere")
"""Dialects whose events have a name, which is the data's type."""


@dataclass(frozen=True)
class Event:
    """One event: its data (None: none), its name, or a line that is sent as it stands."""

    data: Any = None
    name: str = ""
    raw: str = ""


@dataclass(frozen=True)
class RecordedStream:
    """One answer. `counts`: prompt, answer, cached, written; None where it names none."""

    family: str
    name: str
    dialect: str
    shapes: frozenset[str]
    events: tuple[Event, ...]
    text: str
    thoughts: str
    end: str
    charge: int | str
    counts: tuple[int, int, int, int] | None = None
    cost: int | None = None
    prefix: str = "data: "
    note: str = ""

    @property
    def id(self) -> str:
        """Return its name among all streams."""
        return f"{self.family}/{self.name}"

    @property
    def bill(self) -> int | None:
        """Return what the provider charges by its own counts and cost; None if it names none."""
        if self.counts is None:
            return None
        tokens_in, tokens_out, cached, written = self.counts
        fresh = tokens_in - cached - written
        own = 1000 * fresh + 4000 * tokens_out + 100 * cached + 1250 * written
        return max(own, self.cost or 0)

    def with_events(self, *events: Event) -> RecordedStream:
        """Return the same answer, sent so."""
        return replace(self, events=events)


def event_bytes(event: Event, prefix: str = "data: ") -> bytes:
    """Return an event as it is sent."""
    if event.raw:
        return f"{event.raw}\n\n".encode()
    text = event.data if isinstance(event.data, str) else compact_json(event.data)
    return framed_bytes(event.name, prefix + text)


def framed_bytes(name: str, lines: str) -> bytes:
    """Return an event of these lines of data; halves of characters are escaped, as JSON needs."""
    head = f"event: {name}\n" if name else ""
    text = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", lines)
    return f"{head}{text}\n\n".encode()


def stream_bytes(stream: RecordedStream) -> bytes:
    """Return a whole answer as it is sent."""
    return b"".join(event_bytes(event, stream.prefix) for event in stream.events)


def compact_json(data: Any) -> str:
    """Return JSON without spaces, as most providers send it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def load_corpus() -> list[RecordedStream]:
    """Return all streams, in the order of the files."""
    streams: list[RecordedStream] = []
    for path in sorted(FOLDER.glob("*.toml")):
        table = tomllib.loads(path.read_text())
        envelope = json.loads(table.get("envelope", "{}"))
        for row in table["stream"]:
            lines = row["events"].splitlines()
            events = [e for line in lines for e in _events_of(line, table["dialect"], envelope)]
            counts = row.get("counts")
            streams.append(
                RecordedStream(
                    family=path.stem,
                    name=row["name"],
                    dialect=table["dialect"],
                    shapes=frozenset(row["shapes"]),
                    events=tuple(events),
                    text=row["text"],
                    thoughts=row.get("thoughts", ""),
                    end=row["end"],
                    charge=row["charge"],
                    counts=tuple(counts) if counts else None,
                    cost=row.get("cost"),
                    prefix=table.get("prefix", "data: "),
                    note=row.get("note", ""),
                )
            )
    return streams


def _events_of(line: str, dialect: str, envelope: dict[str, Any]) -> list[Event]:
    if line.startswith(":"):
        return [Event(raw=line)]
    if line.startswith("raw: "):
        return [Event(raw=line.removeprefix("raw: "))]
    if line == "[DONE]":
        return [Event(line)]
    if named := re.fullmatch(r"event: (\w+) (.*)", line):
        return [Event(json.loads(named[2]), named[1])]
    times = re.match(r"(\d+)x ", line)
    data = json.loads(line[times.end() :] if times else line)
    if "choices" in data:
        data = {**envelope, **data}
    name = data.get("type", "") if dialect in NAMED else ""
    return [Event(data, name)] * (int(times[1]) if times else 1)
