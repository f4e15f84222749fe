"""Plan, verify with another worker, repair once."""

from __future__ import annotations

from dataclasses import replace

from baton.core.plan_types import Outcome
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._verification import Verification, is_verifying
from baton.core.strategies.conductor_plan import ConductorStrategy


class Ultra:
    """A conducted answer that is verified. One worker by itself isn't audited, only checked."""

    def __init__(self) -> None:
        self._plan = ConductorStrategy()
        self._check = Verification()

    async def first(self, context: StrategyContext) -> Proposal:
        """Propose the conducted plan, which may still be corrected."""
        return replace(await self._plan.first(context), final=False)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Let the conductor finish, then verify."""
        if not is_verifying(outcome):
            proposal = await self._plan.next(context, outcome)
            if proposal is not None:
                return replace(proposal, final=False)
        return await self._check.next(context, outcome)
