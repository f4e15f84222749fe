"""Files that are here already, or on a stick, become models of the library."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from baton.core.catalogue_types import STARTER_ID, UNKNOWN_SOURCE
from baton.core.errors import ConfigError, ModelFileError
from baton.download.messages import Progress
from baton.gguf.header import Header
from baton.gguf.split_files import joined_hash, name_without_part, part_paths
from baton.models.library import Library, absolute_path, explain_path_errors
from baton.models.model_download import free_id
from baton.models.ports import ExternalModel, LibraryModel, ModelRecord, ModelState
from baton.models.store.model_store import file_stamp
from baton.platform.durable_files import expand_home


class ModelImport:
    """Imports files into a library, copied or linked. What a bundle says of them isn't trusted."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._store = library.model_store

    def add(
        self, path: Path, *, id: str = "", link: bool = False, force: bool = False
    ) -> AsyncGenerator[Progress | LibraryModel]:
        """Take a GGUF file, or a folder that `export` made; copied unless `link`.

        Yields each model when it has been verified. Raises ModelFileError and ConfigError.
        """
        typed, path = path, part_paths(absolute_path(path))[0]
        with explain_path_errors(path):
            is_bundle = path.is_dir()
        if is_bundle:
            from baton.models.store.manifest import read_bundle

            found = [(self._trusted_record(one), file) for one, file in read_bundle(path)]
        else:
            # By the path as it was typed, which errors then show.
            header = self._store.read_header(expand_home(typed))
            found = [(self._record_for_file(path, id, header), path)]
        return self._add(found, link, force)

    async def _add(
        self, found: Sequence[tuple[ModelRecord, Path]], link: bool, force: bool
    ) -> AsyncGenerator[Progress | LibraryModel]:
        for record, file in found:
            async with aclosing(self._add_file(record, file, link, force)) as steps:
                async for step in steps:
                    yield step

    def _record_for_file(self, path: Path, id: str, header: Header) -> ModelRecord:
        """Return a record for a file, from its header and from the program that it belongs to."""
        if id in self._library.taken_ids():
            raise ConfigError(f"There is a model {id!r} already.", "Choose another --id.")
        others = {other.path: other for other in self._store.external_models()}
        of = others.get(
            path, ExternalModel(header.name or name_without_part(path.stem), path, 0, "")
        )
        id = id or self._interrupted_id(path)
        id = id or free_id(
            self._library, path.name if path.name.lower().endswith(".gguf") else of.name
        )
        stamp = file_stamp(path)
        return ModelRecord(
            id=id,
            name=of.name,
            file=path.name if path.name.lower().endswith(".gguf") else f"{id}.gguf",
            source=of.source,
            size=stamp.size if stamp is not None else 0,
            sha256=of.sha256,
            licence=header.licence,
        )

    def _interrupted_id(self, path: Path) -> str:
        """Return the id under which a file was being copied when Baton was killed, or ""."""
        for held in self._store.models():
            record, stamp = held.record, file_stamp(path)
            left = (
                held.state is ModelState.COMING
                and record.source == UNKNOWN_SOURCE
                and not record.sha256
            )
            size = stamp.size if stamp is not None else 0
            if left and (record.file, record.size) == (path.name, size):
                return held.id
        return ""

    def _trusted_record(self, record: ModelRecord) -> ModelRecord:
        """Return the part of a bundle's record that can be trusted: the file, and no more.

        Its roles are this user's choice, so they come from an earlier request here; and an id
        that stands for another model here is replaced.
        """
        held = self._store.get(record.id)
        if held is not None and held.record.sha256 == record.sha256:
            return replace(record, roles=held.record.roles)
        record = replace(record, roles=())
        for other in self._store.models():
            if other.state.is_usable and other.record.sha256 == record.sha256:
                return replace(record, id=other.id)
        known = self._library.entries().get(record.id)
        foreign = known is not None and known.sha256 not in ("", record.sha256)
        if foreign or record.id in self._library.workers | {STARTER_ID}:
            record = replace(record, id=free_id(self._library, record.file), name=record.file)
        return record

    async def _add_file(
        self, record: ModelRecord, file: Path, link: bool, force: bool
    ) -> AsyncGenerator[Progress | LibraryModel]:
        """Link or copy a file; it is verified in both cases."""
        before = self._store.get(record.id)
        if before is not None and before.record.sha256 != record.sha256:  # it is another model
            before, record = None, replace(record, id=free_id(self._library, record.file))
        if before is not None and before.state.is_usable:
            yield before
            return
        forced = await self._library.needs_force(self._library.memory_load(file), force)
        note = await self._library.check(file)
        fault = await self._library.fault(file, forced)
        record = replace(
            record, added=time.time(), forced=forced, paused=False, wrong="", fault=fault, note=note
        )
        if link:
            async with aclosing(self._link(replace(record, link=str(file)), file)) as steps:
                async for step in steps:
                    yield step
            return
        # If it is killed, no hub continues it: the user has asked for no download.
        source = UNKNOWN_SOURCE if before is None else before.record.source
        coming = self._store.save(replace(record, link="", stamp=None, source=source))
        record = replace(coming.record, source=record.source)
        if before is not None and before.state is ModelState.BROKEN and coming.path.exists():
            self._store.discard(coming.path)
        try:
            async with aclosing(self._copy(record, file)) as steps:
                async for step in steps:
                    yield step
        except BaseException:  # an import is all or nothing
            if before is None:
                self._store.remove(record.id)
            else:
                self._store.save(before.record)
            raise

    async def _link(
        self, record: ModelRecord, file: Path
    ) -> AsyncGenerator[Progress | LibraryModel]:
        # First: its own program may still be writing it.
        stamp = file_stamp(file)
        async with aclosing(self._library.model_source.hash_file(file)) as steps:
            async for step in steps:
                if not isinstance(step, str):
                    yield step
                elif record.sha256 not in ("", joined_hash(step.split())):
                    raise ModelFileError(
                        f"{file.name} isn't the file of its record, so it wasn't taken.",
                        "Copy it again from where it came.",
                    )
                else:
                    yield self._library.record_arrival(record, file, step, stamp)

    async def _copy(
        self, record: ModelRecord, file: Path
    ) -> AsyncGenerator[Progress | LibraryModel]:
        target = self._library.get(record.id).path
        async with aclosing(self._library.model_source.copy(file, target, record.hashes)) as steps:
            async for step in steps:
                yield (
                    self._library.record_arrival(record, target, step)
                    if isinstance(step, str)
                    else step
                )
