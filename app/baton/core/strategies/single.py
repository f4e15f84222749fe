"""One worker answers."""

from __future__ import annotations

from baton.core.plan_types import Outcome
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._steps import single_answer


class Single:
    """The default worker answers the prompt, and its answer stands."""

    async def first(self, context: StrategyContext) -> Proposal:
        return single_answer(context.routing)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        return None
