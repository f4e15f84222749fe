"""Several local workers answer, and the most frequent answer counts."""

from __future__ import annotations

from baton.core.plan_types import Outcome
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._steps import (
    VoteStrategy,
    best_step,
    drafts_proposal,
    local_workers,
    single_answer,
)

MAX_VOTERS = 5
"""More workers take longer, and weak ones outvote the strong."""


class Majority(VoteStrategy):
    """All language workers here, up to five; without a plurality the strongest one counts.

    With fewer than two the default worker answers alone.
    """

    async def first(self, context: StrategyContext) -> Proposal:
        cards = local_workers(context.routing)[:MAX_VOTERS]
        if len(cards) < 2:
            return single_answer(context.routing, "There is no other worker here to vote with.")
        why = f"{len(cards)} workers here answer, and what most of them say counts."
        return drafts_proposal(context.routing, [card.id for card in cards], why)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        if len(outcome.plan.steps) == 1:
            return None
        numbers = range(1, len(outcome.plan.steps) + 1)
        return self.vote_proposal(outcome, best=best_step(context.routing, outcome, numbers))
