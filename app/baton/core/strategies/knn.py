"""The worker that did best on the most similar questions answers.

In place of trained routers that learn to tell workers apart: nearest neighbours do as well (arXiv
2505.12601), and need no training.
"""

from __future__ import annotations

from baton.core.messages import Card
from baton.core.plan.plan import Outcome
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.strategies._delegate import Instead
from baton.core.strategies._steps import alone, talkers


class Nearest:
    """Whoever was right most often nearby answers; one that costs money only if that is worth it.

    Where nothing similar is known, the default worker answers.
    """

    async def first(self, desk: StrategyContext) -> Proposal:
        """Propose who answers."""
        situation = desk.situation
        known = _known(situation)
        if situation.card(situation.worker).is_outside:
            return alone(situation)
        if not known:
            name = situation.card(situation.worker).name
            return alone(situation, f"Nothing like this is known yet, so {name} answers.")
        chosen = _best(situation, known)
        free = [card for card in known if card.price is not None and card.price.is_free]
        if chosen not in free:
            here = _best(situation, free) if free else situation.card(situation.worker)
            more = _nearby(situation, chosen) - _nearby(situation, here)
            chosen = chosen if await desk.weigh(chosen.id, more) else here
        why = f"{chosen.name} did best with the most similar questions."
        if chosen.id == situation.worker:
            return alone(situation, why)
        return await Instead(chosen.id, why).first(desk)

    async def next(self, desk: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose that the default worker answers where the chosen one has nothing."""
        if outcome.plan.steps[0].worker == desk.situation.worker:
            return None
        return await Instead().next(desk, outcome)


def _known(situation: RoutingContext) -> list[Card]:
    """Return those of whom it is known how they did on similar questions."""
    estimate = situation.route.estimate
    nearby = estimate.nearby if estimate is not None else {}
    return [card for card in talkers(situation) if card.id in nearby]


def _nearby(situation: RoutingContext, card: Card) -> float:
    estimate = situation.route.estimate
    return estimate.nearby.get(card.id, 0.0) if estimate is not None else 0.0


def _best(situation: RoutingContext, cards: list[Card]) -> Card:
    """Return the one that was right most often; the first of equals."""
    return max(cards, key=lambda card: _nearby(situation, card))
