"""Opening the ledger, whatever state it is in.

Money may only be spent by a ledger that knows what was spent before. One that is damaged is kept
aside; the new one in its place is frozen from its first moment, like one in the place of a ledger
that was emptied or removed. One that is older than the last one used is frozen when it is opened.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from baton.core.errors import StoreError
from baton.money.call_funds import freeze, frozen_by
from baton.money.loss_detection import Memory, Progress, Recollection, progress_of
from baton.money.schema import MIGRATIONS, WRONG_SUMS
from baton.platform.sqlite import (
    Connection,
    Damaged,
    Migration,
    Subject,
    connect,
    create,
    explained,
    has_lost_log,
    is_empty,
    migrate,
    open_file,
    set_aside,
    transaction,
    weakness,
)

LEDGER = Subject(
    "ledger",
    "Start Baton again: it keeps the file aside, begins a new one and freezes the cloud.",
    "stay with local workers",
)

_FREEZE = """INSERT INTO freezes (at, reason, worker) VALUES (unixepoch('subsec'),
    'an earlier ledger was damaged or lost, so what was spent before is not known.', '')"""

_MOUNTS = Path("/proc/self/mountinfo")
"""One mount a line; the fifth field is its place. See proc_pid_mountinfo(5)."""

_WAY_OUT = (
    "Look up what was spent at your providers, set ceilings for what is left, then lift the freeze "
    "with `baton budget release --freeze`."
)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open ledger. `files` are those that it consists of while it is open (none: in memory),
    `since` the newest ceiling in it, `progress` how far it had come; `warning` is a sentence, or
    empty.
    """

    connection: Connection
    files: Mapping[Path, os.stat_result]
    since: int
    progress: Progress
    warning: str = ""


def open_ledger(memory: Memory | None) -> Opened:
    """Open the ledger that is remembered so (None: in memory), made or replaced as needed.

    Raises StoreError where that is impossible; the file is then as it was.
    """
    path = None if memory is None else memory.path
    with explained(path, LEDGER):
        if memory is None or path is None:
            connection = connect(None)
            migrate(connection, MIGRATIONS)
            return _opened(connection)
        if weakness():
            raise StoreError(weakness(LEDGER), "Run scripts/baton, which installs it.")
        recollection = memory.recall()
        lost = recollection.past and is_empty(path)
        log = set_aside(path) if has_lost_log(path) else None
        create(path)
        before = path.stat()
        try:
            opened = _opened(_open(path, recollection.past), path, before)
        except Damaged:
            opened = _replace(path, before)
        else:
            opened = replace(opened, warning=_loss(log) if lost else _freeze(opened, recollection))
        memory.record(progress_of(opened.connection))
        return opened


def _loss(log: Path | None) -> str:
    kept = f"what was left of it is kept as {log}" if log is not None else "nothing of it is left"
    return (
        f"The ledger was emptied or removed, so the cloud is frozen; {kept}, and history and "
        f"local workers are as they were. {_WAY_OUT}"
    )


def _freeze(opened: Opened, recollection: Recollection) -> str:
    """Freeze a ledger that doesn't know all that was spent, once; return what to say of it."""
    doubt = recollection.doubt(opened.connection, opened.progress)
    if not doubt or frozen_by(opened.connection):
        return ""
    with transaction(opened.connection):
        freeze(opened.connection, doubt, time.time())
    return f"The cloud is frozen: {doubt} The ledger itself is kept. {_WAY_OUT}"


def _opened(
    connection: Connection,
    path: Path | None = None,
    file: os.stat_result | None = None,
    warning: str = "",
) -> Opened:
    since: int = connection.execute("SELECT coalesce(max(key), 0) FROM ceilings").fetchone()[0]
    progress = progress_of(connection)
    files = {}
    if path is not None and file is not None:
        # The others are there as long as any process has the ledger open; SQLite follows links.
        target = path.resolve()
        sides = [target.with_name(f"{target.name}{suffix}") for suffix in ("-wal", "-shm")]
        files = {path: file} | {side: side.stat() for side in sides}
    return Opened(connection, files, since, progress, warning)


def _open(path: Path, past: bool) -> Connection:
    return open_file(path, _migrations(past), LEDGER, _must_add_up)


def _migrations(past: bool) -> tuple[Migration, ...]:
    """Return how to make a ledger: one where there was one before is born frozen, by anyone."""
    if not past:
        return MIGRATIONS
    first, *rest = MIGRATIONS
    return (replace(first, statements=(*first.statements, _FREEZE)), *rest)


def _must_add_up(connection: Connection) -> None:
    """Compare the sums with the calls. Raises Damaged."""
    if connection.execute(WRONG_SUMS).fetchone() is not None:
        raise Damaged("its sums don't add up", LEDGER)


def is_there(path: Path, file: os.stat_result) -> bool:
    """Tell whether the file at a path is still the one that was opened."""
    try:
        return os.path.samestat(file, path.stat())
    except FileNotFoundError:
        return False


def is_mounted(path: Path) -> bool:
    """Return whether a file is mounted by itself, as containers do: its log isn't with it then.

    False where the system doesn't say (Linux does).
    """
    try:
        mounts = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return False
    place = re.sub(rb"[ \t\n\\]", lambda sign: b"\\%03o" % ord(sign[0]), bytes(path.resolve()))
    return any(mount.split(b" ", 5)[4:5] == [place] for mount in mounts)


def _replace(path: Path, before: os.stat_result) -> Opened:
    """Keep the damaged file aside and begin a new one."""
    warning = ""
    if is_there(path, before):
        aside = set_aside(path)
        warning = (
            f"The ledger was damaged, so the cloud is frozen; the file is kept as {aside}. "
            f"{_WAY_OUT}"
        )
    create(path)  # unless another Baton did all this a moment ago
    file = path.stat()
    return _opened(_open(path, past=True), path, file, warning)
