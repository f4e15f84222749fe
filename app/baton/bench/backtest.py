"""What another pace or ceiling would have changed for past prompts: nothing is asked.

What was asked and what it cost is known; what wasn't asked can only be expected.
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
    `good` is how the user rated the answer, 0 to 1 (None: not at all). What may not leave this
    machine isn't `open`. `weighed` is whether gain and cost are those that counted then; else they
    were estimated since.
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

    def expected_good(self, asked: bool) -> float:
        """Return how good the answer would have been: as rated for what was done, else a chance."""
        if self.good is not None and self.asked == asked:
            return self.good
        return min(1.0, max(0.0, self.quality + (self.gain if asked else 0.0)))

    @property
    def help_cost(self) -> int:
        """What help costs: what it did cost, where it was asked for."""
        return self.charged if self.asked else self.cost


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The outcome of a policy for all prompts; `good` is the number of good answers expected.

    `asked` is for how many of the `prompts` help was asked, `cost` what that cost in nano-dollars.
    """

    policy: str
    prompts: int
    asked: int
    cost: int
    good: float


async def backtest_pace(
    cases: Sequence[PastPrompt], style: SpendingStyle, ceilings: Mapping[Scope, int]
) -> PolicyRow:
    """Return the outcome of a pace under some ceilings. It decides from earlier prompts alone."""
    now = 0.0
    pacing = Pacing(style, clock=lambda: now)
    spent: dict[tuple[Scope, object], int] = {}
    decided = []
    for case in sorted(cases, key=lambda one: one.at):
        now = case.at
        periods = {scope: (scope, _period(scope, case)) for scope in ceilings}
        balances = [ScopeBalance(s, ceilings[s], spent.get(key, 0)) for s, key in periods.items()]
        ok = case.open and case.gain > 0
        if ok and case.cost:
            standing = Standing(tuple(balances))
            pace = await pacing.weigh(case.gain, case.cost, standing, case.conversation)
            # What it really cost is known where it was asked: the ledger would have refused that.
            ok = pace.ok and all(case.help_cost <= (one.left or 0) for one in balances)
        if ok:
            for key in periods.values():
                spent[key] = spent.get(key, 0) + case.help_cost
        decided.append((case, ok))
    return _sum_row(style, decided)


def actual_row(cases: Sequence[PastPrompt]) -> PolicyRow:
    """Return what really happened, in the same terms."""
    return _sum_row(ACTUAL_NAME, [(case, case.asked) for case in cases])


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


def _sum_row(policy: str, decided: Sequence[tuple[PastPrompt, bool]]) -> PolicyRow:
    return PolicyRow(
        policy,
        len(decided),
        sum(asked for _, asked in decided),
        sum(case.help_cost for case, asked in decided if asked),
        sum(case.expected_good(asked) for case, asked in decided),
    )
