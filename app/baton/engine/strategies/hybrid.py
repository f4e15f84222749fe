"""Baton's own: a draft here, and help where it won't do."""

from __future__ import annotations

from dataclasses import replace

from baton.domain.plan import Outcome
from baton.engine.ports import Desk, Proposal
from baton.engine.strategies.drafts import alone, answered_by, wanting


class Hybrid:
    """The default worker drafts; a stronger one is offered where the draft won't do."""

    async def first(self, desk: Desk) -> Proposal:
        """Propose a draft, or the answer where there is nobody who could help."""
        situation = desk.situation
        here = not situation.card(situation.worker).is_outside
        return replace(alone(situation), final=not (here and situation.helper))

    async def next(self, desk: Desk, outcome: Outcome) -> Proposal | None:
        """Propose a stronger worker's help where the draft calls for it."""
        if len(outcome.plan.steps) == 1:
            return _second_look(desk, outcome)
        helped = outcome.plan.answer == (2,)
        if helped and 2 in outcome.failed and not outcome.texts.get(2):
            return Proposal(replace(outcome.plan, answer=(1,)), why="The local answer stays.")
        return None


def _second_look(desk: Desk, outcome: Outcome) -> Proposal | None:
    situation = desk.situation
    here = not situation.card(situation.worker).is_outside
    if not (here and situation.helper) or 1 in outcome.failed:
        return None
    if not (why := wanting(situation, outcome, 1)):
        return None
    # Optional: where the person keeps the draft, nobody else is to write another one.
    step = answered_by(situation, situation.helper, optional=True)
    return Proposal(outcome.plan.grown((step,), (2,)), "cloud", why)
