"""Somebody else than the default worker answers, which does where the other can't."""

from __future__ import annotations

from dataclasses import replace

from baton.core.plan.plan import DIRECT_SUBTASK, PROMPT, Outcome, Plan, Step
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.strategies._steps import answer_step, is_lost


class Delegation:
    """A tool or another worker answers first; if it has no answer, the default worker does.

    `worker` "" is the tool that the router names.
    """

    def __init__(self, worker: str = "", why: str = "") -> None:
        self._worker = worker
        self._why = why

    async def first(self, desk: StrategyContext) -> Proposal:
        """Propose that the other one answers."""
        situation = desk.situation
        why = self._why or situation.route.why
        if not self._worker:
            step = replace(_tool_step(situation), optional=True)
            return Proposal(Plan((step,), (1,)), "local", why)
        step = answer_step(situation, self._worker, optional=True)
        where = "cloud" if situation.card(self._worker).remote else "local"
        return Proposal(Plan((step,), (1,)), where, why)

    async def next(self, desk: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose that the default worker answers after all."""
        if len(outcome.plan.steps) > 1 or not is_lost(outcome, 1):
            return None
        situation = desk.situation
        step = answer_step(situation, situation.worker)
        name = situation.card(situation.worker).name
        return Proposal(outcome.plan.with_steps((step,), (2,)), why=f"{name} answers.")


def _tool_step(situation: RoutingContext) -> Step:
    return Step(situation.route.tool, DIRECT_SUBTASK, (PROMPT,), situation.route.need)
