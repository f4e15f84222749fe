"""Strategies of the literature, each as published: for comparison, and for who wants just these.

Each class is a strategy of core.strategies; what a paper found of it stands with it.
"""

from __future__ import annotations

from baton.core.messages import Card
from baton.core.plan_types import Outcome, Plan, Step
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.strategies._steps import (
    Delegation,
    VoteStrategy,
    allowed_workers,
    answer_step,
    best_step,
    conversational_workers,
    drafts_proposal,
    full_access,
    help_reason,
    is_lost,
    keep_step,
    local_workers,
    single_answer,
    strongest_worker,
    written_steps,
)
from baton.core.strategies._template import fallback_answer

REVISE = (
    "Here is your draft of an answer. Look for mistakes in it, and for what was asked and is "
    "missing. Then write the final answer in full, without mentioning the draft."
)


class Reflect:
    """The default worker answers, then revises what it wrote, once."""

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        access, need = full_access(routing, (1,)), routing.route.need
        revision = Step(routing.worker, REVISE, access, need, optional=True)
        card = routing.card(routing.worker)
        where = "cloud" if card.remote else "local"
        why = f"{card.name} revises its own answer."
        plan = Plan((answer_step(routing, routing.worker), revision), (2,))
        return Proposal(plan, where, why)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the last version that was written, where the last one wasn't."""
        last = len(outcome.plan.steps)
        versions = written_steps(outcome, range(1, last + 1))
        if not versions or not is_lost(outcome, outcome.plan.answer[0]):
            return None
        return keep_step(outcome, versions[-1], "The revision failed, so the version before stays.")


VOTE_SAMPLES = 3


class Vote(VoteStrategy):
    """Several samples of the default worker; without a majority the first one counts."""

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        name = routing.card(routing.worker).name
        why = f"{name} answers {VOTE_SAMPLES} times, and what it says most often counts."
        return drafts_proposal(routing, [routing.worker] * VOTE_SAMPLES, why)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the winner; where nothing was written, another worker's answer."""
        if len(outcome.plan.steps) > VOTE_SAMPLES:
            return None
        return self.vote_proposal(outcome, best=1) or fallback_answer(context.routing, outcome)


MAX_VOTERS = 5
"""More workers take longer, and weak ones outvote the strong."""


class Majority(VoteStrategy):
    """All language workers here, up to five; without a plurality the strongest one counts.

    With fewer than two the default worker answers alone.
    """

    async def first(self, context: StrategyContext) -> Proposal:
        return _answers_of_all(context.routing, "vote", "most of them say")

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        if len(outcome.plan.steps) == 1:
            return None
        numbers = range(1, len(outcome.plan.steps) + 1)
        return self.vote_proposal(outcome, best=best_step(context.routing, outcome, numbers))


class Smoothie:
    """All language workers here, up to five; of two answers, the stronger worker's counts.

    With fewer than two the default worker answers alone.
    """

    async def first(self, context: StrategyContext) -> Proposal:
        return _answers_of_all(context.routing, "compare", "is most like all the others")

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the answer that is most like the others, once."""
        steps = outcome.plan.steps
        whole = written_steps(outcome, range(1, len(steps) + 1))
        if len(steps) == 1 or not whole:
            return None
        chosen, why = await _most_alike_step(context, outcome, whole)
        return None if outcome.plan.answer == (chosen,) else keep_step(outcome, chosen, why)


def _answers_of_all(routing: RoutingContext, use: str, counts: str) -> Proposal:
    """Propose an answer by each worker here, and say what of them counts."""
    cards = local_workers(routing)[:MAX_VOTERS]
    if len(cards) < 2:
        return single_answer(routing, f"There is no other worker here to {use} with.")
    why = f"{len(cards)} workers here answer, and what {counts} counts."
    return drafts_proposal(routing, [card.id for card in cards], why)


async def _most_alike_step(
    context: StrategyContext, outcome: Outcome, whole: list[int]
) -> tuple[int, str]:
    """Return the answer that counts, and why."""
    routing = context.routing
    usable = [n for n in whole if not help_reason(routing, outcome, n)] or whole
    if len(usable) == 1:
        return usable[0], "Only one answer will do."
    likeness = await context.likeness([outcome.text(n) for n in usable])
    means = [
        sum(row[:place] + row[place + 1 :]) / (len(usable) - 1)
        for place, row in enumerate(map(list, likeness))
    ]
    top = max(means)
    middle = [n for n, mean in zip(usable, means, strict=True) if mean >= top - 1e-6]
    return best_step(routing, outcome, middle), "It is most like all the other answers."


MAX_PROPOSERS = 3

MERGE = (
    "Here are several proposed answers. Some of them may be wrong. Weigh them against each other, "
    "keep what is right, mend what isn't, and write the one best answer in full. Don't mention "
    "the proposals."
)


class MixtureOfAgents:
    """Up to three proposers here, and the strongest worker that may be used writes the answer.

    One worker by itself proposes several times: samples of one good worker did as well as a mixture
    with weaker ones (arXiv 2502.00674).
    """

    async def first(self, context: StrategyContext) -> Proposal:
        """Propose the drafts and the step that merges them."""
        routing = context.routing
        writer = strongest_worker(routing, await allowed_workers(context))
        proposers = [card.id for card in local_workers(routing)[:MAX_PROPOSERS]] or [routing.worker]
        if len(proposers) == 1:
            proposers *= MAX_PROPOSERS
        steps = [answer_step(routing, worker, optional=True) for worker in proposers]
        access = full_access(routing, range(1, len(steps) + 1))
        steps.append(Step(writer.id, MERGE, access, routing.route.need))
        where = "cloud" if any(routing.card(step.worker).remote for step in steps) else "plan"
        why = f"{len(proposers)} answers are proposed, and {writer.name} makes one of them."
        return Proposal(Plan(tuple(steps), (len(steps),)), where, why)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the strongest proposer's draft, where the merging step failed."""
        last = len(outcome.plan.steps)
        if outcome.plan.answer != (last,) or not is_lost(outcome, last):
            return None
        numbers = written_steps(outcome, range(1, last))
        if not numbers:
            return None
        best = best_step(context.routing, outcome, numbers)
        return keep_step(outcome, best, "The proposals could not be put together.")


class NearestNeighbours:
    """The worker that was right most often nearby answers; a paid one only if that is worth it.

    Where nothing similar is known, the default worker answers.
    """

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        known = _workers_with_neighbours(routing)
        if not routing.card(routing.worker).is_local:
            return single_answer(routing)
        if not known:
            name = routing.card(routing.worker).name
            return single_answer(routing, f"Nothing like this is known yet, so {name} answers.")
        chosen = _best_nearby(routing, known)
        free = [card for card in known if card.is_free]
        if chosen not in free:
            here = _best_nearby(routing, free) if free else routing.card(routing.worker)
            more = _nearby_quality(routing, chosen) - _nearby_quality(routing, here)
            chosen = chosen if await context.weigh(chosen.id, more) else here
        why = f"{chosen.name} did best with the most similar questions."
        if chosen.id == routing.worker:
            return single_answer(routing, why)
        return await Delegation(chosen.id, why).first(context)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose that the default worker answers where the chosen one has nothing."""
        if outcome.plan.steps[0].worker == context.routing.worker:
            return None
        return await Delegation().next(context, outcome)


def _workers_with_neighbours(routing: RoutingContext) -> list[Card]:
    """Return the workers with known results on similar questions."""
    estimate = routing.route.estimate
    nearby = estimate.nearby if estimate is not None else {}
    return [card for card in conversational_workers(routing) if card.id in nearby]


def _nearby_quality(routing: RoutingContext, card: Card) -> float:
    estimate = routing.route.estimate
    return estimate.nearby.get(card.id, 0.0) if estimate is not None else 0.0


def _best_nearby(routing: RoutingContext, cards: list[Card]) -> Card:
    """Return the one that was right most often; the first of equals."""
    return max(cards, key=lambda card: _nearby_quality(routing, card))
