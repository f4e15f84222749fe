"""The types of the model catalogue."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.messages import Card


class ModelRole(StrEnum):
    """What a model is for: to talk, to draw plans, to write code, to think hard."""

    CHAT = "chat"
    CONDUCTOR = "conductor"
    CODER = "coder"
    REASONING = "reasoning"


class ThinkingMode(StrEnum):
    """Whether a model writes its thoughts before the answer: never, if wanted, or always."""

    NONE = "none"
    SWITCH = "switch"
    ALWAYS = "always"


FREE_LICENCES = frozenset(
    {"apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "isc", "unlicense"}
)
"""Licences under which a model may be used for anything; others need an explicit yes."""


@frozen_dataclass
class Source:
    """Where a model's file comes from: a file of a hub's repository, or an address.

    `revision` is 40 hex digits once it is pinned, "" or a branch before. With a `url`, the rest is
    empty but `file`.
    """

    repo: str = ""
    file: str = ""
    revision: str = ""
    url: str = ""

    def __str__(self) -> str:
        # An address may hold a password.
        return re.sub(r"//[^/]*@", "//", self.url) or f"{self.repo}/{self.file}"


UNKNOWN_SOURCE = Source()
"""The source of a file of unknown origin."""


@frozen_dataclass
class Score:
    """A published measurement: its name, its value in points of 100, and who published it."""

    name: str
    value: float
    source: str


@frozen_dataclass
class CatalogueEntry:
    """One model of the catalogue.

    `size` in bytes and `sha256` are 0 and "" where only the hub knows them. `active` are the
    parameters that each token uses (fewer than `parameters` with experts); `kv_bytes` what the
    context costs per token with numbers of 16 bits, 0 if unknown. `skills` say how difficult a task
    of each kind may be, from 1 to 5.
    """

    id: str
    name: str
    source: Source
    size: int = 0
    sha256: str = ""
    licence: str = ""
    parameters: int = 0
    active: int = 0
    context: int = 0
    kv_bytes: int = 0
    roles: tuple[ModelRole, ...] = ()
    skills: Mapping[str, float] = field(default_factory=dict, hash=False)
    scores: tuple[Score, ...] = ()
    thinking: ThinkingMode = ThinkingMode.NONE
    note: str = ""

    @property
    def is_free(self) -> bool:
        """Whether it may be used without agreeing to anything."""
        return self.licence.lower() in FREE_LICENCES


@frozen_dataclass
class FilePart:
    """One of the files that make up a model: its bytes (0 where it isn't there), and its hash."""

    size: int
    sha256: str = ""


@frozen_dataclass
class ModelOffer:
    """A file as its hub offers it now: pinned, and measured in bytes.

    `sha256` is "" where the hub gives no hash: then the hash of the downloaded bytes is kept.
    `gated` is whether the hub requires an account for it. Of a model in several files `source` is
    the first of its `parts`, `size` the bytes of all, and `sha256` a hash of their hashes.
    """

    source: Source
    size: int
    sha256: str = ""
    licence: str = ""
    gated: bool = False
    parts: tuple[FilePart, ...] = ()


def card_of(entry: CatalogueEntry) -> Card:
    """Return the card that a model of the catalogue would have as a worker."""
    return Card(
        entry.id,
        "local",
        entry.name,
        context=entry.context,
        size=entry.size,
        parameters=entry.parameters,
        licence=entry.licence,
        note=entry.note,
        published=entry.skills,
    )


# Roles


STARTER_ID = "small"
"""The id of the starter model's worker, which any other model replaces."""

RULE_CONDUCTOR = "rule"
"""The value of `conductor` with which no model plans, only templates."""

OWN_MODELS_PREFIX = "baton/"
"""What the ids of Baton's own models begin with that other programs may ask for."""

ROLE_KINDS: Mapping[ModelRole, tuple[str, ...]] = {
    ModelRole.CODER: ("code",),
    ModelRole.REASONING: ("math", "reasoning"),
}
"""The task kinds for which a role's model is preferred."""

_ROLE_PHRASES = {
    ModelRole.CHAT: "answers",
    ModelRole.CONDUCTOR: "draws plans",
    ModelRole.CODER: "writes code",
    ModelRole.REASONING: "thinks about what is hard",
}


def role_holders(worker: str, conductor: str, prefer: Mapping[str, str]) -> dict[ModelRole, str]:
    """Return the model of each role by the settings; "" where Baton chooses."""
    found = {ModelRole.CHAT: worker, ModelRole.CONDUCTOR: conductor}
    for role, kinds in ROLE_KINDS.items():
        names = {prefer.get(kind, "") for kind in kinds}
        found[role] = names.pop() if len(names) == 1 else ""
    return found


def configured_roles(configured: Mapping[str, Any]) -> frozenset[ModelRole]:
    """Return the roles that stand in what the user configured, by setting: nothing takes those."""
    prefer = configured.get("prefer", {})
    found = {role for role, kinds in ROLE_KINDS.items() if any(prefer.get(k) for k in kinds)}
    if configured.get("worker"):
        found.add(ModelRole.CHAT)
    if configured.get("conductor"):
        found.add(ModelRole.CONDUCTOR)
    return frozenset(found)


def roles_on_arrival(
    wanted: Sequence[ModelRole],
    suited: Sequence[ModelRole],
    held: Mapping[ModelRole, str],
    configured: Collection[ModelRole] = (),
) -> tuple[ModelRole, ...]:
    """Return the roles that a model gets once it is installed.

    What the user `wanted` for it; else those it is `suited` for that no model has but the
    starter, unless the user `configured` that. It never becomes the conductor by itself: the one
    that comes with Baton plans until the user chooses another, or `baton bench --conductor`
    measures a better one.
    """
    if wanted:
        return tuple(wanted)
    free = [role for role in suited if held.get(role, "") in ("", STARTER_ID)]
    return recommended_roles([role for role in free if role not in configured])


def recommended_roles(roles: Sequence[ModelRole]) -> tuple[ModelRole, ...]:
    """Return those of a model's roles that it may take without the user naming them."""
    return tuple(role for role in roles if role is not ModelRole.CONDUCTOR)


def settings_for_roles(model: str, roles: Collection[ModelRole]) -> dict[str, Any]:
    """Return the settings that give a model these roles."""
    found: dict[str, Any] = {}
    if ModelRole.CHAT in roles:
        found["worker"] = model
    if ModelRole.CONDUCTOR in roles:
        found["conductor"] = model
    kinds = [kind for role in roles for kind in ROLE_KINDS.get(role, ())]
    if kinds:
        found["prefer"] = dict.fromkeys(kinds, model)
    return found


def settings_without_model(model: str, held: Mapping[ModelRole, str]) -> dict[str, Any]:
    """Return the settings that change when a model is removed: the starter answers again."""
    mine = [role for role, name in held.items() if name == model]
    found = settings_for_roles(model, mine)
    for key in ("worker", "conductor"):
        if key in found:
            found[key] = None
    if "prefer" in found:
        found["prefer"] = dict.fromkeys(found["prefer"])
    return found


def arrival_text(
    model: str,
    name: str,
    roles: Collection[ModelRole],
    suited: Collection[ModelRole] = (),
    *,
    fault: str = "",
) -> str:
    """Return the sentence that a model was installed, and what it does from now on.

    One that is `suited` for conducting and doesn't is compared by a command. One with a `fault`
    couldn't write a word.
    """
    if fault and not roles:
        again = f"`baton models verify {model}` tries it again."
        return f"{name} is kept, but it can't answer, so it has no role. {fault} {again}"
    does = [words for role, words in _ROLE_PHRASES.items() if role in roles]
    listed = " and ".join(filter(None, (", ".join(does[:-1]), *does[-1:])))
    state = f"is here and {listed} from now on." if does else f"is here; `-m {model}` asks it."
    if ModelRole.CONDUCTOR in roles or ModelRole.CONDUCTOR not in suited:
        return f"{name} {state}"
    return (
        f"{name} {state} `baton bench --conductor` measures whether it plans better than Baton's."
    )
