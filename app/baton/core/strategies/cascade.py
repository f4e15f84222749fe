"""Two local answers, and a stronger worker where they disagree.

Measured on GSM8K with two models of 8 to 9 billion parameters: 96 % right with a fifth of the
questions sent to the cloud, against 97 % with all of them.
"""

from __future__ import annotations

from baton.core.judging.short_answer import announced_answer, answers_agree, short_answer
from baton.core.plan_types import Outcome
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.reading.task_kind import is_short_answer_wanted
from baton.core.strategies._steps import (
    answer_step,
    best_step,
    drafts_proposal,
    help_reason,
    is_lost,
    keep_step,
    local_workers,
    single_answer,
    written_steps,
)

NO_HELP_REASON = "Nothing came from the stronger worker, so the local answer stays."


class Cascade:
    """Two workers here (or one, twice) answer; where they disagree, the helper is asked.

    Free text can't be compared: then the first answer counts, unless it plainly won't do. A default
    worker that is remote answers alone.
    """

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        if not routing.card(routing.worker).is_local:
            return single_answer(routing)
        cards = local_workers(routing)
        pair = [cards[0].id, cards[1].id if len(cards) > 1 else cards[0].id]
        drafters = "Two workers here answer" if len(cards) > 1 else f"{cards[0].name} answers twice"
        more = "a stronger one is asked if they disagree." if routing.helper else "to compare."
        return drafts_proposal(
            routing, pair, f"{drafters}, {'and ' if routing.helper else ''}{more}"
        )

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the answer of the two, or help; where help fails, one of the two."""
        steps = len(outcome.plan.steps)
        if steps == 1:
            return None
        if steps == 2:
            return await self._compare(context, outcome)
        lost = outcome.plan.answer == (3,) and is_lost(outcome, 3)
        return (
            keep_step(outcome, kept_answer(context.routing, outcome), NO_HELP_REASON)
            if lost
            else None
        )

    async def _compare(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        routing = context.routing
        stays = kept_answer(routing, outcome)
        why = disagreement(routing, outcome)
        if why and routing.helper and await self.is_worth_it(context, outcome):
            step = answer_step(routing, routing.helper, optional=True)
            return Proposal(outcome.plan.with_steps((step,), (3,)), "cloud", why)
        if outcome.plan.answer == (stays,):
            return None
        return keep_step(outcome, stays, why or "Only one of the two has an answer.")

    async def is_worth_it(self, context: StrategyContext, outcome: Outcome) -> bool:
        """Whether help is worth asking for: always, where a person chose this strategy."""
        return True


def disagreement(routing: RoutingContext, outcome: Outcome) -> str:
    """Say in a sentence why two answers call for a third, or return ""."""
    numbers = written_steps(outcome, (1, 2))
    if len(numbers) < 2:
        return help_reason(routing, outcome, numbers[0] if numbers else 1)
    texts = [outcome.text(n) for n in (1, 2)]
    # Of free text only what is announced as an answer counts: it may end with any number.
    if not is_short_answer_wanted(routing) and not all(map(announced_answer, texts)):
        return help_reason(routing, outcome, 1)
    if not any(map(short_answer, texts)):
        return "Neither of the two local answers comes to a result."
    return "" if answers_agree(*texts) else "The two local answers disagree."


def kept_answer(routing: RoutingContext, outcome: Outcome) -> int:
    """Return the answer that stays: the first where both agree, else the stronger worker's."""
    numbers = written_steps(outcome, (1, 2))
    if len(numbers) < 2 or not disagreement(routing, outcome):
        return numbers[0] if numbers else 1
    return best_step(routing, outcome, numbers)
