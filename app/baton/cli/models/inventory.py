"""All models: those that can answer, those being downloaded, and those of the catalogue."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from baton.cli.completion import complete_worker, completion_items
from baton.cli.models import model_text
from baton.compose import compose, library as compose_library
from baton.core.catalogue_types import (
    STARTER_ID,
    UNKNOWN_SOURCE,
    CatalogueEntry,
    ModelRole,
    Source,
    card_of,
    role_holders,
)
from baton.core.errors import BatonError, ConfigError
from baton.core.messages import Card
from baton.core.planning.skill_table import Mastery, measured_scores
from baton.core.sanitiser import one_line
from baton.gguf.memory_fit import Fit, FitVerdict, estimate_entry_load
from baton.models import LibraryModel
from baton.platform.settings import LocalWorkerSettings, Settings, find_paths, load_settings
from baton.workers.local import STARTER, find_model, starter

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from baton.compose import Baton
    from baton.gguf.memory_fit import ModelLoad
    from baton.models import Library


IN_CATALOGUE = "catalogue"
"""The state of a model that isn't here."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model, and all that is known of it here.

    `held` is set if it is in the library, `entry` if the catalogue knows it, `file` if there is one
    on this machine; `too_large` is one that isn't here and won't fit. `speed` is in tokens/s,
    `used` in seconds since the epoch.
    """

    card: Card
    state: str
    default: bool = False
    roles: tuple[ModelRole, ...] = ()
    held: LibraryModel | None = None
    entry: CatalogueEntry | None = None
    file: Path | None = None
    load: ModelLoad | None = None
    speed: float | None = None
    used: float | None = None
    too_large: bool = False
    table: Mapping[str, Mastery] = field(default_factory=dict)
    measured: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Its worker's id."""
        return self.card.id

    @property
    def size(self) -> int:
        """Bytes of the whole file, 0 if unknown."""
        return self.held.record.size if self.held is not None else self.card.size

    @property
    def licence(self) -> str:
        """Under which it may be used, "" if unknown."""
        record = self.held.record.licence if self.held is not None else ""
        return record or self.card.licence or (self.entry.licence if self.entry else "")

    @property
    def source(self) -> Source:
        """Where its file came from, or would come from."""
        if self.held is not None:
            return self.held.record.source
        return self.entry.source if self.entry is not None else UNKNOWN_SOURCE

    @property
    def sha256(self) -> str:
        """What its file's hash is, or should be; "" if unknown."""
        if self.held is not None:
            return self.held.record.sha256
        return self.entry.sha256 if self.entry is not None else ""


@asynccontextmanager
async def open_library(offline: bool = False) -> AsyncIterator[tuple[Library, Settings]]:
    """Open this person's library, and close it at the end."""
    paths = find_paths()
    settings = load_settings(paths.config_file, flags={"offline": True} if offline else {})
    library = compose_library(settings, paths)
    try:
        yield library, settings
    finally:
        await library.aclose()


async def list_models(whole: bool = False) -> list[KnownModel]:
    """Return the models that answer or are on their way, and with `whole` the catalogue's too."""
    paths = find_paths()
    baton = compose(load_settings(paths.config_file), paths)
    try:
        return await _ModelLister(baton).all(whole)
    finally:
        await baton.aclose()


class _ModelLister:
    """Joins what the library, the orchestra and the history know of each model."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._library = baton.library
        self._settings = baton.settings
        self._entries = self._library.entries()
        self._verdicts: Mapping[str, FitVerdict] = {}
        self._held = {held.id: held for held in self._library.models()}

    async def all(self, whole: bool) -> list[KnownModel]:
        cards = {card.id: card for card in self._baton.orchestra.roster if not card.is_tool}
        for held in self._held.values():
            cards.setdefault(held.id, _card_of(held))
        if whole:
            self._verdicts = self._library.verdicts(await self._library.inspect_machine())
            for entry in self._entries.values():
                cards.setdefault(entry.id, card_of(entry))
        uses = await self._baton.store.runs.worker_usage()
        skills = self._baton.orchestra.services.skills
        found = []
        for card in cards.values():
            speed, used = uses.get(card.id, (None, None))
            table = await skills.masteries_of(card)
            measured = measured_scores(card, skills.scores)
            known = replace(self._known(card), speed=speed, used=used)
            found.append(replace(known, table=table, measured=measured))
        return found

    def _known(self, card: Card) -> KnownModel:
        settings, held, entry = self._settings, self._held.get(card.id), self._entries.get(card.id)
        default = self._baton.orchestra.default
        roles = role_holders(default, settings.conductor, settings.prefer)
        known = KnownModel(
            card,
            IN_CATALOGUE,
            card.id == default,
            tuple(role for role, holder in roles.items() if holder == card.id),
            held,
            entry,
        )
        if held is not None:
            known = replace(known, state=model_text.state_text(held), file=held.path)
        elif card.kind != "local":
            return replace(known, state=card.kind)
        elif (worker := self._worker(card.id)) is not None:
            file = self._file(worker)
            known = replace(known, file=file, state=_file_state(worker, file))
        elif (verdict := self._verdicts.get(card.id)) is not None:
            known = replace(known, too_large=verdict.fit is Fit.WONT)
        return replace(known, load=self._load(known))

    def _worker(self, id: str) -> LocalWorkerSettings | None:
        """Return the entry of a local worker that stands in the settings, if there is one."""
        entries = {entry.id: entry for entry in self._settings.roster}
        entry = entries.get(id)
        return entry if isinstance(entry, LocalWorkerSettings) else None

    def _file(self, worker: LocalWorkerSettings) -> Path | None:
        if (held := self._held.get(worker.model)) is not None:
            return held.path
        try:
            return find_model(worker.model).path
        except BatonError:
            return None

    def _load(self, known: KnownModel) -> ModelLoad | None:
        """Return what a model takes of memory: by its file, else by the catalogue."""
        with suppress(BatonError, OSError):
            if known.file is not None and known.file.is_file():
                return self._library.memory_load(known.file, known.card.context)
            if known.entry is not None and known.entry.size:
                return estimate_entry_load(known.entry, self._settings.local.context)
        return None


def _file_state(worker: LocalWorkerSettings, file: Path | None) -> str:
    if file is None or not file.is_file():
        return "gone"
    return "starter" if worker.model == STARTER else "here"


def _card_of(held: LibraryModel) -> Card:
    """Return a model that can't answer now as a worker's card."""
    record = held.record
    return Card(held.id, "local", record.name, size=record.size, licence=record.licence)


def find_known_model(typed: str, found: Sequence[KnownModel]) -> KnownModel:
    """Return the model that a person means. Raises ConfigError that names the nearest.

    Raises ModelFileError for the starter where Baton came without it.
    """
    by_id = {known.id: known for known in found}
    if typed in by_id:
        return by_id[typed]
    if typed == STARTER_ID:
        starter()
    names = {name.casefold(): one.id for one in found for name in (one.id, one.card.name)}
    near = difflib.get_close_matches(typed.casefold(), names, n=1)
    meant = f"Did you mean {names[near[0]]!r}?" if near else "`baton models ls --all` lists them."
    raise ConfigError(f"There is no model {typed!r}.", meant)


def _library_for_completion() -> Library:
    paths = find_paths()
    return compose_library(load_settings(paths.config_file), paths)


def _library_names(library: Library) -> dict[str, str]:
    return {held.id: one_line(held.record.name, 60) for held in library.models()}


def _catalogue_names(library: Library) -> dict[str, str]:
    return {entry.id: one_line(entry.name, 60) for entry in library.entries().values()}


def complete_held(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the ids of the library's models."""
    try:
        return completion_items(_library_names(_library_for_completion()), incomplete)
    except BatonError:
        return []


def complete_wanted(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the ids of the catalogue, and of models that are being downloaded."""
    try:
        library = _library_for_completion()
        return completion_items(_library_names(library) | _catalogue_names(library), incomplete)
    except BatonError:
        return []


def complete_known(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the workers' ids, and those of all models."""
    workers = complete_worker(ctx, parameter, incomplete)
    known = {item.value for item in workers}
    more = complete_wanted(ctx, parameter, incomplete)
    return [*workers, *(item for item in more if item.value not in known)]
