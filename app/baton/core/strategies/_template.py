"""Executes a workflow template as it is written."""

from __future__ import annotations

import math
from dataclasses import replace

from baton.core.errors import PlanError
from baton.core.plan_types import Outcome, Plan
from baton.core.ports import Proposal, RoutingContext, StrategyContext, Template
from baton.core.strategies._steps import (
    answer_step,
    conversational_workers,
    is_lost,
    keep_step,
    local_workers,
    single_answer,
    written_steps,
)


class TemplateStrategy:
    """Runs a template; where it doesn't suit the prompt, the default worker answers."""

    def __init__(self, template: Template) -> None:
        self._template = template

    async def first(self, context: StrategyContext) -> Proposal:
        try:
            plan = await template_plan(context, self._template)
        except PlanError as problem:
            return single_answer(context.routing, f"{problem.message} So one worker answers.")
        return Proposal(plan, "plan", self._template.about)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose another answer only where the plan has none."""
        return fallback_answer(context.routing, outcome)


async def template_plan(context: StrategyContext, template: Template) -> Plan:
    """Return a template's plan for the prompt, with a worker for each step. Raises PlanError."""
    from baton.core.planning.assignment import assign_workers

    routing = context.routing
    roster = conversational_workers(routing)
    plan = template.plan(routing.material, roster, routing.route.need)
    funds = await context.funds()
    try:
        return assign_workers(
            plan,
            roster,
            left=funds.left,
            gain=funds.extra,
            material=routing.material,
            prefer=routing.prefer,
        )
    except PlanError:
        return _with_local_workers(routing, plan)


def _with_local_workers(routing: RoutingContext, plan: Plan) -> Plan:
    """Give all open steps to the local worker with the largest context.

    For plans that no worker seems to have the room or the money for: how long results get is only
    guessed, and extracts of a document are mostly short. Raises PlanError.
    """
    cards = local_workers(routing)
    if not cards:
        raise PlanError("No worker can run this workflow for the money that is left.")
    known = {card.id for card in conversational_workers(routing)}
    # A context of 0 is unknown, which is taken to be large.
    largest = max(cards, key=lambda card: card.context or math.inf)
    steps = (s if s.worker in known else replace(s, worker=largest.id) for s in plan.steps)
    return replace(plan, steps=tuple(steps))


def fallback_answer(routing: RoutingContext, outcome: Outcome) -> Proposal | None:
    """Propose an answer from the earlier steps, or a new one, where a plan failed.

    An answer with any text stays: it may be all that was paid for.
    """
    plan = outcome.plan
    if not all(is_lost(outcome, n) for n in plan.answer):
        return None
    whole = written_steps(outcome, (n for n, step in enumerate(plan.steps, 1) if step.is_direct))
    if whole:
        return keep_step(outcome, whole[-1], "The plan failed, so the draft stays.")
    last = plan.steps[-1]
    if last.is_direct and not last.optional and last.worker == routing.worker:
        return None
    step = answer_step(routing, routing.worker)
    try:
        grown = plan.with_steps((step,), (len(plan.steps) + 1,))
    except PlanError:  # there is no room for another step
        return None
    name = routing.card(routing.worker).name
    return Proposal(grown, why=f"The plan failed, so {name} answers.")
