"""Paces spending: money goes where it gains most, so that it lasts and isn't hoarded.

A running quantile of the recent worth of help says how good it must be for the money to last. A
bucket, which fills as prompts come, corrects that: after more than the planned spending, help must
gain more, and the other way round. The ceiling itself is the ledger's job.
"""

from __future__ import annotations

import asyncio
import math
import time
from calendar import monthrange
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date
from itertools import groupby
from operator import itemgetter

from baton.core.errors import BatonError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.history_types import Weighing
from baton.core.ledger_types import Scope, ScopeBalance, SpendingStyle, Standing
from baton.core.money import NANO, show_usd

_HALF_LIFE_PROMPTS = 60.0
"""After so many prompts one counts half: a new domain is learned within tens."""

_MAX_REMEMBERED = 240
_MAX_BAR = 1.0
"""The bar that no gain exceeds."""

SLACK_CALLS = 5.0
"""Calls by which spending may be ahead of its plan."""

_SLACK_SHARE = 0.15
"""The share of a plan by which spending may be ahead of it."""

_RELATIVE_MARGIN = 1e-9
"""Worths within this relative distance of the bar count as equal to it."""

_MIN_AFFORDABLE_SHARE = 0.5
"""Help exactly on the bar is bought where there is money for this share of it."""


@frozen_dataclass
class SpendingRate:
    """The money for each prompt, and the fill of the bucket.

    `fill` is 1 where as much was spent as planned, 0 where nothing may be spent for now.
    """

    rate: float
    fill: float


class BarController:
    """Learns the usual worth of help, and sets the bar that help must exceed.

    `worth` is the gain for a unit of cost; costs are in any unit. A pure function of what was
    added.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=_MAX_REMEMBERED)

    @property
    def mean_cost(self) -> float:
        """The mean cost of a call."""
        return sum(cost for _, cost in self._seen) / len(self._seen) if self._seen else 0.0

    def add(self, worth: float, cost: float) -> None:
        """Learn of one more prompt, whether it was helped or not."""
        self._seen.append((worth, cost))

    def bar(self, flow: SpendingRate, prior: Sequence[tuple[float, float]] = ()) -> float:
        """Return the worth that must be exceeded now.

        `prior` is (worth, cost) of what is expected before anything was seen; it yields as prompts
        come.
        """
        if flow.fill < 0:
            return math.inf
        # A full bucket empties quickly, so that little is left over; an empty one fills slowly.
        spend = flow.rate * (math.sqrt(flow.fill) if flow.fill <= 1 else flow.fill**2)
        worth, part = self._marginal_worth(spend, prior)
        blur = _RELATIVE_MARGIN * abs(worth) if math.isfinite(worth) else 0.0
        return worth - blur if part >= _MIN_AFFORDABLE_SHARE else worth + blur

    def _marginal_worth(
        self, spend: float, prior: Sequence[tuple[float, float]]
    ) -> tuple[float, float]:
        """Return the worth of the last purchase, the best first, at a rate for each prompt.

        And which part of those that are exactly as worthy there is money for.
        """
        fading = 0.5 ** (1 / _HALF_LIFE_PROMPTS)
        count = len(self._seen)
        weighted = [
            (worth, cost * fading ** (count - place), fading ** (count - place))
            for place, (worth, cost) in enumerate(self._seen, start=1)
        ]
        early = 0.5 ** (1 + count / 15)
        weighted += [(worth, cost * early, early) for worth, cost in prior]
        left = spend * sum(weight for _, _, weight in weighted)
        for worth, alike in groupby(sorted(weighted, reverse=True), key=itemgetter(0)):
            price = sum(cost for _, cost, _ in alike)
            if left < price:
                return worth, left / price
            left -= price
        return -math.inf, 1.0


@frozen_dataclass
class StyleRule:
    """The rule of a spending style: the planned share of the ceiling, the least gain that is paid
    for, and the gain that a dollar must buy.
    """

    use: float
    least: float
    dollar: float

    def floor(self, cost: int) -> float:
        """Return the least gain of help at that price, with any amount of money."""
        return max(self.least, self.dollar * cost / NANO)


STYLE_RULES = {
    SpendingStyle.FRUGAL: StyleRule(0.6, 0.15, 6.0),
    SpendingStyle.BALANCED: StyleRule(0.9, 0.05, 3.0),
    SpendingStyle.BEST: StyleRule(1.0, 0.0, 1.0),
}

_PRIOR_GAINS = tuple(step / 20 for step in range(1, 13))
"""The prior of gains, before any was weighed: evenly from .05 to .60."""


@frozen_dataclass
class PaceDecision:
    """Whether help is worth its price now: it is if its gain is above the `bar`; `why` says so."""

    ok: bool
    bar: float
    why: str = ""


ReadWeighings = Callable[[], Awaitable[Sequence[Weighing]]]
"""Reads what was weighed in the last weeks, oldest first."""


class Pacing:
    """Paces the user's spending; `thrift` may be changed at any time.

    `memory` is read once, before the first prompt is weighed; without it nothing is known of
    earlier ones.
    """

    def __init__(
        self,
        thrift: SpendingStyle = SpendingStyle.BALANCED,
        memory: ReadWeighings | None = None,
        *,
        rhythm: UsageRate | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.thrift = thrift
        self._memory = memory
        self._rhythm = rhythm or UsageRate()
        self._clock = clock
        self._controller = BarController()
        self._bought: deque[Weighing] = deque(maxlen=5000)
        self._loading = asyncio.Lock()

    async def weigh(
        self, gain: float, cost: int, standing: Standing, session: str = ""
    ) -> PaceDecision:
        """Decide on a call that is expected to gain that much and to cost so many nano-dollars."""
        await self._load_past()
        gain, cost = valid_gain(gain), max(0, cost)
        bar, why = self._bar_and_reason(cost, standing, session)
        likely = f"Likely {100 * gain:.0f} % better" if gain >= 0.005 else "Hardly likely better"
        pace = PaceDecision(gain > bar, bar, f"{likely} for {show_usd(cost)}{why}.")
        self._note_weighing(Weighing(self._clock(), session, gain, cost, pace.ok))
        return pace

    async def extra(self, standing: Standing, session: str = "") -> float:
        """Return how much the bar is above the style's own floor, as the money must last."""
        await self._load_past()
        cost = int(self._controller.mean_cost)
        bar, _ = self._bar_and_reason(cost, standing, session)
        return max(0.0, bar - STYLE_RULES[self.thrift].floor(cost))

    async def _load_past(self) -> None:
        async with self._loading:
            if self._memory is None:
                return
            try:
                past = await self._memory()
            except BatonError:  # an unreadable ledger doesn't prevent an answer
                past = ()
            self._memory = None  # only now: a prompt may be stopped while it reads
            for one in past:
                self._note_weighing(replace(one, gain=valid_gain(one.gain), cost=max(0, one.cost)))

    def _note_weighing(self, one: Weighing) -> None:
        self._rhythm.add(one.at, one.conversation)
        if one.cost:
            self._controller.add(one.gain / one.cost, one.cost)
        if one.ok:
            self._bought.append(one)

    def _bar_and_reason(self, cost: int, standing: Standing, session: str) -> tuple[float, str]:
        """Return the gain that must be exceeded, and the reason in words."""
        if closed := _refusal_reason(cost, standing):
            return _MAX_BAR, closed
        rule = STYLE_RULES[self.thrift]
        bar = min(_MAX_BAR, rule.floor(cost))
        why = f"; at that price, the pace {self.thrift} wants a gain above {100 * bar:.0f} %"
        if standing.is_budget_typed:
            return bar, why  # the user said what this prompt may cost
        prior = [(gain / cost, cost) for gain in _PRIOR_GAINS] if cost else []
        for room in standing.rooms if cost else ():
            is_paced = room.ceiling and room.scope in _PACED_SCOPES
            flow = self._scope_rate(room, rule, cost, session) if is_paced else None
            if flow and (needed := self._controller.bar(flow, prior) * cost) > bar:
                bar = min(_MAX_BAR, needed)
                why = f"; {_SCOPE_PHRASES[room.scope]} you spend on gains above {100 * bar:.0f} %"
                if flow.fill < 0:
                    why = f", but {_SCOPE_PHRASES[room.scope]} more was spent than planned by now"
        return bar, why

    def _scope_rate(
        self, room: ScopeBalance, rule: StyleRule, cost: int, session: str
    ) -> SpendingRate:
        """Return what may be spent for each prompt of a scope, by what is still to come in it."""
        now = self._clock()
        outlook = self._rhythm.outlook(room.scope, now, session)
        bought = min(room.used, self._spent_on_help(room.scope, now, session))
        # What went another way (a plan's steps, a worker that was chosen) is no longer to be had.
        planned = rule.use * ((room.ceiling or 0) - (room.used - bought))
        slack = max(_SLACK_SHARE * planned, SLACK_CALLS * (self._controller.mean_cost or cost))
        rate = max(0.0, planned - bought) / (1 + outlook.ahead)
        return SpendingRate(rate, 1 + (planned * outlook.done_share - bought) / slack)

    def _spent_on_help(self, scope: Scope, now: float, session: str) -> int:
        """Return the expected costs of the help that was bought in a scope."""
        if scope is Scope.SESSION:
            return sum(one.cost for one in self._bought if one.conversation == session)
        local = time.localtime(now)
        first = local.tm_mday if scope is Scope.DAY else 1
        begin = time.mktime((local.tm_year, local.tm_mon, first, 0, 0, 0, 0, 0, -1))
        return sum(one.cost for one in self._bought if begin <= one.at <= now)


def valid_gain(gain: float) -> float:
    """Return a gain within -1 to 1, and 0 for NaN."""
    return 0.0 if math.isnan(gain) else min(1.0, max(-1.0, gain))


def is_spending_allowed(standing: Standing) -> bool:
    """Whether anything may be spent: by a ceiling, or by what this prompt itself may cost."""
    return not standing.frozen and (standing.is_cloud_on or standing.is_budget_typed)


def _refusal_reason(cost: int, standing: Standing) -> str:
    """Say why a call that costs so much can't be made at all, or return ""."""
    if not is_spending_allowed(standing):
        return ", but nothing may be spent"
    for room in standing.rooms:
        if room.left is not None and (cost > room.left or not room.ceiling):
            return f", but that is more than is left {_SCOPE_PHRASES[room.scope]}"
    return ""


_PACED_SCOPES = (Scope.SESSION, Scope.DAY, Scope.MONTH)
"""Those in which it can be said how many prompts are still to come."""

_SCOPE_PHRASES = {
    Scope.RUN: "for this prompt",
    Scope.SESSION: "in this conversation",
    Scope.TOKEN: "for this access token",
    Scope.DAY: "today",
    Scope.MONTH: "this month",
}


# How many prompts are still to come

MAX_PROMPTS = 1000
"""The newest ones that count."""

MAX_AGE_DAYS = 30
"""Older ones don't count."""

_HOUR, _DAY = 3600, 86400

_PRIOR_PROMPTS_PER_DAY = 12
"""Prompts in a day, before the user's own days are known."""

_PRIOR_PROMPTS_PER_CONVERSATION = 8
"""Prompts that a conversation still has, before the user's own ones are known."""

_HALF_LIFE_DAYS = 7.0
"""After so many days a day counts half."""


@frozen_dataclass
class Outlook:
    """How many prompts of a scope are done, the current one included, and how many are expected."""

    done: float
    ahead: float

    @property
    def done_share(self) -> float:
        """How much of all is done, from 0 to 1."""
        return self.done / (self.done + self.ahead)


@frozen_dataclass
class _PromptTime:
    at: float
    day: int
    second: int
    session: str


class UsageRate:
    """The times of the prompts that help was weighed for, and how many are still to come.

    `progress` is for a caller that knows how many there will be (a benchmark): the share that is
    done, from 0 to 1, with the current one.
    """

    def __init__(self, progress: Callable[[], float] | None = None) -> None:
        self._progress = progress
        self._times: deque[_PromptTime] = deque(maxlen=MAX_PROMPTS)

    def add(self, at: float, session: str) -> None:
        self._times.append(_prompt_time(at, session))

    def outlook(self, scope: Scope, now: float, session: str = "") -> Outlook:
        """Return the outlook of a scope with a prompt that comes now."""
        today = _prompt_time(now, session)
        done = 1 + self._count_so_far(scope, today)
        if self._progress is not None:
            share = min(1.0, max(1e-6, self._progress()))
            return Outlook(done, done * (1 - share) / share)
        if scope is Scope.SESSION:
            return Outlook(done, self._rest_of_conversation())
        ahead = self._rest_of_day(today)
        if scope is Scope.MONTH:
            ahead += _full_days_left(today.day) * self.daily_prompts(now)
        return Outlook(done, max(1.0, ahead))

    def _count_so_far(self, scope: Scope, now: _PromptTime) -> int:
        if scope is Scope.SESSION:
            return sum(one.session == now.session for one in self._times)
        first = now.day
        if scope is Scope.MONTH:
            first = date.fromordinal(now.day).replace(day=1).toordinal()
        return sum(first <= one.day <= now.day for one in self._times)

    def _rest_of_conversation(self) -> float:
        """Return the expected further prompts of a conversation, the same at any length."""
        sessions = Counter(one.session for one in self._times)
        usual = (sum(sessions.values()) + 3 * _PRIOR_PROMPTS_PER_CONVERSATION) / (len(sessions) + 3)
        return min(30.0, max(3.0, usual))

    def _rest_of_day(self, now: _PromptTime) -> float:
        """Return the expected further prompts today, by other days and by the last hour."""
        left = _days_left_today(now.at)
        usual_so_far, usual_rest = self._other_days(now)
        today = sum(one.day == now.day for one in self._times)
        pace = min(4.0, max(0.5, (today + 5) / (usual_so_far + 5)))
        last_hour = sum(0 <= now.at - one.at < _HOUR for one in self._times)
        return max(usual_rest * pace, last_hour * min(1.0, left * _DAY / _HOUR))

    def _other_days(self, now: _PromptTime) -> tuple[float, float]:
        """Return the mean prompts of earlier active days before and after this time of the day.

        The prior day is among them.
        """
        left = _days_left_today(now.at)
        weights = dict.fromkeys((one.day for one in self._earlier(now.day)), 0.0)
        for day in weights:
            weights[day] = math.exp2((day - now.day) / _HALF_LIFE_DAYS)
        so_far, rest, total = (
            _PRIOR_PROMPTS_PER_DAY * (1 - left),
            _PRIOR_PROMPTS_PER_DAY * left,
            1.0 + sum(weights.values()),
        )
        for one in self._earlier(now.day):
            if one.second <= now.second:
                so_far += weights[one.day]
            else:
                rest += weights[one.day]
        return so_far / total, rest / total

    def daily_prompts(self, now: float) -> float:
        """Return the mean prompts of a day, days without any included.

        Today counts where it has more than that already: others like it may come.
        """
        today = _prompt_time(now, "").day
        earlier = [one.day for one in self._earlier(today)]
        known = today - min(earlier, default=today)
        weights = [math.exp2(-ago / (2 * _HALF_LIFE_DAYS)) for ago in range(1, known + 1)]
        total = 2 + sum(weights)
        usual = (
            2 * _PRIOR_PROMPTS_PER_DAY + sum(weights[today - day - 1] for day in earlier)
        ) / total
        so_far = sum(one.day == today for one in self._times)
        return max(usual, (usual * total + so_far) / (total + 1))

    def _earlier(self, today: int) -> Iterable[_PromptTime]:
        return (one for one in self._times if 0 < today - one.day <= MAX_AGE_DAYS)


def _days_left_today(now: float) -> float:
    return (_DAY - _prompt_time(now, "").second) / _DAY


def _prompt_time(at: float, session: str) -> _PromptTime:
    local = time.localtime(at)
    day = date(local.tm_year, local.tm_mon, local.tm_mday).toordinal()
    second = local.tm_hour * _HOUR + local.tm_min * 60 + min(59, local.tm_sec)
    return _PromptTime(at, day, second, session)


def _full_days_left(today: int) -> int:
    """Return how many days of the month there are after this one."""
    day = date.fromordinal(today)
    return monthrange(day.year, day.month)[1] - day.day
