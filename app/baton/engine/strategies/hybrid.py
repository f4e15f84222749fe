"""Baton's own: a rule first, then a draft or a plan, and help where it pays."""

from __future__ import annotations

from dataclasses import replace

from baton.domain.answers import extract
from baton.domain.plan import Outcome
from baton.engine.ports import Desk, Funds, Proposal, Situation, Strategy
from baton.engine.strategies.cascade import Cascade, best
from baton.engine.strategies.conducted import LONG_DOCUMENT, ONE_QUESTION, Conducted, has_template
from baton.engine.strategies.draft import Draft, helped
from baton.engine.strategies.drafts import ALIKE, here, power
from baton.engine.strategies.instead import Instead
from baton.engine.strategies.short import wants_short
from baton.engine.strategies.worth import is_worth, right_although

_BY_ITSELF = 3.0
_AMONG_OTHERS = 2.3
"""The skill from which on a worker gains by a plan."""


class Hybrid:
    """Chooses one of the ways below by what the router says and who is there.

    A tool answers what it can compute. Two workers here of about the same strength answer what has
    a short answer, and the helper is asked where they disagree. What calls for a plan gets one,
    where somebody can draw it. Else the default worker drafts. One worker by itself just answers.
    """

    def __init__(self) -> None:
        self._way: Strategy | None = None

    async def first(self, desk: Desk) -> Proposal:
        """Propose what the chosen way does."""
        self._way = await _choose(desk)
        return self._open(desk, await self._way.first(desk))

    async def next(self, desk: Desk, outcome: Outcome) -> Proposal | None:
        """Go on in that way."""
        if self._way is None:
            self._way = _recognise(outcome)
        proposal = await self._way.next(desk, outcome)
        if proposal is not None:
            return self._open(desk, proposal)
        return helped(desk.situation, outcome) if isinstance(self._way, Conducted) else None

    def _open(self, desk: Desk, proposal: Proposal) -> Proposal:
        """Leave it open whether what a plan comes to stays: the helper may still be asked."""
        may_be_helped = isinstance(self._way, Conducted) and bool(desk.situation.helper)
        return replace(proposal, final=False) if may_be_helped else proposal


class Worthwhile(Cascade):
    """A cascade that asks for help only where that is likely to be worth its price."""

    async def is_worth_it(self, desk: Desk, outcome: Outcome) -> bool:
        """Tell whether a third answer would be."""
        from baton.engine.assign import chance

        situation = desk.situation
        cards = {card.id: card for card in situation.roster}
        pair = [cards.get(step.worker) for step in outcome.plan.steps[:2]]
        chances = [chance(card, situation.route.need) if card else 0.5 for card in pair]
        comes_to = extract(outcome.text(best(situation, outcome)))
        return await is_worth(desk, right_although(chances[0], chances[1]) if comes_to else 0.0)


async def _choose(desk: Desk) -> Strategy:
    situation = desk.situation
    route = situation.route
    if route.tool in {card.id for card in situation.roster if card.is_tool}:
        return Instead()
    if situation.card(situation.worker).is_outside:
        return Draft()
    if situation.helper and wants_short(situation) and _has_pair(situation):
        return Worthwhile()
    if await _calls_for_a_plan(desk):
        return Conducted()
    if route.where != "local" and situation.helper and await _is_better_elsewhere(desk):
        return Instead()
    return Draft()


async def _is_better_elsewhere(desk: Desk) -> bool:
    from baton.engine.assign import chance

    situation = desk.situation
    return await is_worth(desk, chance(situation.card(situation.worker), situation.route.need))


def _recognise(outcome: Outcome) -> Strategy:
    """Return the way that drew a plan in an earlier run."""
    if not all(step.is_direct for step in outcome.plan.steps):
        return Conducted()
    drafts = [step for step in outcome.plan.steps if step.is_direct]
    if len(drafts) > 1 and all(step.optional for step in drafts[:2]):
        return Worthwhile()
    return Draft()


async def _calls_for_a_plan(desk: Desk) -> bool:
    """Tell whether the router wants a plan, and who is there can draw and play one."""
    situation = desk.situation
    route = situation.route
    if route.where != "plan" or situation.mode == "mini" or situation.limits.alone:
        return False
    if route.template == LONG_DOCUMENT:  # without it nobody could read all of it
        return has_template(situation)
    from baton.engine.conductor import choose

    funds = await desk.funds()
    if not (situation.conductor or _is_strong(situation, funds)):
        return False
    return has_template(situation) or choose(situation, funds) != ""


def _is_strong(situation: Situation, funds: Funds) -> bool:
    """Tell whether a plan would help: small models get worse by looking at each other's work.

    Where only the helper is strong, it answers a single question sooner by itself.
    """
    cards = here(situation)
    best = max(power(situation, card) for card in cards)
    if best >= _BY_ITSELF or (len(cards) > 1 and best >= _AMONG_OTHERS):
        return True
    return situation.helper != "" and funds.left != 0 and situation.route.template != ONE_QUESTION


def _has_pair(situation: Situation) -> bool:
    cards = here(situation)
    powers = [power(situation, card) for card in cards[:2]]
    return len(cards) > 1 and abs(powers[0] - powers[1]) <= ALIKE
