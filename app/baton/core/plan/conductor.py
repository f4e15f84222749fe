"""A language model as conductor: it draws plans, and looks at what came of them.

A small one writes what each step needs, its task and what it may see, and code chooses the worker.
A strong one names workers too; what it names is checked like everything else it writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.errors import PlanError
from baton.core.labels import Label
from baton.core.messages import Card, Message, Purpose
from baton.core.model_roles import RULE_CONDUCTOR
from baton.core.plan.assignment import skill, substitute_worker, without_unfit_workers
from baton.core.plan.plan import MAX_STEPS, Need, Outcome, Plan, Step
from baton.core.plan.plan_prompt import plan_messages, repair_messages, review_messages
from baton.core.plan.plan_schema import MAX_NAMED_FILES, PlanSchema, without_unused_steps
from baton.core.plan.skill_estimates import parameter_billions
from baton.core.ports import PlanningContext, RoutingContext, SpendingRoom

_MIN_BILLIONS = 0.95
"""Billions of parameters that an untrained model needs to draw plans worth playing."""

_STRONG_BILLIONS = 20.0
"""Billions from which on a model may choose workers itself."""

_MAX_POOL_WORKERS = 7
"""Workers that a conductor is told of: with more weak ones it chooses worse."""

_MAX_PLAN_TOKENS = 1024
_MAX_REMOTE_PLAN_TOKENS = 2048
"""Tokens that a plan may take; models elsewhere may have to think first."""

_MAX_PROMPT_TOKENS = 6000
"""Tokens that a conductor is told at most, to see whether there is money for it."""

_PLANNING_STEP = Step("", "Draw a plan.", need=Need("planning", 4))
"""What conducting asks of a worker, to compare those who could."""


def can_conduct(card: Card) -> bool:
    """Tell whether a worker may draw plans: no tool, and no model that is known to be too small."""
    if card.is_tool:
        return False
    size = parameter_billions(card)
    return size >= _MIN_BILLIONS or (card.uses_gateway and size == 0)


def choose_conductor(situation: RoutingContext, funds: SpendingRoom) -> str:
    """Return who draws the plan: the person's choice, else a local worker, else one elsewhere.

    "" where nobody can, or not for the money that is left, or where the person wants no model to.
    """
    if situation.conductor == RULE_CONDUCTOR:
        return ""
    able = [card for card in situation.roster if can_conduct(card) and _is_affordable(card, funds)]
    if any(card.id == situation.conductor for card in able):
        return situation.conductor
    for privacy in (Label.LOCAL, Label.LAN, Label.CLOUD):
        if here := [card for card in able if card.privacy is privacy]:
            return substitute_worker(_PLANNING_STEP, here, (), funds.left)
    return ""


def _is_affordable(card: Card, funds: SpendingRoom) -> bool:
    if card.price is None:
        return False
    return (
        funds.left is None
        or card.price.max_cost(_MAX_PROMPT_TOKENS, _MAX_REMOTE_PLAN_TOKENS) <= funds.left
    )


def _is_strong(card: Card) -> bool:
    size = parameter_billions(card)
    return size >= _STRONG_BILLIONS or (card.uses_gateway and size == 0)


class LanguageConductor:
    """Draws plans with one worker (core.ports.Conductor)."""

    def __init__(self, worker: str) -> None:
        self._worker = worker

    async def plan(self, desk: PlanningContext) -> Plan:
        """Return a plan for the prompt. Raises PlanError, or whatever the worker raises."""
        situation = desk.situation
        conductor, pool = situation.card(self._worker), _known_workers(situation)
        canvas = _plan_schema(situation, conductor, pool)
        kind = situation.route.need.kind
        messages = plan_messages(situation.material, canvas, pool, conductor, kind)
        plan = await self._draw_plan(desk, messages, canvas, None)
        assert plan is not None  # without an outcome there is nothing to accept
        return plan

    async def review(self, desk: PlanningContext, outcome: Outcome) -> Plan | None:
        """Return None to accept what came out, or a corrective plan. Raises as `plan`."""
        situation = desk.situation
        done = len(outcome.plan.steps)
        if done >= MAX_STEPS:
            return None
        conductor, pool = situation.card(self._worker), _known_workers(situation)
        canvas = _plan_schema(situation, conductor, pool, outcome)
        messages = review_messages(situation.material, outcome, canvas, pool, conductor)
        plan = await self._draw_plan(desk, messages, canvas, outcome)
        return None if plan == outcome.plan else plan

    async def _draw_plan(
        self,
        desk: PlanningContext,
        messages: Sequence[Message],
        canvas: PlanSchema,
        outcome: Outcome | None,
    ) -> Plan | None:
        """Have a plan drawn, once more where the first can't be used."""
        text = await self._ask_worker(desk, messages, canvas)
        try:
            return await self._parse_plan(desk, text, canvas, outcome)
        except PlanError as problem:
            text = await self._ask_worker(
                desk, repair_messages(messages, text, problem.message), canvas
            )
        try:
            return await self._parse_plan(desk, text, canvas, outcome)
        except PlanError as problem:
            name = desk.situation.card(self._worker).name
            raise PlanError(f"{name} drew no plan that can be used. {problem.message}") from problem

    async def _ask_worker(
        self, desk: PlanningContext, messages: Sequence[Message], canvas: PlanSchema
    ) -> str:
        card = desk.situation.card(self._worker)
        most = _MAX_REMOTE_PLAN_TOKENS if card.uses_gateway else _MAX_PLAN_TOKENS
        return await desk.ask(self._worker, messages, Purpose.PLAN, canvas.answer_format(), most)

    async def _parse_plan(
        self, desk: PlanningContext, text: str, canvas: PlanSchema, outcome: Outcome | None
    ) -> Plan | None:
        """Return the plan in a text, with no worker named that may not do its step."""
        if (drawn := canvas.parse(text)) is None:
            return None
        before = outcome.plan.steps if outcome is not None else ()
        plan = without_unused_steps(*drawn, before)
        situation, left = desk.situation, (await desk.funds()).left
        return without_unfit_workers(
            plan, situation.roster, left=left, after=len(before), material=situation.material
        )


def _plan_schema(
    situation: RoutingContext, conductor: Card, pool: Sequence[Card], outcome: Outcome | None = None
) -> PlanSchema:
    """Return what this conductor's plan may name."""
    material = situation.material
    steps = outcome.plan.steps if outcome is not None else ()
    numbers = range(1, len(steps) + 1)
    return PlanSchema(
        material.files[-MAX_NAMED_FILES:],
        len(material.turns) > 1,
        tuple(card.id for card in pool) if _is_strong(conductor) else (),
        len(steps),
        tuple(n for n in numbers if outcome is not None and outcome.text(n)),
    )


def _known_workers(situation: RoutingContext) -> list[Card]:
    """Return the workers that a conductor is told of, in the roster's order."""
    models = [card for card in situation.roster if not card.is_tool]
    best = sorted(models[1:], key=lambda card: -skill(card, situation.route.need.kind))
    kept = {card.id for card in (*models[:1], *best[: _MAX_POOL_WORKERS - 1])}
    return [card for card in situation.roster if card.is_tool or card.id in kept]
