"""The worker that did best on the most similar questions answers.

An alternative to trained routers: nearest neighbours do as well (arXiv 2505.12601), and need no
training.
"""

from __future__ import annotations

from baton.core.messages import Card
from baton.core.plan_types import Outcome
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.strategies._steps import Delegation, conversational_workers, single_answer


class NearestNeighbours:
    """The worker that was right most often nearby answers; a paid one only if that is worth it.

    Where nothing similar is known, the default worker answers.
    """

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        known = _workers_with_neighbours(routing)
        if not routing.card(routing.worker).is_local:
            return single_answer(routing)
        if not known:
            name = routing.card(routing.worker).name
            return single_answer(routing, f"Nothing like this is known yet, so {name} answers.")
        chosen = _best_nearby(routing, known)
        free = [card for card in known if card.is_free]
        if chosen not in free:
            here = _best_nearby(routing, free) if free else routing.card(routing.worker)
            more = _nearby_quality(routing, chosen) - _nearby_quality(routing, here)
            chosen = chosen if await context.weigh(chosen.id, more) else here
        why = f"{chosen.name} did best with the most similar questions."
        if chosen.id == routing.worker:
            return single_answer(routing, why)
        return await Delegation(chosen.id, why).first(context)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose that the default worker answers where the chosen one has nothing."""
        if outcome.plan.steps[0].worker == context.routing.worker:
            return None
        return await Delegation().next(context, outcome)


def _workers_with_neighbours(routing: RoutingContext) -> list[Card]:
    """Return the workers with known results on similar questions."""
    estimate = routing.route.estimate
    nearby = estimate.nearby if estimate is not None else {}
    return [card for card in conversational_workers(routing) if card.id in nearby]


def _nearby_quality(routing: RoutingContext, card: Card) -> float:
    estimate = routing.route.estimate
    return estimate.nearby.get(card.id, 0.0) if estimate is not None else 0.0


def _best_nearby(routing: RoutingContext, cards: list[Card]) -> Card:
    """Return the one that was right most often; the first of equals."""
    return max(cards, key=lambda card: _nearby_quality(routing, card))
