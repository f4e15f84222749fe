"""Decides what a run may spend, and whether a worker's help is worth its price."""

from __future__ import annotations

from baton.core.errors import StoreError
from baton.core.events import Weighed
from baton.core.ledger_types import Policy, Standing
from baton.core.messages import Card
from baton.core.plan.token_estimates import likely_cost
from baton.core.ports import SpendingRoom
from baton.core.run.policy import must_ask
from baton.core.run.run_context import RunContext
from baton.core.spending.pace_controller import is_spending_allowed, valid_gain

_NO_BALANCES = Standing(())
_FREE_REASON = "It costs nothing."
_ASKED_NOTE = " You are asked first."
_POLICY_REASONS = {Policy.NEVER: "the policy is never."}
_UNATTENDED_REASON = "there is no person to ask."


async def spending_room(run: RunContext) -> SpendingRoom:
    """Return what a run may still spend."""
    standing = await _current_standing(run)
    rooms = [room for room in standing.rooms if room.left is not None]
    if not is_spending_allowed(standing) or any(room.ceiling == 0 for room in rooms):
        return SpendingRoom(0, 1.0)
    extra = await run.services.pacer.extra(standing, run.budget.session)
    return SpendingRoom(min((room.left or 0 for room in rooms), default=None), extra)


async def weigh_help(
    run: RunContext,
    card: Card,
    gain: float,
    *,
    plain: bool = False,
) -> Weighed:
    """Decide whether the expected gain of asking a worker is worth its price.

    Where it is `plain` that what there is won't do, pace only decides where no person is asked and
    there is enough money: else the offer shows the person what help costs, or what prevents it.
    """
    gain = valid_gain(gain)
    if card.price is not None and card.price.is_free:
        return Weighed(card.id, gain, 0.0, 0, gain > 0, _FREE_REASON)
    cost = likely_cost(card, run.conversation.material, run.routing.route)
    standing, pacer = await _current_standing(run), run.services.pacer
    pace = await pacer.weigh(gain, cost, standing, run.budget.session)
    permission = must_ask(run.approval.policy, run.budget.limits)
    ok = pace.ok
    if plain and not ok:
        least = min((room.left for room in standing.rooms if room.left is not None), default=cost)
        ok = permission is not False or least < cost
    why = pace.why
    if permission is None:
        why = f"{why.rstrip('.')}: {_POLICY_REASONS.get(run.approval.policy, _UNATTENDED_REASON)}"
    elif permission and ok:
        why += _ASKED_NOTE
    return Weighed(card.id, gain, pace.bar, cost, ok, why)


async def _current_standing(run: RunContext) -> Standing:
    """Return the balances, with the ceiling of this prompt, which resumed runs share.

    It is empty where the ledger can't be read, or where there is no person to ask.
    """
    budget = run.budget
    if must_ask(run.approval.policy, budget.limits) is None:
        return _NO_BALANCES
    first = None if budget.limits.budget is None else budget.root or budget.run
    try:
        return await budget.ledger.standing(budget.ceilings, budget.session, first)
    except StoreError:
        return _NO_BALANCES
