"""The router alone decides who answers; nothing is drafted."""

from __future__ import annotations

from baton.core.plan.plan import Outcome
from baton.core.ports import Proposal, StrategyContext
from baton.core.strategies._estimates import chance_text, expected_gain, has_helper
from baton.core.strategies._steps import Delegation, single_answer

MIN_NOTABLE_GAIN = 0.05
"""With less to gain by the helper, the default worker is about as good."""


class RouteAlone:
    """The default worker or the helper answers, by the gain that is expected of the helper."""

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        if not has_helper(routing):
            return single_answer(routing)
        more = expected_gain(routing, routing.helper)
        name = routing.card(routing.helper).name
        if await context.weigh(routing.helper, more):
            points = round(100 * more)
            why = f"{name} is likelier to get this right, by about {points} %, which is worth it."
            return await Delegation(routing.helper, why).first(context)
        mine = routing.card(routing.worker).name
        will_do = f"{mine} is likely good enough."
        better = f"{name} is likelier to get this right, but isn't asked."
        return single_answer(
            routing, chance_text(routing) or (better if more > MIN_NOTABLE_GAIN else will_do)
        )

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose that the default worker answers where the helper has nothing."""
        return await Delegation().next(context, outcome)
