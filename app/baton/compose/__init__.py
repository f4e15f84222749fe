"""Settings become adapters, and adapters an Orchestra: the only place where all parts meet."""

from __future__ import annotations

import threading
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from baton.compose import background
from baton.compose.local_workers import NOTHING_HERE, LocalWorkers, library
from baton.compose.remote_workers import RemoteWorkers, card_of, entry_warning, find_host_models
from baton.core.catalogue_types import (
    RULE_CONDUCTOR,
    STARTER_ID,
    ModelRole,
    arrival_text,
    configured_roles,
    role_holders,
    roles_on_arrival,
    settings_for_roles,
    settings_without_model,
)
from baton.core.errors import ConfigError, ModelFileError, StoreError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label
from baton.core.messages import Card
from baton.core.sanitiser import one_line
from baton.models.ports import LibraryModel, ModelState
from baton.platform.durable_files import make_folder, replace_file
from baton.platform.import_stubs import import_without
from baton.platform.settings import (
    LocalWorkerSettings as LocalSettings,
    Settings,
    ceiling_variables,
    configured_values,
    load_settings,
    write_settings,
)
from baton.workers.local import LocalWorker, read_model_header

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from baton.compose.worker_entries import AddOptions
    from baton.core.ledger_types import Scope
    from baton.core.planning.request_parts import TrainedConductor
    from baton.core.planning.skill_table import SkillTable
    from baton.core.ports import Template, Worker
    from baton.core.run.orchestra import Orchestra
    from baton.history import Store
    from baton.ipc.borrower import Borrower
    from baton.models.library import Library
    from baton.money import Ledger
    from baton.platform.paths import Paths
    from baton.routing import LearnedRouter

__all__ = [
    "NOTHING_HERE",
    "Baton",
    "answering_card",
    "appoint",
    "card_of",
    "compose",
    "find_host_models",
    "is_ledger_lost",
    "library",
    "open_ledger",
    "skill_table",
]


_changing = threading.Lock()
"""Held while a model takes its roles: others that arrive meanwhile see who has them."""


@frozen_dataclass
class Baton:
    """All parts, put together."""

    orchestra: Orchestra
    store: Store
    ledger: Ledger
    settings: Settings
    paths: Paths
    library: Library
    local: LocalWorkers
    remote: RemoteWorkers
    router: LearnedRouter | None = None
    missed: str | None = None

    @property
    def warning(self) -> str:
        """What the user must know about how history and ledger were found, or "".

        A ledger that can't be opened is an error only where one is needed. What is said of the
        default worker is said by the first who asks.
        """
        remote = (one for one in self.settings.roster if not isinstance(one, LocalSettings))
        odd = map(entry_warning, remote)
        money = ""
        with suppress(StoreError):
            money = self.ledger.warning
        routing = self.router.warning if self.router is not None else ""
        missed = _said_once(self.paths, self.missed)
        found = (missed, self.store.warning, money, *odd, *self._missed(), routing)
        return " ".join(filter(None, found))

    def _missed(self) -> Iterator[str]:
        """Name the workers that the settings prefer for a kind of task, and that are not there."""
        known = {card.id for card in self.orchestra.roster}
        known |= {worker.id for worker in self.settings.roster}
        for kind, worker in self.settings.prefer.items():
            if worker not in known:
                yield f"The worker {worker!r}, preferred for {kind}, isn't there."

    def stand_in(self) -> str:
        """Have the starter answer if whom the settings name isn't there; return what to say of it.

        So the app opens, where that can be fixed, also when the models' folder was lost.
        """
        known = {card.id for card in self.orchestra.roster}
        wanted, absent = self.orchestra.default, self.orchestra.absent
        other = next(iter(_stand_ins(self.local.here)), STARTER_ID if STARTER_ID in absent else "")
        if wanted in known or wanted in absent or not other:
            return ""
        self.orchestra.configure(default=other)
        answers = f", so {other} answers" if other in known else ""
        return f"There is no worker {wanted!r} (the setting `worker`) any more{answers}."

    def require_conductor(self) -> None:
        """Refuse to answer where the settings name a conductor that isn't there: ConfigError."""
        named = self.settings.conductor
        known = [*(card.id for card in self.orchestra.roster), *self.orchestra.absent]
        if named in ("", RULE_CONDUCTOR, *known) or named in {
            held.id for held in self.library.models()
        }:
            return
        import difflib

        near = difflib.get_close_matches(named, known, n=1)
        raise ConfigError(
            f"There is no worker {one_line(named)!r} (the setting `conductor`).",
            f"Did you mean {near[0]!r}?" if near else "`baton models role` shows who could do it.",
        )

    def report_later(self, report: Callable[[str], object]) -> None:
        """Report what turns out only later: that the router can't be used."""
        if self.router is not None:
            self.router.on_warning = report

    def warm_cloud(self) -> None:
        """Start the gateway ahead of its first call, if there can be one that costs money."""
        terms = self.orchestra.terms
        gateway = self.remote.gateway
        if gateway is not None and not terms.offline and any(terms.ceilings.values()):
            gateway.warm()

    def add_model(self, held: LibraryModel) -> str:
        """Make a model that has arrived a worker, in its roles; return a line that says so."""
        with _changing:  # others arrive in other threads
            file = self.paths.config_file
            configured = configured_roles(configured_values(file))
            # What a recommendation wants for a model is not a reason to take a role set by hand.
            wanted = tuple(role for role in held.record.roles if role not in configured)
            held = replace(held, record=replace(held.record, roles=wanted))
            roles = appoint(held, self.library, load_settings(file), self.paths)
            for worker in self.local.workers_of(held).values():
                self.orchestra.add(worker)
            self._follow_settings(held.id, roles)
        suited, fault = self.library.suitable_roles(held.id), held.record.fault
        line = arrival_text(held.id, held.record.name, roles, suited, fault=fault)
        return line if fault else f"{line} {held.record.note}".strip()

    def _follow_settings(self, worker: str, roles: Collection[ModelRole]) -> None:
        """Configure the orchestra as the settings are now."""
        orchestra = self.orchestra
        if ModelRole.CHAT in roles or orchestra.default in orchestra.absent:
            orchestra.configure(default=worker)  # no other worker could answer
        if ModelRole.CONDUCTOR in roles:
            orchestra.configure(conductor=worker)
        orchestra.configure(prefer=load_settings(self.paths.config_file).prefer)

    def roles(self) -> Mapping[ModelRole, str]:
        """Return who has which role now, "" where Baton chooses."""
        now = self.orchestra
        prefer = {str(kind): worker for kind, worker in now.services.prefer.items()}
        return role_holders(now.default, now.services.conductor, prefer)

    def assign(self, worker: str, roles: Collection[ModelRole]) -> str:
        """Give a worker roles, in the settings and at once; return a line that says so."""
        with _changing:
            write_settings(self.paths.config_file, settings_for_roles(worker, roles))
            self._follow_settings(worker, roles)
        return arrival_text(worker, self.orchestra.worker(worker).card.name, roles)

    def connect(
        self, target: str, options: AddOptions, key: str = "", *, is_plain: bool = False
    ) -> str:
        """Add a worker at a provider or an address, from the next prompt on; return a line.

        It goes into the settings file, with the same checks as `baton workers add`. The key is kept
        first: in the keyring, or as plain text in the file of keys. May take seconds. Raises
        NoKeyring and ConfigError; then no worker was added.
        """
        from baton.compose.worker_entries import add_worker
        from baton.platform import secrets
        from baton.workers.cloud import provider_model

        provider = target.partition("/")[0]
        if key and "://" not in target:
            provider_model(target)  # raises for a provider that has another name, or isn't asked
        if key and provider not in secrets.PROVIDERS:
            raise ConfigError(
                "A key goes to a provider only, as in openai/gpt-5-mini.",
                "For a server with a key, `api_key_env` in config.toml names its variable.",
            )
        if key:
            secrets.save_key(provider, key, file=self.paths.keys_file if is_plain else None)
        with _changing:
            file = self.paths.config_file
            flags = {"offline": True} if self.orchestra.terms.offline else {}
            added = add_worker(target, load_settings(file, flags=flags), file, options)
            id = str(added.entry["id"])
            entry = next(one for one in load_settings(file).roster if one.id == id)
            assert not isinstance(entry, LocalSettings)
            if self.orchestra.services.redactor is None:
                self.orchestra.configure(redactor=self.remote.redaction())
            self.orchestra.add(self.remote.worker(entry))
        card = self.orchestra.worker(id).card
        return f"{card.name} is a worker from now on, called {id}."

    async def remove_worker(self, worker: str) -> None:
        """Let a worker go whose model is about to be removed, and its roles with it."""
        settings = load_settings(self.paths.config_file)
        having = role_holders(settings.worker, settings.conductor, settings.prefer)
        if gone := settings_without_model(worker, having):
            write_settings(self.paths.config_file, gone)
        orchestra = self.orchestra
        await orchestra.dismiss(worker)
        if orchestra.default == worker and STARTER_ID in orchestra.absent:
            orchestra.configure(default=STARTER_ID)
        if orchestra.services.conductor == worker:
            orchestra.configure(conductor="")
        orchestra.configure(prefer=load_settings(self.paths.config_file).prefer)

    def keep_models_loaded(self) -> str:
        """Hand what is loaded over to a background process, if one may be started here.

        Returns what the user must know of that, or "".
        """
        if not background.may_start(self.settings, self.paths):
            return ""
        routers = [] if self.router is None else [self.router.release()]
        released = [*self.local.release(), *(child for child in routers if child is not None)]
        if not released:
            return ""
        return background.hand_over(released, self.settings, self.paths)

    async def share_models(self) -> None:
        """Have the models lent to others as long as this process uses them.

        What is loaded here and answers nothing is let go, and loaded again where all can use it.
        """
        import asyncio

        await asyncio.to_thread(background.share, self.settings, self.paths, stays=False)
        if background.borrower(self.settings, self.paths) is None:
            return
        self.local.unload_idle()
        if default := self.local.here.get(self.orchestra.default):
            default.warm()

    def end_models(self) -> None:
        """End what holds models at once, without waiting until it is gone: 50 ms for its memory."""
        self.local.end()
        if self.router is not None:
            self.router.end()

    async def aclose(self) -> None:
        """Let workers, gateway, money and history go; downloads stop, and can be resumed later.

        Each is let go even if one before it fails to. Raises what went wrong last.
        """
        async with AsyncExitStack() as closing:  # the last one named goes first
            for part in (self.store, self.ledger, self.remote, self.orchestra, self.library):
                closing.push_async_callback(part.aclose)


def compose(
    settings: Settings,
    paths: Paths,
    *,
    history: bool = True,
    warm: str | None = None,
    label: Label = Label.CLOUD,
    only: Collection[str] = (),
    borrow: bool = True,
) -> Baton:
    """Put everything together; without `history` nothing but money is kept on disk.

    The worker named by `warm` is set loading before anything is imported that takes time, the
    router right after it; a remote one only if it may see texts of this `label`. With `only`, no
    other configured worker is used. Without `borrow`, no model of the background process is used.
    Raises ConfigError or StoreError.
    """
    stock = library(settings, paths)
    find_borrower = partial(background.borrower, settings, paths) if borrow else lambda: None
    local = LocalWorkers(settings, stock, find_borrower)
    workers: dict[str, Worker] = dict(local.all(warm or settings.worker))
    missed: str | None
    default, missed = _default_worker(settings, local, stock)
    if warm == settings.worker:
        warm = default
    elif warm is not None:
        missed = None  # another was asked for
    if warm in workers:
        workers[warm].warm()

    router = _router(workers.get(warm or ""), find_borrower)
    if warm is not None:
        router.warm()

    import_without("ssl", "asyncio")  # only child processes talk to the world
    from baton.core.catalogue_types import RULE_CONDUCTOR
    from baton.core.permissions import RunTerms
    from baton.core.run.orchestra import Orchestra
    from baton.core.run.run_context import Services
    from baton.core.spending.pace_controller import Pacing
    from baton.history import Store

    ledger = open_ledger(paths)
    store = Store(paths.database if history else None)
    away = RemoteWorkers(settings, paths, ledger)
    remote = {
        entry.id: away.worker(entry)
        for entry in settings.roster
        if not isinstance(entry, LocalSettings)
    }
    if warm is not None and warm in remote and label.allows(remote[warm].card.privacy):
        remote[warm].warm()
    workers.update(remote)
    ids = [entry.id for entry in settings.roster if entry.id in workers]
    ids += [name for name in workers if name not in ids]
    trained = None
    if settings.tools:
        from baton.workers.tools import build_tools

        workers = {**build_tools(), **workers}
        trained = None if settings.conductor == RULE_CONDUCTOR else _trained(local, workers)
        ids += [name for name in workers if name not in ids]
    listed = {
        name: workers[name]
        for name in ids
        if not only or name in only or workers[name].card.is_tool
    }
    budget = settings.budget
    terms = RunTerms(budget.ceilings, budget.policy, settings.mode, settings.offline, budget.wait)
    services = Services(
        listed,
        store,
        ledger,
        away.redaction() if remote else None,
        router,
        templates=partial(_templates, paths),
        pacer=Pacing(budget.pace, store.runs.weighings if history else None),
        skills=skill_table(store if history else None),
        trained=trained,
        conductor=settings.conductor,
        prefer=settings.prefer,
    )
    orchestra = Orchestra(
        services,
        default,
        terms,
        absent=local.absent,
        on_offline=partial(_go_offline, stock, away),
        suggest=partial(_suggest_model, paths),
    )
    return Baton(orchestra, store, ledger, settings, paths, stock, local, away, router, missed)


def _trained(local: LocalWorkers, workers: Mapping[str, Worker]) -> TrainedConductor | None:
    """Return the conductor that comes with Baton, where the starter model is here."""
    from baton.core.planning.request_parts import TrainedConductor
    from baton.workers.tools import RequestReader, ToolWorker

    worker = local.conductor()
    toolboxes = [tool.toolbox for tool in workers.values() if isinstance(tool, ToolWorker)]
    if worker is None or not toolboxes:
        return None
    return TrainedConductor(worker, RequestReader(toolboxes[0]))


def open_ledger(paths: Paths) -> Ledger:
    """Begin to open this user's ledger, and all that would remember a lost one."""
    from baton.money import Ledger

    return Ledger(
        paths.ledger,
        records=paths.ledger_records,
        history=paths.database,
        reread=partial(_ceilings, paths.config_file),
        bounds=ceiling_variables(),
    )


def is_ledger_lost(paths: Paths) -> bool:
    """Whether there is no ledger though there was one: the next to open it finds it frozen."""
    from baton.money.ledger_file import LedgerRecords

    memory = LedgerRecords(paths.ledger, paths.ledger_records, paths.database)
    return memory.recall_records().past and not paths.ledger.exists()


def _ceilings(file: Path) -> Mapping[Scope, int]:
    """Return the ceilings in the settings; a file that can't be read now was read before."""
    try:
        return load_settings(file).budget.ceilings
    except ConfigError:
        return {}


def _default_worker(settings: Settings, local: LocalWorkers, stock: Library) -> tuple[str, str]:
    """Return who answers, and what the user must know of it, or "".

    While the model that should can't, because its file is broken, gone, or not all here yet,
    another does: else nothing could be asked, nor anything fixed in the app.
    """
    wanted, others = settings.worker, _stand_ins(local.here)
    listed = any(entry.id == wanted for entry in settings.roster) and wanted not in local.absent
    if listed or wanted in local.here or not others:
        return wanted, ""
    if wanted in local.absent:
        return others[0], ""  # the starter, without which this Baton came
    held = {held.id: held for held in stock.models()}.get(wanted)
    if held is None:
        return wanted, ""
    why = f"is {held.state}" if held.state is not ModelState.COMING else "isn't all here yet"
    if held.record.fault:
        why = "can't answer"
    other = others[0]
    return other, f"{wanted} {why}, so {other} answers; `baton models show {wanted}` says more."


def _said_once(paths: Paths, missed: str | None) -> str:
    """Return what is to be said of a default worker that can't answer: "" if it was before.

    Once it can, or another can't, that is news again. None is for a worker that isn't asked.
    """
    if missed is None:
        return ""
    file = paths.state / "missed-worker"
    with suppress(OSError, UnicodeError):
        if not missed:
            file.unlink(missing_ok=True)
        elif file.is_file() and file.read_text("utf-8") == missed:
            return ""
        else:
            make_folder(file.parent)
            replace_file(file, missed)
    return missed


def answering_card(settings: Settings, paths: Paths) -> tuple[Card, int]:
    """Return what is known of the default worker; no model is loaded.

    Beside it stands how many tokens its model can read at most (0: unknown).
    """
    stock = library(settings, paths)
    local = LocalWorkers(settings, stock)
    here = local.all(settings.worker)
    name, _ = _default_worker(settings, local, stock)
    if worker := here.get(name):
        most = 0
        with suppress(ModelFileError):  # said when it is loaded
            most = read_model_header(worker.model.path).context
        return worker.card, most
    remote = {entry.id: entry for entry in settings.roster if not isinstance(entry, LocalSettings)}
    return (card_of(remote[name]) if name in remote else Card(name, "local", name)), 0


def _stand_ins(here: Mapping[str, LocalWorker]) -> list[str]:
    """Return who could answer instead of another: the starter first, then the largest."""
    return sorted(here, key=lambda id: (id != STARTER_ID, -here[id].card.size))


def _suggest_model(paths: Paths, name: str) -> str:
    """Say which model can be meant by a name that no worker has, or return ""."""
    from baton.models.catalogue import read_catalogue
    from baton.workers.cloud import did_you_mean, full_names

    if name in {entry.id for entry in read_catalogue(paths.config / "catalogue.toml")}:
        return f"`baton models pull {name}` fetches the model of that name."
    return did_you_mean(full_names(name))


def _go_offline(stock: Library, away: RemoteWorkers, offline: bool) -> None:
    stock.offline = offline
    away.go_offline(offline)


def skill_table(store: Store | None) -> SkillTable:
    """Return what workers are good at, by what Baton ships and by that history (None: without)."""
    from baton.core.planning.skill_table import MAX_RECENT_ANSWERS, SkillTable
    from baton.routing import read_scores, shipped_folder

    own = None if store is None else partial(store.feedback.outcomes, MAX_RECENT_ANSWERS)
    return SkillTable(partial(read_scores, shipped_folder()), own)


def _router(warm: Worker | None, find_borrower: Callable[[], Borrower | None]) -> LearnedRouter:
    """Return the learned router; while that worker loads, prompts wait for the router as well."""
    from baton.routing import LearnedRouter

    router = LearnedRouter(find_borrower=find_borrower)
    if isinstance(warm, LocalWorker):
        router.wait_while(lambda: warm.loading)
    return router


def _templates(paths: Paths) -> Mapping[str, Template]:
    from baton.workers.template_files import read_templates

    return read_templates(paths.config / "templates")


def appoint(
    held: LibraryModel, stock: Library, settings: Settings, paths: Paths
) -> tuple[ModelRole, ...]:
    """Give a model that has arrived its roles in the settings; return them."""
    having = role_holders(settings.worker, settings.conductor, settings.prefer)
    suited = stock.suitable_roles(held.id)
    configured = configured_roles(configured_values(paths.config_file))
    roles = roles_on_arrival(held.record.roles, suited, having, configured)
    if held.record.fault:
        return ()
    # Those that are its own already are so again, after it had to be fetched again.
    own = [role for role, holder in having.items() if holder == held.id]
    roles += tuple(role for role in own if role not in roles)
    if roles:
        write_settings(paths.config_file, settings_for_roles(held.id, roles))
    return roles
