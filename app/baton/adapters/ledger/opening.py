"""Opening the ledger, whatever state it is in.

A damaged one is kept aside and a new one is begun, which knows nothing of what was spent: so it is
frozen from its first moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from baton.adapters.ledger.schema import MIGRATIONS, WRONG_SUMS
from baton.domain.errors import StoreError
from baton.sqlite import (
    Connection,
    Damaged,
    Migration,
    Subject,
    connect,
    create,
    explained,
    migrate,
    open_file,
    set_aside,
    weakness,
)

LEDGER = Subject(
    "ledger",
    "Start Baton again: it keeps the file aside, begins a new one and freezes the cloud.",
    "stay with local workers",
)

_FREEZE = """INSERT INTO freezes (at, reason, worker) VALUES (unixepoch('subsec'),
    'the ledger was damaged, so what was spent before is not known.', '')"""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open ledger. `since` is the newest ceiling in it; `warning` a sentence, or empty."""

    connection: Connection
    since: int
    warning: str = ""


def open_ledger(path: Path | None) -> Opened:
    """Open the ledger at this path (None: in memory), made or begun anew as needed.

    Raises StoreError where that is impossible; the file is then as it was.
    """
    with explained(path, LEDGER):
        if path is None:
            connection = connect(None)
            migrate(connection, MIGRATIONS)
            return _opened(connection)
        if weakness():
            raise StoreError(weakness(LEDGER), "Run scripts/baton, which installs it.")
        create(path)
        before = path.stat()
        try:
            return _opened(_open(path))
        except Damaged:
            return _replace(path, before.st_ino)


def _opened(connection: Connection, warning: str = "") -> Opened:
    since: int = connection.execute("SELECT coalesce(max(key), 0) FROM ceilings").fetchone()[0]
    return Opened(connection, since, warning)


def _open(path: Path) -> Connection:
    return open_file(path, _migrations(path), LEDGER, _must_add_up)


def _migrations(path: Path) -> tuple[Migration, ...]:
    """Return how to make a ledger: one beside a broken one is born frozen, whoever makes it."""
    if not any(path.parent.glob(f"{path.name}.broken-*")):
        return MIGRATIONS
    first, *rest = MIGRATIONS
    return (replace(first, statements=(*first.statements, _FREEZE)), *rest)


def _must_add_up(connection: Connection) -> None:
    """Compare the sums with the calls. Raises Damaged."""
    if connection.execute(WRONG_SUMS).fetchone() is not None:
        raise Damaged("its sums don't add up", LEDGER)


def _replace(path: Path, before: int) -> Opened:
    """Keep the damaged file aside and begin a new one."""
    if path.exists() and path.stat().st_ino != before:
        return _opened(_open(path))  # another Baton did all this a moment ago
    aside = set_aside(path)
    create(path)
    return _opened(
        _open(path),
        f"The ledger was damaged, so the cloud is frozen; the file is kept as {aside}. "
        "Look up what was spent at your providers, set ceilings for what is left, then lift the "
        "freeze with `baton budget release --freeze`.",
    )
