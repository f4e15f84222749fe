"""Opening the database, whatever state it is in.

A sound file is opened in a few milliseconds. A damaged one is kept aside, never deleted, and what
can still be read of it is carried over into a new one. A run whose process is gone is marked lost.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from baton.core.errors import BatonError, StoreError
from baton.history import export
from baton.history.schema import MIGRATIONS
from baton.platform.process_owner import Owner, is_alive
from baton.platform.sqlite import (
    Connection,
    Damaged,
    Row,
    connect,
    create,
    explained,
    has_lost_log,
    has_past,
    is_empty,
    migrate,
    open_file,
    set_aside,
    sqlite3,
    transaction,
    weakness,
)


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
        lost = has_past(path) and is_empty(path)
        log = set_aside(path) if has_lost_log(path) else None
        create(path)
        before = path.stat()
        try:
            return Opened(_open(path), _loss(path, log) if lost else "")
        except Damaged:
            return _replace(path, before)


def _loss(path: Path, log: Path | None) -> str:
    kept = f"what was left of it is kept as {log}" if log is not None else "nothing of it is left"
    return (
        f"The history file was emptied or removed, so a new one was begun; {kept}, and the ledger "
        f"is as it was. A backup can take the place of {path} while no Baton runs."
    )


def _open(path: Path) -> Connection:
    with ExitStack() as opened:
        connection = opened.enter_context(closing(open_file(path, MIGRATIONS)))
        with explained(path):
            mark_lost(connection)
        opened.pop_all()
    return connection


def _replace(path: Path, before: os.stat_result) -> Opened:
    """Keep the damaged file aside, begin a new one and carry over what can be read."""
    if path.stat().st_ino != before.st_ino:
        return Opened(_open(path))  # another Baton did all this a moment ago
    aside = set_aside(path)
    connection = _open_new(path)
    carried = _carry_over(aside, connection)
    recovered = {0: "nothing in it could be read", 1: "1 conversation was recovered"}.get(
        carried, f"{carried} conversations were recovered"
    )
    return Opened(
        connection, f"The history file was damaged: {recovered}, and the file is kept as {aside}."
    )


def _open_new(path: Path) -> Connection:
    create(path)
    return _open(path)


def _carry_over(aside: Path, connection: Connection) -> int:
    """Copy every conversation that can be read as a whole; return how many those were."""
    carried = 0
    try:
        broken = connect(aside, mode="ro")  # what is kept stays as it was found
        found = broken.execute("SELECT id FROM conversations WHERE hidden_at IS NULL ORDER BY key")
        for row in found.fetchall():
            # What was done with answers may be what can't be read; an older Baton kept none of it.
            carried += any(_carried(broken, connection, row["id"], m) for m in (True, False))
        broken.close()
    except (BatonError, sqlite3.Error):
        pass  # the person is told how many there were
    return carried


def _carried(broken: Connection, connection: Connection, id: str, marked: bool) -> bool:
    """Copy a conversation; tell whether it could be read as a whole."""
    try:
        with transaction(connection):
            document = export.export(broken, [id], marked=marked)
            return export.import_(connection, document).conversations > 0
    except (BatonError, sqlite3.Error):
        return False


def mark_lost(connection: Connection) -> None:
    """End the runs whose process is gone, and keep what they had written."""
    running = connection.execute(
        "SELECT id, owner, started, created FROM runs WHERE status = 'running'"
    ).fetchall()
    lost = [row["id"] for row in running if not _is_played(row)]
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


def _is_played(run: Row) -> bool:
    """Tell whether the process that began a run is still there."""
    if run["owner"] is None:
        return False
    started = run["created"] if run["started"] is None else run["started"]
    return is_alive(Owner(run["owner"], started))
