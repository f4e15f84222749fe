"""How many prompts are still to come today and this month, by a person's days so far."""

from __future__ import annotations

import math
import time
from calendar import monthrange
from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import date

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.ledger_types import Scope

MAX_PROMPTS = 1000
"""The newest ones that count."""

MAX_AGE_DAYS = 30
"""Older ones don't count."""

_HOUR, _DAY = 3600, 86400

_PRIOR_PROMPTS_PER_DAY = 12
"""Prompts in a day, before the person's own days are known."""

_PRIOR_PROMPTS_PER_CONVERSATION = 8
"""Prompts that a conversation still has, before the person's own ones are known."""

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
        left = days_left_today(now.at)
        usual_so_far, usual_rest = self._other_days(now)
        today = sum(one.day == now.day for one in self._times)
        pace = min(4.0, max(0.5, (today + 5) / (usual_so_far + 5)))
        last_hour = sum(0 <= now.at - one.at < _HOUR for one in self._times)
        return max(usual_rest * pace, last_hour * min(1.0, left * _DAY / _HOUR))

    def _other_days(self, now: _PromptTime) -> tuple[float, float]:
        """Return the mean prompts of earlier active days before and after this time of the day.

        The prior day is among them.
        """
        left = days_left_today(now.at)
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


def days_left_today(now: float) -> float:
    return (_DAY - _prompt_time(now, "").second) / _DAY


def days_left_in_month(now: float) -> float:
    return days_left_today(now) + _full_days_left(_prompt_time(now, "").day)


def _prompt_time(at: float, session: str) -> _PromptTime:
    local = time.localtime(at)
    day = date(local.tm_year, local.tm_mon, local.tm_mday).toordinal()
    second = local.tm_hour * _HOUR + local.tm_min * 60 + min(59, local.tm_sec)
    return _PromptTime(at, day, second, session)


def _full_days_left(today: int) -> int:
    """Return how many days of the month there are after this one."""
    day = date.fromordinal(today)
    return monthrange(day.year, day.month)[1] - day.day
