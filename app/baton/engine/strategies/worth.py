"""Whether help from elsewhere is worth its price, which rises as the budget is used."""

from __future__ import annotations

from baton.engine.policy import threshold
from baton.engine.ports import Desk, Situation


async def is_worth(desk: Desk, likely: float) -> bool:
    """Tell whether the helper should be asked where a local answer is right so likely."""
    from baton.engine.assign import chance

    situation = desk.situation
    gain = chance(situation.card(situation.helper), situation.route.need) - likely
    if _is_free(situation):
        return gain > 0
    funds = await desk.funds()
    return funds.left != 0 and gain > threshold(funds.used)


def right_although(first: float, second: float) -> float:
    """Return how likely one of two answers is right, although they differ.

    Both are right so likely by themselves; two that are wrong hardly ever come to the same.
    """
    differ = 1 - first * second
    return first * (1 - second) / differ if differ > 0 else 0.5


def _is_free(situation: Situation) -> bool:
    price = situation.card(situation.helper).price
    return price is not None and price.is_free
