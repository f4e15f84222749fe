"""What is known of a ledger besides the ledger: whether there was one, and how far it had come.

Each ledger has an id and a number of rows that only grows. Both are recorded in a file beside the
ledger and in one file per ledger in a second folder, after each commit; so a record is never ahead
of its ledger, and a ledger that is behind a record was set back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from baton.platform.durable_files import make_folder, open_private
from baton.platform.sqlite import Connection, connect, has_past, sqlite3

_PROGRESS = """SELECT (SELECT id FROM identity), (SELECT coalesce(max(key), 0) FROM entries)
    + (SELECT coalesce(max(key), 0) FROM egress) + (SELECT coalesce(max(key), 0) FROM ceilings)
    + (SELECT coalesce(max(key), 0) FROM freezes)"""

_LAST_PAID_CALL = """SELECT data ->> 'call', created FROM runs JOIN events ON events.run = runs.id
    WHERE kind = 'Called' AND data ->> 'cost' > 0 AND data ->> 'call' > '' AND owner IS NOT NULL
    ORDER BY runs.key DESC, seq DESC LIMIT 1"""
"""What was imported has no owner: another machine's ledger knows of it."""

OLDER = "the ledger is older than the one used last, so what was spent since is not known."
OTHER = "another ledger was used here before this one, so what was spent is not known."


@dataclass(frozen=True, slots=True)
class Progress:
    """Which ledger it is, and how many rows it had."""

    ledger: str
    rows: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a ledger is remembered: beside itself, in a folder of `records`, and in the history."""

    path: Path
    records: Path | None = None
    history: Path | None = None

    @property
    def _beside(self) -> Path:
        return self.path.with_name(f"{self.path.name}-seen")

    def recall(self) -> Recollection:
        """Return what is remembered now. Ask before the ledger is opened: records only grow."""
        beside = _read(self._beside)
        others = dict(self._others())
        past = has_past(self.path) or self._beside.exists() or bool(others)
        # What is beside the ledger may have been restored with it.
        last = None if others else self._last_paid_call()
        return Recollection(past or last is not None, beside, others, last)

    def _others(self) -> Iterator[tuple[str, int]]:
        with suppress(OSError):
            for file in sorted(self.records.iterdir()) if self.records is not None else ():
                if (found := _read(file)) is not None and found.ledger == file.name:
                    yield found.ledger, found.rows

    def _last_paid_call(self) -> tuple[str, float] | None:
        """Return the last call that the history says was paid here, and when its run began."""
        if self.history is None or not self.history.is_file() or not self.history.stat().st_size:
            return None
        with suppress(sqlite3.Error, OSError), closing(connect(self.history, "ro")) as connection:
            row = connection.execute(_LAST_PAID_CALL).fetchone()
            return (str(row[0]), float(row[1])) if row is not None else None
        return None

    def record(self, progress: Progress) -> None:
        """Remember how far a ledger has come. A disk that refuses leaves an older record."""
        with suppress(OSError):
            _write(self._beside, progress)
        if self.records is not None:
            with suppress(OSError):
                make_folder(self.records)
                _write(self.records / progress.ledger, progress)


@dataclass(frozen=True, slots=True)
class Recollection:
    """What was remembered of ledgers: `past` is whether there was one at all.

    `beside` is the one at the same path, `others` the rows of all by id. `last_paid` is the last
    call that the history knows and when, asked for only where there are no other records.
    """

    past: bool
    beside: Progress | None
    others: dict[str, int]
    last_paid: tuple[str, float] | None

    def doubt(self, connection: Connection, present: Progress) -> str:
        """Say why this ledger can't be the one that was used last, or return ""."""
        known = self.others.get(present.ledger)
        if self.beside is not None and self.beside.ledger == present.ledger:
            known = max(known or 0, self.beside.rows)
        elif self.beside is not None or (self.others and known is None):
            return OTHER
        is_behind = known is not None and present.rows < known
        return OLDER if is_behind or self._lacks_last_paid(connection) else ""

    def _lacks_last_paid(self, connection: Connection) -> bool:
        """Return whether the ledger lacks that call, and no freeze was lifted since."""
        if self.last_paid is None:
            return False
        query = """SELECT 1 FROM calls WHERE id = ?
            UNION ALL SELECT 1 FROM freezes WHERE reason = '' AND at >= ?"""
        return connection.execute(query, self.last_paid).fetchone() is None


def progress_of(connection: Connection) -> Progress:
    """Return how far this ledger has come."""
    return Progress(*connection.execute(_PROGRESS).fetchone())


def _read(file: Path) -> Progress | None:
    try:
        ledger, rows = file.read_text("ascii").split()
        return Progress(ledger, int(rows)) if ledger.isalnum() else None
    except (OSError, ValueError):
        return None


def _write(file: Path, progress: Progress) -> None:
    """Overwrite in place, in one write of one length: a kill leaves the old or the new."""
    handle = open_private(file, os.O_WRONLY | os.O_CREAT)
    try:
        size = os.write(handle, f"{progress.ledger} {progress.rows:019d}\n".encode())
        os.ftruncate(handle, size)
    finally:
        os.close(handle)
