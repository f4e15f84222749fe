"""The models there are: what workers, library, history and catalogue know of each, joined."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from baton.core.catalogue_types import (
    UNKNOWN_SOURCE,
    CatalogueEntry,
    ModelRole,
    card_of,
    role_holders,
)
from baton.core.errors import BatonError
from baton.core.messages import Card
from baton.core.planning.skill_table import measured_scores
from baton.gguf.memory_fit import Fit, FitVerdict, ModelLoad, estimate_entry_load
from baton.models import ExternalModel, LibraryModel
from baton.platform.settings import LocalWorkerSettings
from baton.presentation.model_rows import CATALOGUE, ModelRow
from baton.presentation.run_story import worker_name
from baton.workers.local import STARTER, find_model

if TYPE_CHECKING:
    from baton.compose import Baton
    from baton.models import Library

_FITS = list(Fit)


@dataclass(frozen=True, slots=True)
class ModelInventory:
    """What was read of the models. `uses` are their speeds in tokens/s and times of last use.

    `paces` are the tokens/s that those of the catalogue may make here; `disk` are free bytes.
    """

    roster: Sequence[Card] = ()
    held: Sequence[LibraryModel] = ()
    entries: Mapping[str, CatalogueEntry] = field(default_factory=dict)
    foreign: Sequence[ExternalModel] = ()
    verdicts: Mapping[str, FitVerdict] = field(default_factory=dict)
    recommended: Collection[str] = ()
    paces: Mapping[str, float] = field(default_factory=dict)
    uses: Mapping[str, tuple[float | None, float]] = field(default_factory=dict)
    roles: Mapping[ModelRole, str] = field(default_factory=dict)
    disk: int = 0

    def rows(self, answering: str) -> list[ModelRow]:
        """Return the workers, the library's other models, those of other programs, the catalogue's.

        `answering` is the worker that answers. Of the catalogue come those that are recommended
        first, then by how well they fit, the larger ones first.
        """
        held = {model.id: model for model in self.held}
        cards = {card.id: card for card in self.roster}
        here = [self._row(id, cards, held.get(id), answering) for id in {**cards, **held}]
        foreign = [
            ModelRow(
                str(one.path),
                one.name,
                "here",
                size=one.size,
                file=one.path,
                program=one.program,
            )
            for one in self.foreign
        ]
        others = [id for id in self.entries if id not in cards and id not in held]
        offered = [self._row(id, cards, None, answering) for id in others]
        return [*here, *foreign, *sorted(offered, key=_offer_rank)]

    def _row(
        self, id: str, cards: Mapping[str, Card], held: LibraryModel | None, answering: str
    ) -> ModelRow:
        worker, entry, verdict = cards.get(id), self.entries.get(id), self.verdicts.get(id)
        card = worker or (card_of(entry) if entry is not None else None)
        speed, used = self.uses.get(id, (None, None))
        state = CATALOGUE if worker is None else "here" if worker.kind == "local" else worker.kind
        is_offered = worker is None and held is None
        row = ModelRow(
            id,
            worker_name(id, cards) if worker is not None or entry is None else entry.name,
            state,
            card,
            entry,
            tuple(role for role, holder in self.roles.items() if holder == id),
            entry.roles if entry is not None else (),
            is_worker=worker is not None,
            is_answering=id == answering,
            is_recommended=is_offered and id in self.recommended,
            size=(card.size if card else 0) or (entry.size if entry else 0),
            licence=(card.licence if card else "") or (entry.licence if entry else ""),
            source=entry.source if entry is not None else UNKNOWN_SOURCE,
            sha256=entry.sha256 if entry is not None else "",
            fit=verdict.fit.value if verdict is not None and is_offered else "",
            fit_text=f"{verdict.why} {verdict.remedy}".strip() if verdict and is_offered else "",
            speed=speed,
            pace=self.paces.get(id) if is_offered else None,
            used=used,
        )
        return row if held is None else _stored_row(row, held)


def _stored_row(row: ModelRow, held: LibraryModel) -> ModelRow:
    """Return a row with what the library has recorded of its model."""
    record = held.record
    card = Card(held.id, "local", record.name, size=record.size, licence=record.licence)
    return replace(
        row,
        name=row.name if row.is_worker else record.name,
        state=held.state.value,
        card=row.card if row.is_worker else card,
        suits=row.suits if row.is_worker else record.roles,
        is_stored=True,
        is_linked=bool(record.link),
        is_paused=record.paused,
        is_forced=record.forced,
        is_unfinished=held.is_unfinished,
        size=record.size or row.size,
        bytes=held.bytes,
        licence=record.licence or row.licence,
        source=record.source,
        sha256=record.sha256,
        file=held.path,
        missing=held.missing if held.state == "gone" else row.missing,
        wrong=record.wrong,
        fault=record.fault,
    )


def stored_row(held: LibraryModel) -> ModelRow:
    """Return the row of one of the library's models, by what is recorded of it alone."""
    return _stored_row(ModelRow(held.id, held.record.name, held.state.value), held)


def _offer_rank(row: ModelRow) -> tuple[bool, int, bool, int]:
    assert row.entry is not None
    fit = _FITS.index(Fit(row.fit)) if row.fit else 0
    return not row.is_recommended, fit, not row.entry.is_free, -row.entry.parameters


async def list_models(baton: Baton, whole: bool) -> list[ModelRow]:
    """Return the models that answer or are on their way, and with `whole` the catalogue's too.

    With what each takes once it is loaded, and what it is good at.
    """
    library, settings, orchestra = baton.library, baton.settings, baton.orchestra
    inventory = ModelInventory(
        roster=[card for card in orchestra.roster if not card.is_tool],
        held=library.models(),
        entries=library.entries(),
        verdicts=library.verdicts(await library.inspect_machine()) if whole else {},
        uses=await baton.store.runs.worker_usage(),
        roles=role_holders(orchestra.default, settings.conductor, settings.prefer),
    )
    local = {e.id: e for e in settings.roster if isinstance(e, LocalWorkerSettings)}
    rows = []
    for row in inventory.rows(orchestra.default):
        if (card := row.card) is None or (row.is_offered and not whole):
            continue
        if (worker := local.get(row.id)) is not None and not row.is_stored:
            row = _with_file(row, worker, inventory.held)
        load = row_load(row, library)
        skills = orchestra.services.skills
        rows.append(
            replace(
                row,
                load=load.total if load is not None else None,
                context=load.context if load is not None else 0,
                skills=await skills.masteries_of(card),
                measured=measured_scores(card, skills.scores),
            )
        )
    return rows


def _with_file(
    row: ModelRow, worker: LocalWorkerSettings, held: Sequence[LibraryModel]
) -> ModelRow:
    """Return the row of a worker that stands in the settings, with its model's file."""
    file = next((model.path for model in held if model.id == worker.model), None)
    with suppress(BatonError):
        file = file or find_model(worker.model).path
    if file is None or not file.is_file():
        return replace(row, state="gone", file=file)
    return replace(row, state="starter" if worker.model == STARTER else "here", file=file)


def row_load(row: ModelRow, library: Library) -> ModelLoad | None:
    """Return what a model takes of memory: by its file, else by the catalogue."""
    with suppress(BatonError, OSError):
        if row.file is not None and row.file.is_file():
            return library.memory_load(row.file, row.card.context if row.card is not None else 0)
        if row.entry is not None and row.entry.size:
            return estimate_entry_load(row.entry, library.context)
    return None
