"""Ledgers that an older Baton made: `ledger_0001.sql` is one as version 0001_money wrote it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from baton.core.errors import BudgetExceeded
from baton.core.ledger_types import Scope, Status
from baton.money import Ledger
from baton.money.schema import MIGRATIONS, WRONG_SUMS
from baton.platform import sqlite
from support.forked_programs import Program
from support.ledger_processes import CENT, DOLLAR, NOON, bill

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills processes with signals")

OLD = Path(__file__).with_name("ledger_0001.sql")
SETTLED, LEFT = 325_000, 2_312_500


@pytest.fixture
def old_ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    path.touch()
    connection = sqlite.connect(path)
    connection.executescript(OLD.read_text())
    connection.close()
    return path


async def use(path: Path) -> None:
    """Look at all that was in it, and spend."""
    ledger = Ledger(path, clock=lambda: NOON)
    standing = await ledger.standing({Scope.DAY: DOLLAR}, "s1")
    assert (ledger.warning, standing.frozen) == ("", "")
    for room in standing.rooms:
        assert (room.settled, room.held, room.unconfirmed) == (2 * SETTLED, 0, 2 * LEFT)
    charges = await ledger.charges()
    assert [charge.status for charge in reversed(charges)] == [
        Status.SETTLED,
        Status.SETTLED,
        Status.UNCONFIRMED,
        Status.UNCONFIRMED,  # its process is gone
    ]
    bodies = [sent.body for sent in reversed(await ledger.egress())]
    assert bodies == [f"old body {number}".encode() for number in range(4)]
    with pytest.raises(BudgetExceeded):
        await ledger.hold(bill({Scope.RUN: 2 * LEFT + 1000, Scope.DAY: DOLLAR}))
    hold = await ledger.hold(bill({Scope.RUN: 2 * LEFT + CENT, Scope.DAY: DOLLAR}))
    await ledger.void(hold.call)
    await ledger.aclose()


def must_be_current(path: Path) -> None:
    connection = sqlite.connect(path)
    assert sqlite.schema_version(connection) == len(MIGRATIONS)
    assert connection.execute(WRONG_SUMS).fetchone() is None
    connection.close()


def test_an_old_ledger_keeps_everything(old_ledger: Path) -> None:
    asyncio.run(use(old_ledger))
    must_be_current(old_ledger)
    copy = old_ledger.with_name("ledger.db.before-0002_progress")
    assert not copy.stat().st_mode & 0o077


async def test_what_is_forgotten_is_not_in_a_copy_from_before(old_ledger: Path) -> None:
    ledger = Ledger(old_ledger)
    await ledger.forget(["r0", "r1"])
    await ledger.aclose()
    left = await asyncio.to_thread(lambda: [f.read_bytes() for f in old_ledger.parent.iterdir()])
    assert b"old body" not in b"".join(left)


def test_many_batons_may_meet_an_old_ledger_at_once(old_ledger: Path) -> None:
    code = f"spend.spend(pathlib.Path({str(old_ledger)!r}), 'Ann', 2)"
    processes = [Program(code) for _ in range(4)]
    assert [one.communicate("400\n", timeout=60) for one in processes] == [("400\n", "")] * 4
    must_be_current(old_ledger)
    assert sorted(file.name for file in old_ledger.parent.glob("ledger.db.*")) == [
        "ledger.db.before-0002_progress"
    ]


def test_a_migration_that_is_killed_never_happened(old_ledger: Path) -> None:
    path = f"pathlib.Path({str(old_ledger)!r})"
    for number, new in enumerate(MIGRATIONS[1:], start=1):
        for kill_after in range(len(new.statements)):
            child = Program(f"spend.migrate_until_killed({path}, {number}, {kill_after})")
            assert child.communicate()[1] == ""
            assert child.returncode == -signal.SIGKILL
    asyncio.run(use(old_ledger))
    must_be_current(old_ledger)


async def test_what_did_not_leave_is_known_after_an_update(old_ledger: Path) -> None:
    """Before 0005_unsent_requests that was known of a call, which had one request."""
    connection = sqlite.connect(old_ledger)
    sqlite.migrate(connection, MIGRATIONS[:4])
    connection.execute("INSERT INTO unsent SELECT call, at FROM egress WHERE key = 2")
    connection.close()
    ledger = Ledger(old_ledger, clock=lambda: NOON)
    rows = {one.key: one.left for one in await ledger.egress()}
    await ledger.aclose()
    assert rows == {1: True, 2: False, 3: True, 4: True}
