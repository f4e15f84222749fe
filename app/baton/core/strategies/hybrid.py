"""Baton's own strategy: a rule first, then a draft or a plan, and help where it pays."""

from __future__ import annotations

import math
from dataclasses import replace

from baton.core.catalogue_types import RULE_CONDUCTOR
from baton.core.plan_types import Outcome
from baton.core.ports import Proposal, RoutingContext, SpendingRoom, Strategy, StrategyContext
from baton.core.reading.task_kind import is_short_answer_wanted
from baton.core.strategies._estimates import (
    MIN_ONE_DRAFT_GAIN,
    can_pay_helper,
    drafting_pair,
    expected_gain,
    has_helper,
    is_sure,
)
from baton.core.strategies._parts import SplitRequest, split_plan
from baton.core.strategies._steps import Delegation, local_workers, prompt_skill
from baton.core.strategies.cascade import DraftReview, helper_proposal
from baton.core.strategies.conductor_plan import (
    LONG_DOCUMENT,
    ONE_QUESTION,
    ConductorStrategy,
    has_template,
)

_MIN_SINGLE_SKILL = 3.0
_MIN_TEAM_SKILL = 2.3
"""The skill from which on a worker gains by a plan."""


class Hybrid:
    """Chooses one of the ways below by what the router says and who is there.

    A tool answers what is written as an expression; a request that has parts, or can be computed,
    is run as the trained conductor splits it. Two workers here of about the same strength draft
    what has a short answer, unless the router is sure that only the helper will do. What calls for
    a plan gets one, where a worker can draw it. Else the default worker drafts. Drafts are looked
    at once more before they stay, and help is asked for where that is worth its price: what is free
    and on this machine first. One worker by itself just answers.
    """

    def __init__(self) -> None:
        self._way: Strategy | None = None

    async def first(self, context: StrategyContext) -> Proposal:
        self._way = await _choose_strategy(context)
        return self._left_open(context, await self._way.first(context))

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        if self._way is None:
            self._way = _strategy_of_plan(outcome)
        proposal = await self._way.next(context, outcome)
        if proposal is not None:
            return self._left_open(context, proposal)
        return (
            helper_proposal(context.routing, outcome)
            if isinstance(self._way, ConductorStrategy)
            else None
        )

    def _left_open(self, context: StrategyContext, proposal: Proposal) -> Proposal:
        """Mark a conductor's proposal as not final where the helper may still be asked."""
        may_be_helped = isinstance(self._way, ConductorStrategy) and bool(context.routing.helper)
        return replace(proposal, final=False) if may_be_helped else proposal


async def _choose_strategy(context: StrategyContext) -> Strategy:
    routing = context.routing
    if routing.route.tool in {card.id for card in routing.roster if card.is_tool}:
        return Delegation()
    if (plan := await split_plan(context)) is not None:
        if len(plan.steps) == 1 or not routing.conductor:
            return SplitRequest(plan)
        if routing.conductor != RULE_CONDUCTOR:
            return ConductorStrategy()
    if not has_helper(routing):
        return ConductorStrategy() if await _should_plan(context) else DraftReview()
    if await can_pay_helper(context):
        return await _choose_with_help(context)
    return ConductorStrategy() if await _should_plan(context) else DraftReview()


async def _choose_with_help(context: StrategyContext) -> Strategy:
    """Choose a strategy where the helper may be asked: never before there is a draft."""
    routing = context.routing
    is_better = _is_helper_clearly_better(routing)
    if not is_better and (two := drafting_pair(routing)):
        return DraftReview(two)
    if not (is_better and is_short_answer_wanted(routing)) and await _should_plan(context):
        return ConductorStrategy()
    is_sent_away = routing.route.estimate is None and routing.route.where != "local"
    return DraftReview(is_doubted=is_sent_away and not routing.choice)


def _is_helper_clearly_better(routing: RoutingContext) -> bool:
    """Whether more than one local draft would only cost time."""
    return is_sure(routing) and expected_gain(routing, routing.helper) >= MIN_ONE_DRAFT_GAIN


def _strategy_of_plan(outcome: Outcome) -> Strategy:
    """Return the strategy that made a plan in an earlier run."""
    if not all(step.is_direct for step in outcome.plan.steps):
        return ConductorStrategy()
    return DraftReview()


async def _should_plan(context: StrategyContext) -> bool:
    """Whether the router suggests a plan, and the workers can draw and execute one."""
    routing = context.routing
    route = routing.route
    if route.where != "plan" or routing.mode == "mini" or routing.limits.alone:
        return False
    if route.template == LONG_DOCUMENT:  # no worker could read all of it without
        return has_template(routing)
    from baton.core.planning.conductor import choose_conductor

    funds = await context.funds()
    is_named = routing.conductor not in ("", RULE_CONDUCTOR)
    if not (is_named or _would_plan_help(routing, funds)):
        return False
    return has_template(routing) or choose_conductor(routing, funds) != ""


def _would_plan_help(routing: RoutingContext, funds: SpendingRoom) -> bool:
    """Whether a plan would help: small models get worse by looking at each other's work.

    Where only the helper is strong, it answers a single question sooner by itself.
    """
    cards = local_workers(routing)
    best = max((prompt_skill(routing, card) for card in cards), default=-math.inf)
    if best >= _MIN_SINGLE_SKILL or (len(cards) > 1 and best >= _MIN_TEAM_SKILL):
        return True
    return routing.helper != "" and funds.left != 0 and routing.route.template != ONE_QUESTION
