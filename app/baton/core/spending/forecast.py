"""Forecasts what today and this month will cost, by charges and weighings so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from baton.core.history_types import Weighing
from baton.core.ledger_types import Scope, ScopeBalance, SpendingStyle, Standing
from baton.core.spending.pace_controller import STYLE_RULES, BarController, SpendingRate, valid_gain
from baton.core.spending.usage_rate import UsageRate, days_left_in_month, days_left_today

MIN_PROMPTS = 20
MIN_DAYS = 3
"""With fewer, any forecast is a guess."""

_RECENT_DAYS = 14
"""The last days that say what a day costs."""

_RECENT_PROMPTS = 240
"""The last prompts that say what gains are usual."""

_RELATIVE_MARGIN = 1e-6


@dataclass(frozen=True, slots=True)
class ScopeForecast:
    """The forecast of a scope: `expected` charges by its end (None: too little is known).

    `reached` is when its ceiling would be, in seconds since the epoch, if spending went on as in
    the last days; None if it isn't.
    """

    room: ScopeBalance
    expected: int | None = None
    reached: float | None = None


@dataclass(frozen=True, slots=True)
class RemainingPrompts:
    """Of so many `prompts` still to come in a scope, how many are helped, and for how much."""

    prompts: int
    helped: int
    cost: int


@dataclass(frozen=True, slots=True)
class StyleForecast:
    """The forecast of a spending style: it currently pays for gains above `bar`."""

    thrift: SpendingStyle
    bar: float
    rests: Mapping[Scope, RemainingPrompts]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast, and how much data it rests on; `prospects` is empty without enough."""

    weighed: int
    days: int
    courses: tuple[ScopeForecast, ...]
    prospects: tuple[StyleForecast, ...]


def make_forecast(
    past: Sequence[Weighing], daily: Mapping[date, int], standing: Standing, now: float
) -> Forecast:
    """Return the forecast.

    `past` is what was weighed in the last weeks, oldest first; `daily` what was charged on each day
    on which anything was.
    """
    rooms = [room for room in standing.rooms if room.scope in (Scope.DAY, Scope.MONTH)]
    days = len({datetime.fromtimestamp(one.at).date() for one in past})
    enough = len(past) >= MIN_PROMPTS and days >= MIN_DAYS
    prospects = (
        tuple(_style_forecast(thrift, past, rooms, now) for thrift in SpendingStyle)
        if enough
        else ()
    )
    usual = _daily_mean(daily, now)
    return Forecast(
        len(past), days, tuple(_scope_forecast(room, usual, now) for room in rooms), prospects
    )


def _daily_mean(daily: Mapping[date, int], now: float) -> float | None:
    """Return the mean cost of a day, days without charges included."""
    today = datetime.fromtimestamp(now).date()
    ago = {(today - day).days: amount for day, amount in daily.items()}
    earlier = {days: amount for days, amount in ago.items() if 0 < days <= _RECENT_DAYS}
    if not earlier or max(earlier) < MIN_DAYS:
        return None
    return sum(earlier.values()) / max(earlier)


def _scope_forecast(room: ScopeBalance, usual: float | None, now: float) -> ScopeForecast:
    if usual is None:
        return ScopeForecast(room)
    left = days_left_today(now) if room.scope is Scope.DAY else days_left_in_month(now)
    expected = room.used + round(usual * left)
    if room.ceiling is None or expected < room.ceiling:
        return ScopeForecast(room, expected)
    if room.used >= room.ceiling:
        return ScopeForecast(room, room.used, now)
    until = timedelta(days=(room.ceiling - room.used) / usual)
    return ScopeForecast(room, room.ceiling, now + until.total_seconds())


def _style_forecast(
    thrift: SpendingStyle, past: Sequence[Weighing], rooms: Sequence[ScopeBalance], now: float
) -> StyleForecast:
    rhythm, use = UsageRate(), STYLE_RULES[thrift].use
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
            whole[Scope.MONTH] = use * room.ceiling / max(1.0, rhythm.daily_prompts(now))
    recent = _RecentWeighings(past[-_RECENT_PROMPTS:], thrift)
    bar = recent.bar(min(rates.values(), default=math.inf))
    rests = {}
    for scope, prompts in ahead.items():
        rate = min(whole[scope], rates.get(Scope.MONTH, math.inf))
        share, cost = recent.helped_share_and_cost(rate)
        rests[scope] = RemainingPrompts(
            round(prompts), round(prompts * share), round(prompts * cost)
        )
    return StyleForecast(thrift, bar, rests)


class _RecentWeighings:
    """Recent weighings, and what a spending style would have bought of them."""

    def __init__(self, past: Sequence[Weighing], thrift: SpendingStyle) -> None:
        self._past = [
            replace(one, gain=valid_gain(one.gain), cost=max(1, one.cost)) for one in past
        ]
        self._rule = STYLE_RULES[thrift]
        self._controller = BarController()
        for one in self._past:
            self._controller.add(one.gain / one.cost, one.cost)

    def bar(self, rate: float) -> float:
        """Return the gain above which a typical call is paid, at a rate for each prompt."""
        typical = self._controller.mean_cost
        worth = self._controller.bar(SpendingRate(rate, 1.0))
        return min(1.0, max(self._rule.floor(round(typical)), worth * typical))

    def helped_share_and_cost(self, rate: float) -> tuple[float, float]:
        """Return the share of prompts that is helped, and the mean cost over all prompts."""
        # With those that are exactly on the bar, of which a part is bought.
        worth = self._controller.bar(SpendingRate(rate, 1.0))
        worth -= _RELATIVE_MARGIN * abs(worth) if math.isfinite(worth) else 0.0
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
