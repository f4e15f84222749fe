"""SQLite as Baton uses it: one way to connect, one kind of transaction, one table of errors.

Migrations are our own ten lines rather than sqlite-utils': those cost 0.3 s to import, and look
what is pending outside of the transaction, so that two Batons at their first start would run into
each other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from baton.domain.errors import StoreError

if TYPE_CHECKING:
    import sqlite3 as sqlite3
else:
    try:
        import pysqlite3 as sqlite3
    except ImportError:  # never silently: `weakness` tells, and no file is opened
        import sqlite3

Connection = sqlite3.Connection
Row = sqlite3.Row

SOUND = (3, 51, 3)
"""The first SQLite in which two writers can't damage a database in WAL mode."""

BUSY_SECONDS = 10

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",  # in WAL mode, NORMAL may lose the last commits with the power
    "foreign_keys = ON",
    "secure_delete = ON",  # always: a growing answer leaves copies of itself in freed pages
    "cell_size_check = ON",
)


class Damaged(StoreError):
    """The database file itself is broken."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The history file seems to be damaged ({what}).",
            "Start Baton again: it keeps the file aside and recovers what can be read.",
        )


def sqlite_version() -> str:
    """Return the version of the SQLite in use."""
    return sqlite3.sqlite_version


def weakness() -> str:
    """Say in a sentence what is wrong with the SQLite in use, or return ""."""
    if sqlite3.sqlite_version_info >= SOUND:
        return ""
    return (
        f"SQLite {sqlite3.sqlite_version} can damage the history when two Batons write at once: "
        f"Baton needs the package pysqlite3 with SQLite {'.'.join(map(str, SOUND))} or newer."
    )


def connect(path: Path | None, mode: str = "rw") -> Connection:
    """Open a database (None: in memory) for this thread; it is never made. Raises sqlite3.Error."""
    name = ":memory:" if path is None else f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(name, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
    connection.row_factory = sqlite3.Row
    # A flipped bit in a text must not make the rest of the text unreadable.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


@contextmanager
def transaction(connection: Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Do all or nothing. Writers take the lock first (IMMEDIATE), so that none fails halfway."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_DBMOVED = 1032
"""SQLITE_READONLY_DBMOVED, which pysqlite3 doesn't name."""

_DENIED = (
    "The history at {path} can't be written.",
    "Check the owner and the permissions of the file and its folder, or use --no-history.",
)
_BUSY = (
    f"Another program has kept the history locked for {BUSY_SECONDS} seconds, so the last change "
    "was not kept; everything before it was.",
    "Try again.",
)
_BY_CODE = {
    sqlite3.SQLITE_FULL: (
        "The disk is full, so the last change was not kept; everything before it was.",
        "Make room on the disk of {path}, then try again.",
    ),
    sqlite3.SQLITE_IOERR: (
        "The disk refused to read or write the history, so the last change was not kept; "
        "everything before it was.",
        "Check the disk of {path}, and that it isn't full.",
    ),
    sqlite3.SQLITE_NOMEM: ("There is not enough memory for the history.", "Close something."),
    sqlite3.SQLITE_TOOBIG: ("A text is too large for the history.", "Split it."),
    sqlite3.SQLITE_READONLY: _DENIED,
    _DBMOVED: (
        "The history file was moved away while it was in use; what is said now can't be kept.",
        "Start Baton again.",
    ),
    sqlite3.SQLITE_CANTOPEN: _DENIED,
    sqlite3.SQLITE_PERM: _DENIED,
    sqlite3.SQLITE_AUTH: _DENIED,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_PROTOCOL: _BUSY,
}
_OTHER = ("The history at {path} could not be used: {error}.", "Try again.")
_DAMAGE = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    # Our SQL and our schema fit together, so these too mean that the file isn't as we made it.
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
}


@contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Turn SQLite's and the system's errors into a StoreError that a person can act upon."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            raise  # the module's own complaints (a closed connection) are bugs
        if _means_damage(code, path):
            raise Damaged(str(error)) from error
        message, hint = _BY_CODE.get(code, _BY_CODE.get(_primary(code), _OTHER))
        words = {"path": path or "memory", "error": error}
        raise StoreError(message.format(**words), hint.format(**words)) from error
    except UnicodeDecodeError as error:
        # Texts are decoded leniently, so this was a message that quotes a broken schema.
        raise Damaged("its schema is unreadable") from error
    except OSError as error:
        message = f"The history at {path} can't be used: {error.strerror}."
        raise StoreError(message, _DENIED[1]) from error


def _primary(code: int) -> int:
    return code & 0xFF  # the upper bits only refine it


def _means_damage(code: int, path: Path | None) -> bool:
    if code == sqlite3.SQLITE_READONLY and path is not None:
        # With the rights to write, it is a flipped bit in the header that forbids it.
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return _primary(code) in _DAMAGE


def clean(text: str) -> str:
    """Return the text as SQLite can keep it: halves of UTF-16 pairs joined, lone ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: it happens as a whole or not at all, and never changes again."""

    name: str
    statements: tuple[str, ...]


def version(connection: Connection) -> int:
    """Return how many migrations the database has had."""
    number: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return number


def migrate(connection: Connection, migrations: Sequence[Migration]) -> None:
    """Apply what is missing, each migration in one transaction. Safe while others do the same."""
    for number, migration in enumerate(migrations, start=1):
        with transaction(connection):
            if version(connection) >= number:
                continue
            for statement in migration.statements:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO migrations VALUES (?, ?)", (migration.name, time.time())
            )
            connection.execute(f"PRAGMA user_version = {number}")
