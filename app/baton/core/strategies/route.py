"""One worker answers, and nothing is drafted: the default one, or whom the router picks."""

from __future__ import annotations

from baton.core.messages import Card
from baton.core.plan_types import Outcome
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.strategies._estimates import answer_chance, chance_text, expected_gain, has_helper
from baton.core.strategies._steps import Delegation, local_workers, single_answer


class Single:
    """The default worker answers the prompt, and its answer stands."""

    async def first(self, context: StrategyContext) -> Proposal:
        return single_answer(context.routing)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        return None


MIN_NOTABLE_GAIN = 0.05
"""With less to gain by the helper, the default worker is about as good."""


class RouteAlone:
    """The best worker on this machine or the helper answers, by the gain expected of the helper."""

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        mine = routing.card(routing.worker)
        here = _best_here(routing) if mine.is_local else mine
        name, more = "", 0.0
        if has_helper(routing):
            name = routing.card(routing.helper).name
            more = expected_gain(routing, routing.helper) - expected_gain(routing, here.id)
            if await context.weigh(routing.helper, more):
                points = round(100 * more)
                by = f"by about {points} %, which is worth it."
                why = f"{name} is likelier to get this right, {by}"
                return await Delegation(routing.helper, why).first(context)
        if here.id != mine.id:
            points = round(100 * expected_gain(routing, here.id))
            why = f"{here.name} is on this machine too, and likelier right by about {points} %."
            return await Delegation(here.id, why).first(context)
        if not name:
            return single_answer(routing)
        will_do = f"{mine.name} is likely good enough."
        better = f"{name} is likelier to get this right, but isn't asked."
        return single_answer(
            routing, chance_text(routing) or (better if more > MIN_NOTABLE_GAIN else will_do)
        )

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose that the default worker answers where the helper has nothing."""
        return await Delegation().next(context, outcome)


def _best_here(routing: RoutingContext) -> Card:
    """Return the local worker that is noticeably likelier right than the default one, or that."""
    best = max(local_workers(routing), key=lambda card: answer_chance(routing, card))
    is_better = expected_gain(routing, best.id) > MIN_NOTABLE_GAIN
    return best if is_better else routing.card(routing.worker)
