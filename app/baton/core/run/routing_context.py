"""What is known of a prompt before anything is called: who may be used, and who answers.

The router may be wrong in any way. What it says only chooses among what may be done: who may
see a prompt and what may be spent is decided here and by the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from baton.core.labels import Label
from baton.core.messages import Card, Usage, estimated_tokens, text_with_files
from baton.core.model_roles import RULE_CONDUCTOR
from baton.core.plan.plan import Material, Outcome
from baton.core.plan.short_answer import announced_answer, short_answer
from baton.core.plan.turn_roles import TurnRole, scores_by_rule
from baton.core.ports import RecordedRun, RoutingContext
from baton.core.routing_types import Draft, Estimate, Judgement
from baton.core.run.policy import check, may_use, refuses, stronger
from baton.core.run.rule_router import rerouted
from baton.core.run.run_context import RunRequest, Services
from baton.core.strategies._draft_scoring import head_and_tail


async def build_routing_context(
    request: RunRequest, services: Services, recorded: RecordedRun
) -> RoutingContext:
    """Find out who may be used, and where the router would send the prompt.

    Raises what `check` does where the default worker may not see it.
    """
    label, terms, material = recorded.label, request.terms, Material(recorded.turns)
    first = _first_worker(request, services, label)
    check(first, label, terms)
    cards = [worker.card for name, worker in services.workers.items() if name != first.id]
    usable = (first, *(card for card in cards if may_use(card, label, terms)))
    roster = await services.skills.cards_with_skills(usable)
    route = await services.router.route(material, roster)
    route = replace(route, estimate=sound_estimate(route.estimate, roster))
    helper, choice = request.helper, ""
    wanted = services.prefer.get(route.need.kind, "") if request.is_open else ""
    if (preferred := _preferred(wanted, roster, material)) is not None:
        roster = (preferred, *(card for card in roster if card.id != preferred.id))
        route = rerouted(material, roster, route)
        found = stronger(preferred, roster, label, terms)
        helper = found.id if found is not None and found.uses_gateway else ""
        choice = f"{preferred.name} is your choice for {route.need.kind}."
    allowed = {card.id for card in roster}
    return RoutingContext(
        material,
        roster[0].id,
        helper if helper in allowed else "",
        roster,
        route,
        replace(request.limits, label=label),  # an older conversation may be stricter
        terms.mode,
        services.conductor if services.conductor in (*allowed, RULE_CONDUCTOR) else "",
        services.templates,
        services.prefer,
        choice,
    )


def _first_worker(request: RunRequest, services: Services, label: Label) -> Card:
    """Return the card of the default worker; of the plan's own where that may not go on."""
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
    if card is None or card.is_tool or card.uses_gateway:
        return None
    size = sum(estimated_tokens(text_with_files(turn.text, turn.files)) for turn in material.turns)
    return card if not card.context or size < card.context else None


def drafts(
    routing: RoutingContext,
    outcome: Outcome,
    authors: Mapping[int, str],
    wrong: Mapping[int, int],
) -> list[Draft]:
    """Return what some steps have written as the router is shown it, in the order of `authors`.

    `authors` says who wrote which step's text, `wrong` how many checks by computing that failed,
    where any could be made.
    """
    from baton.core.strategies._estimates import wants_short_answer

    find = short_answer if wants_short_answer(routing) else announced_answer
    return [
        Draft(
            author,
            head_and_tail(text),
            find(text),
            len(text),
            step in outcome.cut and routing.limits.max_tokens is None,
            refuses(text),
            **_signals(outcome.usage.get(step)),
            wrong=wrong.get(step),
        )
        for step, author in authors.items()
        for text in [outcome.text(step)]
    ]


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


def _signals(usage: Usage | None) -> dict[str, float | None]:
    """Return how likely a worker held the tokens that it wrote, as a draft says it."""
    if usage is None:
        return {}
    return {name: _finite(getattr(usage, name)) for name in ("confidence", "least", "first")}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _known(figures: Mapping[str, float], ids: Iterable[str]) -> dict[str, float]:
    return {name: figures[name] for name in ids if name in figures}


def _within(value: float, least: float = 0.0) -> float:
    return min(1.0, max(least, value))
