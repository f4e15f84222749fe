"""Reads a ledger's file beside Baton."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from baton.core.ledger_types import Scope
from baton.money.schema import WRONG_SUMS
from baton.platform import sqlite
from support.ledger_processes import ceilings_of

COUNTS = {"settled": "charged", "held": "held", "unconfirmed": "charged"}
"""For each status that counts, the column with the amount."""


class Observer:
    """Reads the file through a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite.connect(path)

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def must_be_sound(self) -> None:
        assert self._connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert self._connection.execute("PRAGMA foreign_key_check").fetchone() is None
        assert self._connection.execute(WRONG_SUMS).fetchone() is None

    def calls(self) -> dict[str, sqlite.Row]:
        return {row["id"]: row for row in self._connection.execute("SELECT * FROM calls")}

    def sent(self) -> Counter[str]:
        return Counter(row["call"] for row in self._connection.execute("SELECT call FROM egress"))

    def moments_over(self) -> tuple[int, int]:
        """Replay everything that ever happened; return how often a sum was over its ceiling.

        The second number is how many moments there were. At the end the sums of the replay must be
        those that the ledger keeps.
        """
        sums: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        standing: dict[str, tuple[str, int]] = {}
        over = moments = 0
        rows = self._connection.execute(
            """SELECT entries.*, run, session, token, day, month
            FROM entries JOIN calls ON calls.id = entries.call ORDER BY entries.key"""
        )
        for row in rows:
            before = standing.get(row["call"], ("void", 0))
            status: str = row["status"]
            now = (status, row[COUNTS[status]] if status in COUNTS else 0)
            standing[row["call"]] = now
            ceilings = ceilings_of(int(row["session"].removeprefix("s")))
            for scope in [scope for scope in Scope if row[scope.value]]:
                sum_ = sums[scope.value, row[scope.value]]
                sum_[before[0]] -= before[1]
                sum_[now[0]] += now[1]
                over += sum_.total() > ceilings.get(scope, sum_.total())
                moments += 1
        kept = {
            (row["scope"], row["name"]): {name: row[name] for name in COUNTS}
            for row in self._connection.execute("SELECT * FROM totals")
        }
        assert kept == {key: {name: sum_[name] for name in COUNTS} for key, sum_ in sums.items()}
        return over, moments
