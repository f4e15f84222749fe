"""The models that the endpoint offers: Baton itself in four manners, and each of its workers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from baton.core.messages import Card
from baton.core.model_roles import OWN_MODELS_PREFIX
from baton.server.api_errors import ApiError

MANNERS = {
    "auto": "Answers here where that suffices, plans or asks for help where it doesn't.",
    "local": "Uses this machine only.",
    "mini": "Answers at once: never waits for a plan.",
    "ultra": "Plans, verifies and repairs: slow and thorough.",
}
"""The modes that are offered as models, `baton/auto` first, and what each does."""


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model of the endpoint: a manner of Baton's, or one of its workers (the other is "")."""

    id: str
    manner: str = ""
    worker: str = ""
    note: str = ""


def offered_models(roster: Sequence[Card]) -> list[OfferedModel]:
    """Return all models that a client can name."""
    manners = [
        OfferedModel(OWN_MODELS_PREFIX + name, name, note=note) for name, note in MANNERS.items()
    ]
    workers = [card for card in roster if not card.is_tool]
    return manners + [
        OfferedModel(card.id, worker=card.id, note=card.note or card.name) for card in workers
    ]


def find_model(named: str, roster: Sequence[Card]) -> OfferedModel:
    """Return the model that a request names. Raises ApiError (404) for an unknown one."""
    offered = {model.id: model for model in reversed(offered_models(roster))}  # own ones win
    if (model := offered.get(named)) is not None:
        return model
    named = named[:80]
    near = difflib.get_close_matches(named, offered, n=1)
    example = f"There is {OWN_MODELS_PREFIX}auto, for example."
    hint = f"Did you mean {near[0]!r}?" if near else example
    said = f"There is no model {named!r}."
    raise ApiError(404, "model_not_found", said, hint, "model")
