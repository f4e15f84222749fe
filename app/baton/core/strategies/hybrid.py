"""Baton's own: a rule first, then a draft or a plan, and help where it pays."""

from __future__ import annotations

import math
from dataclasses import replace

from baton.core.model_roles import RULE
from baton.core.plan.plan import Outcome
from baton.core.ports import Proposal, RoutingContext, SpendingRoom, Strategy, StrategyContext
from baton.core.strategies._answer_length import wants_short
from baton.core.strategies._delegate import Instead
from baton.core.strategies._draft_review import SecondLook, helped
from baton.core.strategies._estimates import (
    BIG,
    gain,
    is_sure,
    likely,
    may_be_helped,
    may_pay,
    pair,
    tenths,
)
from baton.core.strategies._parts import in_parts
from baton.core.strategies._steps import here, power
from baton.core.strategies.conductor_plan import (
    LONG_DOCUMENT,
    ONE_QUESTION,
    Conducted,
    has_template,
)

_BY_ITSELF = 3.0
_AMONG_OTHERS = 2.3
"""The skill from which on a worker gains by a plan."""


class Hybrid:
    """Chooses one of the ways below by what the router says and who is there.

    A tool answers what is written as an expression; a request that has parts, or can be computed,
    is played as the trained conductor splits it. Where the router is sure that only the helper will
    do, it is asked at once. Two workers here of about the same strength draft what has a short
    answer. What calls for a plan gets one, where somebody can draw it. Else the default worker
    drafts. Drafts are looked at once more before they stay, and help is asked for where that is
    worth its price. One worker by itself just answers.
    """

    def __init__(self) -> None:
        self._way: Strategy | None = None

    async def first(self, desk: StrategyContext) -> Proposal:
        """Propose what the chosen way does."""
        self._way = await _choose(desk)
        return self._open(desk, await self._way.first(desk))

    async def next(self, desk: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Go on in that way."""
        if self._way is None:
            self._way = _recognise(outcome)
        proposal = await self._way.next(desk, outcome)
        if proposal is not None:
            return self._open(desk, proposal)
        return helped(desk.situation, outcome) if isinstance(self._way, Conducted) else None

    def _open(self, desk: StrategyContext, proposal: Proposal) -> Proposal:
        """Leave it open whether what a plan comes to stays: the helper may still be asked."""
        may_be_helped = isinstance(self._way, Conducted) and bool(desk.situation.helper)
        return replace(proposal, final=False) if may_be_helped else proposal


async def _choose(desk: StrategyContext) -> Strategy:
    situation = desk.situation
    if situation.route.tool in {card.id for card in situation.roster if card.is_tool}:
        return Instead()
    if (parts := await in_parts(desk)) is not None:
        return parts
    if not may_be_helped(situation):
        return Conducted() if await _calls_for_a_plan(desk) else SecondLook()
    if await may_pay(desk):
        return await _with_help(desk)
    return Conducted() if await _calls_for_a_plan(desk) else SecondLook()


async def _with_help(desk: StrategyContext) -> Strategy:
    """Choose where the helper may be asked."""
    situation = desk.situation
    weighed = False
    if _is_clear(situation) and wants_short(situation):
        if await desk.weigh(situation.helper, gain(situation, situation.helper)):
            return Instead(situation.helper, _why_elsewhere(situation))
        weighed = True
    elif two := pair(situation):
        return SecondLook(two)
    if await _calls_for_a_plan(desk):
        return Conducted()
    if not weighed and _is_away(situation):
        weighed = True
        if await desk.weigh(situation.helper, gain(situation, situation.helper)):
            return Instead(situation.helper, _why_elsewhere(situation))
    return SecondLook(weighed=weighed)


def _is_clear(situation: RoutingContext) -> bool:
    """Tell whether a draft here would only cost time; whom the person prefers here is asked."""
    return not situation.choice and is_sure(situation) and gain(situation, situation.helper) >= BIG


def _is_away(situation: RoutingContext) -> bool:
    """Tell whether the helper should be asked first, if that is worth its price."""
    if situation.choice:
        return False
    if situation.route.estimate is None:
        return situation.route.where != "local"
    return _is_clear(situation)


def _why_elsewhere(situation: RoutingContext) -> str:
    """Say in a sentence why no draft is written here."""
    if situation.route.estimate is None:
        return situation.route.why
    wrong = 1 - likely(situation, situation.card(situation.worker))
    return f"Questions like this go wrong here about {tenths(wrong)} times."


def _recognise(outcome: Outcome) -> Strategy:
    """Return the way that drew a plan in an earlier run."""
    if not all(step.is_direct for step in outcome.plan.steps):
        return Conducted()
    return SecondLook()


async def _calls_for_a_plan(desk: StrategyContext) -> bool:
    """Tell whether the router wants a plan, and who is there can draw and play one."""
    situation = desk.situation
    route = situation.route
    if route.where != "plan" or situation.mode == "mini" or situation.limits.alone:
        return False
    if route.template == LONG_DOCUMENT:  # without it nobody could read all of it
        return has_template(situation)
    from baton.core.plan.conductor import choose

    funds = await desk.funds()
    is_named = situation.conductor not in ("", RULE)
    if not (is_named or _is_strong(situation, funds)):
        return False
    return has_template(situation) or choose(situation, funds) != ""


def _is_strong(situation: RoutingContext, funds: SpendingRoom) -> bool:
    """Tell whether a plan would help: small models get worse by looking at each other's work.

    Where only the helper is strong, it answers a single question sooner by itself.
    """
    cards = here(situation)
    best = max((power(situation, card) for card in cards), default=-math.inf)
    if best >= _BY_ITSELF or (len(cards) > 1 and best >= _AMONG_OTHERS):
        return True
    return situation.helper != "" and funds.left != 0 and situation.route.template != ONE_QUESTION
