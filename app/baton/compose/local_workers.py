"""Workers of this machine: the models there are, and how settings say that they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.errors import BatonError, ModelFileError
from baton.core.messages import Card
from baton.gguf.memory_fit import MEMORY_SHARE
from baton.platform.durable_files import expand_home
from baton.platform.paths import Paths
from baton.platform.settings import LocalWorkerSettings as LocalSettings, Settings
from baton.workers.local import (
    STARTER,
    GenerationSettings,
    LoadSettings,
    LocalWorker,
    Memory,
    ModelFile,
    ModelProcess,
    check_model,
    conductor_adapter,
    find_model,
    starter,
    try_model,
)

if TYPE_CHECKING:
    from baton.core.machine import Hardware
    from baton.ipc.borrower import Borrower
    from baton.ipc.process import Child
    from baton.models.library import Library
    from baton.models.ports import LibraryModel

TRAINED = "conductor"
"""The id under which the trained conductor's calls are recorded."""

NOTHING_HERE = ModelFileError(
    "There is no model on this machine yet.",
    "`baton models recommend` says which suit it, and `baton models pull ID` fetches one;"
    " `baton ask -m FILE` asks a GGUF file.",
)


def library(settings: Settings, paths: Paths) -> Library:
    """Return the models on this machine, and the way others get there; nothing is read yet."""
    from baton.download import HubSource
    from baton.models.catalogue import read_catalogue
    from baton.models.library import Library, RecommendationMemory
    from baton.models.store import FolderModelStore

    return Library(
        FolderModelStore(paths.models),
        HubSource(environ=dict(os.environ)),  # as it is now: the app hides the tokens in it
        partial(read_catalogue, paths.config / "catalogue.toml"),
        partial(_machine, paths.models, int(settings.local.memory_gb * 1e9)),
        context=settings.local.context,
        offline=settings.offline,
        workers=[entry.id for entry in settings.roster if not _is_of_library(entry)],
        check=check_model,
        try_out=try_model,
        memory=RecommendationMemory(paths.state),
    )


def _is_of_library(entry: object) -> bool:
    """Whether a worker of the settings is the library's model of the same id."""
    return isinstance(entry, LocalSettings) and entry.model == entry.id


async def _machine(folder: Path, allowed: int) -> Hardware:
    """Look this machine up, with the GPUs that llama.cpp can use: in a thread, as it may take.

    Where the user allows models only so many bytes, that counts as if there were no more.
    """
    import asyncio

    from baton.platform.hardware import inspect_machine
    from baton.workers.local import probe_gpus

    found = await asyncio.to_thread(inspect_machine, folder, await probe_gpus())
    most = int(allowed / MEMORY_SHARE) if allowed else found.memory
    return replace(found, memory=min(found.memory, most), available=min(found.available, most))


class LocalWorkers:
    """Makes the workers of this machine; those that load the same model in the same way share it.

    A worker's `model` is the starter, one in the library, or a GGUF file. Each of the library's
    that no setting names is a worker as well.
    """

    def __init__(
        self,
        settings: Settings,
        library: Library,
        find_borrower: Callable[[], Borrower | None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._find_borrower = find_borrower
        self._library = library
        self._memory = Memory(int(settings.local.memory_gb * 1e9))
        self._models: dict[tuple[Path, LoadSettings, bool], ModelProcess] = {}
        self.here: Mapping[str, LocalWorker] = {}
        self.absent: dict[str, BatonError] = {}

    def all(self, needed: str) -> Mapping[str, LocalWorker]:
        """Return them by id; those that the starter model is missing for become `absent`."""
        entries = {entry.id: entry for entry in self._settings.roster}
        # One that was asked for by name says what is wrong with it; a setting's gives way.
        asked = needed if needed != self._settings.worker else ""
        found = self._library.models()
        held = {held.id: held for held in found if held.may_answer or held.id == asked}
        unnamed = (LocalSettings(id, model=id) for id in held if id not in entries)
        workers: dict[str, LocalWorker] = {}
        for entry in (*entries.values(), *unnamed):
            if not isinstance(entry, LocalSettings):
                continue
            try:
                workers[entry.id] = self._worker(entry, held.get(entry.model))
            except ModelFileError as error:  # missed only when wanted
                self.absent[entry.id] = error
        self.here = workers
        if not workers:
            self.absent = dict.fromkeys(self.absent, NOTHING_HERE)
        return workers

    def conductor(self) -> LocalWorker | None:
        """Return the trained conductor, beside the starter model; None where either is missing.

        It plans as the starter with an adapter, in a context of its own.
        """
        adapter = conductor_adapter()
        try:
            model = starter()
        except ModelFileError:
            return None
        if adapter is None:
            return None
        card = replace(model.card, id=TRAINED, name="Conductor", note="Splits requests.")
        writing = GenerationSettings(temperature=0.0, repeat_penalty=1.0, adapter=adapter)
        for process in self._models.values():
            if process.path == model.path:
                return LocalWorker(card, process, writing)
        local = self._settings.local
        loading = LoadSettings(
            card.context,
            threads=local.threads,
            idle_seconds=local.idle_minutes * 60,
            slots=local.slots,
        )
        process = ModelProcess(model.path, self._memory, loading, find_borrower=self._find_borrower)
        return LocalWorker(card, process, writing)

    def unload_idle(self) -> None:
        """Let those models of this process go that answer nothing now."""
        for process in self._models.values():
            if not (process.busy or process.is_borrowed):
                process.unload()

    def release(self) -> list[Child]:
        """Give away the children that hold a model and can outlive this process."""
        released = (process.release() for process in self._models.values())
        return [child for child in released if child is not None]

    def end(self) -> None:
        """End the children that hold models, without waiting until they are gone."""
        for process in self._models.values():
            process.end()

    def workers_of(self, held: LibraryModel) -> Mapping[str, LocalWorker]:
        """Return the workers of a model that was just installed."""
        named = [entry for entry in self._settings.roster if isinstance(entry, LocalSettings)]
        entries = [entry for entry in named if entry.model == held.id]
        if all(entry.id != held.id for entry in self._settings.roster):
            entries.append(LocalSettings(held.id, model=held.id))
        return {entry.id: self._worker(entry, held) for entry in entries}

    def _worker(self, entry: LocalSettings, held: LibraryModel | None) -> LocalWorker:
        model = find_model(entry.model) if held is None else self._model(held)
        local, name = self._settings.local, model.card.name
        if entry.adapter:  # those that share a model and differ by an adapter say so
            name = f"{name} with {Path(entry.adapter).stem}"
        card = replace(
            model.card,
            id=entry.id,
            name=name,
            context=_first(entry.context, local.context),
            max_output=_first(entry.max_output, model.card.max_output),
            system=model.card.system if entry.system is None else entry.system,
            skills={str(kind): level for kind, level in entry.skills.items()},
        )
        loading = LoadSettings(
            card.context,
            threads=_first(entry.threads, local.threads),
            gpu_layers=_first(entry.gpu_layers, local.gpu_layers),
            kv=entry.kv or local.kv,
            idle_seconds=local.idle_minutes * 60,
            slots=_first(entry.slots, local.slots),
        )
        force = entry.force or (held is not None and held.record.forced)
        # What isn't here yet is said when it is asked, not as a path that leads nowhere.
        of_library = held is not None or _is_id(entry.model, model.path)
        key = (model.path, loading, force)
        if key not in self._models:
            self._models[key] = ModelProcess(
                model.path,
                self._memory,
                loading,
                force=force,
                ready=partial(self._library.ensure_verified, entry.model) if of_library else None,
                trusted=partial(self._library.is_verified, entry.model) if of_library else None,
                find_borrower=self._find_borrower,
            )
        return LocalWorker(card, self._models[key], _generation_settings(entry, model))

    def _model(self, held: LibraryModel) -> ModelFile:
        """Return a model of the library as workers see it."""
        record, entry = held.record, self._library.entries().get(held.id)
        card = Card(
            held.id,
            "local",
            record.name,
            size=record.size,
            licence=record.licence,
            model=record.file.removesuffix(".gguf"),
            caution=record.note,
        )
        if entry is not None:
            card = replace(
                card, parameters=entry.parameters, note=entry.note, published=entry.skills
            )
        return ModelFile(held.path, card)


def _generation_settings(worker: LocalSettings, model: ModelFile) -> GenerationSettings:
    """Return how a worker writes: as its settings say, else as suits the model."""
    temperature = model.temperature if worker.temperature is None else worker.temperature
    return GenerationSettings(
        temperature,
        top_p=worker.top_p,
        top_k=worker.top_k,
        min_p=worker.min_p,
        repeat_penalty=worker.repeat_penalty,
        seed=worker.seed,
        thinking=worker.thinking,
        adapter=expand_home(worker.adapter).absolute() if worker.adapter else None,
        adapter_scale=worker.adapter_scale,
    )


def _is_id(model: str, path: Path) -> bool:
    """Whether a setting names a model by its id that isn't a file of that name."""
    bare = model != STARTER and "/" not in model and not model.lower().endswith(".gguf")
    return bare and not path.exists()


def _first(own: int | None, shared: int) -> int:
    return shared if own is None else own
