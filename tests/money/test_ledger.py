"""The ledger: what is held, charged, given back and reported."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import stat
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from baton.core.errors import BudgetExceeded, ConfigError, StoreError
from baton.core.hold_decision import MAX_AMOUNT_NANOS
from baton.core.ledger_types import Hold, Scope, Status
from baton.core.messages import Purpose
from baton.core.money import FREE, NANO, BilledTokens
from baton.money import Ledger
from baton.platform import sqlite
from support.ledger_processes import CENT, DAY, DOLLAR, MINI, NOON, bill

HELD = MINI.max_cost(1000, 1000)
USED = BilledTokens(500, 100)
COST = MINI.cost(USED)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ledger.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def ledger(path: Path, clock: Clock) -> AsyncIterator[Ledger]:
    found = Ledger(path, clock)
    yield found
    await found.aclose()


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def amounts(ledger: Ledger, scope: Scope = Scope.DAY) -> tuple[int, int, int]:
    """Return what is settled, held and unconfirmed in a scope."""
    rooms = (await ledger.standing(DAY, "s1")).rooms
    [room] = [room for room in rooms if room.scope is scope]
    return room.settled, room.held, room.unconfirmed


# One call


async def test_money_is_held_then_charged(ledger: Ledger) -> None:
    hold = await ledger.hold(bill())
    assert (hold.cap, hold.amount) == (1000, HELD)
    for scope in (Scope.SESSION, Scope.DAY, Scope.MONTH):
        assert await amounts(ledger, scope) == (0, HELD, 0)
    assert await ledger.settle(hold.call, USED) == COST
    for scope in (Scope.SESSION, Scope.DAY, Scope.MONTH):
        assert await amounts(ledger, scope) == (COST, 0, 0)
    [charge] = await ledger.charges()
    assert (charge.call, charge.status, charge.held) == (hold.call, Status.SETTLED, HELD)
    assert (charge.charged, charge.tokens_in, charge.tokens_out) == (COST, 500, 100)
    assert (charge.run, charge.session, charge.worker, charge.model) == ("r1", "s1", "gpt", "gpt")
    assert (charge.purpose, charge.source) == (Purpose.ANSWER, "a test")


async def test_what_is_left_stays_charged_until_it_is_released(ledger: Ledger) -> None:
    hold = await ledger.hold(bill())
    assert await ledger.leave(hold.call) == HELD
    assert await amounts(ledger) == (0, 0, HELD)
    [charge] = await ledger.unconfirmed()
    assert (charge.call, charge.charged) == (hold.call, HELD)
    assert await ledger.release(hold.call[:5]) == HELD
    assert await amounts(ledger) == (0, 0, 0)
    assert await ledger.unconfirmed() == []
    assert [charge.status for charge in await ledger.charges()] == [Status.RELEASED]


async def test_what_a_call_costs_at_most_is_charged(ledger: Ledger) -> None:
    hold = await ledger.hold(bill())
    assert await ledger.leave(hold.call, BilledTokens(500, 100)) == MINI.max_cost(500, 100) < HELD
    assert await amounts(ledger) == (0, 0, MINI.max_cost(500, 100))
    assert (await ledger.standing(DAY)).frozen == ""


async def test_what_was_never_sent_is_given_back(ledger: Ledger) -> None:
    hold = await ledger.hold(bill())
    await ledger.void(hold.call)
    assert await amounts(ledger) == (0, 0, 0)
    assert (await ledger.charges())[0].status is Status.VOID


@pytest.mark.parametrize("queues", [False, True])
async def test_no_other_process_spends_between_the_look_at_the_ceiling_and_the_hold(
    path: Path, ledger: Ledger, queues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The money of one call is there; the other Baton asks for it just before it is held."""
    last = bill({Scope.DAY: HELD})
    loop, random = asyncio.get_running_loop(), os.urandom
    other = Ledger(path, lambda: NOON)
    await other.standing(DAY)
    others: list[concurrent.futures.Future[Hold]] = []

    def urandom(size: int) -> bytes:  # called for the call's id, once the ceiling has room
        if not others:
            others.append(asyncio.run_coroutine_threadsafe(other.hold(last), loop))
            concurrent.futures.wait(others, timeout=0.5)
        return random(size)

    monkeypatch.setattr("baton.money.call_funds.os.urandom", urandom)
    ours = ledger.hold_in_turn(last) if queues else ledger.hold(last)
    assert isinstance(await ours, Hold)
    with pytest.raises(BudgetExceeded):
        await asyncio.wrap_future(others[0])
    assert await amounts(ledger) == (0, HELD, 0)
    await other.aclose()


@pytest.mark.parametrize("queues", [False, True])
async def test_no_money_is_held_in_a_ledger_that_was_removed(
    path: Path, ledger: Ledger, queues: bool
) -> None:
    await ledger.void((await ledger.hold(bill())).call)
    await asyncio.to_thread(path.rename, path.with_name("other.db"))
    with pytest.raises(StoreError):
        await (ledger.hold_in_turn(bill()) if queues else ledger.hold(bill()))


async def test_a_call_ends_once(ledger: Ledger) -> None:
    for end in (ledger.leave, ledger.void):
        hold = await ledger.hold(bill())
        await end(hold.call)
        for again in (ledger.leave, ledger.void):
            with pytest.raises(LookupError):
                await again(hold.call)
        with pytest.raises(LookupError):
            await ledger.sent(hold.call, "https://x.invalid", b"")
    settled = await ledger.hold(bill())
    await ledger.settle(settled.call, USED)
    for again in (ledger.leave, ledger.void):
        with pytest.raises(LookupError):
            await again(settled.call)
    with pytest.raises(LookupError):
        await ledger.settle(settled.call, USED)
    with pytest.raises(LookupError):
        await ledger.settle("nobody", USED)


async def test_what_was_left_is_never_lowered_by_a_late_count(ledger: Ledger) -> None:
    hold = await ledger.hold(bill())
    await ledger.leave(hold.call)
    assert await ledger.settle(hold.call, USED) == HELD
    assert await amounts(ledger) == (0, 0, HELD)
    [charge] = await ledger.unconfirmed()
    assert (charge.tokens_in, charge.tokens_out) == (500, 100)


async def test_a_price_is_the_one_of_the_hold(path: Path) -> None:
    """Another process, another price list: what was held is what is charged."""
    first, second = Ledger(path), Ledger(path)
    hold = await first.hold(bill())
    assert await second.settle(hold.call, USED) == COST
    await first.aclose()
    await second.aclose()


async def test_a_quote_sets_nothing_aside(ledger: Ledger) -> None:
    quote = await ledger.quote(bill())
    assert (quote.cap, quote.amount) == (1000, HELD)
    assert await amounts(ledger) == (0, 0, 0)
    assert await ledger.charges() == []
    with pytest.raises(BudgetExceeded):
        await ledger.quote(bill({}))


# Ceilings


@pytest.mark.parametrize("scope", Scope)
async def test_each_scope_has_a_ceiling_of_its_own(ledger: Ledger, scope: Scope) -> None:
    ceilings = {Scope.MONTH: DOLLAR, scope: HELD + CENT // 10}
    client = "token" if scope is Scope.TOKEN else ""
    await ledger.hold(bill(ceilings, client=client))
    tight = await ledger.hold(bill(ceilings, bound=10, client=client))
    assert tight.amount <= CENT // 10
    assert tight.cap < 1000
    with pytest.raises(BudgetExceeded):
        await ledger.hold(bill(ceilings, client=client))
    other_session = bill(ceilings, run="r2", session="s2")
    if scope in (Scope.RUN, Scope.SESSION, Scope.TOKEN):
        assert (await ledger.hold(other_session)).amount == HELD
    else:
        with pytest.raises(BudgetExceeded):
            await ledger.hold(other_session)


async def test_a_refusal_leaves_nothing_behind(ledger: Ledger) -> None:
    for refused in (bill({}), bill({Scope.DAY: 0}), bill({Scope.DAY: 1000})):
        with pytest.raises(BudgetExceeded):
            await ledger.hold(refused)
    assert await ledger.charges() == []
    assert await amounts(ledger) == (0, 0, 0)


async def test_what_costs_nothing_is_recorded_and_needs_no_ceiling(ledger: Ledger) -> None:
    hold = await ledger.hold(bill({}, price=FREE))
    assert (hold.cap, hold.amount) == (1000, 0)
    assert await ledger.settle(hold.call, USED) == 0
    [charge] = await ledger.charges()
    assert (charge.status, charge.tokens_out) == (Status.SETTLED, 100)


async def test_day_and_month_are_those_of_the_hold(ledger: Ledger, clock: Clock) -> None:
    ceilings = {Scope.DAY: HELD, Scope.MONTH: 2 * HELD}
    late = await ledger.hold(bill(ceilings))
    with pytest.raises(BudgetExceeded, match="today"):
        await ledger.hold(bill(ceilings))
    clock.now += 24 * 3600
    await ledger.settle(
        late.call, BilledTokens(1000, 1000, cache_written=1000)
    )  # counts for yesterday
    assert await amounts(ledger) == (0, 0, 0)
    assert await amounts(ledger, Scope.MONTH) == (HELD, 0, 0)
    await ledger.hold(bill(ceilings))
    clock.now += 24 * 3600
    with pytest.raises(BudgetExceeded, match="this month"):
        await ledger.hold(bill(ceilings))
    clock.now += 31 * 24 * 3600
    await ledger.hold(bill(ceilings))


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("year", [-30_000, 1, 999, 1899, 9999, 10_000, 2_000_000])
async def test_a_clock_that_is_centuries_off_is_refused(
    ledger: Ledger, clock: Clock, year: int
) -> None:
    clock.now = (year - 1970 + 0.5) * 365.2425 * 86400
    with pytest.raises(StoreError, match="clock is not between the years 1900 and 9998"):
        await ledger.hold(bill())
    with pytest.raises(StoreError, match="Set the clock"):
        await ledger.standing(DAY)


@pytest.mark.parametrize("moment", [(1900, 1, 2), (1969, 12, 31), (1970, 1, 1), (9998, 12, 31)])
async def test_the_first_and_the_last_days_are_counted(
    ledger: Ledger, clock: Clock, moment: tuple[int, int, int]
) -> None:
    clock.now = time.mktime((*moment, 12, 0, 0, 0, 0, -1))
    held = await ledger.hold(bill())
    rooms = {room.scope: room.held for room in (await ledger.standing(DAY)).rooms}
    assert rooms == {Scope.DAY: held.amount, Scope.MONTH: held.amount}


async def test_a_day_ends_at_the_persons_midnight(ledger: Ledger, clock: Clock) -> None:
    clock.now = time.mktime((2026, 3, 31, 23, 59, 59, 0, 0, -1))
    await ledger.hold(bill())
    assert await amounts(ledger) == (0, HELD, 0)
    clock.now += 1
    assert await amounts(ledger) == (0, 0, 0)
    assert await amounts(ledger, Scope.MONTH) == (0, 0, 0)
    assert await amounts(ledger, Scope.SESSION) == (0, HELD, 0)
    assert [row.name for row in await ledger.usage("day")] == ["2026-03-31"]


ZONES = (
    "UTC",
    "Pacific/Kiritimati",
    "Pacific/Pago_Pago",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
)


@given(
    st.lists(
        st.tuples(st.sampled_from(ZONES), st.floats(-20, 30), st.booleans()),
        min_size=5,
        max_size=25,
    ),
    st.sampled_from([(2026, 3, 29), (2026, 6, 1), (2026, 10, 31), (2026, 12, 31)]),
)
@settings(max_examples=15)
def test_a_day_has_one_ceiling_in_all_time_zones(
    moves: list[tuple[str, float, bool]], date: tuple[int, int, int]
) -> None:
    """The clock is set on and back as well. What counts is checked by the calendar's own words."""
    start = datetime(*date, 12, tzinfo=UTC).timestamp()
    try:
        asyncio.run(_spend_in_zones(start, moves))
    finally:
        os.environ.pop("TZ", None)
        time.tzset()


async def _spend_in_zones(start: float, moves: list[tuple[str, float, bool]]) -> None:
    clock = Clock()
    clock.now = start
    ledger = Ledger(None, clock)
    ceilings = {Scope.DAY: 2 * HELD, Scope.MONTH: 4 * HELD}
    for zone, hours, ends in moves:
        os.environ["TZ"] = zone
        time.tzset()
        clock.now += hours * 3600
        try:
            hold = await ledger.hold(bill(ceilings))
        except BudgetExceeded:
            continue
        if ends:
            await ledger.leave(hold.call)
        today = datetime.fromtimestamp(clock.now, ZoneInfo(zone)).date()
        charges = await ledger.charges()
        dates = [datetime.fromtimestamp(one.at, ZoneInfo(zone)).date() for one in charges]
        assert sum(c.held for c, d in zip(charges, dates, strict=True) if d == today) <= 2 * HELD
        month = (today.year, today.month)
        spent = [c.held for c, d in zip(charges, dates, strict=True) if (d.year, d.month) == month]
        assert sum(spent) <= 4 * HELD
        for scope in (Scope.DAY, Scope.MONTH):
            rooms = (await ledger.standing(ceilings)).rooms
            [room] = [room for room in rooms if room.scope is scope]
            assert room.used <= ceilings[scope]
    await ledger.aclose()


async def test_another_time_zone_is_not_another_day(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ceilings = {Scope.DAY: HELD}
    try:
        for zone in ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            if zone == "UTC":
                await ledger.leave((await ledger.hold(bill(ceilings))).call)
            with pytest.raises(BudgetExceeded, match="today"):
                await ledger.hold(bill(ceilings))
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_a_clock_that_is_set_on_and_back_opens_no_other_day(
    ledger: Ledger, clock: Clock
) -> None:
    ceilings = {Scope.DAY: HELD}
    clock.now += 24 * 3600
    await ledger.hold(bill(ceilings))
    clock.now -= 24 * 3600
    with pytest.raises(BudgetExceeded, match="today"):
        await ledger.hold(bill(ceilings))
    clock.now += 48 * 3600
    await ledger.hold(bill(ceilings))


async def test_a_ceiling_that_is_set_rules_in_every_baton_at_once(path: Path) -> None:
    here, there = Ledger(path), Ledger(path)
    await there.hold(bill())
    await here.set_ceiling(Scope.DAY, CENT // 10)
    with pytest.raises(BudgetExceeded, match=r"\$0\.001 for today"):
        await there.hold(bill())
    await here.set_ceiling(Scope.DAY, 2 * DOLLAR)
    await there.hold(bill({Scope.DAY: 0}))
    await here.set_ceiling(Scope.DAY, None)
    with pytest.raises(BudgetExceeded, match="no ceiling is set"):
        await there.hold(bill())
    assert not (await there.standing(DAY)).is_cloud_on
    await here.aclose()
    await there.aclose()


async def test_a_later_baton_goes_by_its_own_settings(path: Path) -> None:
    first = Ledger(path)
    await first.set_ceiling(Scope.DAY, 0)
    await first.aclose()
    second = Ledger(path)
    assert (await second.hold(bill())).amount == HELD
    await second.aclose()


@pytest.mark.parametrize(
    ("scope", "amount"), [(Scope.RUN, 1), (Scope.DAY, -1), (Scope.DAY, MAX_AMOUNT_NANOS + 1)]
)
async def test_no_such_ceiling_can_be_set(ledger: Ledger, scope: Scope, amount: int) -> None:
    with pytest.raises(ConfigError):
        await ledger.set_ceiling(scope, amount)


async def test_standing_shows_the_scopes_under_their_ceilings(ledger: Ledger) -> None:
    standing = await ledger.standing({})
    assert [room.scope for room in standing.rooms] == [Scope.DAY, Scope.MONTH]
    assert not standing.is_cloud_on
    await ledger.leave((await ledger.hold(bill())).call)
    standing = await ledger.standing({Scope.DAY: HELD, Scope.SESSION: DOLLAR}, "s1")
    assert [room.scope for room in standing.rooms] == [Scope.SESSION, Scope.DAY, Scope.MONTH]
    assert standing.is_cloud_on
    assert standing.tightest is not None
    assert (standing.tightest.scope, standing.tightest.left) == (Scope.DAY, 0)


# What must not happen, and does


async def test_more_than_was_held_is_charged_and_freezes_the_cloud(ledger: Ledger) -> None:
    hold = await ledger.hold(bill())
    cost = await ledger.settle(hold.call, BilledTokens(1000, 2000))
    assert cost > hold.amount
    assert await amounts(ledger) == (cost, 0, 0)
    with pytest.raises(BudgetExceeded) as caught:
        await ledger.hold(bill())
    assert str(caught.value) == (
        "The cloud is frozen, so nothing was sent: gpt charged $0.00425 for a call that was to "
        "cost at most $0.0023125. See `baton usage` and `baton egress ls`, then lift it with "
        "`baton budget release --freeze` or /budget."
    )
    assert (await ledger.standing(DAY)).frozen in str(caught.value)
    assert (await ledger.hold(bill(price=FREE, worker="lab"))).amount == 0
    assert await ledger.lift_freeze()
    assert not await ledger.lift_freeze()
    assert (await ledger.standing(DAY)).frozen == ""
    assert (await ledger.hold(bill())).amount == HELD


async def test_what_surely_passed_its_cap_is_charged_and_freezes_the_cloud(ledger: Ledger) -> None:
    hold = await ledger.hold(bill())
    cost = await ledger.leave(hold.call, BilledTokens(1000, 2000))
    assert cost == MINI.max_cost(1000, 2000) > hold.amount
    assert await amounts(ledger) == (0, 0, cost)
    with pytest.raises(BudgetExceeded, match="gpt charged"):
        await ledger.hold(bill())
    assert await ledger.lift_freeze()
    assert await ledger.release(hold.call) == cost


async def test_a_free_worker_that_charges_is_frozen_too(ledger: Ledger) -> None:
    hold = await ledger.hold(bill({}, price=FREE, worker="lab"))
    assert await ledger.settle(hold.call, replace(USED, reported=7)) == 7
    with pytest.raises(BudgetExceeded, match="lab charged"):
        await ledger.hold(bill({}, price=FREE, worker="lab"))
    assert (await ledger.hold(bill({}, price=FREE, worker="other"))).amount == 0
    assert await ledger.lift_freeze()
    paid = await ledger.hold(bill())
    free = await ledger.hold(bill({}, price=FREE, worker="lab"))
    await ledger.settle(free.call, replace(USED, reported=7))
    await ledger.settle(
        paid.call, BilledTokens(1000, 9000)
    )  # another freeze doesn't lift the first
    with pytest.raises(BudgetExceeded, match="gpt charged"):
        await ledger.hold(bill({}, price=FREE, worker="lab"))


@pytest.mark.parametrize(("number", "kept"), [(10**30, MAX_AMOUNT_NANOS), (-(10**30), 0)])
async def test_absurd_counts_are_kept_as_far_as_possible(
    ledger: Ledger, number: int, kept: int
) -> None:
    first, second = await ledger.hold(bill()), await ledger.hold(bill())
    for hold in (first, second):
        assert (
            await ledger.settle(hold.call, BilledTokens(number, number, number, number, number))
            == kept
        )
    assert await amounts(ledger) == (2 * kept, 0, 0)
    assert {charge.tokens_out for charge in await ledger.charges()} == {kept}
    assert [row.charged for row in await ledger.usage("day")] == [2 * kept]
    assert await ledger.lift_freeze() is (kept > 0)


async def test_absurd_bills_are_refused(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded):
        await ledger.hold(bill({Scope.DAY: MAX_AMOUNT_NANOS}, bound=10**30))
    with pytest.raises(BudgetExceeded):
        await ledger.hold(bill({Scope.DAY: 10**40}, bound=10**25))


async def test_any_text_can_be_kept(ledger: Ledger) -> None:
    odd = "a\ud800\x00'; DROP TABLE calls; --\U0001f4b8"
    hold = await ledger.hold(bill(run=odd, session=odd, worker=odd))
    await ledger.sent(hold.call, odd, b"\x00\xff")
    await ledger.settle(hold.call, BilledTokens(1000, 9000))
    assert [charge.call for charge in await ledger.charges(odd)] == [hold.call]
    assert "\ud800" not in (await ledger.standing(DAY, odd)).frozen


# What a user may take back


async def test_only_unconfirmed_charges_can_be_released(ledger: Ledger) -> None:
    settled, held = await ledger.hold(bill()), await ledger.hold(bill())
    await ledger.settle(settled.call, USED)
    with pytest.raises(ConfigError, match="is settled, not unconfirmed"):
        await ledger.release(settled.call)
    with pytest.raises(ConfigError, match="is held, not unconfirmed"):
        await ledger.release(held.call)
    for typed in ("nobody", "", " "):
        with pytest.raises(ConfigError, match="There is no call"):
            await ledger.release(typed)
    assert await ledger.release_all() == 0
    assert await amounts(ledger) == (COST, HELD, 0)


async def test_all_unconfirmed_charges_can_be_released_at_once(ledger: Ledger) -> None:
    for _ in range(3):
        await ledger.leave((await ledger.hold(bill())).call)
    kept = await ledger.hold(bill())
    assert await ledger.release_all() == 3 * HELD
    assert await amounts(ledger) == (0, HELD, 0)
    assert await ledger.leave(kept.call) == HELD


# What is reported


async def test_usage_adds_up_by_day_worker_and_purpose(ledger: Ledger, clock: Clock) -> None:
    for worker in ("gpt", "gpt", "opus"):
        hold = await ledger.hold(bill(worker=worker, session=worker))
        await ledger.settle(hold.call, USED)
        clock.now += 24 * 3600
    await ledger.leave((await ledger.hold(bill(worker="opus"))).call)
    await ledger.void((await ledger.hold(bill(worker="never"))).call)
    by_worker = {row.name: row for row in await ledger.usage("worker")}
    assert list(by_worker) == ["opus", "gpt"]
    assert by_worker["gpt"].calls == 2
    assert (by_worker["gpt"].tokens_in, by_worker["gpt"].tokens_out) == (1000, 200)
    assert (by_worker["gpt"].charged, by_worker["gpt"].unconfirmed) == (2 * COST, 0)
    assert (by_worker["opus"].charged, by_worker["opus"].unconfirmed) == (COST + HELD, HELD)
    days = await ledger.usage("day")
    assert [row.name for row in days] == sorted(row.name for row in days)
    assert [row.calls for row in days] == [1, 1, 1, 1]
    assert [row.name for row in await ledger.usage("purpose")] == ["answer"]
    assert len(await ledger.usage("day", since=NOON + 3600)) == 3


async def test_charges_are_the_newest_first_of_a_run(ledger: Ledger) -> None:
    calls = [(await ledger.hold(bill(run=run))).call for run in ("abc1", "abx2", "abc1")]
    assert [charge.call for charge in await ledger.charges()] == calls[::-1]
    assert [charge.call for charge in await ledger.charges("abc")] == [calls[2], calls[0]]
    assert [charge.call for charge in await ledger.charges(limit=1)] == [calls[2]]
    assert await ledger.charges("x") == []


# The egress log


async def test_every_byte_that_is_sent_is_kept(ledger: Ledger) -> None:
    body = bytes(range(256)) * 100
    hold = await ledger.hold(bill())
    await ledger.sent(hold.call, "https://api.invalid/v1/chat", body)
    [one] = await ledger.egress()
    assert (one.body, one.size, one.sha256) == (body, len(body), sha256(body).hexdigest())
    assert (one.destination, one.run, one.worker) == ("https://api.invalid/v1/chat", "r1", "gpt")
    assert (one.call, one.held, one.status, one.at) == (hold.call, HELD, Status.HELD, NOON)
    await ledger.settle(hold.call, USED)
    assert (await ledger.find_egress(one.key)).charged == COST
    with pytest.raises(ConfigError):
        await ledger.find_egress(one.key + 1)


async def test_a_hold_is_for_one_request(ledger: Ledger) -> None:
    hold = await ledger.hold(bill())
    await ledger.sent(hold.call, "https://api.invalid", b"once")
    with pytest.raises(LookupError, match="a hold of its own"):
        await ledger.sent(hold.call, "https://api.invalid", b"twice")
    assert [one.body for one in await ledger.egress()] == [b"once"]


async def test_a_request_that_did_not_leave_may_be_made_again(ledger: Ledger) -> None:
    """To another address: each has a row of its own, and only the last one's bytes left."""
    hold = await ledger.hold(bill())
    for host in ("10.0.0.2:8000", "10.0.0.3:8000"):
        await ledger.sent(hold.call, host, b"body")
        await ledger.record_unsent(hold.call)
    await ledger.sent(hold.call, "10.0.0.4:8000", b"body")
    with pytest.raises(LookupError, match="a hold of its own"):
        await ledger.sent(hold.call, "10.0.0.5:8000", b"body")
    rows = [(one.destination, one.left) for one in reversed(await ledger.egress())]
    assert rows == [
        ("10.0.0.2:8000", False),
        ("10.0.0.3:8000", False),
        ("10.0.0.4:8000", True),
    ]
    await ledger.settle(hold.call, USED)
    assert [charge.charged for charge in await ledger.charges()] == [COST]


async def test_what_costs_nothing_may_be_sent_more_than_once(ledger: Ledger) -> None:
    hold = await ledger.hold(bill(price=FREE))
    for host in ("10.0.0.2:8000", "10.0.0.3:8000"):
        await ledger.sent(hold.call, host, b"body")
    assert [one.left for one in await ledger.egress()] == [True, True]
    await ledger.settle(hold.call, USED)
    assert [charge.charged for charge in await ledger.charges()] == [0]


async def test_that_nothing_was_sent_is_not_a_request_that_did_not_leave(ledger: Ledger) -> None:
    first, second = await ledger.hold(bill()), await ledger.hold(bill())
    await ledger.sent(first.call, "10.0.0.2:8000", b"body")
    await ledger.record_unsent(second.call)
    assert [one.left for one in await ledger.egress()] == [True]


async def test_without_history_only_size_and_hash_are_kept(ledger: Ledger, path: Path) -> None:
    hold = await ledger.hold(bill(keep=False))
    await ledger.sent(hold.call, "https://api.invalid", b"a secret of mine")
    [one] = await ledger.egress()
    assert (one.body, one.size) == (None, 16)
    assert one.sha256 == sha256(b"a secret of mine").hexdigest()
    assert b"a secret of mine" not in _bytes_of(path)


async def test_what_a_run_sent_can_be_forgotten_for_good(ledger: Ledger, path: Path) -> None:
    for run in ("abc", "abcd", "x"):
        hold = await ledger.hold(bill(run=run))
        await ledger.sent(hold.call, "https://api.invalid", b"a secret of " + run.encode() + b".")
        await ledger.settle(hold.call, USED)
    assert b"a secret of abc." in _bytes_of(path)
    await ledger.forget(["abc", "nobody"])
    assert b"a secret of abc." not in _bytes_of(path)
    newest_first = await ledger.egress()
    assert [one.body for one in newest_first] == [b"a secret of x.", b"a secret of abcd.", None]
    assert newest_first[-1].sha256 == sha256(b"a secret of abc.").hexdigest()
    assert [one.run for one in await ledger.egress("abc")] == ["abcd", "abc"]
    assert len(await ledger.egress(limit=1)) == 1
    assert len(await ledger.charges()) == 3


async def test_everything_that_left_can_be_exported(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.money.ledger._PAGE_ROWS", 2)
    for number in range(5):
        hold = await ledger.hold(bill())
        await ledger.sent(hold.call, "https://api.invalid", str(number).encode())
        await ledger.void(hold.call)
    assert [one.body async for one in ledger.every_egress()] == [
        str(number).encode() for number in range(5)
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE egress SET body = x'00'",
        "UPDATE egress SET body = NULL, size = 0",
        "UPDATE egress SET sha256 = ''",
        "UPDATE egress SET destination = 'nowhere'",
        "DELETE FROM egress",
        "UPDATE entries SET charged = 0",
        "DELETE FROM entries",
        "DELETE FROM calls",
        "UPDATE ceilings SET amount = 1",
        "DELETE FROM ceilings",
        "UPDATE freezes SET reason = ''",
        "DELETE FROM freezes",
    ],
)
async def test_what_happened_cannot_be_changed(ledger: Ledger, path: Path, statement: str) -> None:
    hold = await ledger.hold(bill())
    await ledger.sent(hold.call, "https://api.invalid", b"body")
    await ledger.settle(hold.call, BilledTokens(1000, 9000))
    await ledger.set_ceiling(Scope.DAY, 5)
    connection = sqlite.connect(path)
    with pytest.raises(sqlite.sqlite3.IntegrityError, match="never changed"):
        connection.execute(statement)
    connection.close()


# The file


def _bytes_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob("ledger.db*"))


async def test_the_file_is_for_its_owner_only(ledger: Ledger, path: Path) -> None:
    await ledger.hold(bill())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_every_commit_waits_for_the_disk(ledger: Ledger) -> None:
    def pragmas(connection: sqlite.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await ledger._database.run(pragmas) == ["wal", 2, 1, 1]


async def test_a_ledger_in_memory_is_forgotten() -> None:
    ledger = Ledger(None)
    assert ledger.warning == ""
    await ledger.settle((await ledger.hold(bill())).call, USED)
    assert await amounts(ledger) == (COST, 0, 0)
    await ledger.aclose()
    again = Ledger(None)
    assert await again.charges() == []
    await again.aclose()


async def test_cancelled_tasks_leave_the_ledger_usable(ledger: Ledger) -> None:
    tasks = [asyncio.create_task(ledger.hold(bill())) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    held = [charge for charge in await ledger.charges() if charge.status is Status.HELD]
    assert await amounts(ledger) == (0, HELD * len(held), 0)


async def test_a_full_disk_is_a_sentence_and_loses_nothing(ledger: Ledger) -> None:
    hold = await ledger.hold(bill())

    async def limit(pages: int) -> None:
        await ledger._database.run(
            lambda db: db.execute(f"PRAGMA max_page_count = {pages}").close()
        )

    await limit(1)
    with pytest.raises(StoreError, match="The disk is full"):
        await ledger.sent(hold.call, "https://api.invalid", b"x" * 500_000)
    assert await ledger.egress() == []
    await limit(1 << 30)
    await ledger.sent(hold.call, "https://api.invalid", b"x" * 500_000)
    assert await ledger.settle(hold.call, USED) == COST


async def test_a_path_that_cannot_be_is_a_sentence_about_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with pytest.raises(StoreError, match=r"The ledger at .* can't be used") as caught:
        await ledger.hold(bill())
    assert "stay with local workers" in str(caught.value)
    await ledger.aclose()


def test_sums_of_the_largest_amounts_fit() -> None:
    assert MAX_AMOUNT_NANOS == 10**6 * NANO
    assert 9_000 * MAX_AMOUNT_NANOS < 2**63


async def test_a_worker_gets_the_room_for_thoughts_that_its_own_calls_needed(
    ledger: Ledger,
) -> None:
    asked = replace(bill(wanted=4096), expected=300, thinking=2000)
    for number in range(50):
        assert (await ledger.quote(asked)).cap == 2300, "too few calls say nothing"
        hold = await ledger.hold(asked)
        await ledger.settle(hold.call, BilledTokens(10, 100 + 10 * number))
    assert (await ledger.quote(asked)).cap == 300 + 590
    assert (await ledger.quote(replace(asked, worker="other", model="other"))).cap == 2300
    assert (await ledger.quote(replace(asked, thinking=0))).cap == 300
