"""The library gets false data: from a stick, by names that mean something else, by what happens
meanwhile in another Baton.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.catalogue_types import CatalogueEntry, ModelRole, Source
from baton.core.errors import ConfigError, ModelFileError
from baton.core.machine import Hardware
from baton.download import HubSource
from baton.download.messages import Progress
from baton.models.file_import import ModelImport
from baton.models.library import Library
from baton.models.model_download import ModelDownload
from baton.models.ports import LibraryModel, ModelRecord, ModelState
from baton.models.store import FolderModelStore
from baton.models.store.manifest import read_bundle, write_bundle
from support.fake_hub import Hub
from support.library_setup import final_model, tiny_model

GB = 10**9
DATA, OTHER = tiny_model(), tiny_model(1)
SHA = hashlib.sha256(DATA).hexdigest()
ENTRY = CatalogueEntry(
    "tiny", "Tiny 1", Source("maker/tiny", "tiny.gguf"), len(DATA), SHA, "mit", kv_bytes=512
)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


@pytest.fixture
def store(tmp_path: Path) -> FolderModelStore:
    return FolderModelStore(tmp_path / "models", environ={})


@pytest.fixture
async def library(store: FolderModelStore, hub: Hub) -> AsyncIterator[Library]:
    async def look() -> Hardware:
        return Hardware(16 * GB, 14 * GB, 8, 8, disk=100 * GB)

    revision = hub.add("maker/tiny", {"tiny.gguf": DATA})
    entry = replace(ENTRY, source=replace(ENTRY.source, revision=revision))
    hub_source = HubSource(environ=os.environ | hub.environ)
    library = Library(store, hub_source, lambda: [entry], look, workers=["small", "paid"])
    yield library
    await library.aclose()


def stick(folder: Path, id: str, data: bytes, roles: tuple[ModelRole, ...] = ()) -> Path:
    """Write a stick that a user may bring, with any description."""
    folder.mkdir(exist_ok=True)
    (folder / f"{id}.gguf").write_bytes(data)
    sha256 = hashlib.sha256(data).hexdigest()
    record = ModelRecord(id, "Tiny 1", f"{id}.gguf", size=len(data), sha256=sha256, roles=roles)
    write_bundle(folder, [record])
    return folder


@pytest.mark.parametrize("id", ["tiny", "small", "paid"])
async def test_a_stick_gives_no_model_a_name_that_means_something_else_here(
    library: Library, tmp_path: Path, id: str
) -> None:
    held = await final_model(ModelImport(library).add(stick(tmp_path / "stick", id, OTHER)))
    assert (held.id, held.state, held.record.name) == (f"{id}-2", ModelState.HERE, f"{id}.gguf")
    again = await final_model(ModelImport(library).add(tmp_path / "stick"))
    assert (again.id, len(library.models())) == (f"{id}-2", 1)


async def test_a_stick_gives_no_roles_but_those_that_were_wanted_here(
    library: Library, tmp_path: Path
) -> None:
    folder = stick(tmp_path / "stick", "mine", OTHER, (ModelRole.CHAT, ModelRole.CONDUCTOR))
    assert (await final_model(ModelImport(library).add(folder))).record.roles == ()
    await ModelDownload(library).request("tiny", (ModelRole.CODER,))
    folder = stick(tmp_path / "other", "tiny", DATA, (ModelRole.CONDUCTOR,))
    held = await final_model(ModelImport(library).add(folder))
    assert (held.id, held.state, held.record.roles) == ("tiny", ModelState.HERE, (ModelRole.CODER,))


async def test_a_broken_model_is_repaired_from_a_stick(library: Library, tmp_path: Path) -> None:
    folder = stick(tmp_path / "stick", "tiny", DATA)
    held = await final_model(ModelImport(library).add(folder))
    held.path.write_bytes(bytes(len(DATA)))
    assert (await final_model(library.verify("tiny"))).state is ModelState.BROKEN
    assert (await final_model(ModelImport(library).add(folder))).state is ModelState.HERE
    assert held.path.read_bytes() == DATA


async def test_no_model_takes_the_name_of_another_worker(library: Library, hub: Hub) -> None:
    hub.add("maker/more", {"paid.gguf": OTHER})
    assert (await ModelDownload(library).request("hf.co/maker/more/paid.gguf")).id == "paid-2"
    entries = library.entries()
    library._entries = lambda: [replace(entries["tiny"], id="paid")]
    with pytest.raises(ConfigError, match="another worker called 'paid'"):
        await ModelDownload(library).request("paid")
    assert [held.id for held in library.models()] == ["paid-2"]


async def test_what_another_baton_has_just_brought_is_not_thrown_away(
    library: Library, store: FolderModelStore, hub: Hub
) -> None:
    coming = await ModelDownload(library).request("tiny")
    put = store.save

    def late(record: ModelRecord) -> LibraryModel:
        if record.stamp is None:
            coming.path.write_bytes(DATA)  # renamed by the other, and not yet recorded
        return put(record)

    store.save = late  # type: ignore[method-assign]
    assert (await final_model(ModelDownload(library).fetch("tiny"))).state is ModelState.HERE
    assert hub.served("tiny.gguf") == 0


async def test_what_is_removed_while_it_is_verified_stays_removed(
    library: Library, tmp_path: Path
) -> None:
    await final_model(ModelImport(library).add(stick(tmp_path / "stick", "tiny", DATA)))
    steps = library.verify("tiny")
    async with aclosing(steps):
        await anext(steps)
        library.remove("tiny")
        with pytest.raises(ConfigError, match="removed meanwhile"):
            [step async for step in steps]
    assert library.models() == []


async def test_a_broken_model_whose_file_is_gone_too_can_be_verified(
    library: Library, tmp_path: Path
) -> None:
    held = await final_model(ModelImport(library).add(stick(tmp_path / "stick", "tiny", DATA)))
    held.path.write_bytes(bytes(len(DATA)))
    await final_model(library.verify("tiny"))
    held.path.unlink()
    assert not (await final_model(library.verify("tiny"))).state.is_usable


async def test_what_was_killed_while_it_was_copied_is_not_fetched_from_a_hub(
    library: Library, store: FolderModelStore, hub: Hub, tmp_path: Path
) -> None:
    folder = stick(tmp_path / "stick", "mine", OTHER)
    record, _ = read_bundle(folder)[0]
    source = Source("maker/tiny", "tiny.gguf", "0" * 40)
    write_bundle(folder, [replace(record, source=source)])
    records: list[ModelRecord] = []
    put = store.save

    def seen(record: ModelRecord) -> LibraryModel:
        records.append(record)
        return put(record)

    store.save = seen  # type: ignore[method-assign]
    held = await final_model(ModelImport(library).add(folder))
    assert (held.state, held.record.source) == (ModelState.HERE, source)
    assert records[0].source == Source(), "so it isn't gone on with where it came from"
    library.remove("mine")
    put(records[0])  # as after a kill
    with pytest.raises(ModelFileError, match="isn't known"):
        await final_model(ModelDownload(library).fetch("mine"))
    assert (await final_model(ModelImport(library).add(folder))).id == "mine"
    alone = tmp_path / "alone.gguf"
    alone.write_bytes(DATA)
    records.clear()
    await final_model(ModelImport(library).add(alone))
    library.remove("alone")
    put(records[0])
    held = await final_model(ModelImport(library).add(alone))
    assert (held.id, held.state) == ("alone", ModelState.HERE)
    assert hub.log == []


async def test_what_its_program_still_writes_is_read_again_before_it_is_used(
    library: Library, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs.gguf"
    theirs.write_bytes(DATA)
    digest = library.model_source.hash_file

    async def slow(path: Path) -> AsyncGenerator[Progress | str]:
        async with aclosing(digest(path)) as steps:
            async for step in steps:
                if isinstance(step, str):
                    theirs.write_bytes(DATA + OTHER)
                yield step

    library.model_source.hash_file = slow  # type: ignore[method-assign]
    assert (
        await final_model(ModelImport(library).add(theirs, link=True))
    ).state is ModelState.CHANGED
    assert not library.is_verified("theirs")


async def test_what_is_broken_goes_when_the_catalogue_names_another_file(
    library: Library, tmp_path: Path, hub: Hub
) -> None:
    old = await final_model(ModelImport(library).add(stick(tmp_path / "stick", "tiny", DATA)))
    old.path.write_bytes(bytes(len(DATA)))
    await final_model(library.verify("tiny"))
    revision = hub.add("maker/tiny", {"newer.gguf": DATA})
    source = Source("maker/tiny", "newer.gguf", revision)
    entries = library.entries()
    library._entries = lambda: [replace(entries["tiny"], source=source)]
    held = await ModelDownload(library).request("tiny")
    assert (held.path.name, old.path.exists()) == ("newer.gguf", False)
    assert (await final_model(ModelDownload(library).fetch("tiny"))).state is ModelState.HERE


@pytest.mark.parametrize("path", ["~nobody at all/a.gguf", f"{'a' * 300}.gguf", "a\0b.gguf"])
async def test_a_path_that_no_system_knows_is_refused_in_a_sentence(
    library: Library, path: str
) -> None:
    with pytest.raises(ModelFileError, match=r"can't be read|There is no file"):
        ModelImport(library).add(Path(path))
