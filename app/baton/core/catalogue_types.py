"""The types of the model catalogue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

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
