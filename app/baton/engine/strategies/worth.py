"""Whether help from elsewhere is worth its price."""

from __future__ import annotations

from baton.engine.ports import Desk


async def is_worth(desk: Desk, likely: float) -> bool:
    """Tell whether the helper should be asked where a local answer is right so likely."""
    from baton.engine.assign import chance

    situation = desk.situation
    gain = chance(situation.card(situation.helper), situation.route.need) - likely
    return await desk.weigh(situation.helper, gain)


def right_although(first: float, second: float) -> float:
    """Return how likely one of two answers is right, although they differ.

    Both are right so likely by themselves; two that are wrong hardly ever come to the same.
    """
    differ = 1 - first * second
    return first * (1 - second) / differ if differ > 0 else 0.5
