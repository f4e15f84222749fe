"""The default worker drafts, and a stronger one is offered where the draft won't do."""

from __future__ import annotations

from dataclasses import replace

from baton.domain.plan import Outcome
from baton.engine.ports import Desk, Proposal, Situation
from baton.engine.strategies.drafts import alone, answered_by, is_lost, settled, wanting


class Draft:
    """A draft here; one that is empty, cut short or a refusal calls for the helper."""

    async def first(self, desk: Desk) -> Proposal:
        """Propose a draft, or the answer where there is nobody who could help."""
        return replace(alone(desk.situation), final=not _may_be_helped(desk.situation))

    async def next(self, desk: Desk, outcome: Outcome) -> Proposal | None:
        """Propose a stronger worker's help where the draft calls for it."""
        if len(outcome.plan.steps) > 1:
            lost = outcome.plan.answer == (2,) and is_lost(outcome, 2)
            return settled(outcome, 1, "The local answer stays.") if lost else None
        situation = desk.situation
        if not _may_be_helped(situation) or 1 in outcome.failed:
            return None
        if not (why := wanting(situation, outcome, 1)):
            return None
        # Optional: where the person keeps the draft, nobody else is to write another one.
        step = answered_by(situation, situation.helper, optional=True)
        return Proposal(outcome.plan.grown((step,), (2,)), "cloud", why)


def _may_be_helped(situation: Situation) -> bool:
    return bool(situation.helper) and not situation.card(situation.worker).is_outside
