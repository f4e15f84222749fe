"""Calls that wait for money that other runs hold: in order, not for ever, never above a ceiling."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from baton.core.errors import BudgetExceeded, MoneyHeld
from baton.core.ledger_types import Hold, HoldRequest, Scope
from baton.core.messages import Queued
from baton.core.money import BilledTokens
from baton.core.run import metered_worker
from baton.core.run.metered_worker import HoldTurn
from baton.money import Ledger
from baton.money.ledger_file import OpenedLedger
from baton.platform.database_thread import DatabaseThread
from support.fake_cloud import Cloud, Fault
from support.forked_programs import Program
from support.ledger_processes import CENT, NOON, bill
from support.metered_calls import PRICES, MeteredGateway, asked_fault

T = TypeVar("T")

COST = bill().price.max_cost(1000, 1000)
"""What is held for a bill of `asks`."""

DAY = 86400.0


def asks(run: str, room: int = COST, patience: float = 30.0, **ceilings: int) -> HoldRequest:
    """Return a bill for which a day's ceiling has room for one call."""
    scopes = {Scope.DAY: room} | {Scope(name): amount for name, amount in ceilings.items()}
    one = bill(scopes, run=run, session=run, wanted=1000)
    return replace(one, patience=patience, expected=1000, thinking=0)


# One after the other


async def test_money_that_others_hold_is_waited_for_in_order_of_arrival() -> None:
    ledger = Ledger(None, clock=lambda: NOON)
    first = await ledger.hold_in_turn(asks("a"))
    assert isinstance(first, Hold)
    second, third = [await ledger.hold_in_turn(asks(run)) for run in "bc"]
    assert isinstance(second, int)
    assert isinstance(third, int)
    assert await ledger.hold_in_turn(asks("b"), second) == second
    await ledger.settle(first.call, BilledTokens(0, 0))
    assert await ledger.hold_in_turn(asks("c"), third) == third, "it isn't its turn"
    assert isinstance(await ledger.hold_in_turn(asks("d")), int), "nor that of who comes later"
    granted = await ledger.hold_in_turn(asks("b"), second)
    assert isinstance(granted, Hold)
    await ledger.void(granted.call)
    await ledger.leave_queue(third)
    assert isinstance(await ledger.hold_in_turn(asks("e")), int), "d came before"
    await ledger.aclose()


async def test_who_soon_gives_up_is_still_ahead_of_who_comes_later() -> None:
    now = [NOON]
    ledger = Ledger(None, clock=lambda: now[0])
    held = await ledger.hold_in_turn(asks("a"))
    assert isinstance(held, Hold)
    assert isinstance(await ledger.hold_in_turn(asks("b", patience=2.0)), int)
    await ledger.void(held.call)
    now[0] += 1.5
    assert isinstance(await ledger.hold_in_turn(asks("c")), int)
    now[0] += 60.0
    assert isinstance(await ledger.hold_in_turn(asks("d")), Hold), "all others gave up"
    await ledger.aclose()


async def test_a_run_that_holds_money_never_waits() -> None:
    ledger = Ledger(None, clock=lambda: NOON)
    assert isinstance(await ledger.hold_in_turn(asks("a", room=2 * COST)), Hold)
    assert isinstance(await ledger.hold_in_turn(asks("b", room=2 * COST)), Hold)
    with pytest.raises(BudgetExceeded) as caught:
        await ledger.hold_in_turn(asks("a", room=2 * COST))
    assert not isinstance(caught.value, MoneyHeld)
    assert isinstance(await ledger.hold_in_turn(asks("c", room=2 * COST)), int)
    assert isinstance(await ledger.hold_in_turn(asks("a", room=4 * COST)), Hold), "nor in the line"
    await ledger.aclose()


async def test_what_was_spent_is_not_waited_for() -> None:
    ledger = Ledger(None, clock=lambda: NOON)
    hold = await ledger.hold_in_turn(asks("a"))
    assert isinstance(hold, Hold)
    waits = await ledger.hold_in_turn(asks("b"))
    assert isinstance(waits, int)
    await ledger.leave(hold.call)
    with pytest.raises(BudgetExceeded):
        await ledger.hold_in_turn(asks("b"), waits)
    await ledger.aclose()


async def test_a_call_that_may_wait_is_offered_what_it_will_get() -> None:
    ledger = Ledger(None, clock=lambda: NOON)
    assert isinstance(await ledger.hold_in_turn(asks("a")), Hold)
    assert (await ledger.quote(asks("b"))).amount == COST
    with pytest.raises(BudgetExceeded):
        await ledger.quote(asks("b", patience=0))
    await ledger.aclose()


async def test_other_conversations_do_not_wait_for_ones_own_ceiling() -> None:
    ledger = Ledger(None, clock=lambda: NOON)
    wide = 100 * COST
    assert isinstance(await ledger.hold_in_turn(asks("a", wide, session=COST)), Hold)
    same = replace(asks("b", wide, session=COST), session="a")
    assert isinstance(await ledger.hold_in_turn(same), int)
    assert isinstance(await ledger.hold_in_turn(asks("c", wide, session=COST)), Hold)
    await ledger.aclose()


def test_who_dies_in_the_line_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    child = Program(
        f"import dataclasses; l = spend.Ledger(pathlib.Path({str(path)!r}))\n"
        "async def main():\n"
        "    one = dataclasses.replace(spend.bill(wanted=1000), patience=1e6)\n"
        "    tight = dataclasses.replace(one, ceilings={spend.Scope.DAY: 2400000})\n"
        "    print(await l.hold_in_turn(tight), flush=True)\n"
        "    print(await l.hold_in_turn(dataclasses.replace(tight, run='r2')), flush=True)\n"
        "    sys.stdin.read()\n"
        "asyncio.run(main())"
    )
    assert [child.stdout.readline()[:4], child.stdout.readline()] == ["Hold", "1\n"]

    async def come_later(alive: bool) -> None:
        ledger = Ledger(path)
        tight = asks("late", room=2_400_000)
        assert isinstance(await ledger.hold_in_turn(tight), int if alive else Hold)
        await ledger.aclose()

    child.kill()
    child.communicate()
    asyncio.run(come_later(alive=False))


# Any schedule, without waiting


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that never waits: its clock jumps to the next timer when nothing else is to do."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_SkippingSelector(self))

    def time(self) -> float:
        return self.now


class _SkippingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits for ever"
        self._loop.now += timeout
        return super().select(0)


class ImmediateThread(DatabaseThread[OpenedLedger]):
    """Does its work at once, so that no thread is waited for."""

    async def _in_turn(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return self.submit(work).result()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        done = super().submit(work)
        done.exception()
        return done


class Schedule:
    """Some runs against tight ceilings; what they do follows from the number."""

    def __init__(self, ledger: Ledger, number: int) -> None:
        self.dice = random.Random(number)
        self.ledger = ledger
        self.ceilings = {Scope.DAY: self.dice.randint(COST, 4 * COST)}
        if self.dice.random() < 0.3:
            self.ceilings[Scope.SESSION] = self.dice.randint(COST, 4 * COST)
        self.number = number
        self.line: list[HoldTurn] = []
        self.holding: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()

    async def execute(self) -> None:
        runs = self.dice.randint(2, 5)
        tasks = [asyncio.create_task(self._run(f"r{self.number}-{run}")) for run in range(runs)]
        if self.dice.random() < 0.4:
            await asyncio.sleep(self.dice.uniform(0, 40))
            tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            assert task.cancelled() or task.exception() is None, task.exception()
        assert not self.line

    async def _run(self, run: str) -> None:
        await asyncio.sleep(self.dice.choice([0, self.dice.uniform(0, 20)]))
        async with asyncio.TaskGroup() as group:
            for _ in range(self.dice.randint(1, 2)):
                group.create_task(self._call(run))

    async def _call(self, run: str) -> None:
        wanted = self.dice.randint(100, 1000)
        asked = bill(self.ceilings, run, f"s{self.number}", wanted=wanted)
        turn = HoldTurn(self.ledger, replace(asked, patience=30.0))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            hold = await turn.take()
            if hold is None:
                self.line.append(turn)
                try:
                    hold = await turn.wait()
                    first = next(t for t in self.line if t._ticket or t is turn)
                    late = loop.time() - begun >= 30  # then it left the line
                    assert first is turn or late or self.holding[run], "not in order of arrival"
                finally:
                    self.line.remove(turn)
                    self.ends["waited"] += 1
                    assert loop.time() - begun <= 33
            self.holding[run] += 1
        except BudgetExceeded:
            self.ends["refused"] += 1
            return
        finally:
            await turn.aclose()
        try:
            await self._must_fit()
            await asyncio.sleep(self.dice.choice([0, self.dice.uniform(0, 50)]))
        finally:
            self.holding[run] -= 1
            await self._end(hold)

    async def _end(self, hold: Hold) -> None:
        match self.dice.randrange(3):
            case 0:
                await self.ledger.settle(
                    hold.call, BilledTokens(self.dice.randint(0, 1000), hold.cap // 3)
                )
            case 1:
                await self.ledger.leave(hold.call)
            case _:
                await self.ledger.void(hold.call)
        self.ends["granted"] += 1

    async def _must_fit(self) -> None:
        standing = await self.ledger.standing(self.ceilings, f"s{self.number}")
        for room in standing.rooms:
            assert room.ceiling is None or room.used <= room.ceiling


def all_end(numbers: Iterator[int]) -> Counter[str]:
    """Run schedules, each on a day of its own; return how calls ended."""
    now = [NOON]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("baton.money.ledger.DatabaseThread", ImmediateThread)
        ledger = Ledger(None, clock=lambda: now[0])
    ends: Counter[str] = Counter()
    for number in numbers:
        now[0] += DAY
        schedule = Schedule(ledger, number)
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(schedule.execute())
        ends += schedule.ends
    asyncio.run(ledger.aclose())
    return ends


@pytest.fixture
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have calls look every two seconds whether it is their turn."""
    monkeypatch.setattr(metered_worker, "POLL_SECONDS", 2.0)


@pytest.mark.usefixtures("rarely")
def test_a_drawn_sample_of_schedules_ends_within_the_ceiling() -> None:
    first = random.SystemRandom().randrange(10**9)
    ends = all_end(iter(range(first, first + 40)))
    assert min(ends["granted"], ends["waited"], ends["refused"]) > 0, first


@pytest.mark.long
@pytest.mark.usefixtures("rarely")
def test_ten_thousand_schedules_end_within_the_ceiling() -> None:
    ends = all_end(iter(range(10_000)))
    assert min(ends["granted"], ends["waited"], ends["refused"]) > 1000


# Through the gate


async def test_a_crowd_before_a_small_ceiling_is_answered_as_far_as_the_money_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors that cost nothing, cut streams and good answers: no call is refused too early."""
    monkeypatch.setattr(metered_worker, "POLL_SECONDS", 0.02)
    ceiling = 12 * CENT // 10  # room for about three calls at once
    faults = [None, None, Fault.SERVER_ERROR, None, Fault.RATE_LIMITED, None]
    with Cloud(prices=PRICES, choose=asked_fault) as cloud:
        async with MeteredGateway(
            cloud, tmp_path, room={Scope.DAY: ceiling}, patience=60
        ) as metered:
            processes = [metered.call("server", faults[n % 6]) for n in range(18)]
            done = await asyncio.gather(*processes)
            await metered.quiet()
            standing = await metered.ledger.standing(metered.room)
            left = next(room.left for room in standing.rooms if room.scope is Scope.DAY)
    assert left is not None
    refused = [one for one in done if isinstance(one.error, BudgetExceeded)]
    answered = [one for one in done if one.error is None]
    assert cloud.billed <= ceiling - left <= ceiling
    least = max((one.tally.held for one in done if one.tally), default=0)
    assert not refused or left < least, (left, least)
    assert len(answered) + len(refused) == 12
    assert len(answered) >= min(12, 5)


async def test_a_call_that_waits_says_so_and_can_be_cancelled(tmp_path: Path) -> None:
    with Cloud(prices=PRICES) as cloud:
        async with MeteredGateway(
            cloud, tmp_path, room={Scope.DAY: CENT // 2}, patience=60
        ) as metered:
            other = await metered.ledger.hold(bill(dict(metered.room), "other", wanted=2300))
            stream = metered.stream("server", "waits", [])
            assert isinstance(await anext(stream), Queued)
            continued = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            continued.cancel()
            with pytest.raises(asyncio.CancelledError):
                await continued
            assert cloud.calls == []
            await metered.ledger.void(other.call)
            late = asks("late", CENT // 2)
            assert isinstance(await metered.ledger.hold_in_turn(late), Hold), "the line is empty"
