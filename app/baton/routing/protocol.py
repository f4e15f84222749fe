"""What crosses the pipe to the scorer and back: cut to size on the way out, doubted on the way in.

A child is as trustworthy as the files it reads, so whatever doesn't make sense is a death.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from baton.core.messages import Card
from baton.core.plan.plan import KINDS
from baton.core.plan.skill_estimates import billions
from baton.core.plan.turn_roles import TurnRole
from baton.core.routing_types import Candidate, Draft, Estimate, Judgement, Learned, Rated
from baton.core.sanitiser import one_line
from baton.ipc.process import Died

MOST_CANDIDATES = 64
MOST_TEXTS = 64
"""More of them aren't sent: the first ones count."""

HEAD, TAIL = 8000, 4000
"""Characters of a text that are sent: more than the router looks at, so that nothing is lost."""


# Out


def shown(text: str) -> str:
    """Return the part of a text that the router looks at, as whole characters."""
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    return text.encode("utf-8", "replace").decode("utf-8")


def candidates(roster: Sequence[Card]) -> list[Candidate]:
    """Return the models of a roster as the router sees them, in its order."""
    cards = [card for card in roster if not card.is_tool][:MOST_CANDIDATES]
    return [candidate(card) for card in cards]


def candidate(card: Card) -> Candidate:
    """Return a worker as the router sees it."""
    free = card.price is None or card.price.is_free
    dollars = 0.0 if free or card.price is None else card.price.dearest_output / 10**9
    model = card.model or card.name or card.id
    skills = {kind: float(level) for kind, level in card.skills.items()}
    return Candidate(card.id, model, billions(card), dollars, card.is_outside, skills)


def drafts_sent(drafts: Sequence[Draft]) -> list[dict[str, Any]]:
    """Return drafts as fields, their texts cut; how long they were stays known."""
    return [
        asdict(
            replace(
                draft,
                text=shown(draft.text),
                answer=shown(draft.answer),
                length=draft.length or len(draft.text),
            )
        )
        for draft in drafts
    ]


def rated_sent(rated: Sequence[Rated]) -> list[dict[str, Any]]:
    """Return labels as fields, their texts cut."""
    return [asdict(replace(one, text=shown(one.text))) for one in rated]


# In


def estimate_in(value: object, workers: Collection[str]) -> Estimate:
    """Return an estimate of those workers. Raises Died."""
    fields = _fields(value, "kinds", "quality", "gain", "nearby", "tokens", "novelty", "tokens_p99")
    kinds = _shares(fields["kinds"], KINDS)
    quality = _shares(fields["quality"], workers)
    if quality.keys() != set(workers):
        raise Died("It sent an invalid reply.")
    return Estimate(
        kinds,
        quality,
        _shares(fields["gain"], workers, least=-1.0),
        _shares(fields["nearby"], workers),
        int(_number(fields["tokens"], 0, 10**9)),
        _number(fields["novelty"]),
        int(_number(fields["tokens_p99"], 0, 10**9)),
    )


def judgement_in(value: object, drafts: int, workers: Collection[str]) -> Judgement:
    """Return a judgement of so many drafts. Raises Died."""
    fields = _fields(value, "quality", "best", "gain", "agreement")
    quality = _numbers(fields["quality"], drafts)
    best, agreement = fields["best"], fields["agreement"]
    if type(best) is not int or not 0 <= best < drafts:
        raise Died("It sent an invalid reply.")
    return Judgement(
        tuple(quality),
        best,
        _shares(fields["gain"], workers, least=-1.0),
        None if agreement is None else _number(agreement),
    )


def table_in(value: object, texts: int) -> list[list[float]]:
    """Return a table of likenesses of so many texts. Raises Died."""
    if not isinstance(value, list) or len(value) != texts:
        raise Died("It sent an invalid reply.")
    return [_numbers(row, texts) for row in value]


def scores_in(value: object, workers: int) -> list[list[float]]:
    """Return a score for each of so many workers in each role. Raises Died."""
    if not isinstance(value, list) or len(value) != len(TurnRole):
        raise Died("It sent an invalid reply.")
    return [_numbers(row, workers, MOST_SCORE) for row in value]


MOST_SCORE = 1e6
"""Scores are any finite numbers; only their order counts, and whether they are above 0."""


def learned_in(value: object) -> Learned:
    """Return what refitting came to. Raises Died."""
    fields = _fields(value, "used", "held", "before", "after", "kept", "notes")
    if type(fields["kept"]) is not bool or not isinstance(fields["notes"], list):
        raise Died("It sent an invalid reply.")
    return Learned(
        int(_number(fields["used"], 0, 10**9)),
        int(_number(fields["held"], 0, 10**9)),
        _number(fields["before"], 0, 10**6),
        _number(fields["after"], 0, 10**6),
        fields["kept"],
        tuple(one_line(str(note), 300) for note in fields["notes"]),
    )


def _fields(value: object, *names: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not value.keys() >= set(names):
        raise Died("It sent an invalid reply.")
    return value


def _shares(value: object, names: Collection[str], least: float = 0.0) -> dict[str, float]:
    """Return numbers up to 1 by names, of which it may know no others."""
    if not isinstance(value, dict) or not value.keys() <= set(names):
        raise Died("It sent an invalid reply.")
    return {name: _number(number, least) for name, number in value.items()}


def _numbers(value: object, count: int, most: float | None = None) -> list[float]:
    """Return so many numbers, from 0 to 1; with `most`, from -`most` to `most`."""
    if not isinstance(value, list | tuple) or len(value) != count:
        raise Died("It sent an invalid reply.")
    least, highest = (0.0, 1.0) if most is None else (-most, most)
    return [_number(number, least, highest) for number in value]


def _number(value: object, least: float = 0.0, most: float = 1.0) -> float:
    """Return a finite number, pushed into its bounds: rounding may lead a little beyond."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Died("It sent an invalid reply.")
    return min(most, max(least, float(value)))
