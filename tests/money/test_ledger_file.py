"""A ledger that is emptied, removed, replaced or set back never forgets silently what was spent."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from baton.core.errors import BudgetExceeded, StoreError
from baton.core.ledger_types import Scope
from baton.core.money import FREE, BilledTokens
from baton.history import Store
from baton.money import Ledger
from baton.platform import sqlite
from support.forked_programs import Program
from support.ledger_processes import CENT, DOLLAR, bill
from support.store_conversations import ask

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="replaces files that are open")

SIDE_FILES = ("", "-wal", "-shm")


class Home:
    """A user's folders: the ledger and the history in one, what remembers them in the other."""

    def __init__(self, root: Path) -> None:
        self.data, self.state = root / "data", root / "state"
        self.ledger, self.history = self.data / "ledger.db", self.data / "baton.db"
        self.records = self.state / "ledgers"

    def open(self) -> Ledger:
        return Ledger(self.ledger, records=self.records, history=self.history)

    async def start(self) -> tuple[str, str]:
        """Return the warning of a start and why the cloud is frozen; a free call always works."""
        ledger = self.open()
        try:
            await ledger.void((await ledger.hold(bill({}, price=FREE))).call)
            frozen = (await ledger.standing({})).frozen
            if frozen:
                with pytest.raises(BudgetExceeded, match="frozen"):
                    await ledger.hold(bill())
            return ledger.warning, frozen
        finally:
            await ledger.aclose()

    async def spend(self, calls: int = 1) -> None:
        ledger = self.open()
        for _ in range(calls):
            hold = await ledger.hold(bill({Scope.DAY: DOLLAR}))
            await ledger.sent(hold.call, "https://cloud.invalid", b"x")
            await ledger.settle(hold.call, BilledTokens(10, 10))
        await ledger.aclose()

    async def thaw(self) -> None:
        ledger = self.open()
        assert await ledger.lift_freeze()
        await ledger.aclose()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def empty(home: Home) -> None:
    home.ledger.write_bytes(b"")


def remove(home: Home) -> None:
    home.ledger.unlink()


def remove_all(home: Home) -> None:
    for file in home.data.glob("ledger.db*"):
        file.unlink()


def empty_and_forget_beside(home: Home) -> None:
    remove_all(home)
    home.ledger.touch()


def remove_data(home: Home) -> None:
    shutil.rmtree(home.data)


def remove_state_and_empty(home: Home) -> None:
    shutil.rmtree(home.state)
    home.ledger.write_bytes(b"")


def leave_a_log(home: Home) -> None:
    """Leave what a killed Baton may have left beside a ledger that is gone, and nothing else."""
    remove_all(home)
    home.ledger.with_name("ledger.db-wal").write_bytes(b"7 pages")
    shutil.rmtree(home.state)


def leave_a_copy(home: Home) -> None:
    """Leave a copy from before a migration, and nothing else."""
    shutil.copy(home.ledger, home.data / "copy")
    remove_all(home)
    (home.data / "copy").rename(home.data / "ledger.db.before-0002_progress")
    shutil.rmtree(home.state)


@pytest.mark.parametrize(
    "lose",
    [
        empty,
        remove,
        remove_all,
        empty_and_forget_beside,
        remove_data,
        remove_state_and_empty,
        leave_a_log,
        leave_a_copy,
    ],
)
def test_a_ledger_that_was_lost_begins_frozen(home: Home, lose: Callable[[Home], None]) -> None:
    asyncio.run(home.spend())
    lose(home)
    warning, frozen = asyncio.run(home.start())
    assert "the cloud is frozen" in warning
    assert "`baton budget release --freeze`" in warning
    assert "not known" in frozen
    assert asyncio.run(home.start()) == ("", frozen)  # until the user lifts it
    asyncio.run(home.thaw())
    asyncio.run(home.spend())
    assert asyncio.run(home.start()) == ("", "")


def test_what_was_left_beside_a_lost_ledger_is_kept(home: Home) -> None:
    asyncio.run(home.spend())
    leave_a_log(home)
    warning, _ = asyncio.run(home.start())
    [kept] = home.data.glob("ledger.db.broken-*-wal")
    assert kept.read_bytes() == b"7 pages"
    assert str(kept).removesuffix("-wal") in warning


def test_a_first_start_is_not_frozen(home: Home) -> None:
    assert asyncio.run(home.start()) == ("", "")


def test_an_empty_file_without_a_past_is_a_first_start(home: Home) -> None:
    """As a first start leaves it that was killed at once."""
    home.data.mkdir()
    home.ledger.touch()
    assert asyncio.run(home.start()) == ("", "")


def test_many_starts_after_a_loss_make_one_frozen_ledger(home: Home) -> None:
    asyncio.run(home.spend())
    remove_all(home)
    code = f"""
from support.ledger_processes import *
async def main():
    ledger = Ledger(
        pathlib.Path({str(home.ledger)!r}), records=pathlib.Path({str(home.records)!r}))
    input()
    print((await ledger.standing({{}})).frozen)
asyncio.run(main())"""
    processes = [Program(code) for _ in range(4)]
    outputs = {one.communicate("\n", timeout=60) for one in processes}
    [(frozen, errors)] = outputs
    assert "not known" in frozen
    assert errors == ""


# The history remembers, too


async def remember(home: Home, *, own: bool = True) -> str:
    """Record a paid call in the history; return its id. What was imported is not this user's."""
    ledger, store = home.open(), Store(home.history)
    hold = await ledger.hold(bill())
    await ledger.settle(hold.call, BilledTokens(10, 10))
    begun = await ask(store, "Why?", "Because.")
    await ledger.aclose()
    await store.aclose()
    connection = sqlite.connect(home.history)
    connection.execute(
        "INSERT INTO events SELECT run, max(seq) + 1, 'Called', json_object('cost', 7, 'call', ?) "
        "FROM events WHERE run = ?",
        [hold.call, begun.run],
    )
    if not own:
        connection.execute("UPDATE runs SET owner = NULL")
    connection.close()
    return hold.call


@pytest.mark.parametrize("own", [True, False])
def test_the_history_remembers_a_ledger_that_is_gone(home: Home, own: bool) -> None:
    asyncio.run(remember(home, own=own))
    remove_all(home)
    shutil.rmtree(home.state)
    warning, frozen = asyncio.run(home.start())
    assert bool(warning) is bool(frozen) is own


def test_a_history_that_cannot_be_read_says_nothing(home: Home) -> None:
    home.data.mkdir()
    home.history.write_bytes(b"no database" * 1000)
    assert asyncio.run(home.start()) == ("", "")


def test_the_history_knows_calls_that_an_older_ledger_lacks(home: Home, tmp_path: Path) -> None:
    asyncio.run(home.spend())
    shutil.copy(home.ledger, tmp_path / "last week")
    asyncio.run(remember(home))
    remove_all(home)
    shutil.rmtree(home.state)
    shutil.copy(tmp_path / "last week", home.ledger)
    assert "older" in asyncio.run(home.start())[1]


def test_the_history_knows_more_than_a_record_that_was_restored_as_well(
    home: Home, tmp_path: Path
) -> None:
    """As by a backup of the data folder that copied the history last, and without the state."""
    asyncio.run(home.spend())
    shutil.copytree(home.data, tmp_path / "backup")
    asyncio.run(remember(home))
    remove_all(home)
    shutil.rmtree(home.state)
    for file in (tmp_path / "backup").iterdir():
        shutil.copy(file, home.data)
    assert "older" in asyncio.run(home.start())[1]


def test_a_freeze_that_was_lifted_stays_lifted_where_no_record_can_be_kept(home: Home) -> None:
    asyncio.run(home.spend())
    copy = home.ledger.read_bytes()
    asyncio.run(remember(home))
    remove_all(home)
    home.ledger.write_bytes(copy)
    shutil.rmtree(home.state)
    home.state.touch()
    assert "older" in asyncio.run(home.start())[1]
    asyncio.run(home.thaw())
    assert asyncio.run(home.start()) == ("", "")


# Older ledgers, and others'


def copy_ledger(source: Path, target: Path) -> None:
    """Put a copy in place of a ledger that isn't open."""
    for suffix in SIDE_FILES:
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    shutil.copy(source, target)


@pytest.mark.parametrize("gone", ["nothing", "data", "state"])
def test_an_older_copy_of_the_ledger_is_noticed(home: Home, tmp_path: Path, gone: str) -> None:
    asyncio.run(home.spend())
    shutil.copy(home.ledger, tmp_path / "last week")
    asyncio.run(home.spend())
    if gone == "data":
        remove_all(home)
    elif gone == "state":
        shutil.rmtree(home.state)
    copy_ledger(tmp_path / "last week", home.ledger)
    warning, frozen = asyncio.run(home.start())
    assert "older" in frozen
    assert warning.startswith(f"The cloud is frozen: {frozen}")
    assert asyncio.run(home.start()) == ("", frozen)
    asyncio.run(home.thaw())
    asyncio.run(home.spend())
    assert asyncio.run(home.start()) == ("", "")


def test_a_restored_copy_of_the_present_ledger_is_the_present_one(
    home: Home, tmp_path: Path
) -> None:
    asyncio.run(home.spend())
    shutil.copy(home.ledger, tmp_path / "copy")
    copy_ledger(tmp_path / "copy", home.ledger)
    assert asyncio.run(home.start()) == ("", "")


def test_a_log_that_was_deleted_is_noticed(home: Home) -> None:
    """A killed Baton leaves its last commits in the log beside the file."""
    code = f"""
from support.ledger_processes import *
async def main():
    ledger = Ledger(pathlib.Path({str(home.ledger)!r}))
    for _ in range(3):
        hold = await ledger.hold(bill())
        await ledger.sent(hold.call, "https://cloud.invalid", b"x")
        await ledger.settle(hold.call, BilledTokens(10, 10))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())"""
    asyncio.run(home.spend())
    assert Program(code).communicate()[1] == ""
    for suffix in ("-wal", "-shm"):
        home.ledger.with_name(home.ledger.name + suffix).unlink()
    assert "older" in asyncio.run(home.start())[1]


def test_another_ledger_in_its_place_is_noticed(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    asyncio.run(other.spend())
    asyncio.run(home.spend())
    copy_ledger(other.ledger, home.ledger)
    warning, frozen = asyncio.run(home.start())
    assert "another ledger" in frozen
    assert warning


def test_a_ledger_in_another_folder_is_noticed_by_the_state(home: Home, tmp_path: Path) -> None:
    """As with another XDG_DATA_HOME: the ceilings are the same, the ledger is empty."""
    asyncio.run(home.spend())
    fork = Home(tmp_path / "fork")
    fork.records = home.records
    assert asyncio.run(fork.start())[1]
    asyncio.run(fork.thaw())
    asyncio.run(fork.spend())
    asyncio.run(home.spend())  # neither is new any more
    assert asyncio.run(fork.start()) == asyncio.run(home.start()) == ("", "")


def test_folders_that_move_together_change_nothing(home: Home, tmp_path: Path) -> None:
    asyncio.run(home.spend())
    moved = Home(tmp_path / "other")
    moved.data.parent.mkdir()
    home.data.rename(moved.data)
    home.state.rename(moved.state)
    assert asyncio.run(moved.start()) == ("", "")


async def test_a_ledger_that_is_set_back_while_in_use_spends_nothing(
    home: Home, tmp_path: Path
) -> None:
    ledger = home.open()
    await ledger.hold(bill())
    await ledger.aclose()
    old = await asyncio.to_thread(home.ledger.read_bytes)
    ledger = home.open()
    hold = await ledger.hold(bill({Scope.DAY: DOLLAR}))
    await ledger.settle(hold.call, BilledTokens(10, 10))
    connection = sqlite.connect(home.ledger)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    await asyncio.to_thread(home.ledger.write_bytes, old)  # as `cp` does: the same file
    with pytest.raises(StoreError):
        await ledger.hold(bill({Scope.DAY: CENT}))
    await ledger.aclose()


async def test_a_ledger_that_is_set_back_under_a_call_is_a_sentence(home: Home) -> None:
    ledger = home.open()
    await ledger.void((await ledger.hold(bill())).call)
    await ledger.aclose()
    old = await asyncio.to_thread(home.ledger.read_bytes)
    ledger = home.open()
    call = (await ledger.hold(bill())).call
    connection = sqlite.connect(home.ledger)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    await asyncio.to_thread(home.ledger.write_bytes, old)
    for end in (
        ledger.sent(call, "https://cloud.invalid", b"x"),
        ledger.settle(call, BilledTokens(1, 1)),
    ):
        with pytest.raises(StoreError, match="replaced by an older one"):
            await end
    await ledger.aclose()


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
async def test_a_ledger_whose_log_is_removed_while_in_use_spends_nothing(
    home: Home, suffix: str
) -> None:
    """Another Baton would make new side files, and neither would know of the other's calls."""
    ledger = home.open()
    call = (await ledger.hold(bill())).call
    await asyncio.to_thread(home.ledger.with_name(f"ledger.db{suffix}").unlink)
    for _ in range(2):
        with pytest.raises(StoreError, match="moved away"):
            await ledger.hold(bill())
        with pytest.raises(StoreError, match="moved away"):
            await ledger.sent(call, "https://cloud.invalid", b"x")
        await asyncio.to_thread(home.ledger.with_name(f"ledger.db{suffix}").touch)
    await ledger.aclose()


def test_a_ledger_may_be_a_link_to_another_file(home: Home, tmp_path: Path) -> None:
    asyncio.run(home.spend())
    home.ledger.rename(tmp_path / "other.db")
    home.ledger.symlink_to(tmp_path / "other.db")
    asyncio.run(home.spend())
    assert asyncio.run(home.start()) == ("", "")


async def test_a_ledger_with_two_names_spends_nothing(home: Home, tmp_path: Path) -> None:
    """Each name has a log of its own, so under each the other's calls would be unknown."""
    ledger = home.open()
    await ledger.void((await ledger.hold(bill())).call)
    other = tmp_path / "other.db"
    await asyncio.to_thread(other.hardlink_to, home.ledger)
    with pytest.raises(StoreError, match="another name"):
        await ledger.hold(bill())
    await asyncio.to_thread(other.unlink)
    await ledger.void((await ledger.hold(bill())).call)
    await ledger.aclose()


@pytest.mark.parametrize("spoil", ["", "x", "nothing like it " * 100])
def test_a_record_that_is_spoilt_harms_no_process(home: Home, spoil: str) -> None:
    asyncio.run(home.spend())
    for record in (home.ledger.with_name("ledger.db-seen"), *home.records.iterdir()):
        record.write_text(spoil)
    assert asyncio.run(home.start()) == ("", "")
    asyncio.run(home.spend())


def test_a_folder_of_records_that_cannot_be_written_changes_nothing(home: Home) -> None:
    home.state.mkdir(parents=True)
    home.records.write_text("a file in its place")
    asyncio.run(home.spend())
    assert asyncio.run(home.start()) == ("", "")


def test_a_new_ledger_beside_a_killed_birth_is_not_frozen(home: Home) -> None:
    """Killed between any two statements of its first migration, a first start is one again."""
    for kill_after in (0, 1, 9, 15):
        for folder in (home.data, home.state):
            shutil.rmtree(folder, ignore_errors=True)
        path = f"pathlib.Path({str(home.ledger)!r})"
        child = Program(f"spend.migrate_until_killed({path}, 0, {kill_after})")
        assert child.communicate()[1] == ""
        assert child.returncode < 0
        assert asyncio.run(home.start()) == ("", "")
