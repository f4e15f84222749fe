"""The default worker drafts, and a stronger one is offered where the draft won't do."""

from __future__ import annotations

from dataclasses import replace

from baton.domain.plan import MOST_STEPS, Outcome, Plan
from baton.engine.ports import Desk, Proposal, Situation
from baton.engine.strategies.drafts import alone, answered_by, is_lost, settled, wanting


class Draft:
    """A draft here; one that is empty, cut short or a refusal calls for the helper."""

    async def first(self, desk: Desk) -> Proposal:
        """Propose a draft, or the answer where there is nobody who could help."""
        return replace(alone(desk.situation), final=not _may_be_helped(desk.situation))

    async def next(self, desk: Desk, outcome: Outcome) -> Proposal | None:
        """Propose a stronger worker's help where the draft calls for it."""
        return helped(desk.situation, outcome)


def helped(situation: Situation, outcome: Outcome) -> Proposal | None:
    """Propose that the helper answers instead, or what was there before where it has no answer."""
    plan = outcome.plan
    last = len(plan.steps)
    if last > 1 and plan.steps[-1].is_direct and plan.steps[-1].worker == situation.helper:
        lost = plan.answer == (last,) and is_lost(outcome, last)
        return settled(outcome, last - 1, "The local answer stays.") if lost else None
    mine = _author(situation, plan)
    if not mine or not _may_be_helped(situation) or last >= MOST_STEPS:
        return None
    if mine in outcome.failed or not (why := wanting(situation, outcome, mine)):
        return None
    # Optional: where the person keeps the draft, nobody else is to write another one.
    step = answered_by(situation, situation.helper, optional=True)
    return Proposal(plan.grown((step,), (last + 1,)), "cloud", why)


def _author(situation: Situation, plan: Plan) -> int:
    """Return the last step, if it is the answer and was written here; else 0."""
    last = len(plan.steps)
    outside = {card.id for card in situation.roster if card.is_outside}
    return last if plan.answer == (last,) and plan.steps[-1].worker not in outside else 0


def _may_be_helped(situation: Situation) -> bool:
    return bool(situation.helper) and not situation.card(situation.worker).is_outside
