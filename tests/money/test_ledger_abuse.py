"""Never over the ceiling and nothing unrecorded, with any fault of processes and files."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from baton.core.errors import BudgetExceeded, StoreError
from baton.core.ledger_types import HoldRequest, Scope, Status
from baton.core.money import FREE, BilledTokens
from baton.money import Ledger
from baton.money.ledger_file import LEDGER
from baton.money.schema import MIGRATIONS
from baton.platform import sqlite
from baton.platform.processes import Owner, current_process
from support.damaged_database import broken_files
from support.forked_programs import Program
from support.ledger_observer import Observer
from support.ledger_processes import CENT, DAY, DOLLAR, MINI, bill

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills processes with signals")

# Never over the ceiling


PARTS = [pytest.param(part * 1000, 1000, marks=pytest.mark.long) for part in range(10)]


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(("first", "schedules"), [(None, 8), *PARTS])
def test_two_batons_with_many_tasks_are_never_over_a_ceiling(
    tmp_path: Path, first: int | None, schedules: int
) -> None:
    first = random.randrange(10_000) if first is None else first
    path = tmp_path / "data" / "ledger.db"
    names = (f"Ann {first}", f"Bob {first}")
    both = [Program(f"spend.spend(pathlib.Path({str(path)!r}), {n!r}, 16)") for n in names]
    for schedule in range(first, first + schedules):
        for one in both:
            one.stdin.write(f"{schedule}\n")
            one.stdin.flush()
        for one in both:
            assert one.stdout.readline() == f"{schedule}\n", one.communicate()[1]
    for one in both:
        assert one.communicate(timeout=60) == ("", "")
    with Observer(path) as observer:
        over, moments = observer.moments_over()
        observer.must_be_sound()
        statuses = Counter(row["status"] for row in observer.calls().values())
    assert over == 0, first
    assert moments > 50 * schedules
    assert set(statuses) == {"settled", "unconfirmed", "released", "void"}


# Killed Batons


def must_be_recorded(path: Path, bills: Path, printed: list[str]) -> None:
    """Compare what a killed process acknowledged, and what its provider billed, with the ledger."""
    with Observer(path) as observer:
        observer.must_be_sound()
        calls, sent = observer.calls(), observer.sent()
    for line in printed:
        event, call, amount = line.split()
        if event == "settled":
            assert (calls[call]["status"], calls[call]["charged"]) == ("settled", int(amount))
        else:
            assert calls[call]["held"] == int(amount)
            assert event == "held" or sent[call] == 1
    for billed in bills.read_text().splitlines() if bills.exists() else ():
        call, cost = billed.split()
        assert calls[call]["status"] in ("settled", "unconfirmed")
        assert calls[call]["charged"] >= int(cost)
    for call, row in calls.items():
        assert row["status"] in (("settled", "unconfirmed") if sent[call] else ("void",))


@pytest.mark.parametrize("tasks", [1, 16])
@pytest.mark.parametrize("kills", [4, pytest.param(500, marks=pytest.mark.long)])
def test_killed_batons_leave_nothing_unrecorded(tmp_path: Path, kills: int, tasks: int) -> None:
    """With several tasks, calls are committed together."""
    path, bills = tmp_path / "ledger.db", tmp_path / "bills"
    printed: list[str] = []
    for _ in range(kills):
        files = f"pathlib.Path({str(path)!r}), pathlib.Path({str(bills)!r})"
        child = Program(f"spend.call_until_killed({files}, {tasks})")
        printed.append(child.stdout.readline())
        time.sleep(random.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        rest, err = child.communicate()
        assert err == ""
        printed += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        asyncio.run(recover(path))
        must_be_recorded(path, bills, printed)


async def recover(path: Path) -> None:
    ledger = Ledger(path)
    held = [room.held for room in (await ledger.standing({})).rooms]
    assert held == [0, 0]
    assert ledger.warning == ""
    await ledger.aclose()


HALFWAY = """
from support.ledger_processes import *
async def main():
    ledger = Ledger(pathlib.Path({path!r}))
    for sends in (True, False):
        hold = await ledger.hold(bill())
        if sends:
            await ledger.sent(hold.call, "https://cloud.invalid", b"x")
        print(hold.call, flush=True)
    input()
asyncio.run(main())"""


def halfway(path: Path) -> tuple[Program, str, str]:
    """Start a process with two calls on their way, one of which was sent; return their ids."""
    child = Program(HALFWAY.format(path=str(path)))
    return child, child.stdout.readline().strip(), child.stdout.readline().strip()


@pytest.mark.parametrize("ask", [Ledger.hold, Ledger.hold_in_turn, Ledger.quote])
async def test_a_running_baton_finds_the_calls_of_a_killed_one(
    tmp_path: Path, ask: Callable[[Ledger, HoldRequest], Awaitable[object]]
) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    child, sent, unsent = await asyncio.to_thread(halfway, path)
    [_, month] = (await ledger.standing(DAY)).rooms
    held = month.held
    assert held > 0
    assert {charge.status for charge in await ledger.charges()} == {Status.HELD}
    with pytest.raises(BudgetExceeded):
        await ask(ledger, bill({Scope.DAY: held + 1000}))
    child.kill()
    child.communicate()
    await ask(ledger, bill({Scope.DAY: held + 1000}))
    statuses = {charge.call: charge.status for charge in await ledger.charges()}
    assert statuses[sent] is Status.UNCONFIRMED
    assert statuses[unsent] is Status.VOID
    await ledger.aclose()


async def test_a_baton_that_was_taken_for_dead_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in two containers, which can't see each other's processes."""
    from baton.money import ledger as module

    path = tmp_path / "ledger.db"
    here, there = Ledger(path), Ledger(path)
    holds = [await here.hold(bill()) for _ in range(5)]
    settled, left, voided, unsent, dead = (hold.call for hold in holds)
    for call in (settled, left, voided):
        await here.sent(call, "https://cloud.invalid", b"x")
    monkeypatch.setattr(module, "is_alive", lambda owner: False)
    there.__dict__["_owner"] = Owner(1, 0.0)
    await there.standing(DAY)
    with pytest.raises(StoreError, match=r"took this call for lost.*nothing was sent"):
        await here.sent(unsent, "https://cloud.invalid", b"x")
    await here.void(unsent)
    await here.void(voided)
    assert await here.leave(left) == holds[1].amount
    assert await here.settle(settled, BilledTokens(1, 1)) == holds[0].amount
    statuses = {charge.call: charge.status for charge in await here.charges()}
    assert [statuses[call] for call in (settled, left, voided, unsent, dead)] == [
        Status.UNCONFIRMED,
        Status.UNCONFIRMED,
        Status.VOID,
        Status.VOID,
        Status.VOID,
    ]
    await here.aclose()
    await there.aclose()


async def test_a_clock_that_is_set_on_makes_no_living_process_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports when a process began by its clock, so setting that moves the beginning."""
    path = tmp_path / "ledger.db"
    child, sent, unsent = await asyncio.to_thread(halfway, path)
    began = psutil.Process.create_time
    for hours in (1, -1):
        monkeypatch.setattr(
            psutil.Process, "create_time", lambda process, by=hours: began(process) + by * 3600
        )
        ledger = Ledger(path)
        own = await ledger.hold(bill())
        statuses = {charge.call: charge.status for charge in await ledger.charges()}
        assert {statuses[call] for call in (sent, unsent, own.call)} == {Status.HELD}
        await ledger.void(own.call)
        await ledger.aclose()
    child.kill()
    await asyncio.to_thread(child.communicate)
    ledger = Ledger(path)
    statuses = {charge.call: charge.status for charge in await ledger.charges()}
    assert (statuses[sent], statuses[unsent]) == (Status.UNCONFIRMED, Status.VOID)
    await ledger.aclose()


async def test_a_process_that_only_inherited_a_number_is_not_an_owner(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    for started in (
        current_process().started - 100,
        time.time() - 10**6,
    ):  # since the boot, the epoch
        ledger.__dict__["_owner"] = Owner(os.getpid(), started)
        await ledger.hold(bill())
    await ledger.aclose()
    ledger = Ledger(path)
    assert {charge.status for charge in await ledger.charges()} == {Status.VOID}
    await ledger.aclose()


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("released", [True, False])
async def test_a_late_count_of_a_call_that_was_taken_for_lost_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, released: bool, sends: bool
) -> None:
    """Also if the user has released it meanwhile: it was spent all the same."""
    from baton.money import ledger as module

    path = tmp_path / "ledger.db"
    here, there = Ledger(path), Ledger(path)
    settled, left, voided = [await here.hold(bill()) for _ in range(3)]
    for hold in (settled, left, voided):
        if sends:
            await here.sent(hold.call, "https://cloud.invalid", b"x")
    monkeypatch.setattr(module, "is_alive", lambda owner: False)
    there.__dict__["_owner"] = Owner(1, 0.0)
    await there.standing(DAY)
    if released and sends:
        assert await there.release_all() == 3 * settled.amount
    used = BilledTokens(500, 100)
    charged = await here.settle(settled.call, used)
    assert charged == (MINI.cost(used) if released or not sends else settled.amount)
    assert await here.leave(left.call) == left.amount * sends
    await here.void(voided.call)
    day = (await here.standing(DAY)).rooms[0]
    assert day.used == charged + left.amount * sends
    if released or not sends:  # it is settled, and ends once
        for end in (here.void, here.leave):
            with pytest.raises(LookupError):
                await end(settled.call)
    await here.aclose()
    await there.aclose()


def test_many_first_starts_at_once_make_one_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    processes = [Program(f"spend.spend(pathlib.Path({str(path)!r}), 'P{n}', 2)") for n in range(4)]
    for one in processes:
        out, err = one.communicate("1\n", timeout=60)
        assert (one.returncode, out, err) == (0, "1\n", "")
    assert broken_files(path) == []
    with Observer(path) as observer:
        observer.must_be_sound()


@pytest.mark.parametrize("times", [10, pytest.param(2000, marks=pytest.mark.long)])
async def test_two_that_open_a_new_ledger_at_the_same_moment_wait(
    tmp_path: Path, times: int
) -> None:
    """SQLite itself doesn't, while a new file changes to WAL mode."""
    for number in range(times):
        path = tmp_path / f"{number}.db"
        both = [Ledger(path), Ledger(path)]
        await asyncio.gather(*(ledger.hold(bill()) for ledger in both))
        for ledger in both:
            await ledger.aclose()


# Damaged files


@pytest.mark.parametrize("noticed", [False, True])
async def test_damage_that_shows_in_use_is_looked_for_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noticed: bool
) -> None:
    """Also where another Baton noticed it a moment before."""

    def damaged(*_: object) -> None:
        raise sqlite.DatabaseDamaged("database disk image is malformed", LEDGER)

    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    await ledger.void((await ledger.hold(bill())).call)
    assert sqlite.check_stamp(path).exists()
    if noticed:
        sqlite.check_stamp(path).unlink()
    monkeypatch.setattr("baton.money.call_funds.hold", damaged)
    with pytest.raises(sqlite.DatabaseDamaged):
        await ledger.hold(bill())
    assert not sqlite.check_stamp(path).exists()
    await ledger.aclose()


async def use(path: Path) -> tuple[str, bool]:
    """Spend something if the cloud isn't frozen; return the warning, and whether that was so."""
    ledger = Ledger(path)
    try:
        await ledger.hold(bill({}, price=FREE))
        if (await ledger.standing({})).frozen:
            with pytest.raises(BudgetExceeded, match="frozen"):
                await ledger.hold(bill())
            return ledger.warning, False
        hold = await ledger.hold(bill({Scope.DAY: 1000 * DOLLAR}))
        await ledger.sent(hold.call, "https://cloud.invalid", b"x" * 5000)
        await ledger.settle(hold.call, BilledTokens(10, 10))
        await ledger.usage("day")
        return ledger.warning, True
    finally:
        await ledger.aclose()


@pytest.fixture(scope="module")
def sound_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with some calls, closed."""
    path = tmp_path_factory.mktemp("sound") / "ledger.db"

    async def main() -> None:
        ledger = Ledger(path)
        for number in range(60):
            hold = await ledger.hold(bill(run=f"run{number}"))
            await ledger.sent(hold.call, "https://cloud.invalid", f"body {number} ".encode() * 200)
            await ledger.settle(hold.call, BilledTokens(900, number))
        await ledger.aclose()

    asyncio.run(main())
    return path


@pytest.mark.parametrize(
    "content", [b"not a database " * 1000, b"\0" * 50_000, b"SQLite format 3\0"]
)
def test_a_damaged_ledger_is_kept_and_freezes_the_cloud(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    warning, spent = asyncio.run(use(path))
    [aside] = broken_files(path)
    assert aside.read_bytes() == content
    assert not spent
    assert warning.startswith("The ledger was damaged, so the cloud is frozen; the file is kept as")
    assert str(aside) in warning
    assert "`baton budget release --freeze`" in warning
    assert asyncio.run(use(path)) == ("", False)  # until the user says otherwise
    asyncio.run(thaw(path))
    assert asyncio.run(use(path)) == ("", True)


async def thaw(path: Path) -> None:
    ledger = Ledger(path)
    assert await ledger.lift_freeze()
    await ledger.aclose()


def test_a_ledger_that_is_gone_beside_a_broken_one_begins_frozen(
    tmp_path: Path, sound_ledger: Path
) -> None:
    """However the new file comes about, it doesn't know what was spent."""
    shutil.copy(sound_ledger, tmp_path / "ledger.db.broken-20260101-000000")
    warning, spent = asyncio.run(use(tmp_path / "ledger.db"))
    assert warning.startswith("The ledger was emptied or removed, so the cloud is frozen")
    assert not spent


def test_sums_that_do_not_add_up_are_damage(tmp_path: Path, sound_ledger: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(sound_ledger, path)
    connection = sqlite.connect(path)
    connection.execute("UPDATE totals SET settled = settled - 1 WHERE scope = 'day'")
    connection.close()
    warning, spent = asyncio.run(use(path))
    assert "damaged" in warning
    assert not spent


@pytest.mark.parametrize("flips", [15, pytest.param(1000, marks=pytest.mark.long)])
def test_flipped_bits_are_never_a_traceback_nor_a_silent_reset(
    tmp_path: Path, sound_ledger: Path, flips: int
) -> None:
    content = sound_ledger.read_bytes()
    for number in range(flips):
        path = tmp_path / str(number) / "ledger.db"
        path.parent.mkdir()
        spoilt = bytearray(content)
        dice = random.Random(number)
        for _ in range(dice.choice([1, 1, 10, 1000])):
            spoilt[dice.randrange(len(spoilt))] ^= 1 << dice.randrange(8)
        path.write_bytes(spoilt)
        try:
            warning, spent = asyncio.run(use(path))
        except StoreError:
            warning, spent = asyncio.run(use(path))  # it showed late, and now it is looked for
        assert bool(broken_files(path)) == bool(warning)
        assert spent is not bool(warning)
        shutil.rmtree(path.parent)


def test_the_ledger_of_a_newer_baton_is_left_alone(tmp_path: Path, sound_ledger: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(sound_ledger, path)
    connection = sqlite.connect(path)
    connection.execute("INSERT INTO migrations VALUES ('9999_future', 0)")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StoreError, match="written by a newer Baton; nothing was changed"):
        asyncio.run(use(path))
    assert broken_files(path) == []


async def test_a_ledger_that_is_moved_away_while_in_use_spends_nothing(tmp_path: Path) -> None:
    """As when another Baton found it damaged, and began a new one."""
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    hold = await ledger.hold(bill())
    for file in await asyncio.to_thread(lambda: list(tmp_path.iterdir())):
        file.rename(file.with_name(f"moved-{file.name}"))
    for _ in range(2):
        with pytest.raises(StoreError, match="moved away while it was in use, so nothing was sent"):
            await ledger.hold(bill({Scope.DAY: CENT}))
        with pytest.raises(StoreError, match="moved away"):
            await ledger.sent(hold.call, "https://cloud.invalid", b"x")
        await asyncio.to_thread(path.touch)  # nor once there is another one
    assert await ledger.leave(hold.call) == hold.amount
    await ledger.aclose()
