"""Settings become adapters, and adapters an Orchestra: the only place where all parts meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from baton.adapters.local import LocalWorker, Memory, find_model
from baton.domain.errors import ModelFileError
from baton.settings import LocalWorker as WorkerSettings
from baton.settings import Paths, Settings

if TYPE_CHECKING:
    from baton.adapters.store import Store
    from baton.engine.orchestra import Orchestra


@dataclass(frozen=True, slots=True)
class Baton:
    """All parts, put together."""

    orchestra: Orchestra
    store: Store
    settings: Settings
    paths: Paths

    async def aclose(self) -> None:
        """Let workers and history go."""
        try:
            await self.orchestra.aclose()
        finally:
            await self.store.aclose()


def compose(
    settings: Settings, paths: Paths, *, history: bool = True, warm: str | None = None
) -> Baton:
    """Put everything together; without `history` nothing is kept on disk.

    The worker named by `warm` is set loading before anything is imported that takes time. Raises
    ConfigError, ModelFileError or StoreError.
    """
    memory = Memory(int(settings.local.memory_gb * 1e9))
    workers: dict[str, LocalWorker] = {}
    for worker in settings.roster:
        if not isinstance(worker, WorkerSettings):
            continue
        try:
            workers[worker.id] = _local(worker, settings, memory)
        except ModelFileError:  # a starter model that isn't installed is missed only when wanted
            if worker.id == (warm or settings.worker):
                raise
    if warm in workers:
        workers[warm].warm()

    from baton.adapters.store import Store
    from baton.engine.orchestra import Orchestra

    store = Store.open(paths.database if history else None)
    return Baton(Orchestra(workers, store, settings.worker), store, settings, paths)


def _local(worker: WorkerSettings, settings: Settings, memory: Memory) -> LocalWorker:
    model = find_model(worker.model)
    local = settings.local
    card = replace(
        model.card,
        id=worker.id,
        context=_first(worker.context, local.context),
        max_output=_first(worker.max_output, model.card.max_output),
        system=model.card.system if worker.system is None else worker.system,
    )
    return LocalWorker(
        card,
        model.path,
        memory,
        threads=_first(worker.threads, local.threads),
        gpu_layers=_first(worker.gpu_layers, local.gpu_layers),
        temperature=model.temperature if worker.temperature is None else worker.temperature,
        idle_seconds=local.idle_minutes * 60,
    )


def _first(own: int | None, shared: int) -> int:
    return shared if own is None else own
