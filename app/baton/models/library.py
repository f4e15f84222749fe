"""The models on this machine, and how others come to it: one way for commands and screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.byte_format import show_size
from baton.core.catalogue_types import (
    FREE_LICENCES,
    UNKNOWN_SOURCE,
    CatalogueEntry,
    ModelOffer,
    ModelRole,
)
from baton.core.errors import BatonError, ConfigError, ModelFileError
from baton.core.machine import Hardware
from baton.download.progress import Progress
from baton.gguf.memory_fit import (
    FitVerdict,
    ModelLoad,
    estimate_entry_load,
    estimate_load,
    judge_fit,
)
from baton.models.library_state import CheckModel, NeedsAgreement, Stock, idle_machine
from baton.models.model_types import ExternalModel, LibraryModel, ModelRecord, ModelState

if TYPE_CHECKING:  # every start opens a library, and most never look further than what is here
    from baton.models.model_ref import ModelRef
    from baton.models.ports import ModelSource, ModelStore
    from baton.models.recommendation import Recommendation

DISK_MARGIN = 1.1
"""So much more than a file's size must be free on the disk."""


class Library(Stock):
    """The models on this machine, and how others come to it.

    `entries` reads the catalogue, `look` this machine as it is now. Nothing connects anywhere but
    `want` and `fetch`, and neither does in offline mode. `workers` are ids of others, which no
    model is given. `check` raises ModelFileError for a file that can't be loaded.
    """

    def __init__(
        self,
        shelf: ModelStore,
        supply: ModelSource,
        entries: Callable[[], Sequence[CatalogueEntry]],
        look: Callable[[], Awaitable[Hardware]],
        *,
        context: int = 8192,
        offline: bool = False,
        workers: Collection[str] = (),
        check: CheckModel | None = None,
    ) -> None:
        super().__init__(
            shelf, supply, entries, look, context=context, workers=workers, check=check
        )
        self.offline = offline

    # What there is

    def models(self) -> Sequence[LibraryModel]:
        """Return the models on this machine, and those on their way."""
        return self.model_store.models()

    def external_models(self) -> Sequence[ExternalModel]:
        """Return model files of other programs that could be used where they lie."""
        return self.model_store.external_models()

    def problems(self) -> Sequence[str]:
        """Say, in a sentence each, what in the models' folder can't be read."""
        return self.model_store.problems()

    async def machine(self) -> Hardware:
        """Return this machine as it is now."""
        return await self.inspect_machine()

    async def verdict(self, id: str) -> FitVerdict:
        """Tell whether a model (of the catalogue, or here) fits this machine now."""
        if (held := self.model_store.get(id)) is not None and held.state.is_usable:
            return judge_fit([self.memory_load(held.path)], await self.inspect_machine())
        if (entry := self.entries().get(id)) is None:
            raise ConfigError(f"There is no model {id!r}.", "`baton models ls --all` lists all.")
        return judge_fit([estimate_entry_load(entry, self.context)], await self.inspect_machine())

    def verdicts(self, machine: Hardware) -> Mapping[str, FitVerdict]:
        """Tell of every model of the catalogue whether it fits such a machine by itself."""
        roomy = idle_machine(machine)
        return {
            id: judge_fit([estimate_entry_load(entry, self.context)], roomy)
            for id, entry in self.entries().items()
        }

    async def recommend(self, speed: float | None = None) -> Recommendation:
        """Return what suits this machine; `speed` is the starter model's here, in tokens/s."""
        from baton.models.recommendation import recommend

        here = [held.id for held in self.model_store.models() if held.state.is_usable]
        wanted = partial(recommend, speed=speed, here=here, context=self.context)
        # In a thread: a tenth of a second is long for a screen.
        return await asyncio.to_thread(wanted, list(self._entries()), await self.inspect_machine())

    # What comes

    async def request_model(
        self,
        model: str,
        roles: Sequence[ModelRole] | None = None,
        *,
        agreed: bool = False,
        force: bool = False,
    ) -> LibraryModel:
        """Look a model up and record that it is wanted; `fetch` then gets it.

        `model` is an id of the catalogue, `hf.co/USER/REPO[:QUANT]` (or a file's name there) or an
        address. `roles` are those it takes when it arrives; with none, `model_roles.taken` says
        which. One that is here already comes back as it is.
        Raises NeedsAgreement, DoesNotFit, ModelFileError without room on the disk, ConfigError for
        what doesn't exist and in offline mode.
        """
        from baton.models.model_ref import parse_ref

        entries = self.entries()
        wanted = parse_ref(model, entries)
        lost = self.model_store.get(wanted.entry.id) if wanted.entry is not None else None
        if lost is not None and lost.state not in _LOST_STATES:
            return self._request_again(lost, roles, force)
        if self.offline:
            raise _offline_error()
        if wanted.entry is not None and wanted.entry.id in self.workers:
            raise _name_taken_error(wanted.entry)
        offer = await self._find_offer(wanted)
        if (held := self._find_same(offer)) is not None:
            return self._request_again(held, roles, force)
        record = self._new_record(wanted, offer, roles)
        if offer.licence.lower() not in FREE_LICENCES and not agreed:
            raise NeedsAgreement(record.name, offer.licence, offer.source)
        forced = await self.needs_force(await self._expected_load(wanted, offer), force)
        if 0 < (free := (await self.inspect_machine()).disk) < offer.size * DISK_MARGIN:
            raise _no_room_error(record.name, offer.size, free)
        found = self.model_store.save(replace(record, forced=forced))
        if lost is not None and not lost.record.link:
            self._delete_replaced_file(lost.path, found.path)
        return found

    def fetch(self, id: str) -> AsyncGenerator[Progress | LibraryModel]:
        """Fetch a wanted model, or go on with it; yields the model when it has arrived.

        Closing the generator stops it; what has come is kept.
        """
        return self._fetch(id)

    def pause(self, id: str, paused: bool = True) -> LibraryModel:
        """Record that a download shall not go on by itself (or that it shall)."""
        return self.model_store.save(replace(self.get(id).record, paused=paused))

    def import_files(
        self, path: Path, *, id: str = "", link: bool = False, force: bool = False
    ) -> AsyncGenerator[Progress | LibraryModel]:
        """Take a GGUF file, or a folder that `export` made; copied unless `link`.

        Yields each model when it has been verified. Raises ModelFileError and ConfigError.
        """
        from baton.models.file_import import ModelImport

        return ModelImport(self).add(path, id, link=link, force=force)

    # What goes, and what is looked after

    def remove(self, id: str) -> int:
        """Take a model away; return the bytes freed. Conversations with it stay as they are."""
        known = self.model_store.get(id) is not None
        freed = self.model_store.remove(id)  # also one whose record can't be read
        if not known and not freed:
            self.get(id)  # says that there is none
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
        gone = []
        for path in self.model_store.orphans():
            with suppress(BatonError):  # just now somebody began to use it
                gone.append((path, self.model_store.discard(path)))
        return gone

    def verify(self, id: str) -> AsyncGenerator[Progress | LibraryModel]:
        """Read a model's file again; yields how it stands then."""
        return self._verify(self.get(id))

    def export(self, ids: Sequence[str], folder: Path) -> AsyncGenerator[Progress | Path]:
        """Copy models into a folder that `add` can take elsewhere; yields each file written."""
        from baton.models.file_import import absolute_path

        return self._export([self.get(id) for id in ids], absolute_path(folder))

    def suitable_roles(self, id: str) -> tuple[ModelRole, ...]:
        """Return the roles that a model is good for; to talk, if nothing else is known."""
        entry = self.entries().get(id)
        return entry.roles if entry is not None else (ModelRole.CHAT,)

    def is_verified(self, id: str) -> bool:
        """Tell whether a model's file is as it was when it was last verified."""
        held = self.model_store.get(id)
        return held is not None and held.state in (ModelState.HERE, ModelState.LINKED)

    async def ensure_verified(self, id: str) -> None:
        """Make sure that a model's file is as it was verified, before it is loaded.

        Raises ModelFileError. Quick where nothing has changed since.
        """
        if (held := self.model_store.get(id)) is None or held.state is ModelState.COMING:
            known = self.entries().get(id)
            raise ModelFileError(
                f"{known.name if known else id} isn't on this machine yet.",
                f"`baton models pull {id}` fetches it." if known or held else _LIST_HINT,
            )
        if held.state is ModelState.CHANGED:
            async with aclosing(self._verify(held)) as steps:
                async for step in steps:
                    held = step if isinstance(step, LibraryModel) else held
        if held.state is ModelState.GONE:
            raise ModelFileError(
                f"The file of {held.record.name} isn't there any more.", _FETCH_HINT
            )
        if held.state is ModelState.BROKEN:
            raise ModelFileError(
                f"{held.record.name} is not used: {held.record.wrong}.", _FETCH_HINT
            )

    async def aclose(self) -> None:
        """Let go of processes; downloads stop, and can go on later."""
        await self.model_source.aclose()

    # How it is done

    async def _find_offer(self, wanted: ModelRef) -> ModelOffer:
        """Return the file that is wanted, pinned: from the catalogue alone where that says all."""
        entry, source = wanted.entry, wanted.source
        if entry is not None and entry.size and entry.sha256 and _is_pinned(source.revision):
            return ModelOffer(source, entry.size, entry.sha256, entry.licence)
        if source.file or source.url:
            offer = await self.model_source.look_up(source)
        else:
            files = await self.model_source.list_files(source.repo, source.revision)
            from baton.models.model_ref import choose_file

            offer = choose_file(files, wanted.quant, source.repo)
        if entry is None:
            return offer
        if entry.sha256 and offer.sha256 and offer.sha256 != entry.sha256:
            raise ModelFileError(
                f"The hub's {offer.source.file} isn't the file that the catalogue knows, so nothing"
                " was fetched.",
                f"To have it all the same, name it: hf.co/{source.repo}/{source.file}.",
            )
        return replace(
            offer, sha256=offer.sha256 or entry.sha256, licence=entry.licence or offer.licence
        )

    def _delete_replaced_file(self, before: Path, now: Path) -> None:
        """Delete the useless file of a model whose catalogue entry names another by now."""
        if before != now and before.exists():
            with suppress(BatonError):
                self.model_store.discard(before)

    def _find_same(self, offer: ModelOffer) -> LibraryModel | None:
        """Return the model that this file is, if it is here or on its way."""
        for held in self.model_store.models():
            record = held.record
            same = record.sha256 == offer.sha256 if offer.sha256 else record.source == offer.source
            if same and held.state not in _LOST_STATES:
                return held
        return None

    def _request_again(
        self, held: LibraryModel, roles: Sequence[ModelRole] | None, force: bool
    ) -> LibraryModel:
        """Return a model that was wanted before, with what is wanted of it now."""
        record = replace(held.record, paused=False, forced=held.record.forced or force)
        if roles is not None:
            record = replace(record, roles=tuple(roles))
        return held if record == held.record else self.model_store.save(record)

    def _new_record(
        self, wanted: ModelRef, offer: ModelOffer, roles: Sequence[ModelRole] | None
    ) -> ModelRecord:
        entry, file = wanted.entry, offer.source.file.rpartition("/")[2]
        return ModelRecord(
            id=entry.id if entry is not None else self.free_id(file),
            name=entry.name if entry is not None else file.removesuffix(".gguf"),
            file=file,
            source=offer.source,
            size=offer.size,
            sha256=offer.sha256,
            licence=offer.licence,
            roles=tuple(roles or ()),
            added=time.time(),
        )

    async def _expected_load(self, wanted: ModelRef, offer: ModelOffer) -> ModelLoad:
        """Return what a model will take, before its file is here."""
        if wanted.entry is not None and wanted.entry.kv_bytes:
            return estimate_entry_load(replace(wanted.entry, size=offer.size), self.context)
        return estimate_load(await self.model_source.read_header(offer), offer.size, self.context)

    async def _fetch(self, id: str) -> AsyncGenerator[Progress | LibraryModel]:
        held = self.get(id)
        if held.state is ModelState.CHANGED:  # all of it came, and nobody has looked at it yet
            async with aclosing(self._verify(held)) as steps:
                async for step in steps:
                    held = step if isinstance(step, LibraryModel) else held
                    yield step
        if held.state.is_usable:
            if held.state is not ModelState.CHANGED:
                yield held
            return
        if self.offline:
            raise _offline_error()
        was = held.state
        # Also of one that was linked: what is fetched is never written into another's folder.
        record = replace(held.record, wrong="", stamp=None, paused=False, link="")
        if record.source == UNKNOWN_SOURCE:
            raise ModelFileError(
                f"Where {record.name} came from isn't known, so it can't be fetched.",
                "`baton models import` takes its file anew.",
            )
        held = self.model_store.save(record)
        # Only that: what lies there otherwise has just been brought by another Baton.
        if was is ModelState.BROKEN and held.path.exists():
            self.model_store.discard(held.path)
        async with aclosing(self._download(record, held.path)) as steps:
            async for step in steps:
                yield step

    async def _download(
        self, record: ModelRecord, path: Path
    ) -> AsyncGenerator[Progress | LibraryModel]:
        """Have a file brought from where it lies."""
        offer = ModelOffer(record.source, record.size, record.sha256, record.licence)
        try:
            async with aclosing(self.model_source.fetch(offer, path)) as coming:
                async for news in coming:
                    if isinstance(news, str):
                        yield await self._record_download(record, path, news)
                    else:
                        yield news
        except ModelFileError:
            # What came was wrong: all of it would come again, and be as wrong, at every start.
            if (left := self.model_store.get(record.id)) is not None and not left.bytes:
                self.model_store.save(replace(record, paused=True))
            raise

    async def _record_download(self, record: ModelRecord, path: Path, sha256: str) -> LibraryModel:
        """Record that a model came; one that can't be loaded is kept, but not used."""
        try:
            await self.check(path)
        except ModelFileError:
            stamp, wrong = self.model_store.file_stamp(path), "llama.cpp can't load it"
            self.model_store.save(replace(record, sha256=sha256, stamp=stamp, wrong=wrong))
            raise
        return self.record_arrival(record, path, sha256)

    async def _verify(self, held: LibraryModel) -> AsyncGenerator[Progress | LibraryModel]:
        record = held.record
        stamp = self.model_store.file_stamp(held.path)
        if held.state in (ModelState.COMING, ModelState.GONE) or stamp is None:
            yield held
            return
        async with aclosing(self.model_source.hash_file(held.path)) as steps:
            async for step in steps:
                if not isinstance(step, str):
                    yield step
                elif self.model_store.get(held.id) is None:
                    raise ConfigError(f"{record.name} was removed meanwhile.", _LIST_HINT)
                elif record.sha256 in ("", step):
                    yield self.record_arrival(record, held.path, step, stamp)
                else:
                    wrong = "its contents aren't what they were when it came"
                    yield self.model_store.save(replace(record, stamp=stamp, wrong=wrong))

    async def _export(
        self, models: Sequence[LibraryModel], folder: Path
    ) -> AsyncGenerator[Progress | Path]:
        for held in models:
            await self.ensure_verified(held.id)
            if not held.state.is_usable:
                raise ModelFileError(f"{held.record.name} isn't all here yet.", "Fetch it first.")
        for held in models:
            there = self.model_store.bundled_record(folder, held.record)
            target = folder / there.file
            async with aclosing(self.model_source.copy(held.path, target, there.sha256)) as steps:
                async for step in steps:
                    if isinstance(step, str):
                        self.model_store.write_bundle(folder, [replace(there, sha256=step)])
                        yield target
                    else:
                        yield step


_LIST_HINT = "`baton models ls` lists what is here, `baton models ls --all` what could be."
_LOST_STATES = (ModelState.BROKEN, ModelState.GONE)
_FETCH_HINT = "`baton models pull` gets it anew, `baton models rm` takes it off the list."


def _is_pinned(revision: str) -> bool:
    return len(revision) == 40


def _offline_error() -> ConfigError:
    return ConfigError(
        "Baton is offline, so nothing was fetched.",
        "Leave offline, or carry models over: `baton models export DIR` where there is a network,"
        " `baton models import DIR` here.",
    )


def _name_taken_error(entry: CatalogueEntry) -> ConfigError:
    source = entry.source
    return ConfigError(
        f"The settings have another worker called {entry.id!r}, so no model can have that name.",
        f"Rename that worker, or fetch {source.url or f'hf.co/{source}'}: that gets another name.",
    )


def _no_room_error(name: str, size: int, free: int) -> ModelFileError:
    return ModelFileError(
        f"{name} needs {show_size(size * DISK_MARGIN)} on the disk, and {show_size(free)} are free;"
        " nothing was fetched.",
        "`baton models ls` shows what takes room, `baton models rm` frees it.",
    )
