"""Mixture of agents: several workers propose, and the strongest writes the answer from that."""

from __future__ import annotations

from baton.core.plan_types import Outcome, Plan, Step
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._steps import (
    allowed_workers,
    answer_step,
    best_step,
    full_access,
    is_lost,
    keep_step,
    local_workers,
    strongest_worker,
    written_steps,
)

MAX_PROPOSERS = 3

MERGE = (
    "Here are several proposed answers. Some of them may be wrong. Weigh them against each other, "
    "keep what is right, mend what isn't, and write the one best answer in full. Don't mention "
    "the proposals."
)


class MixtureOfAgents:
    """Up to three proposers here, and the strongest worker that may be used writes the answer.

    One worker by itself proposes several times: samples of one good worker did as well as a mixture
    with weaker ones (arXiv 2502.00674).
    """

    async def first(self, context: StrategyContext) -> Proposal:
        """Propose the drafts and the step that merges them."""
        routing = context.routing
        writer = strongest_worker(routing, await allowed_workers(context))
        proposers = [card.id for card in local_workers(routing)[:MAX_PROPOSERS]] or [routing.worker]
        if len(proposers) == 1:
            proposers *= MAX_PROPOSERS
        steps = [answer_step(routing, worker, optional=True) for worker in proposers]
        access = full_access(routing, range(1, len(steps) + 1))
        steps.append(Step(writer.id, MERGE, access, routing.route.need))
        where = "cloud" if any(routing.card(step.worker).remote for step in steps) else "plan"
        why = f"{len(proposers)} answers are proposed, and {writer.name} makes one of them."
        return Proposal(Plan(tuple(steps), (len(steps),)), where, why)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the strongest proposer's draft, where the merging step failed."""
        last = len(outcome.plan.steps)
        if outcome.plan.answer != (last,) or not is_lost(outcome, last):
            return None
        numbers = written_steps(outcome, range(1, last))
        if not numbers:
            return None
        best = best_step(context.routing, outcome, numbers)
        return keep_step(outcome, best, "The proposals could not be put together.")
