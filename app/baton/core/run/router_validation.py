"""What the router is told of answers, and how far what it says is taken at its word.

It may be wrong in any way. Whatever it says only chooses among what may be done: who may see a
prompt and what may be spent is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from baton.core.messages import Card
from baton.core.plan.plan import Outcome
from baton.core.plan.short_answer import announced_answer, short_answer
from baton.core.plan.turn_roles import TurnRole, scores_by_rule
from baton.core.ports import RoutingContext
from baton.core.routing_types import Draft, Estimate, Judgement
from baton.core.run.policy import refuses
from baton.core.strategies._draft_scoring import head_and_tail


def drafts(
    situation: RoutingContext,
    outcome: Outcome,
    authors: Mapping[int, str],
    wrong: Mapping[int, int],
) -> list[Draft]:
    """Return what some steps have written as the router is shown it, in the order of `authors`.

    `authors` says who wrote which step's text, `wrong` how many checks by computing that failed,
    where any could be made.
    """
    from baton.core.strategies._estimates import wants_short_answer

    find = short_answer if wants_short_answer(situation) else announced_answer
    return [
        Draft(
            author,
            head_and_tail(text),
            find(text),
            len(text),
            step in outcome.cut and situation.limits.max_tokens is None,
            refuses(text),
            _finite(outcome.confidence.get(step)),
            wrong.get(step),
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
    told = (*qualities.values(), *gains.values(), *nearby.values(), estimate.novelty)
    if not qualities or not all(map(math.isfinite, told)):
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
    told = (*judgement.quality, *gains.values(), judgement.agreement or 0.0)
    fits = len(judgement.quality) == count and 0 <= judgement.best < count
    if not fits or not all(map(math.isfinite, told)):
        return None
    return Judgement(
        tuple(map(_within, judgement.quality)),
        judgement.best,
        {name: _within(value, -1.0) for name, value in gains.items()},
        None if judgement.agreement is None else _within(judgement.agreement),
    )


def sound_likeness(rows: Sequence[Sequence[float]], count: int) -> list[list[float]]:
    """Return how alike each two of so many texts are; each only like itself if that is unsaid."""
    said = len(rows) == count and all(
        len(row) == count and all(map(math.isfinite, row)) for row in rows
    )
    if said:
        return [list(map(_within, row)) for row in rows]
    return [[float(a == b) for b in range(count)] for a in range(count)]


def sound_scores(
    rows: Sequence[Sequence[float]], workers: Sequence[Sequence[float]]
) -> Sequence[Sequence[float]]:
    """Return the scores of each role's workers; those of a rule where they can't be meant."""
    said = len(rows) == len(TurnRole) and all(
        len(row) == len(workers) and all(map(math.isfinite, row)) for row in rows
    )
    return rows if said else scores_by_rule(workers)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _known(figures: Mapping[str, float], ids: Iterable[str]) -> dict[str, float]:
    return {name: figures[name] for name in ids if name in figures}


def _within(value: float, least: float = 0.0) -> float:
    return min(1.0, max(least, value))
