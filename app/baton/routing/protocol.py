"""Encodes what goes to the scorer process, cut to size, and decodes and validates its answers.

A child is as trustworthy as the files it reads, so an invalid answer counts as a crash.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from baton.core.messages import Card
from baton.core.plan.plan import KINDS
from baton.core.plan.skill_estimates import parameter_billions
from baton.core.plan.turn_roles import TurnRole
from baton.core.routing_types import Candidate, Draft, Estimate, Judgement, RatedAnswer, RefitResult
from baton.core.sanitiser import one_line
from baton.ipc.process import Died

MAX_CANDIDATES = 64
MAX_TEXTS = 64
"""More of them aren't sent: the first ones count."""

HEAD_CHARS, TAIL_CHARS = 8000, 4000
"""Characters of a text that are sent: more than the router looks at, so that nothing is lost."""


# Out


def excerpt(text: str) -> str:
    """Return the part of a text that the router looks at, as whole characters."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    return text.encode("utf-8", "replace").decode("utf-8")


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
    return Candidate(card.id, model, parameter_billions(card), dollars, card.uses_gateway, skills)


def encode_drafts(drafts: Sequence[Draft]) -> list[dict[str, Any]]:
    """Return drafts as fields, their texts cut; how long they were stays known."""
    return [
        asdict(
            replace(
                draft,
                text=excerpt(draft.text),
                answer=excerpt(draft.answer),
                length=draft.length or len(draft.text),
            )
        )
        for draft in drafts
    ]


def encode_rated(rated: Sequence[RatedAnswer]) -> list[dict[str, Any]]:
    """Return labels as fields, their texts cut."""
    return [asdict(replace(one, text=excerpt(one.text))) for one in rated]


# In


def decode_estimate(value: object, workers: Collection[str]) -> Estimate:
    """Return an estimate of those workers. Raises Died."""
    fields = _decode_fields(
        value, "kinds", "quality", "gain", "nearby", "tokens", "novelty", "tokens_p99"
    )
    kinds = _decode_shares(fields["kinds"], KINDS)
    quality = _decode_shares(fields["quality"], workers)
    if quality.keys() != set(workers):
        raise Died("It sent an invalid reply.")
    return Estimate(
        kinds,
        quality,
        _decode_shares(fields["gain"], workers, least=-1.0),
        _decode_shares(fields["nearby"], workers),
        int(_decode_number(fields["tokens"], 0, 10**9)),
        _decode_number(fields["novelty"]),
        int(_decode_number(fields["tokens_p99"], 0, 10**9)),
    )


def decode_judgement(value: object, drafts: int, workers: Collection[str]) -> Judgement:
    """Return a judgement of so many drafts. Raises Died."""
    fields = _decode_fields(value, "quality", "best", "gain", "agreement")
    quality = _decode_numbers(fields["quality"], drafts)
    best, agreement = fields["best"], fields["agreement"]
    if type(best) is not int or not 0 <= best < drafts:
        raise Died("It sent an invalid reply.")
    return Judgement(
        tuple(quality),
        best,
        _decode_shares(fields["gain"], workers, least=-1.0),
        None if agreement is None else _decode_number(agreement),
    )


def decode_likeness(value: object, texts: int) -> list[list[float]]:
    """Return a table of likenesses of so many texts. Raises Died."""
    if not isinstance(value, list) or len(value) != texts:
        raise Died("It sent an invalid reply.")
    return [_decode_numbers(row, texts) for row in value]


def decode_scores(value: object, workers: int) -> list[list[float]]:
    """Return a score for each of so many workers in each role. Raises Died."""
    if not isinstance(value, list) or len(value) != len(TurnRole):
        raise Died("It sent an invalid reply.")
    return [_decode_numbers(row, workers, MAX_SCORE) for row in value]


MAX_SCORE = 1e6
"""Scores are any finite numbers; only their order counts, and whether they are above 0."""


def decode_learned(value: object) -> RefitResult:
    """Return what refitting came to. Raises Died."""
    fields = _decode_fields(value, "used", "held", "before", "after", "kept", "notes")
    if type(fields["kept"]) is not bool or not isinstance(fields["notes"], list):
        raise Died("It sent an invalid reply.")
    return RefitResult(
        int(_decode_number(fields["used"], 0, 10**9)),
        int(_decode_number(fields["held"], 0, 10**9)),
        _decode_number(fields["before"], 0, 10**6),
        _decode_number(fields["after"], 0, 10**6),
        fields["kept"],
        tuple(one_line(str(note), 300) for note in fields["notes"]),
    )


def _decode_fields(value: object, *names: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not value.keys() >= set(names):
        raise Died("It sent an invalid reply.")
    return value


def _decode_shares(value: object, names: Collection[str], least: float = 0.0) -> dict[str, float]:
    """Return numbers up to 1 by names, of which it may know no others."""
    if not isinstance(value, dict) or not value.keys() <= set(names):
        raise Died("It sent an invalid reply.")
    return {name: _decode_number(number, least) for name, number in value.items()}


def _decode_numbers(value: object, count: int, most: float | None = None) -> list[float]:
    """Return so many numbers, from 0 to 1; with `most`, from -`most` to `most`."""
    if not isinstance(value, list | tuple) or len(value) != count:
        raise Died("It sent an invalid reply.")
    least, highest = (0.0, 1.0) if most is None else (-most, most)
    return [_decode_number(number, least, highest) for number in value]


def _decode_number(value: object, least: float = 0.0, most: float = 1.0) -> float:
    """Return a finite number, pushed into its bounds: rounding may lead a little beyond."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Died("It sent an invalid reply.")
    return min(most, max(least, float(value)))
