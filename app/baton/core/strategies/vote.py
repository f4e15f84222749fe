"""One worker answers several times, and what it says most often counts."""

from __future__ import annotations

from baton.core.plan.plan import Outcome
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._steps import drafted
from baton.core.strategies._template import rescued
from baton.core.strategies._vote_choice import Polled

SAMPLES = 3


class Vote(Polled):
    """Several samples of the default worker; without a majority its first one counts."""

    async def first(self, desk: StrategyContext) -> Proposal:
        """Propose the samples."""
        situation = desk.situation
        name = situation.card(situation.worker).name
        why = f"{name} answers {SAMPLES} times, and what it says most often counts."
        return drafted(situation, [situation.worker] * SAMPLES, why)

    async def next(self, desk: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the winner; where nothing was written, whoever can stand in for that worker."""
        if len(outcome.plan.steps) > SAMPLES:
            return None
        return self.decided(outcome, best=1) or rescued(desk.situation, outcome)
