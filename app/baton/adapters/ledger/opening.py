"""Opening the ledger, whatever state it is in.

A damaged one is kept aside and a new one is begun, which knows nothing of what was spent: so it is
frozen from its first moment.
"""

from __future__ import annotations

import os
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
    """An open ledger. `file` is the one at its path (None: in memory), `since` the newest ceiling
    in it; `warning` is a sentence, or empty.
    """

    connection: Connection
    file: os.stat_result | None
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
            return _opened(connection, None)
        if weakness():
            raise StoreError(weakness(LEDGER), "Run scripts/baton, which installs it.")
        create(path)
        before = path.stat()
        try:
            return _opened(_open(path), before)
        except Damaged:
            return _replace(path, before)


def _opened(connection: Connection, file: os.stat_result | None, warning: str = "") -> Opened:
    since: int = connection.execute("SELECT coalesce(max(key), 0) FROM ceilings").fetchone()[0]
    return Opened(connection, file, since, warning)


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


def is_there(file: os.stat_result | None, path: Path | None) -> bool:
    """Tell whether the file at a path is still the one that was opened."""
    if file is None or path is None:
        return True
    try:
        return os.path.samestat(file, path.stat())
    except FileNotFoundError:
        return False


def _replace(path: Path, before: os.stat_result) -> Opened:
    """Keep the damaged file aside and begin a new one."""
    warning = ""
    if is_there(before, path):
        aside = set_aside(path)
        warning = (
            f"The ledger was damaged, so the cloud is frozen; the file is kept as {aside}. "
            "Look up what was spent at your providers, set ceilings for what is left, then lift "
            "the freeze with `baton budget release --freeze`."
        )
    create(path)  # unless another Baton did all this a moment ago
    file = path.stat()
    return _opened(_open(path), file, warning)
