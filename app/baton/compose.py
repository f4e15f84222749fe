"""Settings become adapters, and adapters an Orchestra: the only place where all parts meet."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from baton.adapters.local import LocalWorker, Manner, Memory, ModelFile, find_model
from baton.domain.catalogue import Role
from baton.domain.chat import Card
from baton.domain.errors import ModelFileError, StoreError
from baton.domain.labels import Label, reach
from baton.domain.prices import FREE
from baton.settings import CloudWorker as CloudSettings
from baton.settings import LocalWorker as LocalSettings
from baton.settings import Paths, Settings, load, write
from baton.settings import ServerWorker as ServerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from baton.adapters.cloud import Gateway
    from baton.adapters.ledger import Ledger
    from baton.adapters.router import LearnedRouter
    from baton.adapters.store import Store
    from baton.domain.library import Held
    from baton.domain.machine import Machine
    from baton.engine.learning import Tutor
    from baton.engine.library import Library
    from baton.engine.mastery import SkillTable
    from baton.engine.orchestra import Orchestra
    from baton.engine.ports import Template, Worker

    Loading = tuple[Path, int, int, int, str, bool]
    """What makes out that two workers load the same: file, context, threads, GPU layers, kv, force.
    """


@dataclass(frozen=True, slots=True)
class Baton:
    """All parts, put together. Without workers elsewhere there is no gateway."""

    orchestra: Orchestra
    store: Store
    ledger: Ledger
    settings: Settings
    paths: Paths
    library: Library
    memory: Memory
    gateway: Gateway | None = None
    router: LearnedRouter | None = None

    @property
    def warning(self) -> str:
        """What the person must know about how history and ledger were found, or "".

        A ledger that can't be opened is told of by whatever needs it: a local worker doesn't.
        """
        doubted = (
            _doubts(entry) for entry in self.settings.roster if not isinstance(entry, LocalSettings)
        )
        money = ""
        with suppress(StoreError):
            money = self.ledger.warning
        routing = self.router.warning if self.router is not None else ""
        return " ".join(filter(None, (self.store.warning, money, *doubted, routing)))

    @property
    def tutor(self) -> Tutor:
        """What has the router learn from this person's answers."""
        from baton.adapters.router import Versions, candidates, learn, learned_file
        from baton.engine.learning import Tutor

        return Tutor(
            self.store,
            lambda: candidates(self.orchestra.roster),
            learn,
            Versions(learned_file(self.paths.data)),
        )

    def tell_later(self, tell: Callable[[str], object]) -> None:
        """Have the person told of what turns out only later: that the router can't be used."""
        if self.router is not None:
            self.router.tell = tell

    def warm_cloud(self) -> None:
        """Start the gateway ahead of its first call, if there can be one that costs money."""
        terms = self.orchestra.terms
        if self.gateway is not None and not terms.offline and any(terms.ceilings.values()):
            self.gateway.warm()

    def join(self, held: Held) -> str:
        """Make a model that has arrived a worker, in its roles; return a line that says so."""
        from baton.engine.roles import told

        settings = load(self.paths.config_file)
        roles = appoint(held, self.library, settings, self.paths)
        own = {worker.id: worker for worker in settings.roster}
        entry = own.get(held.id) or LocalSettings(held.id, model=held.id)
        if isinstance(entry, LocalSettings):
            self.orchestra.add(_local(entry, settings, {held.id: held}, self.memory, {}))
        if Role.CHAT in roles:
            self.orchestra.default = held.id
        if Role.CONDUCTOR in roles:
            self.orchestra.conductor = held.id
        return told(held.id, held.record.name, roles)

    async def aclose(self) -> None:
        """Let workers, gateway, money and history go; downloads stop, and can go on later."""
        try:
            await self.library.aclose()
            await self.orchestra.aclose()
            if self.gateway is not None:
                await self.gateway.aclose()
        finally:
            await self.ledger.aclose()
            await self.store.aclose()


def compose(
    settings: Settings,
    paths: Paths,
    *,
    history: bool = True,
    warm: str | None = None,
    only: Collection[str] = (),
) -> Baton:
    """Put everything together; without `history` nothing but money is kept on disk.

    The worker named by `warm` is set loading before anything is imported that takes time, the
    router right after it. With `only`, no other configured worker is used. Raises ConfigError,
    ModelFileError or StoreError.
    """
    memory = Memory(int(settings.local.memory_gb * 1e9))
    stock = library(settings, paths)
    held = _held(stock, paths)
    workers: dict[str, Worker] = dict(_local_workers(settings, held, memory, warm))
    if warm in workers:
        workers[warm].warm()

    router = _router(paths, workers.get(warm or ""))
    if warm is not None:
        router.warm()

    from baton.adapters.ledger import Ledger
    from baton.adapters.store import Store
    from baton.engine.orchestra import Orchestra
    from baton.engine.pacing import Pacing
    from baton.engine.policy import Terms

    ledger = Ledger.open(paths.ledger)
    store = Store.open(paths.database if history else None)
    gateway, outside = _outside_workers(settings, paths, ledger)
    if warm is not None and warm in outside:
        outside[warm].warm()
    workers.update(outside)
    ids = [entry.id for entry in settings.roster if entry.id in workers]
    ids += [name for name in workers if name not in ids]
    if settings.tools:
        from baton.adapters.tools import tools

        workers = {**tools(), **workers}
        ids += [name for name in workers if name not in ids]
    listed = {
        name: workers[name]
        for name in ids
        if not only or name in only or workers[name].card.is_tool
    }
    budget = settings.budget
    terms = Terms(budget.ceilings, budget.policy, settings.mode, settings.offline)
    redactor = None
    if outside and settings.cloud.redact:
        from baton.adapters.redaction import Redaction

        redactor = Redaction(settings.cloud.words)
    orchestra = Orchestra(
        listed, store, settings.worker, ledger=ledger, terms=terms, redactor=redactor
    )
    orchestra.router = router
    orchestra.conductor = settings.conductor
    orchestra.pacer = Pacing(budget.pace, store.weighed if history else None)
    orchestra.skills = skill_table(store if history else None)
    orchestra.templates = partial(_templates, paths)
    if gateway is not None:
        orchestra.on_offline = partial(setattr, gateway, "offline")
    return Baton(orchestra, store, ledger, settings, paths, stock, memory, gateway, router)


def skill_table(store: Store | None) -> SkillTable:
    """Return what workers are good at, by what Baton ships and by that history (None: without)."""
    from baton.adapters.router import shipped
    from baton.adapters.skills import read_scores
    from baton.engine.mastery import RECENT, SkillTable

    own = None if store is None else partial(store.outcomes, RECENT)
    return SkillTable(partial(read_scores, shipped()), own)


def _router(paths: Paths, warm: Worker | None) -> LearnedRouter:
    """Return the learned router; while that worker loads, nobody waits for a router that does."""
    from baton.adapters.router import LearnedRouter, learned_file

    router = LearnedRouter(learned=learned_file(paths.data))
    if isinstance(warm, LocalWorker):
        router.beside(lambda: warm.loading)
    return router


def _templates(paths: Paths) -> Mapping[str, Template]:
    from baton.adapters.templates import read_templates

    return read_templates(paths.config / "templates")


def library(settings: Settings, paths: Paths) -> Library:
    """Return the models on this machine, and the way others come to it; nothing is read yet."""
    from baton.adapters.catalogue import read_catalogue
    from baton.adapters.downloads import HubSupply
    from baton.adapters.shelf import FolderShelf
    from baton.engine.library import Library

    return Library(
        FolderShelf(paths.models),
        HubSupply(),
        partial(read_catalogue, paths.config / "catalogue.toml"),
        partial(_machine, paths.models),
        context=settings.local.context,
        offline=settings.offline,
    )


async def _machine(folder: Path) -> Machine:
    """Look this machine up, with the GPUs that llama.cpp can use: in a thread, as it may take."""
    import asyncio

    from baton.adapters.hardware import machine
    from baton.adapters.local import gpus

    return await asyncio.to_thread(machine, folder, await gpus())


def _held(stock: Library, paths: Paths) -> Mapping[str, Held]:
    """Return the models that can be used, by id."""
    if not paths.models.is_dir():
        return {}
    return {held.id: held for held in stock.models() if held.state.usable}


def appoint(held: Held, stock: Library, settings: Settings, paths: Paths) -> tuple[Role, ...]:
    """Give a model that has arrived its roles in the settings; return them."""
    from baton.engine.roles import changes, holders, taken

    having = holders(settings.worker, settings.conductor, settings.prefer)
    roles = taken(held.record.roles, stock.suited(held.id), having)
    if roles:
        write(paths.config_file, changes(held.id, roles))
    return roles


def _local_workers(
    settings: Settings, held: Mapping[str, Held], memory: Memory, warm: str | None
) -> Mapping[str, LocalWorker]:
    own = [worker for worker in settings.roster if isinstance(worker, LocalSettings)]
    named = {worker.id for worker in settings.roster}
    workers: dict[str, LocalWorker] = {}
    loaded: dict[Loading, LocalWorker] = {}
    for worker in (*own, *(LocalSettings(id, model=id) for id in held if id not in named)):
        try:
            workers[worker.id] = _local(worker, settings, held, memory, loaded)
        except ModelFileError:  # a starter model that isn't installed is missed only when wanted
            if worker.id == (warm or settings.worker):
                raise
    return workers


def _local(
    worker: LocalSettings,
    settings: Settings,
    held: Mapping[str, Held],
    memory: Memory,
    loaded: dict[Loading, LocalWorker],
) -> LocalWorker:
    """Return a worker; beside another in `loaded` that loads the same model in the same way."""
    model = _model_of(held[worker.model]) if worker.model in held else find_model(worker.model)
    local = settings.local
    card = replace(
        model.card,
        id=worker.id,
        context=_first(worker.context, local.context),
        max_output=_first(worker.max_output, model.card.max_output),
        system=model.card.system if worker.system is None else worker.system,
        skills=_skills(worker),
    )
    threads = _first(worker.threads, local.threads)
    gpu_layers = _first(worker.gpu_layers, local.gpu_layers)
    kv = worker.kv or local.kv
    loading = (model.path, card.context, threads, gpu_layers, kv, worker.force)
    manner = _manner(worker, model)
    if loading in loaded:
        return loaded[loading].beside(card, manner)
    loaded[loading] = LocalWorker(
        card,
        model.path,
        memory,
        manner=manner,
        threads=threads,
        gpu_layers=gpu_layers,
        kv=kv,
        force=worker.force,
        idle_seconds=local.idle_minutes * 60,
    )
    return loaded[loading]


def _manner(worker: LocalSettings, model: ModelFile) -> Manner:
    """Return how a worker writes: as its settings say, else as suits the model."""
    temperature = model.temperature if worker.temperature is None else worker.temperature
    return Manner(
        temperature,
        top_p=worker.top_p,
        top_k=worker.top_k,
        min_p=worker.min_p,
        repeat_penalty=worker.repeat_penalty,
        seed=worker.seed,
        thinking=worker.thinking,
        adapter=Path(worker.adapter).expanduser().absolute() if worker.adapter else None,
        adapter_scale=worker.adapter_scale,
    )


def _model_of(held: Held) -> ModelFile:
    """Return a model of the library as a worker's model."""
    record = held.record
    card = Card(
        held.id,
        "local",
        record.name,
        size=record.size,
        licence=record.licence,
        model=record.file.removesuffix(".gguf"),
    )
    return ModelFile(held.path, card)


def _outside_workers(
    settings: Settings, paths: Paths, ledger: Ledger
) -> tuple[Gateway | None, Mapping[str, Worker]]:
    """Return the workers that aren't this machine's own, and the gateway they share."""
    entries = [worker for worker in settings.roster if not isinstance(worker, LocalSettings)]
    if not entries:
        return None, {}
    from baton.adapters.cloud import CloudWorker, Gateway

    cloud = settings.cloud
    gateway = Gateway(
        ledger.sent,
        keys_file=paths.keys_file,
        proxy=cloud.proxy,
        effort=cloud.effort,
        offline=settings.offline,
        environ=dict(os.environ),  # the app takes the keys out of its own
    )
    return gateway, {
        entry.id: CloudWorker(
            card_of(entry),
            gateway,
            base_url=entry.base_url,
            api_key_env=entry.api_key_env,
            temperature=entry.temperature,
        )
        for entry in entries
    }


def card_of(entry: CloudSettings | ServerSettings) -> Card:
    """Return what is known of a worker elsewhere before it was ever called."""
    from baton.adapters.prices import facts, price_of

    cloud = isinstance(entry, CloudSettings)
    provider, _, name = entry.model.partition("/") if cloud else ("server", "", entry.model)
    known = facts(entry.model) if cloud else None
    privacy = privacy_of(entry)
    # What a provider's model costs somewhere else is not in any list.
    listed = entry.model if cloud and not entry.base_url else ""
    price = price_of(listed, entry.price)
    if price is None and privacy is Label.LOCAL and _travels(entry) is Label.LOCAL:
        price = FREE  # this machine's own electricity
    card = Card(
        entry.id,
        "cloud" if cloud else "server",
        name or entry.model,
        privacy=privacy,
        context=entry.context or (known.context if known else 0),
        max_output=_least(entry.max_output, known.max_output if known else 0),
        price=price,
        provider=provider,
        model=entry.model,
        # Ollama may forward under any name, which only the person's `privacy` tells.
        remote=(privacy, _travels(entry)) != (Label.LOCAL, Label.LOCAL),
        slots=entry.slots,
        skills=_skills(entry),
    )
    return card if entry.system is None else replace(card, system=entry.system)


def _skills(entry: LocalSettings | CloudSettings | ServerSettings) -> dict[str, float]:
    return {str(kind): level for kind, level in entry.skills.items()}


def privacy_of(entry: CloudSettings | ServerSettings) -> Label:
    """Return which texts that worker may see: what was set, else how far they travel to it."""
    if isinstance(entry, ServerSettings) and entry.privacy is not None:
        return entry.privacy
    return _travels(entry)


def _travels(entry: CloudSettings | ServerSettings) -> Label:
    """Return how far a text really travels.

    An engine on this machine that forwards to a cloud, as Ollama does for its `:cloud` models, is
    one.
    """
    forwarded = ":" in entry.model and entry.model.lower().endswith("cloud")
    if isinstance(entry, CloudSettings) or forwarded:
        return Label.CLOUD
    return reach(entry.base_url)


def _doubts(entry: CloudSettings | ServerSettings) -> str:
    """Say what is odd about a worker's privacy, in a sentence, or return ""."""
    label, travels = privacy_of(entry), _travels(entry)
    if label.allows(travels):
        return ""
    return f"The worker {entry.id!r} is set to {label}, but what it is sent travels to: {travels}."


def _least(wanted: int, possible: int) -> int:
    return min(wanted, possible) if possible else wanted


def _first(own: int | None, shared: int) -> int:
    return shared if own is None else own
