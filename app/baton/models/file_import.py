"""Files that are here already, or on a stick, become models of the library."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path

from baton.core.catalogue_types import UNKNOWN_SOURCE
from baton.core.errors import ConfigError, ModelFileError
from baton.core.model_roles import STARTER_ID
from baton.core.sanitiser import one_line
from baton.download.progress import Progress
from baton.gguf.header import Header
from baton.models.library_state import Stock
from baton.models.model_types import ExternalModel, LibraryModel, ModelRecord, ModelState


class ModelImport:
    """Takes files into a stock, copied or linked; what somebody says of them isn't believed."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock

    def add(
        self, path: Path, id: str, *, link: bool, force: bool
    ) -> AsyncGenerator[Progress | LibraryModel]:
        """See Library.add."""
        typed, path = path, absolute_path(path)
        with _explain_path_errors(path):
            is_bundle = path.is_dir()
        if is_bundle:
            found = [
                (self._trusted_record(one), file)
                for one, file in self._stock.model_store.read_bundle(path)
            ]
        else:
            # Read by the path as it was typed, so that this is what an error names.
            header = self._stock.model_store.read_header(typed.expanduser())
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
        """Return a record for a file, by what its header and the program it is of say."""
        if id in self._stock.taken_ids():
            raise ConfigError(f"There is a model {id!r} already.", "Choose another --id.")
        others = {other.path: other for other in self._stock.model_store.external_models()}
        of = others.get(path, ExternalModel(header.name or path.stem, path, 0, ""))
        id = id or self._interrupted_id(path)
        id = id or self._stock.free_id(
            path.name if path.name.lower().endswith(".gguf") else of.name
        )
        return ModelRecord(
            id=id,
            name=of.name,
            file=path.name if path.name.lower().endswith(".gguf") else f"{id}.gguf",
            source=of.source,
            size=path.stat().st_size,
            sha256=of.sha256,
            licence=header.licence,
        )

    def _interrupted_id(self, path: Path) -> str:
        """Return the id under which a file was being copied when Baton was killed, or ""."""
        for held in self._stock.model_store.models():
            record, size = held.record, path.stat().st_size
            left = (
                held.state is ModelState.COMING
                and record.source == UNKNOWN_SOURCE
                and not record.sha256
            )
            if left and (record.file, record.size) == (path.name, size):
                return held.id
        return ""

    def _trusted_record(self, record: ModelRecord) -> ModelRecord:
        """Return what is believed of a model that somebody describes: its file, and no more.

        Which roles it takes is for this machine's person to say, unless they have wanted it before;
        and a name that stands for something else here is another's.
        """
        held = self._stock.model_store.get(record.id)
        if held is not None and held.record.sha256 == record.sha256:
            return replace(record, roles=held.record.roles)
        record = replace(record, roles=())
        for other in self._stock.model_store.models():
            if other.state.is_usable and other.record.sha256 == record.sha256:
                return replace(record, id=other.id)
        known = self._stock.entries().get(record.id)
        foreign = known is not None and known.sha256 not in ("", record.sha256)
        if foreign or record.id in self._stock.workers | {STARTER_ID}:
            record = replace(record, id=self._stock.free_id(record.file), name=record.file)
        return record

    async def _add_file(
        self, record: ModelRecord, file: Path, link: bool, force: bool
    ) -> AsyncGenerator[Progress | LibraryModel]:
        """Link a file or copy it, verified in any case."""
        before = self._stock.model_store.get(record.id)
        if before is not None and before.record.sha256 != record.sha256:  # it is another model
            before, record = None, replace(record, id=self._stock.free_id(record.file))
        if before is not None and before.state.is_usable:
            yield before
            return
        forced = await self._stock.needs_force(self._stock.memory_load(file), force)
        await self._stock.check(file)
        record = replace(record, added=time.time(), forced=forced, paused=False, wrong="")
        if link:
            async with aclosing(self._link(replace(record, link=str(file)), file)) as steps:
                async for step in steps:
                    yield step
            return
        # Killed in the middle, it isn't gone on with from a hub: nobody has asked for that.
        source = UNKNOWN_SOURCE if before is None else before.record.source
        coming = self._stock.model_store.save(replace(record, link="", stamp=None, source=source))
        record = replace(coming.record, source=record.source)
        if before is not None and before.state is ModelState.BROKEN and coming.path.exists():
            self._stock.model_store.discard(coming.path)
        try:
            async with aclosing(self._copy(record, file)) as steps:
                async for step in steps:
                    yield step
        except BaseException:  # all of it or nothing
            if before is None:
                self._stock.model_store.remove(record.id)
            else:
                self._stock.model_store.save(before.record)
            raise

    async def _link(
        self, record: ModelRecord, file: Path
    ) -> AsyncGenerator[Progress | LibraryModel]:
        stamp = self._stock.model_store.file_stamp(
            file
        )  # before: its own program may still be writing it
        async with aclosing(self._stock.model_source.hash_file(file)) as steps:
            async for step in steps:
                if not isinstance(step, str):
                    yield step
                elif record.sha256 not in ("", step):
                    raise ModelFileError(
                        f"{file.name} isn't what it should be, so it was not taken.",
                        "Copy it anew from where it came.",
                    )
                else:
                    yield self._stock.record_arrival(record, file, step, stamp)

    async def _copy(
        self, record: ModelRecord, file: Path
    ) -> AsyncGenerator[Progress | LibraryModel]:
        target = self._stock.get(record.id).path
        async with aclosing(self._stock.model_source.copy(file, target, record.sha256)) as steps:
            async for step in steps:
                yield (
                    self._stock.record_arrival(record, target, step)
                    if isinstance(step, str)
                    else step
                )


@contextmanager
def _explain_path_errors(path: Path) -> Iterator[None]:
    """Turn what the system refuses of a path into a sentence."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # of nobody's home, or longer than names may be
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(
            f"{one_line(str(path), 200)} can't be read: {reason.rstrip('.')}.",
            "Check its path, its owner and its folder's.",
        ) from error


def absolute_path(path: Path) -> Path:
    """Return where a path leads. Raises ModelFileError where it can't be followed."""
    with _explain_path_errors(path):
        return path.expanduser().absolute()
