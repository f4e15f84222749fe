"""How well each worker would likely answer, and how long: known before anything is written."""

from __future__ import annotations

from collections.abc import Collection

from baton.core.judging.draft_scoring import expected_quality, tenths
from baton.core.messages import Card
from baton.core.planning.skill_estimates import MAX_PEER_SKILL_GAP
from baton.core.ports import RoutingContext, StrategyContext
from baton.core.reading.task_kind import is_short_answer_wanted
from baton.core.strategies._steps import local_workers, prompt_skill

MAX_SURE_NOVELTY = 0.4
"""Up to this novelty a prompt is enough like what is known for its estimate to be acted on."""

MIN_ONE_DRAFT_GAIN = 0.5
"""From this gain on a second draft here would only cost time, if the estimate is sure."""

MIN_ONE_DRAFT_CHANCE = 0.9
"""From this chance on one draft is enough, if the estimate is sure."""

_MIN_REPORTED_GAIN = 0.2
"""From this gain on the user is shown that a worker is seldom right."""

_MIN_MATE_CHANCE = 0.1
"""With less chance than this a worker is of little use in checking another."""

_MAX_PEER_GAP = 0.2
"""A third worker whose chance is lower by more settles nothing: where it disagrees, it is wrong."""

_MIN_TWICE_CHANCE = 0.2
"""With less chance than this one worker's two samples are two mistakes."""

_MAX_TWICE_TOKENS = 600
"""A longer answer, in tokens, isn't written twice by one worker: the user waits for it."""


def is_sure(routing: RoutingContext) -> bool:
    """Whether the prompt is similar enough to known ones."""
    estimate = routing.route.estimate
    return estimate is not None and estimate.novelty <= MAX_SURE_NOVELTY


def answer_chance(routing: RoutingContext, card: Card) -> float:
    """Return how likely a worker answers well."""
    return expected_quality(card, routing.route)


def expected_gain(routing: RoutingContext, worker: str) -> float:
    """Return how much likelier a good answer is from a worker than from the default one."""
    estimate = routing.route.estimate
    if estimate is not None and worker in estimate.gain:
        return estimate.gain[worker]
    mine = routing.card(routing.worker)
    return answer_chance(routing, routing.card(worker)) - answer_chance(routing, mine)


def chance_text(routing: RoutingContext) -> str:
    """Say in a sentence how the default worker does with prompts like this; "" if unknown.

    Where the helper wouldn't do much better, a low chance says more of how strictly such questions
    were graded than of the worker.
    """
    if not is_sure(routing):
        return ""
    chance = answer_chance(routing, routing.card(routing.worker))
    if chance < 0.5:
        if not routing.helper or expected_gain(routing, routing.helper) < _MIN_REPORTED_GAIN:
            return ""
        return f"Questions like this go wrong here about {tenths(1 - chance)} times."
    often = "usually" if chance >= 0.7 else "often"
    return f"Your local worker is {often} right with questions like this (about {tenths(chance)})."


def has_helper(routing: RoutingContext) -> bool:
    """Whether there is a helper for the default worker."""
    return bool(routing.helper) and routing.card(routing.worker).is_local


async def can_pay_helper(context: StrategyContext) -> bool:
    """Whether the helper may be asked at all, now."""
    if context.routing.card(context.routing.helper).is_free:
        return True
    return (await context.funds()).left != 0


def drafting_pair(routing: RoutingContext) -> tuple[str, ...]:
    """Return the two workers that draft side by side, () where one draft is enough.

    Two workers here, for a prompt with a short answer by which they can be compared. One worker
    answers twice only where it is known to be right now and then.
    """
    mine, estimate = routing.card(routing.worker), routing.route.estimate
    chance = answer_chance(routing, mine)
    if not is_short_answer_wanted(routing) or (is_sure(routing) and chance >= MIN_ONE_DRAFT_CHANCE):
        return ()
    if mate := _second_drafter(routing):
        return (mine.id, mate)
    brief = estimate is not None and 0 < estimate.tokens <= _MAX_TWICE_TOKENS
    return (
        (mine.id, mine.id) if brief and _MIN_TWICE_CHANCE <= chance < MIN_ONE_DRAFT_CHANCE else ()
    )


def _second_drafter(routing: RoutingContext) -> str:
    """Return the other local worker by whose answer the default one's is best checked, or "".

    Without an estimate only a peer is taken: where a weaker one disagrees, it is just wrong. With
    one that is known, and counts.
    """
    mine, *others = local_workers(routing)
    if routing.route.estimate is not None:
        return _best_other_worker(routing, (mine.id,), _MIN_MATE_CHANCE)
    best = next((card for card in others if card.id not in (routing.helper, routing.near)), None)
    near = (
        best is not None
        and abs(prompt_skill(routing, best) - prompt_skill(routing, mine)) <= MAX_PEER_SKILL_GAP
    )
    return best.id if best is not None and near else ""


def third_drafter(routing: RoutingContext, drafted: Collection[str]) -> str:
    """Return the best worker here that is the default one's peer and has not drafted, or ""."""
    if routing.route.estimate is None:
        return ""
    chance = answer_chance(routing, routing.card(routing.worker))
    return _best_other_worker(routing, drafted, max(_MIN_MATE_CHANCE, chance - _MAX_PEER_GAP))


def _best_other_worker(routing: RoutingContext, drafted: Collection[str], least: float) -> str:
    used = {*drafted, routing.helper, routing.near}
    able = [
        card
        for card in local_workers(routing)
        if card.id not in used and answer_chance(routing, card) >= least
    ]
    return max(able, key=lambda card: answer_chance(routing, card)).id if able else ""
