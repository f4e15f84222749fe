"""How a model comes from a hub or an address: what the user means, the file, and its download."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from baton.core.catalogue_types import (
    FREE_LICENCES,
    UNKNOWN_SOURCE,
    CatalogueEntry,
    ModelOffer,
    ModelRole,
    Source,
)
from baton.core.errors import BatonError, ConfigError, ModelFileError
from baton.core.machine import show_size
from baton.core.model_names import unused_id
from baton.download.messages import Progress
from baton.gguf.memory_fit import ModelLoad, estimate_entry_load, estimate_load
from baton.gguf.split_files import joined_hash, name_without_part, part_paths
from baton.models.ports import LibraryModel, ModelRecord, ModelState, NeedsAgreement
from baton.models.quant_choice import choose_file
from baton.models.recommendation import DISK_MARGIN
from baton.models.store.model_store import file_stamp

if TYPE_CHECKING:
    from baton.models.library import Library

HUB_HOSTS = ("huggingface.co", "hf.co")
"""Names of the hub in addresses; HF_ENDPOINT says which host is asked."""

_REPO_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_REPO_FILE = re.compile(r"([\w.-]+/[\w.-]+)/(.+\.gguf)", re.ASCII | re.IGNORECASE)
_HUB_PATH = re.compile(
    r"/([\w.-]+/[\w.-]+)(?:/(?:resolve|blob|tree)/([^/]+)(?:/(.+))?)?/?", re.ASCII
)
_NOT_IN_IDS = re.compile(r"[^a-z0-9._-]+")


_LOST_STATES = (ModelState.BROKEN, ModelState.GONE)


@dataclass(frozen=True, slots=True)
class ModelRef:
    """What the user asked for. `entry` is set where the catalogue knows it.

    Else a `source` whose file is "" is a whole repository, and `quant` says which file of it ("":
    the first of `quant_choice.PREFERRED_QUANTS`).
    """

    source: Source
    quant: str = ""
    entry: CatalogueEntry | None = None


class ModelDownload:
    """Requests and downloads models for a library: what connects to a network, unless offline."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._store = library.model_store
        self._source = library.model_source

    async def request(
        self,
        model: str,
        roles: Sequence[ModelRole] | None = None,
        *,
        agreed: bool = False,
        force: bool = False,
    ) -> LibraryModel:
        """Look a model up and record the request; `fetch` then downloads it.

        `model` is an id of the catalogue, `hf.co/USER/REPO[:QUANT]` (or a file's name there) or an
        address. `roles` are those it takes when it arrives; with none, `model_roles` decides. A
        model that is here already comes back as it is.
        Raises NeedsAgreement, DoesNotFit, ModelFileError without room on the disk, ConfigError for
        what doesn't exist and in offline mode.
        """
        entries = self._library.entries()
        wanted = parse_ref(model, entries)
        lost = self._store.get(wanted.entry.id) if wanted.entry is not None else None
        if lost is not None and lost.state not in _LOST_STATES:
            return self._request_again(lost, roles, force)
        if self._library.offline:
            raise _offline_error()
        if wanted.entry is not None and wanted.entry.id in self._library.workers:
            raise _name_taken_error(wanted.entry)
        offer = await self._find_offer(wanted)
        if (same := self._find_same(offer)) is not None:
            return self._request_again(same, roles, force)
        record = self._new_record(wanted, offer, roles)
        if offer.licence.lower() not in FREE_LICENCES and not agreed:
            raise NeedsAgreement(record.name, offer.licence, offer.source)
        forced = await self._library.needs_force(await self._expected_load(wanted, offer), force)
        if 0 < (free := (await self._library.inspect_machine()).disk) < offer.size * DISK_MARGIN:
            raise _no_room_error(record.name, offer.size, free)
        found = self._store.save(replace(record, forced=forced))
        if lost is not None and not lost.record.link:
            self._delete_replaced_file(lost.path, found.path)
        return found

    async def fetch(self, id: str) -> AsyncGenerator[Progress | LibraryModel]:
        """Download a requested model, or continue; yields the model when it has arrived.

        Closing the generator stops the download; what has come is kept.
        """
        model = self._library.get(id)
        if model.state is ModelState.CHANGED:  # all of it came, but it isn't verified yet
            async with aclosing(self._library.verify_model(model)) as steps:
                async for step in steps:
                    model = step if isinstance(step, LibraryModel) else model
                    yield step
        if model.state.is_usable:
            if model.state is not ModelState.CHANGED:
                yield model
            return
        if self._library.offline:
            raise _offline_error()
        was = model.state
        # Also of one that was linked: what is fetched is never written into another's folder.
        record = replace(model.record, wrong="", stamp=None, paused=False, link="")
        if record.source == UNKNOWN_SOURCE:
            raise ModelFileError(
                f"Where {record.name} came from isn't known, so it can't be fetched.",
                "`baton models import` takes its file again.",
            )
        model = self._store.save(record)
        # Only then: a file in another state has just been downloaded by another Baton.
        if was is ModelState.BROKEN and model.path.exists() and not record.parts:
            self._store.discard(model.path)  # of parts, those that are wrong are fetched
        async with aclosing(self._download(record, model.path)) as steps:
            async for step in steps:
                yield step

    async def _find_offer(self, wanted: ModelRef) -> ModelOffer:
        """Return the file that is wanted, pinned: from the catalogue alone where that says all."""
        entry, source = wanted.entry, wanted.source
        if entry is not None and entry.size and entry.sha256 and len(source.revision) == 40:
            return ModelOffer(source, entry.size, entry.sha256, entry.licence)
        if source.file or source.url:
            offer = await self._source.look_up(source)
        else:
            files = await self._source.list_files(source.repo, source.revision)
            offer = choose_file(files, wanted.quant, source.repo)
        _check_parts_are_there(offer)
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

    def _find_same(self, offer: ModelOffer) -> LibraryModel | None:
        """Return the model that this file is, if it is here or on its way."""
        for model in self._store.models():
            record = model.record
            same = record.sha256 == offer.sha256 if offer.sha256 else record.source == offer.source
            if same and model.state not in _LOST_STATES:
                return model
        return None

    def _request_again(
        self, model: LibraryModel, roles: Sequence[ModelRole] | None, force: bool
    ) -> LibraryModel:
        """Return a model that was requested before, with what is requested now."""
        record = replace(model.record, paused=False, forced=model.record.forced or force)
        if roles is not None:
            record = replace(record, roles=tuple(roles))
        return model if record == model.record else self._store.save(record)

    def _new_record(
        self, wanted: ModelRef, offer: ModelOffer, roles: Sequence[ModelRole] | None
    ) -> ModelRecord:
        entry, file = wanted.entry, offer.source.file.rpartition("/")[2]
        return ModelRecord(
            id=entry.id if entry is not None else free_id(self._library, file),
            name=entry.name if entry else name_without_part(file).removesuffix(".gguf"),
            file=file,
            source=offer.source,
            size=offer.size,
            sha256=offer.sha256,
            licence=offer.licence,
            parts=offer.parts,
            roles=tuple(roles or ()),
            added=time.time(),
        )

    async def _expected_load(self, wanted: ModelRef, offer: ModelOffer) -> ModelLoad:
        """Return what a model will take, before its file is here."""
        if wanted.entry is not None and wanted.entry.kv_bytes:
            return estimate_entry_load(
                replace(wanted.entry, size=offer.size), self._library.context
            )
        return estimate_load(
            await self._source.read_header(offer), offer.size, self._library.context
        )

    def _delete_replaced_file(self, before: Path, now: Path) -> None:
        """Delete the useless file of a model whose catalogue entry names another by now."""
        for path in {*part_paths(before)} - {*part_paths(now)}:
            with suppress(BatonError):
                if path.exists():
                    self._store.discard(path)

    async def _download(
        self, record: ModelRecord, path: Path
    ) -> AsyncGenerator[Progress | LibraryModel]:
        """Download a file from its source."""
        offer = ModelOffer(
            record.source, record.size, record.sha256, record.licence, parts=record.parts
        )
        try:
            async with aclosing(self._source.fetch(offer, path)) as steps:
                async for step in steps:
                    if isinstance(step, str):
                        yield await self._record_download(record, path, step)
                    else:
                        yield step
        except ModelFileError:
            # What came was wrong: each start would download it again, with the same result.
            if (left := self._store.get(record.id)) is not None and not left.bytes:
                self._store.save(replace(record, paused=True))
            raise

    async def _record_download(self, record: ModelRecord, path: Path, sha256: str) -> LibraryModel:
        """Record that a model came; one that can't be loaded is kept, but not used."""
        try:
            note = await self._library.check(path)
        except ModelFileError:
            stamp, wrong = file_stamp(path), "llama.cpp can't load it"
            sha256 = joined_hash(sha256.split())
            self._store.save(replace(record, sha256=sha256, stamp=stamp, wrong=wrong))
            raise
        is_known = record.id in self._library.entries()
        fault = "" if is_known else await self._library.fault(path, record.forced)
        record = replace(record, note=note, fault=fault)
        return self._library.record_arrival(record, path, sha256)


def parse_ref(text: str, entries: Mapping[str, CatalogueEntry]) -> ModelRef:
    """Read what the user typed. Raises ConfigError that names the nearest."""
    typed = text.strip()
    if (entry := entries.get(typed.lower())) is not None:
        return ModelRef(entry.source, entry=entry)
    if "://" in typed and not typed.startswith("hf://"):
        return _parse_address(typed)
    name = typed.removeprefix("hf://")
    for hub in HUB_HOSTS:
        name = name.removeprefix(f"{hub}/")
    repo, _, quant = name.partition(":")
    if _REPO_NAME.fullmatch(repo):
        return ModelRef(Source(repo=repo), quant)
    if (match := _REPO_FILE.fullmatch(name)) is not None:
        return ModelRef(Source(repo=match[1], file=match[2]))
    near = difflib.get_close_matches(typed.lower(), entries, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ConfigError(
        f"There is no model {typed!r} in the catalogue.",
        f"{hint}`baton models ls --all` lists it; hf.co/USER/REPO takes any other.",
    )


def _parse_address(typed: str) -> ModelRef:
    try:
        url = urlsplit(typed)
    except ValueError as error:
        raise ConfigError(f"{typed!r} isn't an address.", "Check its brackets.") from error
    if (url.hostname or "").removeprefix("www.") in HUB_HOSTS:
        if (match := _HUB_PATH.fullmatch(unquote(url.path))) is None:
            raise ConfigError(f"{typed} isn't a model's address.", "Name it as hf.co/USER/REPO.")
        return ModelRef(Source(match[1], match[3] or "", match[2] or ""))
    file = PurePosixPath(unquote(url.path)).name
    if url.scheme not in ("http", "https") or not file.lower().endswith(".gguf"):
        raise ConfigError(f"{typed} doesn't lead to a GGUF file.", "Its address ends with .gguf.")
    return ModelRef(Source(file=file, url=typed))


def _check_parts_are_there(offer: ModelOffer) -> None:
    """Raise ModelFileError where parts of a model are missing where it comes from."""
    missing = [str(number) for number, part in enumerate(offer.parts, start=1) if not part.size]
    if missing:
        raise ModelFileError(
            f"Part {', '.join(missing)} of the {len(offer.parts)} parts of {offer.source} isn't"
            " there, so nothing was fetched.",
            "Choose another quantisation, or another repository.",
        )


def free_id(library: Library, file: str) -> str:
    """Return an id for a file of this name that no model, worker or catalogue entry has."""
    return make_id(file, library.taken_ids() | dict(library.entries()))


def make_id(file: str, taken: Mapping[str, object]) -> str:
    """Make an id of a file's name that isn't taken: "Qwen3-8B-Q5_K_M.gguf" is "qwen3-8b-q5_k_m"."""
    name = name_without_part(PurePosixPath(file).name.lower()).removesuffix(".gguf")
    short = _NOT_IN_IDS.sub("-", name).strip("-._")[:60].rstrip("-._") or "model"
    return unused_id(short, taken)


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
