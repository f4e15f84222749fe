"""One worker answers several times, and its most frequent answer counts."""

from __future__ import annotations

from baton.core.plan_types import Outcome
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._steps import VoteStrategy, drafts_proposal
from baton.core.strategies._template import fallback_answer

VOTE_SAMPLES = 3


class Vote(VoteStrategy):
    """Several samples of the default worker; without a majority the first one counts."""

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        name = routing.card(routing.worker).name
        why = f"{name} answers {VOTE_SAMPLES} times, and what it says most often counts."
        return drafts_proposal(routing, [routing.worker] * VOTE_SAMPLES, why)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the winner; where nothing was written, another worker's answer."""
        if len(outcome.plan.steps) > VOTE_SAMPLES:
            return None
        return self.vote_proposal(outcome, best=1) or fallback_answer(context.routing, outcome)
