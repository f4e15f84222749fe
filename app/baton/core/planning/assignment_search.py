"""An exact search for the best assignment: branch and bound over seats (steps) and their options.

Trying all combinations instead takes 5 to 40 times as long with five steps and four to six workers
(up to 0.3 s), and can't be done for the 30 steps of a long document.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from baton.core.frozen_dataclass import frozen_dataclass

WAITING_COST = 0.015
"""The cost of each further round where parallel steps wait for the same worker."""

SELF_CHECK_COST = 100.0
"""The cost of a check by the worker that wrote what it checks: only where no other can do it."""

_VISITS = 2000
"""Nodes that the search visits at most. Five steps need a few dozen; with many similar ones it
returns the best assignment found by then."""


@frozen_dataclass
class Option:
    """One worker for one step: its value, its highest cost, and the resource that it occupies.

    `slots` is how many steps the resource takes at once; "" is an unlimited resource.
    """

    worker: str
    value: float
    most: int
    resource: str = ""
    slots: int = 1


@frozen_dataclass
class Seat:
    """A step without a worker, with its options, best first.

    Seats of a `level` can be played side by side. `unlike` are the workers, and the numbers of the
    earlier seats (from 0), that it should differ from.
    """

    level: int
    options: tuple[Option, ...]
    unlike: tuple[int | str, ...] = ()


def choose_workers(
    seats: Sequence[Seat], money: int | None, taken: Iterable[tuple[int, Option]] = ()
) -> tuple[str, ...] | None:
    """Return the best workers for that money, one for each seat; None where there are none.

    `taken` are the levels and options of the steps that have their workers.
    """
    if money is None:
        money = sum(max(option.most for option in seat.options) for seat in seats)
    fixed = list(taken)
    search = _Search([_only_useful(i, seats, money, fixed) for i in range(len(seats))], fixed)
    search.descend(0, 0.0, money)
    return search.best


def _only_useful(
    position: int, seats: Sequence[Seat], money: int, taken: Sequence[tuple[int, Option]]
) -> Seat:
    """Leave out the options that another one always dominates.

    Each other seat at the same level, and each worker that the seat should differ from, can take at
    most one better option away; an option with more better ones above it is never needed.
    """
    seat = seats[position]
    barred = sum(other.level == seat.level for other in seats) - 1 + len(seat.unlike)
    barred += sum(other.unlike.count(position) for other in seats)
    barred += sum(level == seat.level for level, _ in taken)
    ample = money >= sum(max(option.most for option in other.options) for other in seats)
    kept: list[Option] = []
    for option in seat.options:
        if option.most > money:
            continue
        above = {k.resource or k.worker for k in kept if ample or k.most <= option.most}
        if len(above) <= barred:
            kept.append(option)
    return Seat(seat.level, tuple(kept), seat.unlike)


class _Search:
    def __init__(self, seats: Sequence[Seat], taken: Sequence[tuple[int, Option]]) -> None:
        self.best: tuple[str, ...] | None = None
        self._found = -math.inf
        self._visits = 0
        self._seats = seats
        self._picks: list[int] = []
        self._twin = [False, *(_alike(a, b, seats) for a, b in pairwise(seats))]
        self._busy: dict[tuple[int, str], int] = {}
        self._rounds: dict[int, int] = {}
        for level, option in taken:
            self._occupy(level, option)
        self._least = _unavoidable(seats, taken)
        self._bounds: list[tuple[float, float, int]] | None = None

    def descend(self, index: int, value: float, money: int) -> None:
        """Fill the seats from `index` on."""
        if self._bounds is None:
            self._price(money)
        if index == len(self._seats):
            self._keep(value - self._waiting())
            return
        seat = self._seats[index]
        for pick in self._likely(index, money):
            if self._visits >= _VISITS and self.best is not None:
                return
            self._visits += 1
            option = seat.options[pick]
            gained = value + option.value - self._likeness(seat, option)
            before = self._occupy(seat.level, option)
            if self._promising(index + 1, gained, money - option.most):
                self._picks.append(pick)
                self.descend(index + 1, gained, money - option.most)
                self._picks.pop()
            self._release(seat.level, option, before)

    def _keep(self, total: float) -> None:
        if total > self._found:
            self._found = total
            chosen = zip(self._seats, self._picks, strict=True)
            self.best = tuple(seat.options[pick].worker for seat, pick in chosen)

    def _likely(self, index: int, money: int) -> list[int]:
        """Return the options that there is money for, the likeliest to be best first."""
        seat = self._seats[index]
        start = self._picks[index - 1] if self._twin[index] else 0
        rounds = max(1, self._rounds.get(seat.level, 0))
        worst: list[tuple[float, int]] = []
        for pick in range(start, len(seat.options)):
            option = seat.options[pick]
            if option.most > money:
                continue
            wait = max(0, self._needed(seat.level, option) - rounds)
            worst.append((self._likeness(seat, option) + WAITING_COST * wait - option.value, pick))
        return [pick for _, pick in sorted(worst)]

    def _likeness(self, seat: Seat, option: Option) -> float:
        for other in seat.unlike:
            if isinstance(other, int):
                other = self._seats[other].options[self._picks[other]].worker
            if option.worker == other:
                return SELF_CHECK_COST
        return 0.0

    # Waiting

    def _needed(self, level: int, option: Option) -> int:
        """Return the rounds of a resource with one more step."""
        if not option.resource:
            return 0
        return -(-(self._busy.get((level, option.resource), 0) + 1) // option.slots)

    def _occupy(self, level: int, option: Option) -> int:
        """Take a place; return how many rounds the level took before."""
        before = self._rounds.get(level, 0)
        if option.resource:
            self._rounds[level] = max(before, self._needed(level, option))
            key = level, option.resource
            self._busy[key] = self._busy.get(key, 0) + 1
        return before

    def _release(self, level: int, option: Option, before: int) -> None:
        if option.resource:
            self._busy[level, option.resource] -= 1
            self._rounds[level] = before

    def _waiting(self) -> float:
        """Return what waiting costs at least, as far as the seats are filled."""
        rounds = self._rounds
        extra = sum(max(rounds.get(level, 0), n, 1) - 1 for level, n in self._least.items())
        return WAITING_COST * extra

    # Bounds

    def _promising(self, index: int, value: float, money: int) -> bool:
        """Whether the remaining seats could still make it the best."""
        assert self._bounds is not None
        most, priced, cheapest = self._bounds[index]
        if cheapest > money:
            return False
        return value + min(most, priced + self._dual * money) - self._waiting() > self._found

    def _price(self, money: int) -> None:
        """Compute the bounds from each seat on, also with a price on money."""
        self._dual = _dual_price(self._seats, money)
        self._bounds = [(0.0, 0.0, 0)]
        for seat in reversed(self._seats):
            most, priced, cheapest = self._bounds[-1]
            options = seat.options
            self._bounds.append(
                (
                    most + max((o.value for o in options), default=-math.inf),
                    priced + max((o.value - self._dual * o.most for o in options), default=0.0),
                    cheapest + min((o.most for o in options), default=0),
                )
            )
        self._bounds.reverse()


def _alike(a: Seat, b: Seat, seats: Sequence[Seat]) -> bool:
    """Whether two seats could change places without any difference."""
    judged = {n for seat in seats for n in seat.unlike}
    bound = any(i in judged for i, seat in enumerate(seats) if seat is a or seat is b)
    return a == b and not a.unlike and not bound


def _unavoidable(seats: Sequence[Seat], taken: Sequence[tuple[int, Option]]) -> dict[int, int]:
    """Return how many rounds each level takes even when all that can help does."""
    rounds = {}
    for level in {seat.level for seat in seats} | {level for level, _ in taken}:
        here = [seat.options for seat in seats if seat.level == level]
        fixed = [option for at, option in taken if at == level and option.resource]
        slots = {o.resource: o.slots for options in (*here, fixed) for o in options if o.resource}
        count = len(fixed) + sum(all(o.resource for o in options) for options in here)
        rounds[level] = -(-count // sum(slots.values())) if slots else 0
    return rounds


def _dual_price(seats: Sequence[Seat], money: int) -> float:
    """Return the price per nano-dollar at which the best choices just stay within the money."""

    def spent(price: float) -> int:
        best = (max(s.options, key=lambda o: o.value - price * o.most) for s in seats if s.options)
        return sum(option.most for option in best)

    if spent(0.0) <= money:
        return 0.0
    low, high = 0.0, 1e-4
    for _ in range(40):
        middle = math.sqrt(max(low, 1e-14) * high)
        low, high = (middle, high) if spent(middle) > money else (low, middle)
    return high
