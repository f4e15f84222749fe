"""A conductor draws the plan, and corrects it after seeing the results."""

from __future__ import annotations

from dataclasses import replace

from baton.core.catalogue_types import RULE_CONDUCTOR
from baton.core.errors import BatonError, StoreError
from baton.core.plan_types import Outcome
from baton.core.ports import Conductor, Proposal, RoutingContext, StrategyContext
from baton.core.strategies._parts import SplitRequest, split_plan
from baton.core.strategies._steps import is_lost, single_answer
from baton.core.strategies._template import fallback_answer, template_plan

LONG_DOCUMENT, ONE_QUESTION = "read-long-document", "draft-verify-revise"
MAX_CORRECTIONS = 2
"""How many corrective plans a conductor may add."""


class ConductorStrategy:
    """Runs a conductor's plan; else the template that suits; else the default worker answers.

    A document too long for one worker is always read by the template: no conductor could see it.
    """

    def __init__(self) -> None:
        self._left = MAX_CORRECTIONS
        self._conductor: Conductor | None = None
        self._name = ""
        self._kept: tuple[int, ...] = ()

    async def first(self, context: StrategyContext) -> Proposal:
        from baton.core.planning.conductor import LanguageConductor, choose_conductor

        routing = context.routing
        if routing.limits.alone:
            return single_answer(routing)
        if routing.route.template == LONG_DOCUMENT:
            return await self._template_proposal(context)
        if not routing.conductor and (plan := await split_plan(context)) is not None:
            return await SplitRequest(plan).first(context)
        if not (worker := choose_conductor(routing, await context.funds())):
            return await self._template_proposal(context)
        self._name = routing.card(worker).name
        conductor = LanguageConductor(worker)
        try:
            plan = await conductor.plan(context)
        except StoreError:
            raise
        except BatonError:
            return await self._template_proposal(context, f"{self._name} could draw no plan.")
        self._conductor = conductor
        count = len(plan.steps)
        if count == 1:
            return Proposal(plan, "plan", f"{self._name} finds that one step is enough.")
        return Proposal(plan, "plan", f"{self._name} split this into {count} steps.", final=False)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the conductor's correction, or another answer where the plan failed."""
        if self._kept and all(is_lost(outcome, n) for n in outcome.plan.answer):
            kept, self._kept = self._kept, ()
            why = "The correction failed, so the answer before it stays."
            return Proposal(replace(outcome.plan, answer=kept), "plan", why)
        return await self._corrective_proposal(context, outcome) or fallback_answer(
            context.routing, outcome
        )

    async def _corrective_proposal(
        self, context: StrategyContext, outcome: Outcome
    ) -> Proposal | None:
        if self._conductor is None or self._left <= 0 or len(outcome.plan.steps) == 1:
            return None
        self._left -= 1
        try:
            plan = await self._conductor.review(context, outcome)
        except StoreError:
            raise
        except BatonError:
            return None  # what there is, stays
        earlier = outcome.plan.steps
        if plan is None or plan.steps[: len(earlier)] != earlier or plan == outcome.plan:
            return None
        if all(outcome.text(n) for n in outcome.plan.answer):
            self._kept = outcome.plan.answer
        return Proposal(plan, "plan", f"{self._name} corrects the result.", final=False)

    async def _template_proposal(self, context: StrategyContext, why: str = "") -> Proposal:
        """Propose the template that suits the prompt, or that the default worker answers."""
        routing = context.routing
        name = routing.route.template
        if name:
            try:
                template = routing.templates()[name]
                plan = await template_plan(context, template)
            except (KeyError, BatonError) as problem:
                if isinstance(problem, StoreError):
                    raise
            else:
                reason = why or routing.route.why
                return Proposal(plan, "plan", f"{reason} {template.about}")
        from baton.core.planning.conductor import can_conduct

        if not why and routing.conductor == RULE_CONDUCTOR:
            why = "No model plans, by your setting `conductor`."
        reason = why or "No worker here can draw a plan."
        funds = await context.funds()
        if not why and funds.left == 0 and any(map(can_conduct, routing.roster)):
            reason = (
                "No worker here can draw a plan, and no money may be spent on one without --budget."
            )
        return single_answer(routing, f"{reason} So one worker answers.")


def has_template(routing: RoutingContext) -> bool:
    """Whether there is a template that suits the prompt."""
    try:
        return bool(routing.route.template) and routing.route.template in routing.templates()
    except BatonError:  # one of the user's own is wrong: said where it is named
        return False
