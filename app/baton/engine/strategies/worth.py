"""Whether help from elsewhere is worth its price, which rises as the budget is used."""

from __future__ import annotations

from baton.engine.ports import Desk, Funds, Situation

LEAST = 0.05
"""How much likelier a right answer must become for help to be asked for with an unused budget."""

RISE = 0.55
"""How much that rises until the budget is used up (arXiv 2512.22137, its delta and alpha).

With .75, questions that are all alike (one data set) left a third of the budget unused; with this
the last tenth is kept for those that are difficult."""


async def is_worth(desk: Desk, likely: float) -> bool:
    """Tell whether the helper should be asked where a local answer is right so likely."""
    from baton.engine.assign import chance

    situation = desk.situation
    gain = chance(situation.card(situation.helper), situation.route.need) - likely
    if _is_free(situation):
        return gain > 0
    funds = await desk.funds()
    return funds.left != 0 and gain > threshold(funds)


def threshold(funds: Funds) -> float:
    """Return the gain that help must promise."""
    return LEAST + RISE * min(1.0, max(0.0, funds.used))


def right_although(first: float, second: float) -> float:
    """Return how likely one of two answers is right, although they differ.

    Both are right so likely by themselves; two that are wrong hardly ever come to the same.
    """
    differ = 1 - first * second
    return first * (1 - second) / differ if differ > 0 else 0.5


def _is_free(situation: Situation) -> bool:
    price = situation.card(situation.helper).price
    return price is not None and price.is_free
