"""Opens the ledger in any state, and detects one that was lost, emptied or set back.

Money may only be spent by a ledger that knows what was spent before. One that is damaged is kept
aside; the new one in its place is frozen from its first moment, like one in the place of a ledger
that was emptied or removed. One that is older than the last one used is frozen when it is opened.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from baton.core.errors import StoreError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.money.call_funds import freeze, freeze_reason
from baton.money.schema import MIGRATIONS, WRONG_SUMS
from baton.platform.durable_files import make_folder, open_private
from baton.platform.sqlite import (
    Connection,
    DatabaseDamaged,
    DatabaseWording,
    Migration,
    connect,
    create_database_file,
    explain_errors,
    had_database,
    has_lost_log,
    is_empty,
    open_database,
    open_in_memory,
    set_aside,
    sqlite3,
    transaction,
    version_warning,
)

LEDGER = DatabaseWording(
    "ledger",
    "Start Baton again: it keeps the file aside, begins a new one and freezes the cloud.",
    "stay with local workers",
)

_FREEZE_STATEMENT = """INSERT INTO freezes (at, reason, worker) VALUES (unixepoch('subsec'),
    'an earlier ledger was damaged or lost, so what was spent before is not known.', '')"""

_MOUNTS_FILE = Path("/proc/self/mountinfo")
"""One mount a line; the fifth field is its place. See proc_pid_mountinfo(5)."""

_UNFREEZE_HINT = (
    "Look up what was spent at your providers, set ceilings for what is left, then lift the freeze "
    "with `baton budget release --freeze`."
)


@frozen_dataclass
class OpenedLedger:
    """An open ledger. `files` are those that it consists of while it is open (none: in memory),
    `since` the newest ceiling in it, `progress` how far it had come; `warning` is a sentence, or
    empty.
    """

    connection: Connection
    files: Mapping[Path, os.stat_result]
    since: int
    progress: LedgerProgress
    warning: str = ""


def open_ledger(memory: LedgerRecords | None) -> OpenedLedger:
    """Open the ledger that is remembered so (None: in memory), made or replaced as needed.

    Raises StoreError where that is impossible; the file is then as it was.
    """
    path = None if memory is None else memory.path
    with explain_errors(path, LEDGER):
        if memory is None or path is None:
            return _describe_opened(open_in_memory(MIGRATIONS))
        if version_warning():
            raise StoreError(version_warning(LEDGER), "Run scripts/baton, which installs it.")
        recollection = memory.recall_records()
        lost = recollection.past and is_empty(path)
        log = set_aside(path) if has_lost_log(path) else None
        create_database_file(path)
        before = path.stat()
        try:
            opened = _describe_opened(_open(path, recollection.past), path, before)
        except DatabaseDamaged:
            opened = _replace_damaged(path, before)
        else:
            opened = replace(
                opened,
                warning=_loss_warning(log) if lost else _freeze_if_lost(opened, recollection),
            )
        memory.record(read_progress(opened.connection))
        return opened


def _loss_warning(log: Path | None) -> str:
    kept = f"what was left of it is kept as {log}" if log is not None else "none of it is left"
    return (
        f"The ledger was emptied or removed, so the cloud is frozen; {kept}, and history and "
        f"local workers are as they were. {_UNFREEZE_HINT}"
    )


def _freeze_if_lost(opened: OpenedLedger, recollection: RecordedLedgers) -> str:
    """Freeze a ledger that doesn't know all that was spent, once; return what to say of it."""
    doubt = recollection.find_loss(opened.connection, opened.progress)
    if not doubt or freeze_reason(opened.connection):
        return ""
    with transaction(opened.connection):
        freeze(opened.connection, doubt, time.time())
    return f"The cloud is frozen: {doubt} The ledger itself is kept. {_UNFREEZE_HINT}"


def _describe_opened(
    connection: Connection,
    path: Path | None = None,
    file: os.stat_result | None = None,
    warning: str = "",
) -> OpenedLedger:
    since: int = connection.execute("SELECT coalesce(max(key), 0) FROM ceilings").fetchone()[0]
    progress = read_progress(connection)
    files = {}
    if path is not None and file is not None:
        # The others are there as long as any process has the ledger open; SQLite follows links.
        target = path.resolve()
        sides = [target.with_name(f"{target.name}{suffix}") for suffix in ("-wal", "-shm")]
        files = {path: file} | {side: side.stat() for side in sides}
    return OpenedLedger(connection, files, since, progress, warning)


def _open(path: Path, past: bool) -> Connection:
    return open_database(path, _migrations(past), LEDGER, _require_correct_sums)


def _migrations(past: bool) -> tuple[Migration, ...]:
    """Return how to make a ledger: one where there was one before is born frozen, by anyone."""
    if not past:
        return MIGRATIONS
    first, *rest = MIGRATIONS
    return (replace(first, statements=(*first.statements, _FREEZE_STATEMENT)), *rest)


def _require_correct_sums(connection: Connection) -> None:
    """Compare the sums with the calls. Raises DatabaseDamaged."""
    if connection.execute(WRONG_SUMS).fetchone() is not None:
        raise DatabaseDamaged("its sums don't add up", LEDGER)


def is_same_file(path: Path, file: os.stat_result) -> bool:
    """Whether the file at a path is still the one that was opened."""
    try:
        return os.path.samestat(file, path.stat())
    except FileNotFoundError:
        return False


def is_mounted(path: Path) -> bool:
    """Return whether a file is mounted by itself, as containers do: its log isn't with it then.

    False where the system doesn't say (Linux does).
    """
    try:
        mounts = _MOUNTS_FILE.read_bytes().splitlines()
    except OSError:
        return False
    place = re.sub(rb"[ \t\n\\]", lambda sign: b"\\%03o" % ord(sign[0]), bytes(path.resolve()))
    return any(mount.split(b" ", 5)[4:5] == [place] for mount in mounts)


def _replace_damaged(path: Path, before: os.stat_result) -> OpenedLedger:
    """Keep the damaged file aside and begin a new one."""
    warning = ""
    if is_same_file(path, before):
        aside = set_aside(path)
        warning = (
            f"The ledger was damaged, so the cloud is frozen; the file is kept as {aside}. "
            f"{_UNFREEZE_HINT}"
        )
    create_database_file(path)  # unless another Baton did all this a moment ago
    file = path.stat()
    return _describe_opened(_open(path, past=True), path, file, warning)


_PROGRESS_QUERY = """SELECT (SELECT id FROM identity), (SELECT coalesce(max(key), 0) FROM entries)
    + (SELECT coalesce(max(key), 0) FROM egress) + (SELECT coalesce(max(key), 0) FROM ceilings)
    + (SELECT coalesce(max(key), 0) FROM freezes)"""

_LAST_PAID_CALL_QUERY = """SELECT data ->> 'call', created
    FROM runs JOIN events ON events.run = runs.id
    WHERE kind = 'Called' AND data ->> 'cost' > 0 AND data ->> 'call' > '' AND owner IS NOT NULL
    ORDER BY runs.key DESC, seq DESC LIMIT 1"""
"""What was imported has no owner: another machine's ledger knows of it."""

OLDER_LEDGER = "the ledger is older than the one used last, so what was spent since is not known."
OTHER_LEDGER = "another ledger was used here before this one, so what was spent is not known."


@frozen_dataclass
class LedgerProgress:
    """Which ledger it is, and how many rows it had."""

    ledger: str
    rows: int


@frozen_dataclass
class LedgerRecords:
    """Where a ledger is remembered: beside itself, in a folder of `records`, and in the history."""

    path: Path
    records: Path | None = None
    history: Path | None = None

    @property
    def _file_beside(self) -> Path:
        return self.path.with_name(f"{self.path.name}-seen")

    def recall_records(self) -> RecordedLedgers:
        """Return what is remembered now. Ask before the ledger is opened: records only grow."""
        beside = _read_record(self._file_beside)
        others = dict(self._read_records())
        past = had_database(self.path) or self._file_beside.exists() or bool(others)
        # What is beside the ledger may have been restored with it.
        last = None if others else self._last_paid_call()
        return RecordedLedgers(past or last is not None, beside, others, last)

    def _read_records(self) -> Iterator[tuple[str, int]]:
        with suppress(OSError):
            for file in sorted(self.records.iterdir()) if self.records is not None else ():
                if (found := _read_record(file)) is not None and found.ledger == file.name:
                    yield found.ledger, found.rows

    def _last_paid_call(self) -> tuple[str, float] | None:
        """Return the last call that the history says was paid here, and when its run began."""
        if self.history is None or not self.history.is_file() or not self.history.stat().st_size:
            return None
        with suppress(sqlite3.Error, OSError), closing(connect(self.history, "ro")) as connection:
            row = connection.execute(_LAST_PAID_CALL_QUERY).fetchone()
            return (str(row[0]), float(row[1])) if row is not None else None
        return None

    def record(self, progress: LedgerProgress) -> None:
        """Remember how far a ledger has come. A disk that refuses leaves an older record."""
        with suppress(OSError):
            _write_record(self._file_beside, progress)
        if self.records is not None:
            with suppress(OSError):
                make_folder(self.records)
                _write_record(self.records / progress.ledger, progress)


@frozen_dataclass
class RecordedLedgers:
    """What was remembered of ledgers: `past` is whether there was one at all.

    `beside` is the one at the same path, `others` the rows of all by id. `last_paid` is the last
    call that the history knows and when, asked for only where there are no other records.
    """

    past: bool
    beside: LedgerProgress | None
    others: dict[str, int]
    last_paid: tuple[str, float] | None

    def find_loss(self, connection: Connection, present: LedgerProgress) -> str:
        """Say why this ledger can't be the one that was used last, or return ""."""
        known = self.others.get(present.ledger)
        if self.beside is not None and self.beside.ledger == present.ledger:
            known = max(known or 0, self.beside.rows)
        elif self.beside is not None or (self.others and known is None):
            return OTHER_LEDGER
        is_behind = known is not None and present.rows < known
        return OLDER_LEDGER if is_behind or self._lacks_last_paid(connection) else ""

    def _lacks_last_paid(self, connection: Connection) -> bool:
        """Return whether the ledger lacks that call, and no freeze was lifted since."""
        if self.last_paid is None:
            return False
        query = """SELECT 1 FROM calls WHERE id = ?
            UNION ALL SELECT 1 FROM freezes WHERE reason = '' AND at >= ?"""
        return connection.execute(query, self.last_paid).fetchone() is None


def read_progress(connection: Connection) -> LedgerProgress:
    """Return how far this ledger has come."""
    return LedgerProgress(*connection.execute(_PROGRESS_QUERY).fetchone())


def _read_record(file: Path) -> LedgerProgress | None:
    try:
        ledger, rows = file.read_text("ascii").split()
        return LedgerProgress(ledger, int(rows)) if ledger.isalnum() else None
    except (OSError, ValueError):
        return None


def _write_record(file: Path, progress: LedgerProgress) -> None:
    """Overwrite in place, in one write of one length: a kill leaves the old or the new."""
    handle = open_private(file, os.O_WRONLY | os.O_CREAT)
    try:
        size = os.write(handle, f"{progress.ledger} {progress.rows:019d}\n".encode())
        os.ftruncate(handle, size)
    finally:
        os.close(handle)
