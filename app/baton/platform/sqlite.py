"""SQLite as Baton uses it: opening a file, transactions, migrations and errors.

sqlite-utils applies migrations, and is imported only where there is an older schema.
What is pending is read inside the transaction that applies it (sqlite-utils' own `Migrations` reads
it before), so that two Batons at their first start don't run into each other.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.errors import StoreError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sanitiser import whole_characters
from baton.platform.durable_files import folder_fault, make_folder, open_private

if TYPE_CHECKING:
    import sqlite3 as sqlite3

    from sqlite_utils import Database
else:
    try:
        import pysqlite3 as sqlite3
    except ImportError:  # never silently: see `version_warning`; no file is opened
        import sqlite3

Connection = sqlite3.Connection
Row = sqlite3.Row

MIN_SAFE_VERSION = (3, 51, 3)
"""The first SQLite in which two writers can't damage a database in WAL mode."""

BUSY_SECONDS = 10

MIN_FILE_BYTES = 512
CHECK_ALWAYS_BYTES = 1 << 20
CHECK_EVERY_SECONDS = 24 * 3600
_SIDE_FILES = ("", "-wal", "-shm")

_PRAGMAS = (
    "synchronous = FULL",  # in WAL mode, NORMAL may lose the last commits with the power
    "foreign_keys = ON",
    "secure_delete = ON",  # always: a growing answer leaves copies of itself in freed pages
    "cell_size_check = ON",
)


@frozen_dataclass
class DatabaseWording:
    """How messages speak of a database: its name, how to repair it, how to do without it."""

    name: str
    repair_hint: str
    alternative: str


HISTORY = DatabaseWording(
    "history",
    "Start Baton again: it keeps the file aside and recovers what can be read.",
    "use --no-history",
)


class DatabaseDamaged(StoreError):
    """The database file itself is broken."""

    def __init__(self, what: str, wording: DatabaseWording = HISTORY) -> None:
        super().__init__(
            f"The {wording.name} file seems to be damaged ({what}).",
            wording.repair_hint,
        )


class DatabaseTooNew(StoreError):
    """A newer Baton wrote the database: this one may read it, and nothing else."""

    def __init__(self, path: Path, wording: DatabaseWording = HISTORY) -> None:
        super().__init__(
            f"The {wording.name} at {path} was written by a newer Baton; nothing was changed.",
            f"Update Baton, or {wording.alternative}.",
        )


def sqlite_version() -> str:
    """Return the version of the SQLite in use."""
    return sqlite3.sqlite_version


def version_warning(wording: DatabaseWording = HISTORY) -> str:
    """Say in a sentence what is wrong with the SQLite in use, or return ""."""
    if sqlite3.sqlite_version_info >= MIN_SAFE_VERSION:
        return ""
    needed = ".".join(map(str, MIN_SAFE_VERSION))
    return (
        f"SQLite {sqlite3.sqlite_version} can damage the {wording.name} when two Batons write at "
        f"once: Baton needs the package pysqlite3 with SQLite {needed} or newer."
    )


def connect(path: Path | None, mode: str = "rw") -> Connection:
    """Open a database (None: in memory) for this thread; it is never made. Raises sqlite3.Error."""
    name = ":memory:" if path is None else f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(name, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
    connection.row_factory = sqlite3.Row
    # A flipped bit in a text must not make the rest of the text unreadable.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    if path is not None and mode == "rw" and path.exists() and is_empty(path):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # which only a new file can take up
    try:  # two that change to WAL mode at the same new file get in each other's way at once
        _retry_while_busy(connection, "PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _retry_while_busy(connection: Connection, statement: str) -> None:
    """Run a statement as soon as the database isn't locked.

    SQLite's own waiting sleeps longer each time, up to 0.1 s, so that of two that write a lot one
    makes no progress for seconds.
    """
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(random.uniform(0.0002, 0.001))


def _begin(connection: Connection, kind: str) -> None:
    if kind != "IMMEDIATE":
        connection.execute(f"BEGIN {kind}")
        return
    if is_read_only(connection):
        raise DatabaseTooNew(Path(connection.execute("PRAGMA database_list").fetchone()["file"]))
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        _retry_while_busy(connection, "BEGIN IMMEDIATE")
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")


def is_read_only(connection: Connection) -> bool:
    """Whether a connection may only read: a newer Baton made the database."""
    return bool(connection.execute("PRAGMA query_only").fetchone()[0])


@contextmanager
def transaction(connection: Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Do all or nothing. Writers take the lock first (IMMEDIATE), so that none fails halfway."""
    _begin(connection, kind)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_DBMOVED = 1032
"""SQLITE_READONLY_DBMOVED, which pysqlite3 doesn't name."""

_DENIED_TEXT = (
    "The {name} at {path} can't be written.",
    "Check the owner and the permissions of the file and its folder, or {without}.",
)
_BUSY_TEXT = (
    f"Another program has kept the {{name}} locked for {BUSY_SECONDS} seconds, so the last change "
    "was not kept; everything before it was.",
    "Try again.",
)
_TEXTS_BY_CODE = {
    sqlite3.SQLITE_FULL: (
        "The disk is full, so the last change was not kept; everything before it was.",
        "Make room on the disk of {path}, then try again.",
    ),
    sqlite3.SQLITE_IOERR: (
        "The disk refused to read or write the {name}, so the last change was not kept; "
        "everything before it was.",
        "Check the disk of {path}, and that it isn't full.",
    ),
    sqlite3.SQLITE_NOMEM: ("There is not enough memory for the {name}.", "Close something."),
    sqlite3.SQLITE_TOOBIG: ("A text is too large for the {name}.", "Split it."),
    sqlite3.SQLITE_READONLY: _DENIED_TEXT,
    _DBMOVED: (
        "The {name} file was moved away while it was in use, so the last change was not kept.",
        "Start Baton again.",
    ),
    sqlite3.SQLITE_CANTOPEN: _DENIED_TEXT,
    sqlite3.SQLITE_PERM: _DENIED_TEXT,
    sqlite3.SQLITE_AUTH: _DENIED_TEXT,
    sqlite3.SQLITE_BUSY: _BUSY_TEXT,
    sqlite3.SQLITE_LOCKED: _BUSY_TEXT,
    sqlite3.SQLITE_PROTOCOL: _BUSY_TEXT,
}
_OTHER_TEXT = ("The {name} at {path} could not be used: {error}.", "Try again.")
_DAMAGE_CODES = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    # Our SQL and our schema fit together, so these too mean that the file isn't as we made it.
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
}


@contextmanager
def explain_errors(path: Path | None, wording: DatabaseWording = HISTORY) -> Iterator[None]:
    """Turn SQLite's and the system's errors into a StoreError that the user can act upon."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            raise  # the module's own complaints (a closed connection) are bugs
        if _means_damage(code, path):
            raise DatabaseDamaged(str(error), wording) from error
        message, hint = _TEXTS_BY_CODE.get(
            code, _TEXTS_BY_CODE.get(_primary_code(code), _OTHER_TEXT)
        )
        words = {"name": wording.name, "without": wording.alternative}
        words |= {"path": str(path or "memory"), "error": str(error)}
        raise StoreError(message.format(**words), hint.format(**words)) from error
    except UnicodeDecodeError as error:
        # Texts are decoded leniently, so this was a message that quotes a broken schema.
        raise DatabaseDamaged("its schema is unreadable", wording) from error
    except OSError as error:
        why = (path and folder_fault(path.parent)) or error.strerror
        message = f"The {wording.name} at {path} can't be used: {why}."
        raise StoreError(message, _DENIED_TEXT[1].format(without=wording.alternative)) from error


def _primary_code(code: int) -> int:
    return code & 0xFF  # the upper bits only refine it


def _means_damage(code: int, path: Path | None) -> bool:
    if code == sqlite3.SQLITE_READONLY and path is not None:
        # With the rights to write, it is a flipped bit in the header that forbids it.
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return _primary_code(code) in _DAMAGE_CODES


clean_text = whole_characters
"""Returns a text as SQLite can keep it."""


@frozen_dataclass
class Migration:
    """One step of the schema: it happens as a whole or not at all, and never changes again."""

    name: str
    statements: tuple[str, ...]


def schema_version(connection: Connection) -> int:
    """Return how many migrations the database has had."""
    number: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return number


def migrate(connection: Connection, migrations: Sequence[Migration]) -> None:
    """Apply what is missing in one transaction: no reader ever meets half a schema.

    An empty database is made without sqlite-utils, whose import is a tenth of a first start.
    """
    is_empty = schema_version(connection) == 0
    execute = connection.execute if is_empty else utils_database(connection).execute
    with transaction(connection):
        for number, migration in enumerate(migrations, start=1):
            if schema_version(connection) >= number:
                continue  # also when another Baton was faster
            for statement in migration.statements:
                execute(statement)
            applied = "INSERT INTO migrations (name, applied) VALUES (?, ?)"
            execute(applied, [migration.name, time.time()])
            execute(f"PRAGMA user_version = {number}")


def utils_database(connection: Connection) -> Database:
    """Return what sqlite-utils makes of a connection; imported here, since most starts need none.

    It also loads numpy where that is installed, for columns that Baton has none of: 0.3 s and 13 MB
    (2 cores, AVX2). So for this thread there is none meanwhile.
    """
    hidden = _HiddenNumpy()
    # Lists of their own: another thread may be on its way through the one that is there.
    sys.meta_path = [hidden, *sys.meta_path]
    try:
        from sqlite_utils import Database
    finally:
        sys.meta_path = [finder for finder in sys.meta_path if finder is not hidden]
    # Its own pragma and plugins would make this connection another one than at the next start.
    return Database(connection, recursive_triggers=False, execute_plugins=False)


class _HiddenNumpy:
    """Lets imports of numpy and pandas fail in the thread that made it; others still find them."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: object, target: object = None, /) -> None:
        if name in ("numpy", "pandas") and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is not needed here", name=name)


def open_in_memory(migrations: Sequence[Migration]) -> Connection:
    """Return a new database in memory with the newest schema, forgotten at the end."""
    connection = connect(None)
    for migration in migrations:
        for statement in migration.statements:
            connection.execute(statement)
    return connection


def create_database_file(path: Path) -> None:
    """Make sure that the file is there, and was at no moment readable by others."""
    make_folder(path.parent)
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)  # SQLite gives its side files the same mode


def open_database(
    path: Path,
    migrations: Sequence[Migration],
    wording: DatabaseWording = HISTORY,
    proof: Callable[[Connection], None] | None = None,
) -> Connection:
    """Open a file that is there: connect, migrate, and look for damage where that is due.

    `proof` is what must hold of the contents besides. Raises DatabaseDamaged, and StoreError
    for everything else.
    """
    with explain_errors(path, wording):
        if 0 < path.stat().st_size < MIN_FILE_BYTES:
            # SQLite would take it for an empty one.
            raise DatabaseDamaged("it is cut short", wording)
        connection = connect(path)
        try:
            fresh = _prepare(connection, path, migrations, wording)
            closely = _needed_check(path, fresh)
            if closely is not None:
                _check_contents(connection, migrations if closely else (), wording)
                if proof is not None:
                    proof(connection)
            if not _is_recent(_seconds_since_check(path)):
                os.close(open_private(check_stamp(path), os.O_WRONLY | os.O_CREAT))
                os.utime(check_stamp(path))
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(
    connection: Connection, path: Path, migrations: Sequence[Migration], wording: DatabaseWording
) -> bool:
    """Bring the schema up to date; return whether the database was empty."""
    number: int
    with transaction(connection, "DEFERRED"):  # another Baton may migrate between two looks
        number, tables = connection.execute(
            "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
        ).fetchone()
        if number == len(migrations):
            return False
        if number > len(migrations):
            raise DatabaseTooNew(path, wording)
        if number > 0 or tables > 0:
            applied = connection.execute("SELECT count(*) FROM migrations").fetchone()[0]
            if applied != number:
                raise DatabaseDamaged("its version and its contents disagree", wording)
    if number > 0:
        _back_up(connection, path, migrations[number].name)
    migrate(connection, migrations)
    return number == 0


def enable_vacuum(connection: Connection) -> bool:
    """Have a database of an older Baton give room back: it is rewritten, once.

    Returns whether it was. A later start does it where another Baton writes, or the disk is full.
    """
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0]:
        return False
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    try:
        connection.execute("VACUUM")
        # All of it is in the log now: put into the file before anything else reads it.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError:
        return False
    return True


def _back_up(connection: Connection, path: Path, migration: str) -> None:
    """Copy the database as it is before a migration, for the case that the migration is wrong.

    Under the write lock, so that of two Batons that start at once only one writes the copy; through
    a connection of its own, since SQLite doesn't copy from one that holds that lock.
    """
    part = path.with_name(f"{path.name}.part")
    seen = schema_version(connection)
    with transaction(connection):
        if schema_version(connection) > seen:
            return  # the other one has made the copy, and the migration too
        part.unlink(missing_ok=True)
        os.close(open_private(part, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        with closing(connect(path)) as source, closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
        part.replace(path.with_name(f"{path.name}.before-{migration}"))


def check_stamp(path: Path) -> Path:
    """Return the file whose time is when the database was last found sound.

    Without it, the next start looks closely, at the search index too.
    """
    return path.with_name(f"{path.name}-checked")


def _needed_check(path: Path, fresh: bool) -> bool | None:
    """Return whether to look closely for damage, or None for not at all."""
    age = _seconds_since_check(path)
    if fresh or (_is_recent(age) and path.stat().st_size > CHECK_ALWAYS_BYTES):
        return None
    return age is None


def _seconds_since_check(path: Path) -> float | None:
    try:
        return time.time() - check_stamp(path).stat().st_mtime
    except FileNotFoundError:
        return None


def _is_recent(age: float | None) -> bool:
    return age is not None and 0 <= age < CHECK_EVERY_SECONDS


def _check_contents(
    connection: Connection, migrations: Sequence[Migration], wording: DatabaseWording
) -> None:
    """Check all but the words in a search index, which takes ten times as long.

    With `migrations`, closely: those too, and whether the schema is as they make it.
    """
    if migrations:
        _require_ok(connection.execute("PRAGMA integrity_check").fetchone(), wording)
        # Writing what stands there already: a header can forbid it, which nothing else would show.
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        if fault := schema_fault(connection, migrations):
            raise DatabaseDamaged(fault, wording)
        return
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage")
    for row in tables.fetchall():
        name = row["name"].replace("'", "''")
        found = connection.execute(f"PRAGMA integrity_check('{name}')").fetchone()
        _require_ok(found, wording)


def schema_fault(connection: Connection, migrations: Sequence[Migration]) -> str:
    """Say in a few words how a schema differs from the newest one, or return ""."""
    with closing(open_in_memory(migrations)) as reference:
        is_older = 0 < schema_version(connection) < len(migrations)
        is_same = is_older or _schema(connection) == _schema(reference)
    return "" if is_same else "its schema isn't as Baton made it"


def _require_ok(row: tuple[str] | None, wording: DatabaseWording) -> None:
    if row is not None and row[0] != "ok":
        raise DatabaseDamaged(row[0].splitlines()[0], wording)


def _schema(connection: Connection) -> list[tuple[str, ...]]:
    query = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite%'"
    return sorted(tuple(map(str, row)) for row in connection.execute(query))


def had_database(path: Path) -> bool:
    """Whether there was a database at this path before.

    An empty file alone isn't a sign of one: a first start that is killed leaves it.
    """
    left = (
        found
        for kind in ("broken", "before")
        for found in path.parent.glob(f"{path.name}.{kind}-*")
    )
    return check_stamp(path).exists() or any(left) or has_lost_log(path)


def has_lost_log(path: Path) -> bool:
    """Whether the log of a database is there without the database: SQLite would delete it.

    The log is looked at first, since a new database has its first page before it has a log.
    """
    log = path.with_name(f"{path.name}-wal")
    return not is_empty(log) and is_empty(path)


def is_empty(path: Path) -> bool:
    """Whether there is no file at this path, or one without a byte."""
    try:
        return not path.stat().st_size
    except FileNotFoundError:
        return True


def set_aside(path: Path) -> Path:
    """Give a file and what belongs to it another name, and return that: nothing is deleted."""
    base = f"{path.name}.broken-{time.strftime('%Y%m%d-%H%M%S')}"
    aside, number = path.with_name(base), 2
    while aside.exists():
        aside, number = path.with_name(f"{base}-{number}"), number + 1
    for suffix in _SIDE_FILES:
        side = path.with_name(path.name + suffix)
        if side.exists():
            side.rename(aside.with_name(aside.name + suffix))
    return aside
