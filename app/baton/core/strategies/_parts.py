"""The trained conductor's plan is played: each part of a request by whoever suits it."""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.errors import BatonError, StoreError
from baton.core.plan.plan import Outcome, Plan
from baton.core.plan.request_parts import DOUBTFUL_NEED
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._correction import (
    can_be_corrected,
    corrective_proposal,
    restored_proposal,
)
from baton.core.strategies._steps import answer_step, is_lost
from baton.core.strategies._template import fallback_answer


class SplitRequest:
    """Plays a plan whose answer is all of its parts, and corrects what is wrong in it, once.

    If it comes to nothing, one worker answers.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def first(self, desk: StrategyContext) -> Proposal:
        """Propose the plan."""
        steps = self._plan.steps
        if len(steps) == 1:
            name = desk.situation.card(steps[0].worker).name
            return Proposal(self._plan, "local", f"{name} computes this exactly.")
        why = f"You ask for {len(steps)} things, so each is a step of its own."
        in_doubt = [n for n, step in enumerate(steps, start=1) if step.need == DOUBTFUL_NEED]
        final = not can_be_corrected(desk.situation, self._plan)
        return Proposal(self._plan, "plan", f"{why} {_doubt_text(in_doubt)}".strip(), final)

    async def next(self, desk: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose what corrects the plan, or one worker's answer where nothing came of it."""
        played = len(outcome.plan.steps)
        if len(self._plan.steps) > 1:
            again = None
            if played == len(self._plan.steps) and can_be_corrected(desk.situation, self._plan):
                again = await corrective_proposal(desk, outcome)
            elif len(outcome.plan.answer) == len(self._plan.answer):
                again = restored_proposal(self._plan, outcome)
            return again or fallback_answer(desk.situation, outcome)
        if not is_lost(outcome, 1) or played > 1:
            return None
        step = answer_step(desk.situation, desk.situation.worker)
        return Proposal(outcome.plan.with_steps((step,), (2,)), why="That couldn't be computed.")


def _doubt_text(steps: Sequence[int]) -> str:
    """Say which steps a model works out though they are sums, and may get wrong."""
    if not steps:
        return ""
    named = " and ".join(map(str, steps))
    if len(steps) == 1:
        return f"Step {named} couldn't be computed for certain: a model's result may be wrong."
    return f"Steps {named} couldn't be computed for certain: a model's results may be wrong."


async def split_strategy(desk: StrategyContext) -> SplitRequest | None:
    """Return the way in which a request with parts is played, None for any other request.

    Where the person named a conductor, that one splits requests; this one only has things computed.
    """
    situation = desk.situation
    if situation.mode == "mini" or situation.limits.alone:
        return None
    try:
        plan = await desk.split()
    except StoreError:
        raise
    except BatonError:  # whoever answers instead meets what is wrong here, and tells
        return None
    if plan is None or (situation.conductor and len(plan.steps) > 1):
        return None
    return SplitRequest(plan)
