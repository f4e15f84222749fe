"""The models that the endpoint offers: Baton itself in four modes, and each of its workers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from baton.core.messages import Card
from baton.core.model_roles import OWN_MODELS_PREFIX
from baton.server.api_errors import ApiError

MODES_OFFERED = {
    "auto": "Answers here where that suffices, plans or asks for help where it doesn't.",
    "local": "Uses this machine only.",
    "mini": "Answers at once: never waits for a plan.",
    "ultra": "Plans, verifies and repairs: slow and thorough.",
}
"""The modes that are offered as models, `baton/auto` first, and what each does."""


NO_ALIASES: Mapping[str, str] = {}

MAX_NAME_CHARS = 200
"""Of a longer name no likeness is looked for."""


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model of the endpoint: a mode of Baton, or one of its workers (the other is "")."""

    id: str
    mode: str = ""
    worker: str = ""
    note: str = ""


EMBEDDING = OfferedModel(
    OWN_MODELS_PREFIX + "embedding",
    note="Makes vectors of texts, on this machine (all-MiniLM-L6-v2). It doesn't answer.",
)
"""What POST /v1/embeddings asks, behind all others: the first one is what clients begin with."""


def listed_models(
    roster: Sequence[Card], aliases: Mapping[str, str] = NO_ALIASES, *, has_encoder: bool = False
) -> list[OfferedModel]:
    """Return the models that clients are shown: all, and the aliases that are names of one."""
    models = {model.id: model for model in offered_models(roster)}
    named = {
        alias: replace(models[target], id=alias)
        for alias, target in aliases.items()
        if target in models and not re.search(r"[*?\[]", alias)
    }
    encoders = {EMBEDDING.id: EMBEDDING} if has_encoder else {}
    return list({**models, **named, **encoders, **models}.values())


def offered_models(roster: Sequence[Card]) -> list[OfferedModel]:
    """Return all models that a client can name."""
    modes = [
        OfferedModel(OWN_MODELS_PREFIX + name, name, note=note)
        for name, note in MODES_OFFERED.items()
    ]
    workers = [card for card in roster if not card.is_tool]
    return modes + [
        OfferedModel(card.id, worker=card.id, note=card.note or card.name) for card in workers
    ]


def find_model(
    named: str, roster: Sequence[Card], aliases: Mapping[str, str] = NO_ALIASES
) -> OfferedModel:
    """Return the model that a request names, itself or by one of the user's aliases.

    It may be EMBEDDING. Raises ApiError (404) for an unknown one.
    """
    models = (*offered_models(roster), EMBEDDING)
    offered = {model.id: model for model in reversed(models)}  # own ones win
    short = named[:MAX_NAME_CHARS]
    fitting = (target for alias, target in aliases.items() if fnmatchcase(short, alias))
    meant = named if named in offered else next(fitting, named)
    if (model := offered.get(meant)) is not None:
        return model
    near = difflib.get_close_matches(short, offered, n=1)
    guess = (
        f"Did you mean {near[0]!r}?" if near else f"There is {OWN_MODELS_PREFIX}auto, for example."
    )
    hint = f"{guess} The setting serve.aliases allows other names."
    leads = f", to which the alias of {short[:80]!r} leads" if meant != named else ""
    raise ApiError(
        404, "model_not_found", f"There is no model {meant[:80]!r}{leads}.", hint, "model"
    )
