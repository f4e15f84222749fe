"""The models there are, one row for each, in the words of every front end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from baton.core.catalogue_types import (
    UNKNOWN_SOURCE,
    CatalogueEntry,
    ModelRole,
    Source,
    ThinkingMode,
)
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.machine import Gpu, show_memory, show_size
from baton.core.messages import Card
from baton.core.planning.skill_table import Mastery
from baton.core.sanitiser import one_line
from baton.presentation.words import percent_done, price_text

CATALOGUE = "catalogue"
"""The state of a model that isn't here."""

UNUSABLE_STATES = ("coming", "broken", "gone")

_LICENCE_NAMES = {"apache-2.0": "Apache-2.0", "mit": "MIT"}
_PLACES = {"local": "this machine", "lan": "this network", "cloud": "cloud"}
_THINKING_TEXTS = {
    ThinkingMode.NONE: "",
    ThinkingMode.SWITCH: "can think first",
    ThinkingMode.ALWAYS: "always thinks first",
}


@frozen_dataclass
class ModelRow:
    """A model, and all that is known of it here. What is None or empty isn't known, or isn't so.

    `state` is that of the library; else starter, here or gone for a worker of this machine, the
    kind of a remote one, or `CATALOGUE`. `card` is its worker's, or what it would be as one (None:
    another program's, named by `program`). `roles` are those that it has, `suits` those that it is
    good for. `bytes` of `size` are here. `fit` says how well one of the catalogue fits, and
    `fit_text` why. `phase` says what is done with it now, `done` with how many of its bytes.
    `memory` is what it takes now, `load` what it takes with `context` tokens once it is loaded, in
    bytes. `speed` is in tokens/s, `pace` what it may be of one that isn't here; `used` is in
    seconds since the epoch.
    """

    id: str
    name: str
    state: str
    card: Card | None = None
    entry: CatalogueEntry | None = None
    roles: tuple[ModelRole, ...] = ()
    suits: tuple[ModelRole, ...] = ()
    is_worker: bool = False
    is_stored: bool = False
    is_answering: bool = False
    is_recommended: bool = False
    is_linked: bool = False
    is_paused: bool = False
    is_forced: bool = False
    is_unfinished: bool = False
    size: int = 0
    bytes: int = 0
    licence: str = ""
    source: Source = UNKNOWN_SOURCE
    sha256: str = ""
    file: Path | None = None
    missing: str = "the file"
    wrong: str = ""
    fault: str = ""
    program: str = ""
    phase: str = ""
    done: int = 0
    fit: str = ""
    fit_text: str = ""
    memory: int = 0
    load: int | None = None
    context: int = 0
    speed: float | None = None
    pace: float | None = None
    used: float | None = None
    skills: Mapping[str, Mastery] = field(default_factory=dict, hash=False)
    measured: Mapping[str, tuple[float, int]] = field(default_factory=dict, hash=False)

    @property
    def is_offered(self) -> bool:
        """Whether it is of the catalogue alone."""
        return self.state == CATALOGUE

    @property
    def is_fetchable(self) -> bool:
        """Whether it can be downloaded: for the first time, further, or its lost file again.

        Also one that was linked: what is fetched never goes into another program's folder.
        """
        if self.phase or self.program:
            return False
        is_lost = self.state in ("broken", "gone") and self.is_stored
        has_source = self.source != UNKNOWN_SOURCE
        return self.is_offered or self.is_unfinished or (is_lost and has_source)


def state_text(row: ModelRow) -> str:
    """Say how a model stands: "here", "downloading 40 %", "paused 40 %", "broken", "won't fit"."""
    done = row.done if row.phase else row.bytes
    percent = f" {percent_done(done, row.size)} %" if row.size else ""
    if row.phase:
        return f"{row.phase}{percent}"
    if row.state == "coming":
        return f"{'paused' if row.is_paused else 'coming'}{percent}"
    if row.program:
        return one_line(row.program, 26)
    if row.is_offered and row.fit == "won't":
        return "won't fit"
    return row.state


def fault_text(row: ModelRow) -> str:
    """Say why a model can't be used as it stands, or return ""."""
    match row.state:
        case "broken":
            return one_line(row.wrong) or "its file is broken"
        case "gone":
            return f"{row.missing} isn't there any more"
        case "changed":
            return "its file was changed, so it is read through before it is loaded again"
    return f"it can't answer: {one_line(row.fault)}" if row.fault else ""


def speed_text(row: ModelRow) -> str:
    """Write how many tokens/s a model makes here, or about how many it would; "" if unknown."""
    if row.speed:
        return f"{row.speed:.0f}" if row.speed >= 10 else f"{row.speed:.1f}"
    return "" if not row.pace else f"~{row.pace:.0f}" if row.pace >= 1 else "<1"


def origin_text(row: ModelRow) -> str:
    """Say where a model's file comes from, and at which version."""
    pinned = f" at {row.source.revision[:12]}" if row.source.revision else ""
    return "" if row.source == UNKNOWN_SOURCE else f"{one_line(str(row.source), 150)}{pinned}"


def row_facts(row: ModelRow) -> dict[str, str]:
    """Return what is known of a model and its worker, by what it is about; "" isn't known."""
    card, entry = row.card, row.entry
    notes = (card.note if card else "", entry.note if entry else "")
    context = (card.context if card else 0) or (entry.context if entry else 0)
    price = price_text(card) if card is not None and not row.is_offered else ""
    if card is not None and card.uses_gateway and card.price is None:
        price += ": not asked until you enter one"
    return {
        "Roles": ", ".join(row.roles),
        "Good for": ", ".join(entry.roles if entry is not None else row.suits),
        "Runs": ", ".join(filter(None, (place_text(card), one_line(card.hardware, 40))))
        if card is not None and row.is_worker
        else "",
        "Size": show_size(row.size) if row.size else "",
        "Licence": licence_text(row.licence),
        "Context": f"{context:,} tokens" if context else "",
        "Price": price,
        "Thinks": _THINKING_TEXTS[entry.thinking] if entry is not None else "",
        "Note": " ".join(dict.fromkeys(one_line(note) for note in notes if note)),
    }


def licence_text(licence: str) -> str:
    """Write a licence's name as it is known."""
    return _LICENCE_NAMES.get(licence.lower(), one_line(licence, 40))


def gpu_text(gpu: Gpu) -> str:
    """Name a GPU with its memory."""
    return f"{one_line(gpu.name, 40)} with {show_memory(gpu.total)}"


def place_text(card: Card) -> str:
    """Say where a worker runs: "this machine", "this network", "cloud"."""
    return _PLACES[card.place.value]
