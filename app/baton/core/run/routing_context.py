"""What is known of a prompt before anything is called: who may be used, and who answers.

The router may be wrong in any way. What it says only chooses among what may be done: who may
see a prompt and what may be spent is decided here and by the ledger.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from baton.core.catalogue_types import RULE_CONDUCTOR
from baton.core.judging.draft_scoring import expected_quality, tenths
from baton.core.labels import Label
from baton.core.messages import Card, estimated_tokens, text_with_files
from baton.core.permissions import check, helpers, may_use, must_ask
from baton.core.plan_types import Material
from baton.core.planning.skill_estimates import MAX_PEER_SKILL_GAP, strength
from baton.core.planning.turn_roles import TurnRole, scores_by_rule
from baton.core.ports import CheckableWorker, RecordedRun, Route, RoutingContext
from baton.core.reading.bare_expressions import ABOUT_BATON, can_compute
from baton.core.routing_types import Estimate, Judgement
from baton.core.run.rule_router import rerouted
from baton.core.run.run_context import RunRequest, Services

MIN_NEAR_GAIN = 0.2
"""How much likelier a good answer must be from another worker here to be asked instead."""

_MIN_USUAL_CHANCE = 0.5
"""With less chance than this the default worker likely gets it wrong."""

_MIN_TRUSTED_SKILL = 1.7
"""Without an estimate a worker of less skill, under a billion parameters, keeps small talk only."""

_FAULT_SECONDS = 5.0
"""How long to wait for what workers say of themselves: as long as a keyring may take."""


async def build_routing_context(
    request: RunRequest, services: Services, recorded: RecordedRun
) -> RoutingContext:
    """Find out who may be used and can work, and where the router would send the prompt.

    Raises what `check` does where the default worker may not see it.
    """
    label, terms, material = recorded.label, request.terms, Material(recorded.turns)
    first = _first_worker(request, services, label)
    check(first, label, terms)
    cards = [worker.card for name, worker in services.workers.items() if name != first.id]
    if request.limits.shape is not None:  # no tool writes in a form that is asked for
        cards = [card for card in cards if not card.is_tool]
    if not can_compute(ABOUT_BATON, material.question):  # no plan may have use for it
        cards = [card for card in cards if card.id != ABOUT_BATON]
    usable = (first, *(card for card in cards if may_use(card, label, terms)))
    roster = await services.skills.cards_with_skills(usable)
    route, faulty = await asyncio.gather(
        services.router.route(material, roster), _faulty_workers(request, services, roster[1:])
    )
    roster = tuple(card for card in roster if card.id not in faulty)
    route = replace(route, estimate=sound_estimate(route.estimate, roster))
    choice = near = ""
    wanted = services.prefer.get(route.need.kind, "") if request.is_open else ""
    chosen = _preferred(wanted, roster, material)
    if chosen is not None:
        choice = f"{chosen.name} is your choice for {route.need.kind}."
    elif _may_choose_near(request, route, roster):
        better = _better_near(roster, route, material)
        if better is not None and _is_likely_wrong(roster[0], route):
            chosen, choice = better, _near_choice(roster[0], better, route)
        elif better is not None:
            near = better.id
    if chosen is not None:
        roster = (chosen, *(card for card in roster if card.id != chosen.id))
        route = rerouted(material, roster, route)
    found = [] if request.limits.alone else helpers(roster[0], roster, label, terms)
    allowed = {card.id for card in roster}
    return RoutingContext(
        material,
        roster[0].id,
        found[0].id if found else "",
        roster,
        route,
        replace(request.limits, label=label),  # an older conversation may be stricter
        terms.mode,
        services.conductor if services.conductor in (*allowed, RULE_CONDUCTOR) else "",
        services.templates,
        services.prefer,
        choice,
        near,
    )


async def _faulty_workers(
    request: RunRequest, services: Services, roster: Iterable[Card]
) -> set[str]:
    """Return the workers that say of themselves that they can't work now.

    Those are not asked that nothing may be spent on anyway: they may have to start a process.
    """
    limits, terms = request.limits, request.terms
    has_money = limits.is_budget_typed or any(terms.ceilings.values())
    may_spend = has_money and must_ask(terms.policy, limits) is not None
    tasks: dict[str, asyncio.Task[str]] = {}
    for card in () if limits.alone else roster:
        worker = services.workers[card.id]
        if isinstance(worker, CheckableWorker) and (card.is_free or may_spend):
            tasks[card.id] = asyncio.create_task(worker.fault())
    if not tasks:
        return set()
    try:
        await asyncio.wait(tasks.values(), timeout=_FAULT_SECONDS)
        return {name for name, task in tasks.items() if task.done() and task.result()}
    finally:
        for task in tasks.values():
            task.cancel()


def _may_choose_near(request: RunRequest, route: Route, roster: Sequence[Card]) -> bool:
    """Whether another worker here may answer instead: the user named none, and no strategy."""
    is_free_to_choose = request.is_open and request.name == "hybrid" and roster[0].is_local
    return is_free_to_choose and not route.tool


def _better_near(roster: Sequence[Card], route: Route, material: Material) -> Card | None:
    """Return the free worker on this machine that would do noticeably better, or None."""
    others = [card for card in roster[1:] if card.is_local and not card.is_tool]
    others = [card for card in others if _holds(card, material)]
    best = max(others, key=lambda card: expected_quality(card, route), default=None)
    if best is None:
        return None
    gain = expected_quality(best, route) - expected_quality(roster[0], route)
    is_stronger = strength(best)[0] - strength(roster[0])[0] >= MAX_PEER_SKILL_GAP
    return best if gain >= MIN_NEAR_GAIN or (route.estimate is None and is_stronger) else None


def _is_likely_wrong(card: Card, route: Route) -> bool:
    """Whether a worker likely gets a prompt wrong that another one here would do better.

    Without an estimate only small talk is left to it: by its size alone a small model is judged too
    well.
    """
    if route.estimate is None:
        return route.need.kind != "chat" and strength(card)[0] < _MIN_TRUSTED_SKILL
    return expected_quality(card, route) < _MIN_USUAL_CHANCE


def _near_choice(mine: Card, better: Card, route: Route) -> str:
    if route.estimate is None:
        return f"{better.name} is larger than {mine.name}, on this machine too, and costs nothing."
    here, there = (tenths(expected_quality(card, route)) for card in (mine, better))
    return (
        f"{mine.name} gets about {here} of such questions right, and {better.name}, which is on "
        f"this machine too and costs nothing, about {there}."
    )


def _first_worker(request: RunRequest, services: Services, label: Label) -> Card:
    """Return the card of the default worker; of the plan's own where that may not continue."""
    named = [step.worker for step in request.kept.plan.steps] if request.kept else []
    workers = services.workers
    cards = [workers[name].card for name in (request.worker, *named) if name in workers]
    usable = (c for c in cards if not c.is_tool and may_use(c, label, request.terms))
    return next(usable, cards[0])


def _preferred(wanted: str, roster: tuple[Card, ...], material: Material) -> Card | None:
    """Return the worker that answers instead of the default one, if it may and can.

    Only one on this machine: what leaves it is offered first, even if it is preferred.
    """
    card = next((card for card in roster[1:] if card.id == wanted), None)
    if card is None or card.is_tool or not card.is_local:
        return None
    return card if _holds(card, material) else None


def _holds(card: Card, material: Material) -> bool:
    """Whether a conversation fits into a worker's context."""
    size = sum(estimated_tokens(text_with_files(turn.text, turn.files)) for turn in material.turns)
    return not card.context or size < card.context


def sound_estimate(estimate: Estimate | None, roster: Iterable[Card]) -> Estimate | None:
    """Return an estimate of the workers that are there, or None if it makes no sense."""
    if estimate is None:
        return None
    ids = {card.id for card in roster}
    qualities = _known(estimate.quality, ids)
    gains, nearby = _known(estimate.gain, ids), _known(estimate.nearby, ids)
    figures = (*qualities.values(), *gains.values(), *nearby.values(), estimate.novelty)
    if not qualities or not all(map(math.isfinite, figures)):
        return None
    return replace(
        estimate,
        quality={name: _within(value) for name, value in qualities.items()},
        gain={name: _within(value, -1.0) for name, value in gains.items()},
        nearby={name: _within(value) for name, value in nearby.items()},
        novelty=_within(estimate.novelty),
    )


def sound_judgement(judgement: Judgement, count: int, roster: Iterable[Card]) -> Judgement | None:
    """Return what was said of so many drafts, or None if it makes no sense."""
    gains = _known(judgement.gain, {card.id for card in roster})
    figures = (*judgement.quality, *gains.values(), judgement.agreement or 0.0)
    fits = len(judgement.quality) == count and 0 <= judgement.best < count
    if not fits or not all(map(math.isfinite, figures)):
        return None
    return Judgement(
        tuple(map(_within, judgement.quality)),
        judgement.best,
        {name: _within(value, -1.0) for name, value in gains.items()},
        None if judgement.agreement is None else _within(judgement.agreement),
    )


def sound_likeness(rows: Sequence[Sequence[float]], count: int) -> list[list[float]]:
    """Return how alike each two of so many texts are; each only like itself if that is unsaid."""
    is_sound = len(rows) == count and all(
        len(row) == count and all(map(math.isfinite, row)) for row in rows
    )
    if is_sound:
        return [list(map(_within, row)) for row in rows]
    return [[float(a == b) for b in range(count)] for a in range(count)]


def sound_scores(
    rows: Sequence[Sequence[float]], workers: Sequence[Sequence[float]]
) -> Sequence[Sequence[float]]:
    """Return the scores of each role's workers; those of a rule where they can't be meant."""
    is_sound = len(rows) == len(TurnRole) and all(
        len(row) == len(workers) and all(map(math.isfinite, row)) for row in rows
    )
    return rows if is_sound else scores_by_rule(workers)


def _known(figures: Mapping[str, float], ids: Iterable[str]) -> dict[str, float]:
    return {name: figures[name] for name in ids if name in figures}


def _within(value: float, least: float = 0.0) -> float:
    return min(1.0, max(least, value))
