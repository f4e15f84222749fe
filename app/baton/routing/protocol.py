"""Cuts what goes to the scorer process to size, and validates its answers.

A child is as trustworthy as the files it reads, so an invalid answer counts as a crash.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from baton.core.messages import Card
from baton.core.plan_types import KINDS
from baton.core.planning.skill_estimates import parameter_billions
from baton.core.planning.turn_roles import TurnRole
from baton.core.routing_types import (
    MAX_VECTOR_TOKENS,
    VECTOR_WIDTH,
    Candidate,
    Draft,
    Estimate,
    Judgement,
    TextVector,
)
from baton.core.sanitiser import whole_characters
from baton.ipc.process import InvalidReply

MAX_CANDIDATES = 64
MAX_TEXTS = 64
"""More of them aren't sent: the first ones count."""

HEAD_CHARS, TAIL_CHARS = 8000, 4000
"""Characters of a text that are sent: more than the router looks at, so that nothing is lost."""

MAX_SCORE = 1e6
"""Scores are any finite numbers; only their order counts, and whether they are above 0."""


# Requests


def excerpt(text: str) -> str:
    """Return the part of a text that the router looks at, as whole characters."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    return whole_characters(text)


def candidates(roster: Sequence[Card]) -> list[Candidate]:
    """Return the models of a roster as the router sees them, in its order."""
    cards = [card for card in roster if not card.is_tool][:MAX_CANDIDATES]
    return [candidate(card) for card in cards]


def candidate(card: Card) -> Candidate:
    """Return a worker as the router sees it."""
    free = card.price is None or card.price.is_free
    dollars = 0.0 if free or card.price is None else card.price.dearest_output / 10**9
    model = card.model or card.name or card.id
    skills = {kind: float(level) for kind, level in card.skills.items()}
    return Candidate(card.id, model, parameter_billions(card), dollars, card.remote, skills)


def cut_drafts(drafts: Sequence[Draft]) -> list[Draft]:
    """Return drafts with their texts cut; how long they were stays known."""
    return [
        replace(
            draft,
            text=excerpt(draft.text),
            answer=excerpt(draft.answer),
            length=draft.length or len(draft.text),
        )
        for draft in drafts
    ]


# Replies


def valid_estimate(estimate: Estimate, workers: Collection[str]) -> Estimate:
    """Return an estimate of those workers, within its bounds. Raises InvalidReply."""
    if estimate.quality.keys() != set(workers):
        raise _invalid()
    return Estimate(
        _shares(estimate.kinds, KINDS),
        _shares(estimate.quality, workers),
        _shares(estimate.gain, workers, least=-1.0),
        _shares(estimate.nearby, workers),
        int(_bounded(estimate.tokens, 0, 10**9)),
        _bounded(estimate.novelty),
        int(_bounded(estimate.tokens_p99, 0, 10**9)),
    )


def valid_judgement(judgement: Judgement, drafts: int, workers: Collection[str]) -> Judgement:
    """Return a judgement of so many drafts, within its bounds. Raises InvalidReply."""
    agreement = judgement.agreement
    if not 0 <= judgement.best < drafts:
        raise _invalid()
    return Judgement(
        tuple(_row(judgement.quality, drafts)),
        judgement.best,
        _shares(judgement.gain, workers, least=-1.0),
        None if agreement is None else _bounded(agreement),
    )


def valid_likeness(table: Sequence[Sequence[float]], texts: int) -> list[list[float]]:
    """Return the likenesses of so many texts, within their bounds. Raises InvalidReply."""
    if len(table) != texts:
        raise _invalid()
    return [_row(row, texts) for row in table]


def valid_vector(vector: TextVector) -> TextVector:
    """Return a text's vector if it is one. Raises InvalidReply."""
    is_too_long = vector.tokens > MAX_VECTOR_TOKENS
    if vector.tokens < 0 or len(vector.values) != 4 * VECTOR_WIDTH * (not is_too_long):
        raise _invalid()
    if not all(map(math.isfinite, array("f", vector.values))):
        raise _invalid()
    return vector


def valid_scores(table: Sequence[Sequence[float]], workers: int) -> list[list[float]]:
    """Return a score for each of so many workers in each role. Raises InvalidReply."""
    if len(table) != len(TurnRole):
        raise _invalid()
    return [_row(row, workers, -MAX_SCORE, MAX_SCORE) for row in table]


def _shares(
    values: Mapping[str, float], names: Collection[str], least: float = 0.0
) -> dict[str, float]:
    """Return numbers up to 1 by names, of which there may be no others."""
    if not values.keys() <= set(names):
        raise _invalid()
    return {name: _bounded(number, least) for name, number in values.items()}


def _row(values: Sequence[float], count: int, least: float = 0.0, most: float = 1.0) -> list[float]:
    if len(values) != count:
        raise _invalid()
    return [_bounded(number, least, most) for number in values]


def _bounded(number: float, least: float = 0.0, most: float = 1.0) -> float:
    """Return a number pushed into its bounds: rounding may lead a little beyond."""
    return float(min(most, max(least, number)))


def _invalid() -> InvalidReply:
    return InvalidReply("It sent an invalid reply.")
