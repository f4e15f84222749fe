"""What is left over in the models folder, what may be deleted of it, and what is reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from baton.core.errors import ConfigError
from baton.models.ports import ModelState
from baton.models.store import FolderModelStore
from models.store.test_model_store import QWEN, SHA, arrive, state


@pytest.fixture
def store(tmp_path: Path) -> FolderModelStore:
    return FolderModelStore(tmp_path / "models", {})


def lay(path: Path, data: bytes = b"x" * 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_folder_in_order_has_nothing_left_over(store: FolderModelStore) -> None:
    assert list(store.orphans()) == []
    assert not store.folder.exists()
    arrive(store)
    coming = store.save(replace(QWEN, id="coming")).path
    lay(coming.with_name(f"{SHA}.partial"))
    lay(coming.with_name(f"{SHA}.lock"))
    lay(store.save(replace(QWEN, id="unknown", sha256="")).path.with_name("x.partial"))
    assert list(store.orphans()) == []
    assert list(store.problems()) == []


def test_what_no_model_needs_is_left_over(store: FolderModelStore) -> None:
    here = arrive(store).parent
    coming = store.save(replace(QWEN, id="coming")).path.parent
    unwanted = [
        lay(coming / f"{'b' * 64}.partial"),
        lay(coming / f"{'b' * 64}.partial.etag"),
        lay(here / ".model-0a1b.json"),
        lay(here / f"{SHA}.partial"),
        lay(here / f"{SHA}.lock", b""),
        lay(store.folder / "norecord" / f"{SHA}.partial").parent,
    ]
    (store.folder / "nothing").mkdir()
    lay(here / "notes.txt")
    assert sorted(store.orphans()) == sorted([*unwanted, store.folder / "nothing"])
    freed = [store.discard(path) for path in unwanted]
    assert freed == [100, 100, 100, 100, 0, 100]
    assert list(store.orphans()) == [store.folder / "nothing"]
    assert store.discard(store.folder / "nothing") == 0
    assert state(store) is ModelState.HERE
    assert state(store, "coming") is ModelState.COMING


def test_what_is_on_its_way_is_never_left_over(store: FolderModelStore) -> None:
    partial = lay(arrive(store).with_name(f"{SHA}.partial"))
    other = lay(store.folder / "norecord" / f"{SHA}.partial")
    for path in (partial, other):
        with FileLock(path.with_name(f"{SHA}.lock")):
            found = list(store.orphans())
            assert path not in found
            assert path.parent not in found
            with pytest.raises(ConfigError, match="was not deleted"):
                store.discard(path)
    assert partial.exists()
    assert other.exists()


def test_what_baton_did_not_write_is_reported_and_left_alone(
    store: FolderModelStore, tmp_path: Path
) -> None:
    arrive(store)
    theirs = [
        lay(store.folder / "mine" / "mine.gguf"),
        lay(store.folder / "My Models" / "mine.gguf"),
        lay(store.folder / "loose.gguf"),
        lay(store.folder / "spoilt" / "model.json", b"{"),
        lay(store.folder / "spoilt" / "mine.gguf", b"x" * 20_000_000),
        lay(tmp_path / "other" / "mine.gguf"),
    ]
    (store.folder / "link").symlink_to(tmp_path / "other")
    assert list(store.orphans()) == []
    problems = "\n".join(store.problems())
    for name in ("mine", "My Models", "spoilt", "link"):
        assert f"{store.folder / name} " in problems
    assert "20.0 MB" in problems
    assert len(store.problems()) == 4
    for path in (*theirs[1:], theirs[0].parent, store.folder / "link", store.folder / "spoilt"):
        with pytest.raises(ConfigError, match="was not deleted"):
            store.discard(path)
    assert all(path.exists() for path in theirs)


def test_a_model_that_a_user_laid_beside_another_is_theirs(store: FolderModelStore) -> None:
    adapter = lay(arrive(store).with_name("my-lora.gguf"))
    assert list(store.orphans()) == []
    assert list(store.problems()) == [f"{adapter} belongs to no model, and Baton leaves it alone."]


def test_a_folder_without_a_record_loses_only_what_baton_left(store: FolderModelStore) -> None:
    mine = lay(store.folder / "mixed" / "mine.gguf")
    partial = lay(mine.with_name(f"{SHA}.partial"))
    assert list(store.orphans()) == [partial]
    store.discard(partial)
    assert list(store.orphans()) == []
    assert mine.exists()


def test_nothing_that_a_record_links_is_left_over(store: FolderModelStore) -> None:
    mine = lay(arrive(store).with_name("mine.gguf"))
    store.save(replace(QWEN, id="linked", link=str(mine)))
    assert list(store.orphans()) == []
    with pytest.raises(ConfigError, match="was not deleted"):
        store.discard(mine)


def test_only_files_in_the_folder_can_be_discarded(store: FolderModelStore, tmp_path: Path) -> None:
    path = arrive(store)
    outside = lay(tmp_path / "outside" / "x.partial")
    inside = path.with_name("deep")
    lay(inside / "x.partial")
    for bad in (
        outside,
        store.folder,
        store.folder / ".lock",
        store.folder / ".." / "outside" / "x.partial",
        path.parent / ".." / ".." / "outside" / "x.partial",
        path.parent / "..",
        path.parent,
        path.with_name("model.json"),
        inside,
        inside / "x.partial",
        Path("/"),
        Path("x.partial"),
        Path(),
    ):
        with pytest.raises(ConfigError, match="was not deleted"):
            store.discard(bad)
    assert state(store) is ModelState.HERE
    assert outside.exists()
    link = path.with_name("y.partial")
    link.symlink_to(outside)
    assert list(store.orphans()) == [link]
    assert store.discard(link) == 0
    assert outside.exists()


def test_a_models_file_can_be_discarded_for_a_better_one(store: FolderModelStore) -> None:
    path = arrive(store)
    assert store.discard(path) == 4
    assert state(store) is ModelState.GONE


def test_a_models_folder_that_cannot_be_read_is_reported(store: FolderModelStore) -> None:
    assert list(store.problems()) == []
    store.folder.write_text("a file")
    assert "can't be read" in store.problems()[0]
    assert list(store.orphans()) == []
