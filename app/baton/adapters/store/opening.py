"""Opening the database, whatever state it is in.

A sound file is opened in a few milliseconds. A damaged one is kept aside, never deleted, and what
can still be read of it is carried over into a new one. A run whose process is gone is marked lost.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from baton.adapters.store import transfer
from baton.adapters.store.schema import MIGRATIONS
from baton.domain.errors import BatonError, StoreError
from baton.sqlite import (
    Connection,
    Damaged,
    connect,
    explained,
    migrate,
    sqlite3,
    transaction,
    weakness,
)

SMALLEST_BYTES = 512
CHECK_ALWAYS_BYTES = 1 << 20
CHECK_EVERY_SECONDS = 24 * 3600
_SIDE_FILES = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open database; `warning` is a sentence for the person, or empty."""

    connection: Connection
    warning: str = ""


def open_database(path: Path | None) -> Opened:
    """Open the history at this path (None: in memory), made or mended as needed.

    Raises StoreError where that is impossible; the file is then as it was.
    """
    with explained(path):
        if path is None:
            connection = connect(None)
            migrate(connection, MIGRATIONS)
            return Opened(connection)
        if weakness():
            raise StoreError(weakness(), "Run scripts/baton, which installs it.")
        _create(path)
        before = path.stat()
        try:
            return Opened(_open(path))
        except Damaged:
            return _replace(path, before)


def _create(path: Path) -> None:
    """Make sure that the file is there, and was at no moment readable by others."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)  # SQLite gives its side files the same mode


def _open(path: Path) -> Connection:
    """Connect, migrate and check. Raises Damaged."""
    with explained(path):
        if 0 < path.stat().st_size < SMALLEST_BYTES:
            raise Damaged("it is cut short")  # SQLite would take it for an empty one
        connection = connect(path)
        try:
            fresh = _prepare(connection, path)
            _check(connection, path, fresh)
            mark_lost(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(connection: Connection, path: Path) -> bool:
    """Bring the schema up to date; return whether the database was empty."""
    number: int
    number, tables = connection.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
    ).fetchone()
    if number == len(MIGRATIONS):
        return False
    if number > 0 or tables > 0:
        applied = connection.execute("SELECT count(*) FROM migrations").fetchone()[0]
        if applied != number:
            raise Damaged("its version and its contents disagree")
    if number > len(MIGRATIONS):
        raise StoreError(
            f"The history at {path} was written by a newer Baton; nothing was changed.",
            "Update Baton, or use --no-history.",
        )
    if number > 0:
        _back_up(connection, path, MIGRATIONS[number].name)
    migrate(connection, MIGRATIONS)
    return number == 0


def _back_up(connection: Connection, path: Path, migration: str) -> None:
    """Copy the database as it is before a migration, for the case that the migration is wrong."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    copy = sqlite3.connect(part)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    part.replace(path.with_name(f"{path.name}.before-{migration}"))


def stamp(path: Path) -> Path:
    """Return the file whose time tells when the database was last found sound.

    Without it, the next start looks closely, at the search index too.
    """
    return path.with_name(f"{path.name}-checked")


def _check(connection: Connection, path: Path, fresh: bool) -> None:
    """Look for damage where that is quick or due. Raises Damaged."""
    checked = stamp(path)
    try:
        age = time.time() - checked.stat().st_mtime
    except FileNotFoundError:
        age = None
    due = age is None or not 0 <= age < CHECK_EVERY_SECONDS
    if not fresh and (due or path.stat().st_size <= CHECK_ALWAYS_BYTES):
        _check_closely(connection) if age is None else _check_tables(connection)
    if due:
        os.close(os.open(checked, os.O_WRONLY | os.O_CREAT, 0o600))
        os.utime(checked)


def _check_tables(connection: Connection) -> None:
    """Check all but the words in the search index, which takes ten times as long."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage")
    for row in tables.fetchall():
        name = row["name"].replace("'", "''")
        _must_be_ok(connection.execute(f"PRAGMA integrity_check('{name}')").fetchone())


def _check_closely(connection: Connection) -> None:
    _must_be_ok(connection.execute("PRAGMA integrity_check").fetchone())
    # Writing what stands there already: a header can forbid it, which nothing else would show.
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    reference = connect(None)
    migrate(reference, MIGRATIONS)
    if _schema(connection) != _schema(reference):
        raise Damaged("its schema is not as Baton made it")
    reference.close()


def _must_be_ok(row: tuple[str] | None) -> None:
    if row is not None and row[0] != "ok":
        raise Damaged(row[0].splitlines()[0])


def _schema(connection: Connection) -> list[tuple[str, ...]]:
    query = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'"
    return sorted(tuple(map(str, row)) for row in connection.execute(query))


def _replace(path: Path, before: os.stat_result) -> Opened:
    """Keep the damaged file aside, begin a new one and carry over what can be read."""
    if path.stat().st_ino != before.st_ino:
        return Opened(_open(path))  # another Baton did all this a moment ago
    aside = _set_aside(path)
    connection = _open_new(path)
    carried = _carry_over(aside, connection)
    recovered = {0: "nothing in it could be read", 1: "1 conversation was recovered"}.get(
        carried, f"{carried} conversations were recovered"
    )
    return Opened(
        connection, f"The history file was damaged: {recovered}, and the file is kept as {aside}."
    )


def _open_new(path: Path) -> Connection:
    _create(path)
    return _open(path)


def _set_aside(path: Path) -> Path:
    base = f"{path.name}.broken-{time.strftime('%Y%m%d-%H%M%S')}"
    aside, number = path.with_name(base), 2
    while aside.exists():
        aside, number = path.with_name(f"{base}-{number}"), number + 1
    for suffix in _SIDE_FILES:
        side = path.with_name(path.name + suffix)
        if side.exists():
            side.rename(aside.with_name(aside.name + suffix))
    return aside


def _carry_over(aside: Path, connection: Connection) -> int:
    """Copy every conversation that can be read as a whole; return how many those were."""
    carried = 0
    try:
        broken = connect(aside, mode="ro")  # what is kept stays as it was found
        found = broken.execute("SELECT id FROM conversations WHERE hidden_at IS NULL ORDER BY key")
        for row in found.fetchall():
            try:
                with transaction(connection):
                    carried += transfer.import_(
                        connection, transfer.export(broken, [row["id"]])
                    ).conversations
            except (BatonError, sqlite3.Error):
                continue
        broken.close()
    except (BatonError, sqlite3.Error):
        pass  # the person is told how many there were
    return carried


def mark_lost(connection: Connection) -> None:
    """End the runs whose process is gone, and keep what they had written."""
    running = connection.execute(
        "SELECT id, owner, created FROM runs WHERE status = 'running'"
    ).fetchall()
    lost = [row["id"] for row in running if not _is_alive(row["owner"], row["created"])]
    if not lost:
        return
    with transaction(connection):
        for run in lost:
            connection.execute(
                "UPDATE turns SET status = 'lost' WHERE status = 'streaming' "
                "AND id = (SELECT answer FROM runs WHERE id = ? AND status = 'running')",
                [run],
            )
            connection.execute(
                "UPDATE runs SET status = 'lost' WHERE id = ? AND status = 'running'", [run]
            )


def _is_alive(owner: int | None, created: float) -> bool:
    """Tell whether the process that began a run then is still there, and not another of its id."""
    if owner is None:
        return False
    import psutil

    try:
        return bool(psutil.Process(owner).create_time() <= created + 1)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
