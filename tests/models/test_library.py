"""The library, with a real folder, a real fetcher and a hub on loopback."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.catalogue_types import CatalogueEntry, ModelRole, Source
from baton.core.errors import ConfigError, ModelFileError
from baton.core.machine import Hardware
from baton.download import HubSource
from baton.models.file_import import ModelImport
from baton.models.library import Library
from baton.models.model_download import ModelDownload
from baton.models.ports import DoesNotFit, ModelState, NeedsAgreement
from baton.models.store import FolderModelStore
from support.fake_hub import Fault, Hub
from support.library_setup import final_model, tiny_model

GB = 10**9
ROOMY = Hardware(16 * GB, 14 * GB, 8, 8, disk=100 * GB)
DATA = tiny_model()
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


Open = Callable[..., Library]


@pytest.fixture
async def opened(tmp_path: Path, hub: Hub) -> AsyncIterator[Open]:
    libraries: list[Library] = []

    def open_(
        *entries: CatalogueEntry,
        machine: Hardware = ROOMY,
        folder: str = "models",
        offline: bool = False,
    ) -> Library:
        async def look() -> Hardware:
            return machine

        store = FolderModelStore(tmp_path / folder, environ={})
        library = Library(
            store,
            HubSource(environ=os.environ | hub.environ),
            lambda: entries,
            look,
            offline=offline,
        )
        libraries.append(library)
        return library

    yield open_
    for library in libraries:
        await library.aclose()


def entry(hub: Hub, data: bytes = DATA, **own: object) -> CatalogueEntry:
    revision = hub.add("maker/tiny", {"tiny.gguf": data})
    source = Source("maker/tiny", "tiny.gguf", revision)
    known = CatalogueEntry(
        "tiny",
        "Tiny 1",
        source,
        len(data),
        SHA,
        "apache-2.0",
        roles=(ModelRole.CHAT,),
        kv_bytes=512,
    )
    return replace(known, **own)  # type: ignore[arg-type]


async def model_states(library: Library) -> list[tuple[str, ModelState]]:
    return [(held.id, held.state) for held in library.models()]


async def test_a_model_of_the_catalogue_is_wanted_then_fetched_and_then_here(
    opened: Open, hub: Hub
) -> None:
    library = opened(entry(hub))
    held = await ModelDownload(library).request("tiny")
    assert (held.state, held.bytes) == (ModelState.COMING, 0)
    held = await final_model(ModelDownload(library).fetch("tiny"))
    assert held.state is ModelState.HERE
    assert held.path.read_bytes() == DATA
    assert (await library.verdict("tiny")).fit == "fits"
    assert not [seen for seen in hub.log if seen.kind == "api"], "the catalogue says all of it"
    assert library.is_verified("tiny")
    await library.ensure_verified("tiny")
    assert library.remove("tiny") >= len(DATA)
    assert library.models() == []
    assert not held.path.exists()


async def test_what_came_wrong_does_not_come_again_by_itself(opened: Open, hub: Hub) -> None:
    library = opened(entry(hub))
    await ModelDownload(library).request("tiny")
    hub.fault(Fault(wrong=len(DATA) - 1))
    with pytest.raises(ModelFileError, match="other contents"):
        await final_model(ModelDownload(library).fetch("tiny"))
    assert library.get("tiny").record.paused
    held = await final_model(ModelDownload(library).fetch("tiny"))
    assert (held.state, held.record.paused) == (ModelState.HERE, False)


async def test_an_entry_that_says_little_is_completed_by_the_hub_and_pinned(
    opened: Open, hub: Hub
) -> None:
    known = entry(hub, size=0, sha256="", source=Source("maker/tiny", "tiny.gguf"), kv_bytes=0)
    library = opened(known)
    record = (await ModelDownload(library).request("tiny")).record
    assert (record.sha256, record.size, len(record.source.revision)) == (SHA, len(DATA), 40)
    hub.add("maker/tiny", {"tiny.gguf": tiny_model(2)})  # `main` changes
    held = await final_model(ModelDownload(library).fetch("tiny"))
    assert hashlib.sha256(held.path.read_bytes()).hexdigest() == SHA


async def test_a_hub_whose_file_is_another_than_the_catalogue_says_is_refused(
    opened: Open, hub: Hub
) -> None:
    hub.add("maker/tiny", {"tiny.gguf": tiny_model(2)})
    library = opened(entry(hub, tiny_model(2), source=Source("maker/tiny", "tiny.gguf")))
    with pytest.raises(ModelFileError, match="isn't the file that the catalogue knows"):
        await ModelDownload(library).request("tiny")
    assert library.models() == []


async def test_any_other_model_is_named_by_its_repository_and_is_known_again(
    opened: Open, hub: Hub
) -> None:
    hub.add("maker/more", {"more-Q4_K_M.gguf": DATA, "more-Q8_0.gguf": tiny_model(3)})
    library = opened()
    held = await ModelDownload(library).request("hf.co/maker/more")
    assert held.id == "more-q4_k_m"
    await final_model(ModelDownload(library).fetch(held.id))
    assert (await ModelDownload(library).request("maker/more:Q4_K_M")).id == held.id
    assert (await ModelDownload(library).request("hf.co/maker/more:q8_0")).id == "more-q8_0"


async def test_a_licence_that_is_not_free_wants_a_yes(opened: Open, hub: Hub) -> None:
    library = opened(entry(hub, licence="gemma"))
    with pytest.raises(NeedsAgreement, match="gemma"):
        await ModelDownload(library).request("tiny")
    assert library.models() == []
    assert (await ModelDownload(library).request("tiny", agreed=True)).state is ModelState.COMING


async def test_what_would_not_fit_wants_force_which_is_remembered(opened: Open, hub: Hub) -> None:
    small = Hardware(2 * GB, 1 * GB, 2, 2, disk=100 * GB)
    library = opened(entry(hub, kv_bytes=2**20), machine=small)
    with pytest.raises(DoesNotFit, match="--force"):
        await ModelDownload(library).request("tiny")
    assert library.models() == []
    assert (await ModelDownload(library).request("tiny", force=True)).record.forced
    assert library.get("tiny").record.forced


async def test_no_room_on_the_disk_is_said_before_anything_is_fetched(
    opened: Open, hub: Hub
) -> None:
    library = opened(entry(hub), machine=replace(ROOMY, disk=len(DATA)))
    with pytest.raises(ModelFileError, match="on the disk"):
        await ModelDownload(library).request("tiny")
    assert library.models() == []


async def test_offline_nothing_connects(opened: Open, hub: Hub) -> None:
    library = opened(entry(hub), offline=True)
    with pytest.raises(ConfigError, match="offline"):
        await ModelDownload(library).request("tiny")
    assert hub.log == []


async def test_killed_between_the_last_byte_and_the_record_it_heals(opened: Open, hub: Hub) -> None:
    library = opened(entry(hub))
    held = await ModelDownload(library).request("tiny")
    held.path.write_bytes(DATA)
    assert library.get("tiny").state is ModelState.CHANGED
    assert (await final_model(ModelDownload(library).fetch("tiny"))).state is ModelState.HERE
    assert hub.served("tiny.gguf") == 0


async def test_what_has_rotted_is_found_before_it_is_loaded_and_fetched_again(
    opened: Open, hub: Hub
) -> None:
    library = opened(entry(hub))
    await ModelDownload(library).request("tiny")
    path = (await final_model(ModelDownload(library).fetch("tiny"))).path
    rotten = bytearray(DATA)
    rotten[-5] ^= 1
    path.write_bytes(bytes(rotten))
    assert not library.is_verified("tiny")
    with pytest.raises(ModelFileError, match="contents aren't what they were"):
        await library.ensure_verified("tiny")
    assert library.get("tiny").state is ModelState.BROKEN
    await ModelDownload(library).request("tiny")
    assert (await final_model(ModelDownload(library).fetch("tiny"))).state is ModelState.HERE
    assert path.read_bytes() == DATA


async def test_a_file_of_ones_own_is_copied_or_linked(
    opened: Open, hub: Hub, tmp_path: Path
) -> None:
    library = opened()
    mine = tmp_path / "Mine v2.gguf"
    mine.write_bytes(DATA)
    copied = await final_model(ModelImport(library).add(mine))
    assert (copied.id, copied.state, copied.record.sha256) == ("mine-v2", ModelState.HERE, SHA)
    linked = await final_model(ModelImport(library).add(mine, id="other", link=True))
    assert (linked.state, linked.path) == (ModelState.LINKED, mine)
    library.remove("other")
    assert mine.read_bytes() == DATA
    mine.write_bytes(b"GGUF but not really")
    with pytest.raises(ModelFileError):
        await final_model(ModelImport(library).add(mine, id="third"))
    assert [held.id for held in library.models()] == ["mine-v2"]


@pytest.mark.sampled(0.5)
async def test_models_are_carried_to_a_machine_without_a_network(
    opened: Open, hub: Hub, tmp_path: Path
) -> None:
    here, there = opened(entry(hub)), opened(folder="there", offline=True)
    await ModelDownload(here).request("tiny", (ModelRole.CODER,))
    await final_model(ModelDownload(here).fetch("tiny"))
    stick = tmp_path / "stick"
    written = [step async for step in here.export(["tiny"], stick) if isinstance(step, Path)]
    assert [path.read_bytes() for path in written] == [DATA]
    held = await final_model(ModelImport(there).add(stick))
    assert (held.id, held.state) == ("tiny", ModelState.HERE)
    damaged = bytearray(DATA)
    damaged[-1] ^= 1
    written[0].write_bytes(bytes(damaged))
    with pytest.raises(ModelFileError):
        await final_model(ModelImport(opened(folder="third")).add(stick))
    assert opened(folder="third").models() in ([], ())


async def test_a_broken_off_download_continues_and_prune_leaves_it_alone(
    opened: Open, hub: Hub
) -> None:
    library = opened(entry(hub))
    await ModelDownload(library).request("tiny")
    steps = ModelDownload(library).fetch("tiny")
    async with aclosing(steps):
        async for _ in steps:
            break
    assert library.prune() == []
    assert (await final_model(ModelDownload(library).fetch("tiny"))).state is ModelState.HERE


async def test_a_setting_that_names_what_is_not_here_says_how_to_get_it(
    opened: Open, hub: Hub
) -> None:
    library = opened(entry(hub))
    with pytest.raises(ModelFileError, match="Tiny 1 isn't on this machine yet"):
        await library.ensure_verified("tiny")
    with pytest.raises(ModelFileError, match="models ls"):
        await library.ensure_verified("nothing")
