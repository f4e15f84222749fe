"""One correction of a finished plan: another worker repeats each part that is provably wrong.

The recursion of the RL Conductor (arXiv 2512.04388) for a conductor that can't judge texts: only
free checks decide, so a correct part stays as it is and costs no call.
"""

from __future__ import annotations

from dataclasses import replace

from baton.core.errors import PlanError
from baton.core.events import Verdict
from baton.core.plan.assignment import substitute_worker, success_chance
from baton.core.plan.plan import Outcome, Plan, Step
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.strategies._steps import conversational_workers, help_reason, is_lost

CHECKED_KINDS = {"calculation", "math", "code", "extraction"}
"""What checks can find wrong. A plan without any is shown while it is written, and stays."""


def can_be_corrected(situation: RoutingContext, plan: Plan) -> bool:
    """Tell whether a model does a part that can be checked, and another worker is configured."""
    tools = {card.id for card in situation.roster if card.is_tool}
    checked = any(s.need.kind in CHECKED_KINDS and s.worker not in tools for s in plan.steps)
    return checked and len(conversational_workers(situation)) > 1


async def corrective_proposal(desk: StrategyContext, outcome: Outcome) -> Proposal | None:
    """Propose the plan with another worker for each part that is wrong, None where none is.

    Wrong is a part without a word, a refusal, an answer that was cut off, and a sum, code or JSON
    that a check finds wrong. Steps that use a wrong part are repeated with the new one. A worker
    with a price is asked only where the gain is worth it.
    """
    situation, plan = desk.situation, outcome.plan
    steps: list[Step] = []
    moved: dict[int, int] = {}
    names = []
    for number, step in enumerate(plan.steps, start=1):
        other = ""
        if number in plan.answer and await _is_part_wrong(desk, outcome, number):
            other = await _other_worker(desk, step)
        if other:
            names.append(situation.card(other).name)
        if other or (step.worker in _talker_ids(situation) and moved.keys() & set(step.inputs)):
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
    """Propose what a part was before, where its correction came to nothing."""
    before = dict(zip(outcome.plan.answer, first.answer, strict=True))
    answer = tuple(
        before[n] if is_lost(outcome, n) and not is_lost(outcome, before[n]) else n for n in before
    )
    if answer == outcome.plan.answer:
        return None
    why = "A correction came to nothing, so what was there stays."
    return Proposal(replace(outcome.plan, answer=answer), "plan", why)


async def _is_part_wrong(desk: StrategyContext, outcome: Outcome, number: int) -> bool:
    situation = desk.situation
    if outcome.plan.steps[number - 1].worker not in _talker_ids(situation):
        return False
    if help_reason(situation, outcome, number):
        return True
    found = await desk.check(outcome, number)
    return any(one.verdict is Verdict.WRONG for one in found)


def _talker_ids(situation: RoutingContext) -> set[str]:
    return {card.id for card in conversational_workers(situation)}


async def _other_worker(desk: StrategyContext, step: Step) -> str:
    """Return another worker for a wrong part, "" where none is able or worth its price."""
    situation, left = desk.situation, (await desk.funds()).left
    others = conversational_workers(situation)
    other = substitute_worker(step, others, {step.worker}, left, material=situation.material)
    if not other:
        return ""
    card = situation.card(other)
    if card.price is not None and card.price.is_free:
        return other
    return other if await desk.weigh(other, success_chance(card, step.need)) else ""
