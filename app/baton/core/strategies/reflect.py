"""One worker revises its own answer. It helps strong workers little and hurts the weak."""

from __future__ import annotations

from baton.core.plan_types import Outcome, Plan, Step
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._steps import answer_step, full_access, is_lost, keep_step, written_steps

REVISE = (
    "Here is your draft of an answer. Look for mistakes in it, and for what was asked and is "
    "missing. Then write the final answer in full, without mentioning the draft."
)


class Reflect:
    """The default worker answers, then revises what it wrote, `rounds` times."""

    def __init__(self, rounds: int = 1) -> None:
        self._rounds = rounds

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        steps = [answer_step(routing, routing.worker)]
        for number in range(1, self._rounds + 1):
            access = full_access(routing, (number,))
            need = routing.route.need
            steps.append(Step(routing.worker, REVISE, access, need, optional=True))
        card = routing.card(routing.worker)
        where = "cloud" if card.remote else "local"
        why = f"{card.name} revises its own answer."
        return Proposal(Plan(tuple(steps), (len(steps),)), where, why)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the last version that was written, where the last one wasn't."""
        last = len(outcome.plan.steps)
        versions = written_steps(outcome, range(1, last + 1))
        if not versions or not is_lost(outcome, outcome.plan.answer[0]):
            return None
        return keep_step(outcome, versions[-1], "The revision failed, so the version before stays.")
