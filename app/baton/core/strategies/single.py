"""One worker answers."""

from __future__ import annotations

from baton.core.plan.plan import Outcome
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._steps import single_answer


class Single:
    """The default worker answers the prompt; what comes out, stands."""

    async def first(self, desk: StrategyContext) -> Proposal:
        """Propose the ordinary plan."""
        return single_answer(desk.situation)

    async def next(self, desk: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Leave it at that."""
        return None
