"""Somebody else than the default worker answers, which does where the other can't."""

from __future__ import annotations

from dataclasses import replace

from baton.domain.plan import DIRECT, PROMPT, Outcome, Plan, Step
from baton.engine.ports import Desk, Proposal, Situation
from baton.engine.strategies.drafts import answered_by, is_lost


class Instead:
    """A tool or a stronger worker answers first; if it has no answer, the default worker does."""

    async def first(self, desk: Desk) -> Proposal:
        """Propose that the tool answers, or else the helper."""
        situation = desk.situation
        route = situation.route
        step = _computed(situation) if route.tool else answered_by(situation, situation.helper)
        where = "local" if route.tool else "cloud"
        return Proposal(Plan((replace(step, optional=True),), (1,)), where, route.why)

    async def next(self, desk: Desk, outcome: Outcome) -> Proposal | None:
        """Propose that the default worker answers after all."""
        if len(outcome.plan.steps) > 1 or not is_lost(outcome, 1):
            return None
        situation = desk.situation
        step = answered_by(situation, situation.worker)
        name = situation.card(situation.worker).name
        return Proposal(outcome.plan.grown((step,), (2,)), why=f"So {name} answers.")


def _computed(situation: Situation) -> Step:
    return Step(situation.route.tool, DIRECT, (PROMPT,), situation.route.need)
