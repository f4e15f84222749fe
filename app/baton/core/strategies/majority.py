"""Several workers here answer, and what most of them say counts."""

from __future__ import annotations

from baton.core.plan.plan import Outcome
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._steps import alone, best_of, drafted, here
from baton.core.strategies._vote_choice import Polled

MOST = 5
"""More workers take longer, and weak ones outvote the strong."""


class Majority(Polled):
    """All language workers here, up to five; without a plurality the strongest one counts.

    With fewer than two the default worker answers alone.
    """

    async def first(self, desk: StrategyContext) -> Proposal:
        """Propose an answer by each."""
        cards = here(desk.situation)[:MOST]
        if len(cards) < 2:
            return alone(desk.situation, "There is no other worker here to vote with.")
        why = f"{len(cards)} workers here answer, and what most of them say counts."
        return drafted(desk.situation, [card.id for card in cards], why)

    async def next(self, desk: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the winner."""
        if len(outcome.plan.steps) == 1:
            return None
        numbers = range(1, len(outcome.plan.steps) + 1)
        return self.decided(outcome, best=best_of(desk.situation, outcome, numbers))
