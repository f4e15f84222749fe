"""Which address a call goes to: the rule by itself, and the pool that follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hypothesis import given, strategies as some

from baton.workers.cloud.address_pool import (
    MAX_REST_SECONDS,
    AddressLease,
    AddressPool,
    AddressState,
    WorkerAddress,
    choose_address,
)

NOW = 100.0
STATES = some.builds(
    AddressState,
    slots=some.integers(1, 8),
    outstanding=some.integers(0, 9),
    speed=some.sampled_from([0.0, 0.5, 10.0, 11.0, 80.0]),
    failures=some.integers(0, 3),
    rest_until=some.sampled_from([0.0, NOW - 1, NOW, NOW + 1, NOW + 7]),
)
LISTS = some.lists(STATES, max_size=6)


@given(LISTS, some.booleans())
def test_the_chosen_address_is_free_and_has_the_fewest_calls_per_slot(
    states: list[AddressState], continues: bool
) -> None:
    listed = dict(enumerate(states))
    chosen = choose_address(listed, NOW, continues=continues)
    free = [state for state in states if state.is_free(NOW)]
    if not free:
        return
    assert chosen is not None
    best = listed[chosen]
    assert best.is_free(NOW)
    assert best.outstanding < best.slots
    assert not best.rests(NOW)
    least = min(state.outstanding / state.slots for state in free)
    assert best.outstanding / best.slots == least
    peers = [state for state in free if state.outstanding / state.slots == least]
    if best.failures:
        assert all(state.failures for state in peers)
    for peer in peers:
        if bool(peer.failures) == bool(best.failures) and best.speed:
            assert continues or peer.speed, "one whose speed isn't known would have come first"
            assert peer.speed < 1.5**2 * best.speed


@given(LISTS)
def test_a_call_waits_only_while_an_address_that_is_not_left_out_is_busy(
    states: list[AddressState],
) -> None:
    chosen = choose_address(dict(enumerate(states)), NOW)
    if chosen is None:
        assert all(not state.is_free(NOW) for state in states)
        assert not states or any(not state.rests(NOW) for state in states)
    elif states[chosen].rests(NOW):
        assert all(state.rests(NOW) for state in states)
        assert states[chosen].rest_until == min(state.rest_until for state in states)


@given(STATES, some.permutations(range(4)))
def test_of_equal_addresses_the_first_is_chosen(state: AddressState, order: list[int]) -> None:
    chosen = choose_address(dict.fromkeys(order, state), NOW)
    assert chosen in (order[0], None)


def test_a_conversation_that_continues_is_not_sent_to_an_address_that_was_never_asked() -> None:
    """It would have to be read from its beginning there; a new one is as good for a first look."""
    states = {0: AddressState(4, speed=30.0), 1: AddressState(4)}
    assert choose_address(states, NOW) == 1
    assert choose_address(states, NOW, continues=True) == 0
    assert choose_address(dict(reversed(states.items())), NOW, continues=True) == 1, "its own one"
    slower = states | {2: AddressState(4, speed=90.0)}
    assert choose_address(slower, NOW, continues=True) == 1


@given(LISTS)
def test_an_address_that_failed_gets_one_call_at_a_time(states: list[AddressState]) -> None:
    chosen = choose_address(dict(enumerate(states)), NOW)
    if chosen is not None and states[chosen].failures and not states[chosen].rests(NOW):
        assert states[chosen].outstanding == 0


@given(some.lists(some.integers(1, 8), min_size=1, max_size=5))
def test_calls_that_come_together_fill_every_slot_and_no_more(slots: list[int]) -> None:
    states = {n: AddressState(size) for n, size in enumerate(slots)}
    for _ in range(sum(slots)):
        chosen = choose_address(states, NOW)
        assert chosen is not None
        state = states[chosen]
        states[chosen] = AddressState(state.slots, state.outstanding + 1)
    assert all(state.outstanding == state.slots for state in states.values())
    assert choose_address(states, NOW) is None


@dataclass
class Clock:
    """A clock that stands until it is set."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


def pool_of(*slots: int, clock: Clock) -> AddressPool:
    return AddressPool(
        [WorkerAddress(f"http://10.0.0.{n}/v1", s) for n, s in enumerate(slots)], clock
    )


async def take(pool: AddressPool, *tried: Collection[int], **how: Any) -> AddressLease:
    lease = await pool.take(*tried, **how)
    assert lease is not None
    return lease


async def test_an_address_that_keeps_failing_is_left_out_longer_each_time() -> None:
    clock = Clock()
    pool = pool_of(1, 1, clock=clock)
    rests = []
    for _ in range(9):
        lease = await take(pool, {1})
        pool.record_failure(lease)
        pool.release(lease)
        rests.append(pool.states[0].rest_until - clock.now)
        clock.now = pool.states[0].rest_until
    assert rests == [1, 2, 4, 8, 16, 32, *[MAX_REST_SECONDS] * 3]
    lease = await take(pool, {1})
    pool.record_answer(lease, 100, 5)
    pool.release(lease)
    assert (pool.states[0].failures, pool.failing) == (0, [])


async def test_calls_that_fail_together_count_once_and_late_good_news_are_not_news() -> None:
    clock = Clock()
    pool = pool_of(4, clock=clock)
    leases = [await take(pool) for _ in range(4)]
    clock.now += 5
    pool.record_failure(leases[0])
    clock.now += 0.5
    pool.record_failure(leases[1])
    pool.record_answer(leases[2], 100, 5)
    assert (pool.states[0].failures, pool.states[0].rest_until) == (1, NOW + 6)


async def test_a_call_waits_for_a_slot_and_gets_the_first_that_is_given_back() -> None:
    pool = pool_of(1, 1, clock=Clock())
    first, second = await take(pool), await take(pool)
    assert {first.number, second.number} == {0, 1}
    waiting = [asyncio.create_task(take(pool)) for _ in range(2)]
    await asyncio.sleep(0)
    pool.release(second)
    lease = await waiting[0]
    assert lease.number == second.number
    assert not waiting[1].done()
    waiting[1].cancel()
    await asyncio.wait(waiting)
    pool.release(lease)
    assert (await take(pool, {first.number})).number == second.number, "who left holds nothing"


async def test_a_waiting_call_takes_an_address_whose_rest_is_over() -> None:
    pool = AddressPool([WorkerAddress("http://10.0.0.1/v1"), WorkerAddress("http://10.0.0.2/v1")])
    lease = await take(pool, {1})
    pool.record_failure(lease)
    pool.release(lease)
    busy = await take(pool)
    assert busy.number == 1
    assert (await asyncio.wait_for(take(pool), 60)).number == 0


async def test_a_single_address_is_never_waited_for_nor_left_out() -> None:
    pool = pool_of(1, clock=Clock())
    leases: list[AddressLease] = []
    for _ in range(3):
        leases.append(await take(pool))
        pool.record_failure(leases[-1])
    assert {lease.number for lease in leases} == {0}
    assert pool.states[0].failures == 3, "each began when the one before had failed"
    full = pool_of(1, clock=Clock())
    assert {(await take(full)).number for _ in range(3)} == {0}


async def test_a_quicker_address_is_preferred_and_equal_ones_are_not_swapped() -> None:
    pool = pool_of(2, 2, 2, clock=Clock())
    speeds = (10.0, 30.0, 40.0)
    for _ in range(6):
        lease = await take(pool)
        pool.record_answer(lease, 100, 100 / speeds[lease.number])
        pool.release(lease)
    for _ in range(3):
        lease = await take(pool)
        assert lease.number == 1, "30 and 40 tokens a second are about the same"
        pool.release(lease)


async def test_a_conversation_stays_where_it_is_and_others_are_spread() -> None:
    """Also in other processes: each has a pool of its own, which knows nothing yet."""

    async def place_of(beginning: str) -> int:
        return (await take(pool_of(4, 4, 4, clock=Clock()), beginning=beginning)).number

    places = [await place_of(f"You are brief.\nQuestion {number}") for number in range(60)]
    assert all(places.count(number) >= 10 for number in range(3))
    again = [await place_of(f"You are brief.\nQuestion {number}") for number in range(60)]
    assert again == places


async def test_offline_only_addresses_on_this_machine_are_taken() -> None:
    pool = AddressPool(
        [WorkerAddress("http://10.0.0.1/v1", 9), WorkerAddress("http://127.0.0.1/v1", 2, False)]
    )
    assert pool.allowed(offline=True) == [1]
    assert await pool.take({1}, offline=True) is None, "nothing is waited for that can't come"
    assert [(await take(pool, offline=True)).number for _ in range(2)] == [1, 1]
