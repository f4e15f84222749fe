"""The models on this machine, and what was recommended for it: one way for commands and screen."""

from __future__ import annotations

import json
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baton.core.catalogue_types import STARTER_ID, CatalogueEntry, FilePart, ModelRole
from baton.core.errors import BatonError, ConfigError, ModelFileError
from baton.core.machine import Hardware
from baton.core.messages import DEFAULT_CONTEXT
from baton.core.sanitiser import one_line
from baton.download.messages import Progress
from baton.gguf.memory_fit import (
    Fit,
    FitVerdict,
    ModelLoad,
    estimate_entry_load,
    estimate_load,
    judge_fit,
)
from baton.gguf.split_files import joined_hash, part_paths
from baton.models.ports import (
    DoesNotFit,
    ExternalModel,
    FileStamp,
    LibraryModel,
    ModelRecord,
    ModelState,
)
from baton.models.store.manifest import bundled_record, write_bundle
from baton.models.store.model_store import FolderModelStore, file_stamp
from baton.platform.durable_files import expand_home, make_folder, replace_file

if TYPE_CHECKING:
    from baton.download.hub_source import HubSource
    from baton.models.recommendation import Recommendation
    from baton.models.store.model_store import FolderModelStore

CheckModel = Callable[[Path], Awaitable[str]]
TryModel = Callable[[Path, bool], Awaitable[None]]

_LIST_HINT = "`baton models ls` lists what is here, `baton models ls --all` what could be."
_FETCH_HINT = "`baton models pull` fetches it again, `baton models rm` takes it off the list."


class Library:
    """The models on this machine. ModelDownload and ModelImport bring others to it.

    `entries` reads the catalogue, `inspect_machine` this machine as it is now. `workers` are ids of
    other workers, which no model is given. `check` raises ModelFileError for a file that can't be
    loaded, and returns what is wrong with its chat template; `try_out` has it write a word, and
    raises BatonError if it can't. `memory` holds what was recommended.
    """

    def __init__(
        self,
        model_store: FolderModelStore,
        model_source: HubSource,
        entries: Callable[[], Sequence[CatalogueEntry]],
        inspect_machine: Callable[[], Awaitable[Hardware]],
        *,
        context: int = DEFAULT_CONTEXT,
        offline: bool = False,
        workers: Collection[str] = (),
        check: CheckModel | None = None,
        try_out: TryModel | None = None,
        memory: RecommendationMemory | None = None,
    ) -> None:
        self.model_store = model_store
        self.model_source = model_source
        self.inspect_machine = inspect_machine
        self.context = context
        self.offline = offline
        self.workers = frozenset(workers)
        self._entries = entries
        self._check = check
        self._try_out = try_out
        self.memory = memory or RecommendationMemory(None)

    # What there is

    def models(self) -> Sequence[LibraryModel]:
        """Return the models on this machine, and those on their way."""
        return self.model_store.models()

    def get(self, id: str) -> LibraryModel:
        """Return a model on this machine. Raises ConfigError that names the nearest."""
        if (model := self.model_store.get(id)) is not None:
            return model
        known = [model.id for model in self.models()]
        import difflib

        near = difflib.get_close_matches(id, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "`baton models ls` lists them."
        raise ConfigError(f"There is no model {id!r} on this machine.", hint)

    def entries(self) -> Mapping[str, CatalogueEntry]:
        """Return the catalogue by id."""
        return {entry.id: entry for entry in self._entries()}

    def external_models(self) -> Sequence[ExternalModel]:
        """Return model files of other programs that could be used where they are."""
        return self.model_store.external_models()

    def problems(self) -> Sequence[str]:
        """Return a sentence for each thing in the models folder that can't be read."""
        return self.model_store.problems()

    def suitable_roles(self, id: str) -> tuple[ModelRole, ...]:
        """Return the roles that a model is good for: chat, where nothing else is known."""
        entry = self.entries().get(id)
        return entry.roles if entry is not None else (ModelRole.CHAT,)

    def taken_ids(self) -> dict[str, LibraryModel | None]:
        """Return the ids of the models and of the other workers."""
        others = dict.fromkeys(self.workers | {STARTER_ID})
        return {model.id: model for model in self.models()} | others

    # What fits

    def memory_load(self, path: Path, context: int = 0) -> ModelLoad:
        """Return what a model's file takes of memory once it is loaded. Raises ModelFileError."""
        stamp = file_stamp(path)
        size = stamp.size if stamp is not None else 0
        return estimate_load(self.model_store.read_header(path), size, context or self.context)

    async def verdict(self, id: str) -> FitVerdict:
        """Whether a model (of the catalogue, or here) fits this machine now."""
        if (model := self.model_store.get(id)) is not None and model.state.is_usable:
            return judge_fit([self.memory_load(model.path)], await self.inspect_machine())
        if (entry := self.entries().get(id)) is None:
            raise ConfigError(f"There is no model {id!r}.", "`baton models ls --all` lists all.")
        return judge_fit([estimate_entry_load(entry, self.context)], await self.inspect_machine())

    def verdicts(self, machine: Hardware) -> Mapping[str, FitVerdict]:
        """Return for every model of the catalogue whether it fits such a machine by itself."""
        idle = idle_machine(machine)
        return {
            id: judge_fit([estimate_entry_load(entry, self.context)], idle)
            for id, entry in self.entries().items()
        }

    async def needs_force(self, load: ModelLoad, force: bool) -> bool:
        """Whether a model is too large for this machine. Raises DoesNotFit unless forced.

        It will stay, so the other programs that run now don't count.
        """
        verdict = judge_fit([load], idle_machine(await self.inspect_machine()))
        if verdict.fit is Fit.WONT and not force:
            raise DoesNotFit(verdict)
        return verdict.fit is Fit.WONT

    async def recommend(self, speed: float | None = None) -> Recommendation:
        """Return what suits this machine, and remember it.

        `speed` is the starter model's here, in tokens/s; without one it is what was measured once.
        """
        import asyncio

        from baton.models.recommendation import recommend

        machine, memory = await self.inspect_machine(), self.memory
        here = [model.id for model in self.models() if model.state.is_usable]
        before = memory.ids_on(machine)
        speed = speed or memory.speed(machine)
        choose = partial(recommend, speed=speed, here=here, context=self.context, before=before)
        # In a thread: a tenth of a second is long for a screen.
        found = await asyncio.to_thread(choose, list(self._entries()), machine)
        memory.save(found, machine)
        return found

    # What comes

    def pause(self, id: str, paused: bool = True) -> LibraryModel:
        """Record whether a download waits for the user before it continues."""
        return self.model_store.save(replace(self.get(id).record, paused=paused))

    async def check(self, path: Path) -> str:
        """Check that a file can be loaded, weights aside. Raises ModelFileError.

        Returns a sentence on what is wrong with its chat template, or "".
        """
        return "" if self._check is None else await self._check(path)

    async def fault(self, path: Path, force: bool) -> str:
        """Have a model's file write a word; return why it can't, or ""."""
        try:
            if self._try_out is not None:
                await self._try_out(path, force)
        except BatonError as error:
            return error.message
        return ""

    def record_arrival(
        self, record: ModelRecord, path: Path, sha256: str, stamp: FileStamp | None = None
    ) -> LibraryModel:
        """Record that a file is here and verified, as it was then.

        Roles and force that the user has set meanwhile stay.
        """
        stamp = stamp or file_stamp(path)
        size = stamp.size if stamp is not None else record.size
        hashes = sha256.split()
        if len(hashes) > 1:
            sizes = [part.stat().st_size for part in part_paths(path)]
            record = replace(record, parts=tuple(map(FilePart, sizes, hashes)))
        sha256 = joined_hash(hashes)
        now = self.model_store.get(record.id)
        if now is not None and now.record.sha256 == record.sha256:
            record = replace(record, roles=now.record.roles, forced=now.record.forced)
        return self.model_store.save(
            replace(record, sha256=sha256, size=size, stamp=stamp, wrong="")
        )

    # What goes, and what is checked

    def remove(self, id: str) -> int:
        """Remove a model; return the bytes freed. Conversations with it stay as they are."""
        known = self.model_store.get(id) is not None
        freed = self.model_store.remove(id)  # also one whose record can't be read
        if not known and not freed:
            self.get(id)  # raises that there is none
        return freed

    def orphans(self) -> Sequence[tuple[Path, int]]:
        """Return what `prune` would delete, and its bytes."""
        found = []
        for path in self.model_store.orphans():
            files = [path] if path.is_file() else path.rglob("*")
            found.append((path, sum(file.lstat().st_size for file in files if file.is_file())))
        return found

    def prune(self) -> Sequence[tuple[Path, int]]:
        """Delete what belongs to no model; return what it was, and its bytes."""
        deleted = []
        for path in self.model_store.orphans():
            with suppress(BatonError):  # another process has just begun to use it
                deleted.append((path, self.model_store.discard(path)))
        return deleted

    def verify(self, id: str) -> AsyncGenerator[Progress | LibraryModel]:
        """Read a model's file again; yields the model with its state then."""
        return self.verify_model(self.get(id))

    def is_verified(self, id: str) -> bool:
        """Whether a model's file is as it was when it was last verified."""
        model = self.model_store.get(id)
        return model is not None and model.state in (ModelState.HERE, ModelState.LINKED)

    async def ensure_verified(self, id: str) -> None:
        """Check that a model's file is as it was verified, before it is loaded.

        Raises ModelFileError. Quick where nothing has changed since.
        """
        if (model := self.model_store.get(id)) is None or model.state is ModelState.COMING:
            known = self.entries().get(id)
            raise ModelFileError(
                f"{known.name if known else id} isn't on this machine yet.",
                f"`baton models pull {id}` fetches it." if known or model else _LIST_HINT,
            )
        name = model.record.name
        if model.state is ModelState.CHANGED:
            async with aclosing(self.verify_model(model)) as steps:
                async for step in steps:
                    model = step if isinstance(step, LibraryModel) else model
        if model.state is ModelState.GONE:
            raise ModelFileError(
                f"{model.missing.capitalize()} of {name} isn't there any more.", _FETCH_HINT
            )
        if model.state is ModelState.BROKEN:
            raise ModelFileError(f"{name} is not used: {model.record.wrong}.", _FETCH_HINT)

    def export(self, ids: Sequence[str], folder: Path) -> AsyncGenerator[Progress | Path]:
        """Copy models into a folder that ModelImport takes; yields each file written."""
        return self._export([self.get(id) for id in ids], absolute_path(folder))

    async def aclose(self) -> None:
        """End child processes; downloads stop, and can continue later."""
        await self.model_source.aclose()

    async def verify_model(self, model: LibraryModel) -> AsyncGenerator[Progress | LibraryModel]:
        """Hash a model's file and record what it is then."""
        record = model.record
        stamp = file_stamp(model.path)
        if model.state in (ModelState.COMING, ModelState.GONE) or stamp is None:
            yield model
            return
        async with aclosing(self.model_source.hash_file(model.path)) as steps:
            async for step in steps:
                if not isinstance(step, str):
                    yield step
                elif self.model_store.get(model.id) is None:
                    raise ConfigError(f"{record.name} was removed meanwhile.", _LIST_HINT)
                elif record.sha256 in ("", joined_hash(step.split())):
                    if record.fault:
                        fault = await self.fault(model.path, record.forced)
                        record = replace(record, fault=fault)
                    yield self.record_arrival(record, model.path, step, stamp)
                else:
                    wrong = f"{_changed_text(record, step)} what they were when it came"
                    yield self.model_store.save(replace(record, stamp=stamp, wrong=wrong))

    async def _export(
        self, models: Sequence[LibraryModel], folder: Path
    ) -> AsyncGenerator[Progress | Path]:

        for model in models:
            await self.ensure_verified(model.id)
            if not model.state.is_usable:
                raise ModelFileError(f"{model.record.name} isn't all here yet.", "Fetch it first.")
        for model in models:
            record = bundled_record(folder, model.record)
            target = folder / record.file
            async with aclosing(self.model_source.copy(model.path, target, record.hashes)) as steps:
                async for step in steps:
                    if isinstance(step, str):
                        sha256 = joined_hash(step.split())
                        write_bundle(folder, [replace(record, sha256=sha256)])
                        yield target
                    else:
                        yield step


def _changed_text(record: ModelRecord, hashes: str) -> str:
    """Return whose contents have changed, with "aren't": those of some parts, or of the model."""
    pairs = enumerate(zip(record.parts, hashes.split(), strict=False), start=1)
    changed = [str(number) for number, (part, sha256) in pairs if part.sha256 != sha256]
    if not changed:
        return "its contents aren't"
    return f"the contents of part {', '.join(changed)} of {len(record.parts)} aren't"


def idle_machine(machine: Hardware) -> Hardware:
    """Return the machine as it would be with little else running: a model will stay."""
    return replace(machine, available=max(machine.available, int(machine.memory * 0.85)))


def absolute_path(path: Path) -> Path:
    """Return a path with `~` replaced, from the root. Raises ModelFileError."""
    with explain_path_errors(path):
        return expand_home(path).absolute()


@contextmanager
def explain_path_errors(path: Path) -> Iterator[None]:
    """Turn an OSError about a path into a ModelFileError."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # the home of an unknown user, or a name too long
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(
            f"{one_line(str(path), 200)} can't be read: {reason.rstrip('.')}.",
            "Check its path, its owner and its folder's.",
        ) from error


_VALID_SECONDS = 86400.0
"""After a day a machine may have other things to do, and is looked at again."""

_BUSY_VALID_SECONDS = 3600.0
"""How long a speed counts that was measured while other programs were at work."""


class RecommendationMemory:
    """Two files in a folder: the starter model's speed here, and the last recommendation.

    What can't be read or kept is found out again; without a folder, nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self._speed_file = folder and folder / "starter-speed.json"
        self._file = folder and folder / "recommended.json"

    def save_speed(self, speed: float, machine: Hardware, *, busy: bool) -> None:
        """Remember the starter model's tokens/s on this machine."""
        values = {"machine": _identity(machine), "at": time.time(), "busy": busy}
        self._write(self._speed_file, values | {"tokens_per_second": speed})

    def speed(self, machine: Hardware) -> float | None:
        """Return what was measured on such a machine, None where that is to be measured."""
        stored = self._read(self._speed_file)
        try:
            if stored["machine"] != _identity(machine):
                return None
            if stored["busy"] and not _is_recent(stored["at"], _BUSY_VALID_SECONDS):
                return None
            speed = float(stored["tokens_per_second"])
        except (LookupError, TypeError, ValueError):
            return None
        return speed if speed > 0 else None

    def save(self, found: Recommendation, machine: Hardware) -> None:
        """Remember what was recommended."""
        picks = [{"id": pick.entry.id, "roles": list(pick.roles)} for pick in found.picks]
        values = {"at": time.time(), "machine": _identity(machine), "models": picks}
        self._write(self._file, values)

    def picks(self) -> Sequence[tuple[str, tuple[ModelRole, ...]]]:
        """Return the models and their roles that were recommended in the last day."""
        stored = self._read(self._file)
        try:
            if not _is_recent(stored["at"], _VALID_SECONDS):
                return []
            return [(one["id"], tuple(map(ModelRole, one["roles"]))) for one in stored["models"]]
        except (LookupError, TypeError, ValueError):
            return []

    def ids_on(self, machine: Hardware) -> Sequence[str]:
        """Return the models that were recommended in the last day for such a machine."""
        if self._read(self._file).get("machine") != _identity(machine):
            return []
        return [id for id, _ in self.picks()]

    def _read(self, file: Path | None) -> dict[str, Any]:
        try:
            stored = json.loads(file.read_text("utf-8")) if file is not None else {}
        except (OSError, ValueError):
            return {}
        return stored if isinstance(stored, dict) else {}

    def _write(self, file: Path | None, values: object) -> None:
        if file is None:
            return
        with suppress(OSError):
            make_folder(file.parent)
            replace_file(file, json.dumps(values))


def _identity(machine: Hardware) -> str:
    """Return what distinguishes machines, as far as their speed goes."""
    cards = ",".join(f"{gpu.name}/{gpu.total}" for gpu in machine.gpus)
    return f"{machine.processor}|{machine.cores}|{machine.memory}|{cards}"


def _is_recent(at: float, seconds: float) -> bool:
    return 0 <= time.time() - at < seconds
