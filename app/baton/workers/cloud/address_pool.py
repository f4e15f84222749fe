"""The addresses of one worker: which of them a call goes to, and what is known of each.

What is known comes from the calls themselves; no address is asked how it is. An address that fails
is left out for a while, longer each time, and then gets one call to show that it is back.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

MAX_REST_SECONDS = 60.0
"""How long an address that keeps failing is left out at most; after a first failure it is 1 s."""

_EQUAL_SPEED = 1.5
"""An address that is slower than the fastest by less than this factor counts as equally fast: a
conversation stays where its beginning is in the cache."""

_NEWEST_SHARE = 0.3
"""How much the newest call counts in an address's speed."""

_MIN_TOKENS, _MIN_SECONDS = 8, 0.05
"""A shorter answer says nothing about how fast an address writes."""


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """One address of a worker: `slots` is how many calls it takes at once.

    `remote` is whether what it is sent leaves this machine, as far as is known.
    """

    url: str
    slots: int = 1
    remote: bool = True


@dataclass(frozen=True, slots=True)
class AddressState:
    """How an address stands.

    `outstanding` are the calls on their way, `speed` is that of late in tokens a second (0: not
    known). After `failures` in a row it is left out until the time `rest_until`, in seconds.
    """

    slots: int
    outstanding: int = 0
    speed: float = 0.0
    failures: int = 0
    rest_until: float = 0.0

    def rests(self, now: float) -> bool:
        """Whether it is left out now."""
        return now < self.rest_until

    def is_free(self, now: float) -> bool:
        """Whether it takes one more call now. After a failure it takes one at a time."""
        slots = 1 if self.failures else self.slots
        return not self.rests(now) and self.outstanding < slots


def choose_address(
    states: Mapping[int, AddressState], now: float, *, continues: bool = False
) -> int | None:
    """Return which of these addresses takes a call, or None if the call waits for one.

    The one with the fewest calls on their way per slot; of those, one that works; of those, the
    fastest of late; of equals, the first. One whose speed isn't known gets calls that begin a
    conversation before others; to a call that `continues` one it is as fast as the fastest, since
    another address may have the conversation in its cache. If all of them are left out, the one
    whose rest ends first is tried after all: a call fails because nothing answered, never because
    nothing was asked.
    """
    if free := {n: state for n, state in states.items() if state.is_free(now)}:
        fastest = max(state.speed for state in free.values())
        unknown = 0 if continues else -1
        return min(free, key=lambda n: _rank(free[n], fastest, unknown))
    if any(not state.rests(now) for state in states.values()):
        return None
    return min(states, key=lambda n: states[n].rest_until, default=None)


def _rank(state: AddressState, fastest: float, unknown: int) -> tuple[float, bool, int]:
    slowness = unknown
    if state.speed > 0:
        slowness = int(math.log(fastest / state.speed, _EQUAL_SPEED))
    return state.outstanding / state.slots, state.failures > 0, slowness


def preferred_order(urls: Sequence[str], beginning: str) -> list[int]:
    """Return the places of addresses in an order that the beginning of a conversation decides."""
    if not beginning or len(urls) == 1:
        return list(range(len(urls)))
    digest = hashlib.sha256(beginning.encode("utf-8", "replace")).digest()
    ranks = [hashlib.sha256(digest + url.encode("utf-8", "replace")).digest() for url in urls]
    return sorted(range(len(urls)), key=ranks.__getitem__)


@dataclass(frozen=True, slots=True)
class AddressLease:
    """A slot of an address, taken at the time `began` for one call.

    `has_others` is whether the call could be made at another address as well.
    """

    number: int
    address: WorkerAddress
    began: float
    has_others: bool


class AddressPool:
    """Spreads the calls of a worker over its addresses. `clock` is in seconds.

    `states` are how the addresses stand, by their places in the list.
    """

    def __init__(
        self, addresses: Sequence[WorkerAddress], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.addresses = tuple(addresses)
        self._clock = clock
        self.states = {n: AddressState(each.slots) for n, each in enumerate(addresses)}
        self._failed_at = dict.fromkeys(self.states, -math.inf)
        self._changed = asyncio.Event()

    @property
    def failing(self) -> list[WorkerAddress]:
        """The addresses that failed when they were last asked."""
        return [self.addresses[n] for n, state in self.states.items() if state.failures]

    def allowed(self, offline: bool) -> list[int]:
        """Return the places of the addresses that may be asked; offline those on this machine."""
        return [n for n, each in enumerate(self.addresses) if not (offline and each.remote)]

    async def take(
        self,
        tried: Collection[int] = (),
        *,
        offline: bool = False,
        beginning: str = "",
        continues: bool = False,
    ) -> AddressLease | None:
        """Take a slot of an address that a call hasn't tried; wait for one while all are busy.

        None: there is no such address left. Calls with the same `beginning` prefer the same one of
        equal addresses, in every process; others are spread. Whether the call `continues` what
        began so, see `choose_address`. What is taken must be given back: `release`.
        """
        order = preferred_order([each.url for each in self.addresses], beginning)
        while True:
            now = self._clock()
            numbers = [n for n in order if n in self.allowed(offline) and n not in tried]
            if not numbers:
                return None
            left = {n: self.states[n] for n in numbers}
            chosen = choose_address(left, now, continues=continues)
            if chosen is None and len(self.addresses) == 1:
                chosen = 0  # whose slots are all that its callers count
            if chosen is not None:
                state = left.pop(chosen)
                self.states[chosen] = replace(state, outstanding=state.outstanding + 1)
                has_others = any(not other.rests(now) for other in left.values())
                return AddressLease(chosen, self.addresses[chosen], now, has_others)
            ends = [state.rest_until - now for state in left.values() if state.rests(now)]
            with suppress(TimeoutError):  # until a slot is given back, or a rest ends
                await asyncio.wait_for(self._changed.wait(), min(ends, default=None))

    def release(self, lease: AddressLease) -> None:
        """Give a slot back."""
        state = self.states[lease.number]
        self.states[lease.number] = replace(state, outstanding=state.outstanding - 1)
        self._changed.set()
        self._changed = asyncio.Event()

    def record_answer(self, lease: AddressLease, tokens: int, seconds: float) -> None:
        """Record that a call had its answer, whose tokens took so many seconds after the first."""
        state = self.states[lease.number]
        if lease.began >= self._failed_at[lease.number]:
            state = replace(state, failures=0, rest_until=0.0)
        if tokens >= _MIN_TOKENS and seconds >= _MIN_SECONDS:
            speed = tokens / seconds
            known = state.speed or speed
            state = replace(state, speed=known + _NEWEST_SHARE * (speed - known))
        self.states[lease.number] = state

    def record_failure(self, lease: AddressLease) -> None:
        """Leave an address out for a while, twice as long as the last time.

        Calls that were on their way together fail together, which counts once.
        """
        number, now = lease.number, self._clock()
        state = self.states[number]
        if lease.began < self._failed_at[number]:
            return
        rest = min(MAX_REST_SECONDS, 2.0 ** min(state.failures, 16))
        self._failed_at[number] = now
        self.states[number] = replace(state, failures=state.failures + 1, rest_until=now + rest)
