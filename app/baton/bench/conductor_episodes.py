"""The requests on which conductors are compared, from a file in this package."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from baton.bench.conductor_score import Episode, ExpectedPart

EPISODES_FILE = Path(__file__).with_name("conductor_episodes.toml")


def read_episodes(limit: int | None = None) -> tuple[Episode, ...]:
    """Return the first `limit` episodes, or all of them."""
    rows = tomllib.loads(EPISODES_FILE.read_text("utf-8"))["episodes"]
    return tuple(map(_episode, rows[:limit]))


def _episode(row: dict[str, Any]) -> Episode:
    return Episode(row["id"], row["language"], row["request"], tuple(map(_part, row["parts"])))


def _part(row: dict[str, Any]) -> ExpectedPart:
    return ExpectedPart(
        row["text"],
        tuple(row["holds"]),
        tuple(row.get("about", ())),
        row.get("tool", ""),
        tuple(row.get("needs", ())),
    )
