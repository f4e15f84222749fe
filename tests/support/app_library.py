"""A library for the app's tests: a real models folder, a source that does what the test says."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from baton.core.catalogue_types import (
    CatalogueEntry,
    ModelOffer,
    ModelRole,
    Source,
    ThinkingMode,
    arrival_text,
    role_holders,
    roles_on_arrival,
)
from baton.core.errors import BatonError
from baton.core.machine import Hardware
from baton.core.messages import Card
from baton.core.run.orchestra import Orchestra
from baton.download.hub_source import HubSource
from baton.download.messages import Phase, Progress
from baton.gguf.header import Header
from baton.gguf.memory_fit import Fit, FitVerdict, ModelLoad
from baton.models.library import Library
from baton.models.ports import ExternalModel, FileStamp, LibraryModel, ModelRecord
from baton.models.recommendation import Pick, Recommendation
from baton.models.store import FolderModelStore
from baton.workers.scripted_worker import Script, ScriptedWorker, echo_script
from support.app_session import AppSession, open_app

GB = 10**9
HEADER = Header(
    "llama", layers=8, kv_heads=(2,) * 8, windowed=(False,) * 8, key_length=64, value_length=64
)
MACHINE = Hardware(16 * 2**30, 12 * 2**30, 8, 16, "A processor", disk=84 * GB)
STEPS = 10
"""In how many pieces a file comes."""


def entry(
    id: str, name: str, size: int, *roles: ModelRole, licence: str = "apache-2.0"
) -> CatalogueEntry:
    """Return an entry of the catalogue, for a file that is as small as the test wants."""
    data = contents(id)
    return CatalogueEntry(
        id,
        name,
        Source(f"acme/{name.replace(' ', '-')}", f"{id}.gguf", "a" * 40),
        size,
        hashlib.sha256(data).hexdigest(),
        licence,
        parameters=size * 2,
        context=32_768,
        kv_bytes=12_288,
        roles=roles,
        skills={"code": 3.0, "chat": 3.5},
        thinking=ThinkingMode.SWITCH,
        note=f"{name} knows a lot.",
    )


def contents(id: str) -> bytes:
    """Return what the file of that entry holds."""
    return f"GGUF {id}".encode()


SCOUT = entry("scout-2b", "Scout 2B", 1_300_000_000, ModelRole.CONDUCTOR)
TALKER = entry("talker-9b", "Talker 9B", 5_700_000_000, ModelRole.CHAT)
CODER = entry("coder-7b", "Coder 7B", 4_700_000_000, ModelRole.CODER)
GATED = entry("gated-4b", "Gated 4B", 2_500_000_000, ModelRole.CHAT, licence="gemma")
HUGE = entry("huge-70b", "Huge 70B", 42_000_000_000, ModelRole.CHAT)
ENTRIES = (SCOUT, TALKER, CODER, GATED, HUGE)


class ScriptedModelSource(HubSource):
    """Brings files piece by piece; `hold` keeps them from continuing, `errors` makes them fail."""

    def __init__(self) -> None:
        super().__init__(environ={})
        self.going = asyncio.Event()
        self.going.set()
        self.errors: dict[str, BatonError] = {}
        self.wrong: set[str] = set()
        self.begun: list[str] = []
        self.stopped: list[str] = []
        self.looked: list[Source] = []
        self.speed = 12e6

    def hold(self) -> None:
        """Let nothing come any more, once it is half there."""
        self.going.clear()

    async def look_up(self, source: Source) -> ModelOffer:
        """Offer every file that is asked for."""
        self.looked.append(source)
        self._fail(source.file)
        data = contents(source.file.removesuffix(".gguf"))
        return ModelOffer(source, len(data), hashlib.sha256(data).hexdigest(), "mit")

    async def list_files(self, repo: str, revision: str = "") -> Sequence[ModelOffer]:
        """Offer one file per repository."""
        name = repo.partition("/")[2].lower()
        return [await self.look_up(Source(repo, f"{name}-Q4_K_M.gguf", "b" * 40))]

    async def read_header(self, offer: ModelOffer) -> Header:
        """Say the same of every file."""
        return HEADER

    async def fetch(self, offer: ModelOffer, target: Path) -> AsyncGenerator[Progress | str]:
        """Bring a file in so many steps."""
        id = target.parent.name
        self.begun.append(id)
        try:
            async for progress in self._scripted_steps(id, offer.size, Phase.DOWNLOADING):
                yield progress
            _write_file(target, contents(id))
            yield hashlib.sha256(contents(id)).hexdigest()
        except (asyncio.CancelledError, GeneratorExit):
            self.stopped.append(id)
            raise

    async def copy(
        self, source: Path, target: Path, sha256: str = ""
    ) -> AsyncGenerator[Progress | str]:
        """Copy a file at once."""
        _write_file(target, _read_file(source))
        yield hashlib.sha256(_read_file(target)).hexdigest()

    async def hash_file(self, path: Path) -> AsyncGenerator[Progress | str]:
        """Read a file, unless it is to be found wrong."""
        self._fail(path.name)
        data = b"wrong" if path.name in self.wrong else _read_file(path)
        async for progress in self._scripted_steps(path.name, len(data), Phase.VERIFYING):
            yield progress
        yield hashlib.sha256(data).hexdigest()

    async def aclose(self) -> None:
        """Nothing is held."""

    async def _scripted_steps(self, name: str, size: int, phase: Phase) -> AsyncGenerator[Progress]:
        for step in range(STEPS):
            done = size * step // STEPS
            yield Progress(phase, done, size, self.speed, (size - done) / self.speed)
            if step >= 4:
                await self.going.wait()
                self._fail(name)
            await asyncio.sleep(0)

    def _fail(self, name: str) -> None:
        if name in self.errors:
            raise self.errors[name]


def _write_file(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _read_file(path: Path) -> bytes:
    return path.read_bytes()


class ScriptedModelStore(FolderModelStore):
    """The real one; what other programs have is as the test says."""

    others: Sequence[ExternalModel] = ()

    def external_models(self) -> Sequence[ExternalModel]:
        """Return those that aren't linked yet."""
        linked = {held.record.link for held in self.models()}
        return [one for one in self.others if str(one.path) not in linked]


class ScriptedLibrary(Library):
    """The real one; what it finds of the machine is as the test says."""

    picks: tuple[Pick, ...] = ()
    asked: list[float | None]

    async def verdict(self, id: str) -> FitVerdict:
        """Judge as for the catalogue."""
        return verdict_of(self.entries().get(id))

    def verdicts(self, machine: Hardware) -> Mapping[str, FitVerdict]:
        """Judge by size alone."""
        return {id: verdict_of(one) for id, one in self.entries().items()}

    async def recommend(self, speed: float | None = None) -> Recommendation:
        """Return the picks, with a speed once that is known."""
        self.asked.append(speed)
        here = {held.id for held in self.models() if held.state.is_usable}
        picks = tuple(
            replace(pick, speed=speed and speed / 10, here=pick.entry.id in here)
            for pick in self.picks
        )
        download = sum(pick.entry.size for pick in picks if not pick.here)
        return Recommendation(picks, download, 9 * GB, verdict_of(TALKER), "Because.")


def verdict_of(one: CatalogueEntry | None) -> FitVerdict:
    """Judge a model by its size alone."""
    if one is not None and one.size > 12 * GB:
        why = "It needs 46.0 GB, and 12.9 GB can be used."
        return FitVerdict(Fit.WONT, 46 * GB, 13 * GB, why, "A smaller one fits.")
    return FitVerdict(Fit.FITS, 3 * GB, 13 * GB, "It needs 3.0 GB of the 12.9 GB that can be used.")


@dataclass
class LibrarySetup:
    """A library, and what was done with it."""

    library: ScriptedLibrary
    model_store: ScriptedModelStore
    model_source: ScriptedModelSource
    state: Path
    script: Script = echo_script
    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    conductor: str = ""

    def equip(self, orchestra: Orchestra) -> Mapping[str, Any]:
        """Return the services that the app needs of the library."""
        orchestra._on_offline = lambda offline: setattr(self.library, "offline", offline)

        def add_model(held: LibraryModel) -> str:
            self.joined.append(held.id)
            card = Card(held.id, "local", held.record.name, context=8192, size=held.record.size)
            orchestra.add(ScriptedWorker(self.script, card))
            having = role_holders(orchestra.default, self.conductor, {})
            suited = self.library.suitable_roles(held.id)
            takes = roles_on_arrival(held.record.roles, suited, having)
            assign(held.id, takes)
            return arrival_text(held.id, card.name, takes, suited)

        def assign(worker: str, roles: Sequence[ModelRole]) -> str:
            if ModelRole.CHAT in roles:
                orchestra.configure(default=worker)
            if ModelRole.CONDUCTOR in roles:
                self.conductor = worker
            return arrival_text(worker, orchestra.worker(worker).card.name, roles)

        async def remove_worker(worker: str) -> None:
            self.left.append(worker)
            await orchestra.dismiss(worker)

        return {
            "library": self.library,
            "add_model": add_model,
            "assign": assign,
            "remove_worker": remove_worker,
            "roles": lambda: role_holders(orchestra.default, self.conductor, {}),
            "state": self.state,
        }

    def put(self, one: CatalogueEntry, *, here: bool = True, **changes: Any) -> LibraryModel:
        """Have a model in the library: all of it, or a part."""
        record = ModelRecord(
            one.id, one.name, f"{one.id}.gguf", one.source, one.size, one.sha256, one.licence
        )
        record = replace(record, roles=one.roles, **changes)
        held = self.model_store.save(record)
        if here:
            held.path.write_bytes(contents(one.id))
            status = held.path.stat()
            held = self.model_store.save(
                replace(record, stamp=FileStamp(status.st_size, status.st_mtime_ns))
            )
        return held

    def get(self, id: str) -> LibraryModel:
        """Return a model as it stands now."""
        return self.library.get(id)


def new_library_setup(folder: Path, script: Script = echo_script) -> LibrarySetup:
    """Return a library with no models."""
    store, source = ScriptedModelStore(folder / "models", {}), ScriptedModelSource()

    async def look() -> Hardware:
        return MACHINE

    library = ScriptedLibrary(store, source, lambda: ENTRIES, look)
    library.asked = []
    load = ModelLoad("x", GB, GB, 8192, GB)
    library.picks = (
        Pick(SCOUT, (ModelRole.CONDUCTOR,), load),
        Pick(TALKER, (ModelRole.CHAT,), load),
    )
    return LibrarySetup(library, store, source, folder / "state", script)


def open_app_with_library(
    library_setup: LibrarySetup, folder: Path, *scripts: Script, **options: Any
) -> AbstractAsyncContextManager[AppSession]:
    """Open the app with this library."""
    return open_app(folder, *scripts, equip=library_setup.equip, **options)
