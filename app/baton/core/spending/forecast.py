"""What today and this month will come to, by what was charged and weighed so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from baton.core.history_types import Weighing
from baton.core.ledger_types import Room, Scope, SpendingStyle, Standing
from baton.core.spending.pace_controller import RULES, Controller, Flow, sound
from baton.core.spending.usage_rate import Rhythm, rest_of_day, rest_of_month

ENOUGH_PROMPTS = 20
ENOUGH_DAYS = 3
"""With fewer, whatever is said of the future is a guess."""

_DAYS = 14
"""The last days that say what a day costs."""


_RECENT = 240
"""The last prompts that say what gains are usual."""


_BLUR = 1e-6


@dataclass(frozen=True, slots=True)
class Course:
    """Where a scope is heading: `expected` by its end (None: too little is known).

    `reached` is when its ceiling would be, in seconds since the epoch, if spending went on as in
    the last days; None if it isn't.
    """

    room: Room
    expected: int | None = None
    reached: float | None = None


@dataclass(frozen=True, slots=True)
class Rest:
    """Of so many `prompts` still to come in a scope, how many are helped, and for how much."""

    prompts: int
    helped: int
    cost: int


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a setting comes to: it pays for gains above `bar`, as things stand."""

    thrift: SpendingStyle
    bar: float
    rests: Mapping[Scope, Rest]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is to be expected, and on how much that rests; `prospects` is empty if on too little."""

    weighed: int
    days: int
    courses: tuple[Course, ...]
    prospects: tuple[Prospect, ...]


def forecast(
    past: Sequence[Weighing], daily: Mapping[date, int], standing: Standing, now: float
) -> Forecast:
    """Return what is to be expected.

    `past` is what was weighed in the last weeks, oldest first; `daily` what was charged on each day
    on which anything was.
    """
    rooms = [room for room in standing.rooms if room.scope in (Scope.DAY, Scope.MONTH)]
    days = len({datetime.fromtimestamp(one.at).date() for one in past})
    enough = len(past) >= ENOUGH_PROMPTS and days >= ENOUGH_DAYS
    prospects = (
        tuple(_prospect(thrift, past, rooms, now) for thrift in SpendingStyle) if enough else ()
    )
    usual = _usual(daily, now)
    return Forecast(len(past), days, tuple(_course(room, usual, now) for room in rooms), prospects)


def _usual(daily: Mapping[date, int], now: float) -> float | None:
    """Return what a day costs in the mean, days on which nothing was charged among them."""
    today = datetime.fromtimestamp(now).date()
    ago = {(today - day).days: amount for day, amount in daily.items()}
    earlier = {days: amount for days, amount in ago.items() if 0 < days <= _DAYS}
    if not earlier or max(earlier) < ENOUGH_DAYS:
        return None
    return sum(earlier.values()) / max(earlier)


def _course(room: Room, usual: float | None, now: float) -> Course:
    if usual is None:
        return Course(room)
    left = rest_of_day(now) if room.scope is Scope.DAY else rest_of_month(now)
    expected = room.used + round(usual * left)
    if room.ceiling is None or expected < room.ceiling:
        return Course(room, expected)
    if room.used >= room.ceiling:
        return Course(room, room.used, now)
    until = timedelta(days=(room.ceiling - room.used) / usual)
    return Course(room, room.ceiling, now + until.total_seconds())


def _prospect(
    thrift: SpendingStyle, past: Sequence[Weighing], rooms: Sequence[Room], now: float
) -> Prospect:
    rhythm, use = Rhythm(), RULES[thrift].use
    for one in past:
        rhythm.add(one.at, one.conversation)
    ahead = {room.scope: rhythm.outlook(room.scope, now).ahead for room in rooms}
    rates = {
        room.scope: max(0.0, use * room.ceiling - room.used) / ahead[room.scope]
        for room in rooms
        if room.ceiling is not None
    }
    # All days but today have the whole of their own ceiling.
    whole = {Scope.DAY: rates.get(Scope.DAY, math.inf), Scope.MONTH: math.inf}
    for room in rooms:
        if room.scope is Scope.DAY and room.ceiling is not None:
            whole[Scope.MONTH] = use * room.ceiling / max(1.0, rhythm.usual(now))
    recent = _Recent(past[-_RECENT:], thrift)
    bar = recent.bar(min(rates.values(), default=math.inf))
    rests = {}
    for scope, prompts in ahead.items():
        share, cost = recent.bought(min(whole[scope], rates.get(Scope.MONTH, math.inf)))
        rests[scope] = Rest(round(prompts), round(prompts * share), round(prompts * cost))
    return Prospect(thrift, bar, rests)


class _Recent:
    """What was weighed lately, as a setting would have bought of it."""

    def __init__(self, past: Sequence[Weighing], thrift: SpendingStyle) -> None:
        self._past = [replace(one, gain=sound(one.gain), cost=max(1, one.cost)) for one in past]
        self._rule = RULES[thrift]
        self._controller = Controller()
        for one in self._past:
            self._controller.add(one.gain / one.cost, one.cost)

    def bar(self, rate: float) -> float:
        """Return the gain above which a typical call is paid, at so much for each prompt."""
        typical = self._controller.typical
        worth = self._controller.bar(Flow(rate, 1.0))
        return min(1.0, max(self._rule.floor(round(typical)), worth * typical))

    def bought(self, rate: float) -> tuple[float, float]:
        """Return which share of prompts is helped, and what each of all prompts costs for that."""
        # With those that are exactly on the bar, of which a part is bought.
        worth = self._controller.bar(Flow(rate, 1.0))
        worth -= _BLUR * abs(worth) if math.isfinite(worth) else 0.0
        helped = [
            one
            for one in self._past
            if one.gain > max(self._rule.floor(one.cost), worth * one.cost)
        ]
        share = len(helped) / len(self._past)
        cost = sum(one.cost for one in helped) / len(self._past)
        if cost > rate:  # of those that are as good as the last, not all are bought
            return share * rate / cost, rate
        return share, cost
