"""Several local workers answer, and the answer that is most like all the others counts.

After Smoothie (arXiv 2412.04692): no labels are needed, only how alike texts are in meaning.
"""

from __future__ import annotations

from baton.core.plan_types import Outcome
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._steps import (
    best_step,
    drafts_proposal,
    help_reason,
    keep_step,
    local_workers,
    single_answer,
    written_steps,
)
from baton.core.strategies.majority import MAX_VOTERS


class Smoothie:
    """All language workers here, up to five; of two answers, the stronger worker's counts.

    With fewer than two the default worker answers alone.
    """

    async def first(self, context: StrategyContext) -> Proposal:
        cards = local_workers(context.routing)[:MAX_VOTERS]
        if len(cards) < 2:
            return single_answer(context.routing, "There is no other worker here to compare with.")
        why = f"{len(cards)} workers here answer, and what is most like all the others counts."
        return drafts_proposal(context.routing, [card.id for card in cards], why)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the answer that is most like the others, once."""
        steps = outcome.plan.steps
        whole = written_steps(outcome, range(1, len(steps) + 1))
        if len(steps) == 1 or not whole:
            return None
        chosen, why = await _most_alike_step(context, outcome, whole)
        return None if outcome.plan.answer == (chosen,) else keep_step(outcome, chosen, why)


async def _most_alike_step(
    context: StrategyContext, outcome: Outcome, whole: list[int]
) -> tuple[int, str]:
    """Return the answer that counts, and why."""
    routing = context.routing
    usable = [n for n in whole if not help_reason(routing, outcome, n)] or whole
    if len(usable) == 1:
        return usable[0], "Only one answer will do."
    likeness = await context.likeness([outcome.text(n) for n in usable])
    means = [
        sum(row[:place] + row[place + 1 :]) / (len(usable) - 1)
        for place, row in enumerate(map(list, likeness))
    ]
    top = max(means)
    middle = [n for n, mean in zip(usable, means, strict=True) if mean >= top - 1e-6]
    return best_step(routing, outcome, middle), "It is most like all the other answers."
