"""Turn by turn, a trained head picks a worker and its role, until a verifier accepts.

After TRINITY (arXiv 2512.04695), whose head picks one of seven models. Ours is trained in a gym of
simulated outcomes for workers that it has never met; see core.planning.turn_roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from baton.core.messages import Card
from baton.core.money import NANO
from baton.core.plan_types import PROMPT, Outcome, Plan, Step
from baton.core.planning.skill_estimates import skill
from baton.core.planning.token_estimates import likely_cost
from baton.core.planning.turn_roles import (
    TurnPosition,
    TurnRole,
    WorkerFacts,
    best_move,
    position_after,
    position_features,
    worker_features,
)
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.strategies._estimates import answer_chance
from baton.core.strategies._steps import allowed_workers, answer_step, full_access, keep_step
from baton.core.strategies.ultra import AUDIT, REPAIR, is_accepted

THINK = (
    "Think about what is asked before somebody else answers it: what matters, which steps lead to "
    "the answer, what is easily got wrong. Write short notes, and no answer."
)

WORK = (
    "Write the answer to what was asked, in full. The result is notes by somebody who thought "
    "about it first: use what is right in them, and don't mention them."
)


class Trinity:
    """Thinker, worker and verifier take turns, at most five.

    The steps themselves say how far that went, so it can be resumed at any time.
    """

    def __init__(self) -> None:
        self._is_over = False

    async def first(self, context: StrategyContext) -> Proposal:
        """Propose the writer of the first answer, and a thinker before it where that scores."""
        proposal = await _next_turns(context, None, await allowed_workers(context), TurnPosition())
        assert proposal is not None
        self._is_over = proposal.final
        return proposal

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose a verifier, a better answer after a rejection, or that the answer stands."""
        steps = outcome.plan.steps
        wrote = outcome.plan.answer[-1]
        if _step_role(steps[-1]) is TurnRole.VERIFIER and not _is_rejected(outcome, len(steps)):
            return None
        if not outcome.text(wrote).strip():
            before = [n for n in range(1, wrote) if _step_role(steps[n - 1]) is TurnRole.WORKER]
            kept = next((n for n in reversed(before) if outcome.text(n).strip()), 0)
            self._is_over = True
            return keep_step(outcome, kept, "The answer before stays.") if kept else None
        if self._is_over:
            return None
        cards = await allowed_workers(context)
        proposal = await _next_turns(context, outcome.plan, cards, _plan_position(cards, outcome))
        self._is_over = proposal is not None and proposal.final
        return proposal


async def _next_turns(
    context: StrategyContext, plan: Plan | None, cards: Sequence[Card], position: TurnPosition
) -> Proposal | None:
    """Propose turns up to one on which the next depends; None where the answer stands.

    `plan` is None before the first.
    """
    routing = context.routing
    move = await _head_move(context, cards, position)
    why = []
    while move is not None:
        role, place = move
        why.append(_role_text(role, cards[place]))
        plan = _with_step(plan, _turn_step(routing, plan, cards[place], role))
        position = position_after(position, role, place)
        if role is TurnRole.VERIFIER:
            return _turn_proposal(routing, plan, why, final=False)
        move = await _head_move(context, cards, position)
        if role is TurnRole.WORKER:
            return _turn_proposal(routing, plan, why, final=move is None)
    return None


def _with_step(plan: Plan | None, step: Step) -> Plan:
    """Return a plan with one more step, which is the answer unless it verifies."""
    if plan is None:
        return Plan((step,), (1,))
    return plan.with_steps((step,), plan.answer if step.check else (len(plan.steps) + 1,))


def _turn_proposal(
    routing: RoutingContext, plan: Plan, why: Sequence[str], *, final: bool
) -> Proposal:
    cards = {card.id: card for card in routing.roster}
    is_remote = any(step.worker in cards and cards[step.worker].remote for step in plan.steps)
    return Proposal(plan, "cloud" if is_remote else "local", " ".join(why), final=final)


def _role_text(role: TurnRole, card: Card) -> str:
    what = {
        TurnRole.THINKER: "thinks first",
        TurnRole.WORKER: "answers",
        TurnRole.VERIFIER: "verifies",
    }
    return f"{card.name} {what[role]}."


def _turn_step(routing: RoutingContext, plan: Plan | None, card: Card, role: TurnRole) -> Step:
    """Return the step of a turn that comes after a plan."""
    need = routing.route.need
    if role is TurnRole.THINKER:
        return Step(card.id, THINK, full_access(routing, ()), need, optional=True)
    if plan is None:
        return answer_step(routing, card.id)
    number = len(plan.steps)
    if role is TurnRole.VERIFIER:
        access = (PROMPT, *map(str, plan.answer))
        judging = replace(need, kind="reasoning")
        return Step(card.id, AUDIT, access, judging, optional=True, check=True)
    if _step_role(plan.steps[-1]) is TurnRole.THINKER:
        return Step(card.id, WORK, full_access(routing, (number,)), need)
    return Step(card.id, REPAIR, full_access(routing, (*plan.answer, number)), need, optional=True)


def _step_role(step: Step) -> TurnRole:
    return {THINK: TurnRole.THINKER, AUDIT: TurnRole.VERIFIER}.get(step.subtask, TurnRole.WORKER)


def _plan_position(cards: Sequence[Card], outcome: Outcome) -> TurnPosition:
    """Return the position after the turns of a plan, with -1 for workers that are gone since."""
    places = {card.id: place for place, card in enumerate(cards)}
    position = TurnPosition()
    for number, step in enumerate(outcome.plan.steps, start=1):
        is_fine = not _is_rejected(outcome, number)
        position = position_after(position, _step_role(step), places.get(step.worker, -1), is_fine)
    return position


def _is_rejected(outcome: Outcome, verifier: int) -> bool:
    """Whether a verifier found something wrong; one without a word found nothing."""
    verdict = outcome.text(verifier).strip()
    return bool(verdict) and not is_accepted(verdict)


async def _head_move(
    context: StrategyContext, cards: Sequence[Card], position: TurnPosition
) -> tuple[TurnRole, int] | None:
    """Return the next move by the head's scores."""
    workers = [_worker_facts(context.routing, card) for card in cards]
    figures = [worker_features(worker, n, position) for n, worker in enumerate(workers)]
    need = context.routing.route.need
    scores = await context.score_turns(position_features(position, need), figures)
    return best_move(scores, position, workers)


def _worker_facts(routing: RoutingContext, card: Card) -> WorkerFacts:
    dollars = likely_cost(card, routing.material, routing.route) / NANO
    level = skill(card, routing.route.need.kind)
    return WorkerFacts(answer_chance(routing, card), level, dollars, card.remote)
