"""What another pace or ceiling would have come to on a person's own prompts: nothing is asked.

What was asked and what it cost is known; what wasn't asked can only be expected. Both are counted
apart.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from baton.core.ledger_types import Scope, ScopeBalance, SpendingStyle, Standing
from baton.core.spending.pace_controller import Pacing

ACTUAL_NAME = "as it was"
"""The name of the row of what really happened."""


@dataclass(frozen=True, slots=True)
class PastPrompt:
    """A prompt of the past: what remote help is expected to gain, and what really happened.

    `quality` is the chance that the answer here is good, `gain` how much likelier it is with help,
    which costs `cost` nano-dollars. It was `asked` for or not; what the prompt `charged` is known.
    `good` is how good the person found the answer, 0 to 1 (None: unknown). What may not leave
    this machine isn't `open`. `weighed` is whether gain and cost are those that counted then; else
    they were estimated since.
    """

    at: float
    conversation: str
    quality: float
    gain: float
    cost: int
    asked: bool = False
    charged: int = 0
    good: float | None = None
    open: bool = True
    weighed: bool = False

    def chance(self, asked: bool) -> float:
        """Return the chance of a good answer, with help or without."""
        return min(1.0, max(0.0, self.quality + (self.gain if asked else 0.0)))


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """What a policy comes to on all prompts; costs in nano-dollars.

    `good` is how many good answers are expected, of `prompts`. Of the `rated` ones, which a person
    judged, `rated_good` are or would be good; `known` of them would have gone as they did.
    """

    policy: str
    prompts: int
    asked: int
    cost: int
    good: float
    rated: int
    rated_good: float
    known: int


async def replay_policy(
    cases: Sequence[PastPrompt], thrift: SpendingStyle, ceilings: Mapping[Scope, int]
) -> PolicyRow:
    """Return what a pace comes to under some ceilings. It decides from earlier prompts alone."""
    clock = _Clock()
    pacing = Pacing(thrift, clock=clock)
    spent: dict[tuple[Scope, object], int] = {}
    decided = []
    for case in sorted(cases, key=lambda one: one.at):
        clock.now = case.at
        scopes = {scope: (scope, _period(scope, case)) for scope in ceilings}
        rooms = [ScopeBalance(s, ceilings[s], spent.get(place, 0)) for s, place in scopes.items()]
        standing = Standing(tuple(rooms))
        ok = case.open and case.gain > 0
        if ok and case.cost:
            pace = await pacing.weigh(case.gain, case.cost, standing, case.conversation)
            # What it really cost is known where it was asked: the ledger would have refused that.
            ok = pace.ok and all(_help_cost(case) <= (room.left or 0) for room in rooms)
        if ok:
            for place in scopes.values():
                spent[place] = spent.get(place, 0) + _help_cost(case)
        decided.append((case, ok))
    return _sum_row(thrift, decided)


def actual_row(cases: Sequence[PastPrompt]) -> PolicyRow:
    """Return what really happened, in the same terms."""
    return _sum_row(ACTUAL_NAME, [(case, case.asked) for case in cases])


def other_answer_quality(good: float, own: float, other: float) -> float:
    """Return the chance that the other of two answers is good, knowing how good the first one was.

    Beforehand they were good with the chances `own` and `other`. What the weaker one can, the
    stronger one can as well: who knew how to help would otherwise have gained more.
    """
    if good >= 1:
        return min(1.0, other / own) if own > 0 else other
    if good <= 0:
        return max(0.0, (other - own) / (1 - own)) if own < 1 else other
    return good * other_answer_quality(1, own, other) + (1 - good) * other_answer_quality(
        0, own, other
    )


class _Clock:
    """A clock that shows the time of the prompt that is replayed."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _period(scope: Scope, case: PastPrompt) -> object:
    """Return which conversation, day or month a prompt belongs to, by local time."""
    local = time.localtime(case.at)
    match scope:
        case Scope.DAY:
            return local.tm_year, local.tm_yday
        case Scope.MONTH:
            return local.tm_year, local.tm_mon
        case Scope.SESSION:
            return case.conversation
        case _:
            return case.at


def _help_cost(case: PastPrompt) -> int:
    """Return what help costs: what it did cost, where it was asked for."""
    return case.charged if case.asked else case.cost


def _sum_row(policy: str, decided: Sequence[tuple[PastPrompt, bool]]) -> PolicyRow:
    rated = [(case, asked) for case, asked in decided if case.good is not None]
    return PolicyRow(
        policy,
        len(decided),
        sum(asked for _, asked in decided),
        sum(_help_cost(case) if asked else 0 for case, asked in decided),
        sum(case.chance(asked) for case, asked in decided),
        len(rated),
        sum(_expected_rating(case, asked) for case, asked in rated),
        sum(case.asked == asked for case, asked in rated),
    )


def _expected_rating(case: PastPrompt, asked: bool) -> float:
    good = case.good or 0.0
    if case.asked == asked:
        return good
    return other_answer_quality(good, case.chance(case.asked), case.chance(asked))
