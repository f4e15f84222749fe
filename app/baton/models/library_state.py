"""What all ways into the library share: the shelf, the supply, and which ids are taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.catalogue_types import UNKNOWN_SOURCE, CatalogueEntry, Source
from baton.core.errors import ConfigError, ModelFileError
from baton.core.machine import Hardware
from baton.core.model_roles import STARTER_ID
from baton.gguf.memory_fit import Fit, FitVerdict, ModelLoad, estimate_load, judge_fit
from baton.models.model_types import FileStamp, LibraryModel, ModelRecord

if TYPE_CHECKING:  # every start opens a library, and most never look further than what is here
    from baton.models.ports import ModelSource, ModelStore


CheckModel = Callable[[Path], Awaitable[None]]


class NeedsAgreement(ConfigError):
    """A model's licence isn't a free one, and the person hasn't agreed to it."""

    def __init__(self, name: str, licence: str, source: Source = UNKNOWN_SOURCE) -> None:
        place = source.url or (f"hf.co/{source.repo}" if source.repo else "")
        super().__init__(
            f"{name} comes under the licence {licence or 'of nobody knows which kind'}.",
            f"Read it first{place and f' ({place})'}; `--agree` says that you accept it.",
        )
        self.licence = licence
        self.place = place


class DoesNotFit(ModelFileError):
    """A model won't fit this machine, and the person hasn't insisted."""

    def __init__(self, verdict: FitVerdict) -> None:
        super().__init__(verdict.why, f"{verdict.remedy} `--force` fetches it anyway.".strip())
        self.verdict = verdict


class Stock:
    """The models on this machine, by id, and what is known of others.

    `entries` reads the catalogue, `look` this machine as it is now. `workers` are ids of others,
    which no model is given. `check` raises ModelFileError for a file that can't be loaded.
    """

    def __init__(
        self,
        shelf: ModelStore,
        supply: ModelSource,
        entries: Callable[[], Sequence[CatalogueEntry]],
        look: Callable[[], Awaitable[Hardware]],
        *,
        context: int = 8192,
        workers: Collection[str] = (),
        check: CheckModel | None = None,
    ) -> None:
        self.model_store = shelf
        self.model_source = supply
        self._entries = entries
        self.inspect_machine = look
        self.context = context
        self.workers = frozenset(workers)
        self._check = check

    def get(self, id: str) -> LibraryModel:
        """Return one of them. Raises ConfigError that names the nearest."""
        if (held := self.model_store.get(id)) is not None:
            return held
        known = [held.id for held in self.model_store.models()]
        import difflib

        near = difflib.get_close_matches(id, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "`baton models ls` lists them."
        raise ConfigError(f"There is no model {id!r} on this machine.", hint)

    def entries(self) -> Mapping[str, CatalogueEntry]:
        """Return the catalogue by id."""
        return {entry.id: entry for entry in self._entries()}

    def memory_load(self, path: Path, context: int = 0) -> ModelLoad:
        """Return what a model's file takes of memory once it is loaded. Raises ModelFileError."""
        stamp = self.model_store.file_stamp(path)
        size = stamp.size if stamp is not None else 0
        return estimate_load(self.model_store.read_header(path), size, context or self.context)

    def taken_ids(self) -> dict[str, LibraryModel | None]:
        others = dict.fromkeys(self.workers | {STARTER_ID})
        return {held.id: held for held in self.model_store.models()} | others

    def free_id(self, name: str) -> str:
        from baton.models.model_ref import make_id

        return make_id(name, self.taken_ids() | dict(self.entries()))

    async def needs_force(self, load: ModelLoad, force: bool) -> bool:
        """Tell whether a model would come although it won't fit. Raises DoesNotFit unless forced.

        It comes to stay, so what else happens to run now doesn't count.
        """
        verdict = judge_fit([load], idle_machine(await self.inspect_machine()))
        if verdict.fit is Fit.WONT and not force:
            raise DoesNotFit(verdict)
        return verdict.fit is Fit.WONT

    async def check(self, path: Path) -> None:
        """Make sure that a file can be loaded, weights aside. Raises ModelFileError."""
        if self._check is not None:
            await self._check(path)

    def record_arrival(
        self, record: ModelRecord, path: Path, sha256: str, stamp: FileStamp | None = None
    ) -> LibraryModel:
        """Record that a file is here and verified, as it was then.

        What the person has said of it meanwhile, its roles for one, stays said.
        """
        stamp = stamp or self.model_store.file_stamp(path)
        size = stamp.size if stamp is not None else record.size
        if (
            now := self.model_store.get(record.id)
        ) is not None and now.record.sha256 == record.sha256:
            record = replace(record, roles=now.record.roles, forced=now.record.forced)
        return self.model_store.save(
            replace(record, sha256=sha256, size=size, stamp=stamp, wrong="")
        )


def idle_machine(machine: Hardware) -> Hardware:
    """Return the machine as it would be with little else running: a model comes to stay."""
    return replace(machine, available=max(machine.available, int(machine.memory * 0.85)))
