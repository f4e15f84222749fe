"""Records are whole and the folder is in order, with any fault of processes and bytes."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.errors import ModelFileError
from baton.models.ports import LibraryModel
from baton.models.store import FolderModelStore
from baton.models.store.manifest import read_bundle, write_bundle
from models.store.test_model_store import QWEN, arrive
from support import model_store_process
from support.model_store_process import record_of

BOTH = [pytest.param(1, id="short"), pytest.param(20, id="long", marks=pytest.mark.long)]


@pytest.fixture
def store(tmp_path: Path) -> FolderModelStore:
    return FolderModelStore(tmp_path / "models", {})


def baton(store: FolderModelStore, who: str, times: int, *removing: str) -> subprocess.Popen[str]:
    args = [
        sys.executable,
        "-P",
        model_store_process.__file__,
        str(store.folder),
        who,
        str(times),
        *removing,
    ]
    return subprocess.Popen(args, stdout=subprocess.PIPE, text=True)


def must_be_whole(held: LibraryModel | None, *who: str) -> int:
    """Return the number of a record; all of its parts must be of the same one."""
    assert held is not None
    assert held.record in [record_of(held.record.size, name) for name in who]
    return held.record.size


@pytest.mark.parametrize("times", BOTH)
def test_a_kill_leaves_the_record_before_or_after(store: FolderModelStore, times: int) -> None:
    store.save(record_of(0))
    seed = random.Random(20261121)
    for _ in range(6 * times):
        with baton(store, "x", 10**9) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "begun\n"
            time.sleep(seed.uniform(0, 0.04))
            child.kill()
        must_be_whole(store.get("model"), "x")
        assert [held.id for held in store.models()] == ["model"]
        for path in store.orphans():
            assert path.name.startswith(".model-")
            store.discard(path)
        assert [path.name for path in (store.folder / "model").iterdir()] == ["model.json"]


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("times", BOTH)
def test_two_at_once_never_mix_their_records(store: FolderModelStore, times: int) -> None:
    looks = 0
    with baton(store, "x", 60 * times) as x, baton(store, "y", 60 * times) as y:
        while x.poll() is None or y.poll() is None:
            if (held := store.get("model")) is not None:
                must_be_whole(held, "x", "y")
                looks += 1
            assert list(store.problems()) == []
    assert looks
    assert (x.returncode, y.returncode) == (0, 0)
    assert must_be_whole(store.get("model"), "x", "y") == 60 * times
    assert list(store.orphans()) == []


@pytest.mark.parametrize("times", BOTH)
def test_putting_and_removing_at_once_leaves_order(store: FolderModelStore, times: int) -> None:
    args = 60 * times, "and remove"
    with baton(store, "x", *args) as x, baton(store, "y", *args) as y:
        assert (x.wait(), y.wait()) == (0, 0)
    for path in store.orphans():
        store.discard(path)
    assert list(store.problems()) == []
    if (held := store.get("model")) is not None:
        must_be_whole(held, "x", "y")
        store.remove("model")
    assert [path.name for path in store.folder.iterdir()] == [".lock"]


def mutate(data: bytes, seed: random.Random) -> bytes:
    """Return the bytes with something done to them that disks and people do."""
    spoilt = bytearray(data)
    for _ in range(seed.randint(1, 4)):
        at = seed.randrange(len(spoilt) + 1)
        match seed.randrange(5):
            case 0:
                del spoilt[at:]
            case 1:
                spoilt[at : at + seed.randrange(30)] = b""
            case 2:
                spoilt[at : at + 1] = seed.randbytes(1)
            case 3:
                spoilt[at:at] = seed.choice([b"\0", b"null", b"{", b"[", b'"', b"-1e999", b"../"])
            case _:
                spoilt[at:at] = spoilt[: seed.randrange(len(spoilt) + 1)]
    return bytes(spoilt)


@pytest.mark.parametrize("times", BOTH)
def test_mutated_records_are_never_fatal_nor_followed(store: FolderModelStore, times: int) -> None:
    other = arrive(store, replace(QWEN, id="other"))
    file = arrive(store)
    path = file.with_name("model.json")
    whole = path.read_bytes()
    seed = random.Random(7)
    read = 0
    for _ in range(500 * times):
        path.write_bytes(mutate(whole, seed))
        held = store.get(QWEN.id)
        assert {model.id for model in store.models()} == {"other"} | ({held.id} if held else set())
        is_sound = held is not None and held.path == file
        assert len(store.problems()) == (not is_sound)  # a file of another name belongs to nobody
        if held is not None:
            read += 1
            assert held.path.parent == path.parent or held.path.is_absolute()
            assert held.record.link or held.path.parent == path.parent
            store.save(held.record)
            assert store.get(QWEN.id) == held
    assert read, "some mutations only change a word"
    assert other.exists()


@pytest.mark.parametrize("times", BOTH)
def test_mutated_descriptions_of_a_stick_are_reported(
    store: FolderModelStore, tmp_path: Path, times: int
) -> None:
    stick = tmp_path / "stick"
    stick.mkdir()
    (stick / QWEN.file).write_bytes(b"GGUF")
    write_bundle(stick, [QWEN])
    path = stick / "baton-models.json"
    whole = path.read_bytes()
    seed = random.Random(8)
    for _ in range(500 * times):
        path.write_bytes(mutate(whole, seed))
        try:
            found = read_bundle(stick)
        except ModelFileError:
            continue
        for record, file in found:
            assert file == stick / QWEN.file
            assert not record.link
            assert record.stamp is None
