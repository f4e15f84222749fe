"""The trained conductor's plan: each part of a request is answered by the worker that suits it.

A finished plan is corrected once: another worker repeats each part that is provably wrong. That is
the recursion of the RL Conductor (arXiv 2512.04388) for a conductor that can't judge texts: only
free checks decide, so a correct part stays as it is and costs no call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from baton.core.errors import BatonError, PlanError, StoreError
from baton.core.events import Verdict
from baton.core.plan_types import Outcome, Plan, Step
from baton.core.planning.assignment import substitute_worker, success_chance
from baton.core.planning.request_parts import DOUBTFUL_NEED
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.strategies._steps import answer_step, conversational_workers, help_reason, is_lost
from baton.core.strategies._template import fallback_answer


class SplitRequest:
    """Runs a plan whose answer is all of its parts, and corrects what is wrong in it, once.

    If it fails, one worker answers.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def first(self, context: StrategyContext) -> Proposal:
        steps = self._plan.steps
        if len(steps) == 1:
            name = context.routing.card(steps[0].worker).name
            return Proposal(self._plan, "local", f"{name} computes this exactly.")
        why = f"You ask for {len(steps)} things, so each is a step of its own."
        in_doubt = [n for n, step in enumerate(steps, start=1) if step.need == DOUBTFUL_NEED]
        final = not can_be_corrected(context.routing, self._plan)
        return Proposal(self._plan, "plan", f"{why} {_doubt_text(in_doubt)}".strip(), final)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose a correction of the plan, or one worker's answer where the plan failed."""
        step_count = len(outcome.plan.steps)
        if len(self._plan.steps) > 1:
            again = None
            if step_count == len(self._plan.steps) and can_be_corrected(
                context.routing, self._plan
            ):
                again = await corrective_proposal(context, outcome)
            elif len(outcome.plan.answer) == len(self._plan.answer):
                again = restored_proposal(self._plan, outcome)
            return again or fallback_answer(context.routing, outcome)
        if not is_lost(outcome, 1) or step_count > 1:
            return None
        step = answer_step(context.routing, context.routing.worker)
        return Proposal(outcome.plan.with_steps((step,), (2,)), why="That couldn't be computed.")


def _doubt_text(steps: Sequence[int]) -> str:
    """Return the note on steps that a model works out although they are sums."""
    if not steps:
        return ""
    named = " and ".join(map(str, steps))
    if len(steps) == 1:
        return f"Step {named} couldn't be computed for certain: a model's result may be wrong."
    return f"Steps {named} couldn't be computed for certain: a model's results may be wrong."


async def split_plan(context: StrategyContext) -> Plan | None:
    """Return the plan of a request that has parts or can be computed, None for any other."""
    routing = context.routing
    if routing.mode == "mini" or routing.limits.alone:
        return None
    try:
        return await context.split()
    except StoreError:
        raise
    except BatonError:  # the worker that answers instead meets the same error and reports it
        return None


# One correction


CHECKED_KINDS = {"calculation", "math", "code", "extraction"}
"""What checks can find wrong. A plan without any is shown while it is written, and stays."""


def can_be_corrected(routing: RoutingContext, plan: Plan) -> bool:
    """Whether a model does a part that can be checked, and another worker is configured."""
    tools = {card.id for card in routing.roster if card.is_tool}
    checked = any(s.need.kind in CHECKED_KINDS and s.worker not in tools for s in plan.steps)
    return checked and len(conversational_workers(routing)) > 1


async def corrective_proposal(context: StrategyContext, outcome: Outcome) -> Proposal | None:
    """Propose the plan with another worker for each part that is wrong, None where none is.

    Wrong is a part without a word, a refusal, an answer that was cut off, and a sum, code or JSON
    that a check finds wrong. Steps that use a wrong part are repeated with the new one. A worker
    with a price is asked only where the gain is worth it.
    """
    routing, plan = context.routing, outcome.plan
    steps: list[Step] = []
    moved: dict[int, int] = {}
    names = []
    for number, step in enumerate(plan.steps, start=1):
        other = ""
        if number in plan.answer and await _is_part_wrong(context, outcome, number):
            other = await _other_worker(context, step)
        if other:
            names.append(routing.card(other).name)
        if other or (step.worker in _talker_ids(routing) and moved.keys() & set(step.inputs)):
            access = tuple(str(moved.get(int(n), n)) if n.isdecimal() else n for n in step.access)
            steps.append(replace(step, worker=other or step.worker, access=access, optional=True))
            moved[number] = len(plan.steps) + len(steps)
    if not names:
        return None
    try:
        grown = plan.with_steps(steps, tuple(moved.get(n, n) for n in plan.answer))
    except PlanError:  # there is no room for more steps
        return None
    who = " and ".join(dict.fromkeys(names))
    what = "Part of it was" if len(names) == 1 else "Parts of it were"
    why = f"{what} wrong, so {who} does that again."
    return Proposal(grown, "plan", why, final=False)


def restored_proposal(first: Plan, outcome: Outcome) -> Proposal | None:
    """Propose the earlier version of each part whose correction failed."""
    before = dict(zip(outcome.plan.answer, first.answer, strict=True))
    answer = tuple(
        before[n] if is_lost(outcome, n) and not is_lost(outcome, before[n]) else n for n in before
    )
    if answer == outcome.plan.answer:
        return None
    why = "A correction failed, so what was there stays."
    return Proposal(replace(outcome.plan, answer=answer), "plan", why)


async def _is_part_wrong(context: StrategyContext, outcome: Outcome, number: int) -> bool:
    routing = context.routing
    if outcome.plan.steps[number - 1].worker not in _talker_ids(routing):
        return False
    if help_reason(routing, outcome, number):
        return True
    found = await context.check(outcome, number)
    return any(one.verdict is Verdict.WRONG for one in found)


def _talker_ids(routing: RoutingContext) -> set[str]:
    return {card.id for card in conversational_workers(routing)}


async def _other_worker(context: StrategyContext, step: Step) -> str:
    """Return another worker for a wrong part, "" where none is able or worth its price."""
    routing, left = context.routing, (await context.funds()).left
    others = conversational_workers(routing)
    other = substitute_worker(step, others, {step.worker}, left, material=routing.material)
    if not other:
        return ""
    card = routing.card(other)
    if card.is_free:
        return other
    return other if await context.weigh(other, success_chance(card, step.need)) else ""
