"""The models folder: what is recorded, how each model stands, and what removing takes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given, strategies as st

from baton.core.catalogue_types import ModelRole, Source
from baton.core.errors import ConfigError, ModelFileError
from baton.models.ports import FileStamp, ModelRecord, ModelState
from baton.models.store import FolderModelStore
from baton.models.store.model_store import file_stamp
from support.root_privileges import held_to_file_modes

SHA = "a" * 64
QWEN = ModelRecord(
    id="qwen3-4b",
    name="Qwen3 4B",
    file="Qwen3-4B-Q4_K_M.gguf",
    source=Source("unsloth/Qwen3-4B-GGUF", "Qwen3-4B-Q4_K_M.gguf", "b" * 40),
    size=4,
    sha256=SHA,
    licence="apache-2.0",
    roles=(ModelRole.CHAT, ModelRole.CODER),
    added=1764000000.5,
)


@pytest.fixture
def store(tmp_path: Path) -> FolderModelStore:
    return FolderModelStore(tmp_path / "models", {})


def arrive(store: FolderModelStore, record: ModelRecord = QWEN, data: bytes = b"GGUF") -> Path:
    """Put a model there as a download does."""
    path = store.save(record).path
    path.write_bytes(data)
    store.save(replace(record, size=len(data), stamp=file_stamp(path)))
    return path


def state(store: FolderModelStore, id: str = QWEN.id) -> ModelState:
    held = store.get(id)
    assert held is not None
    assert [held] == [other for other in store.models() if other.id == id]
    return held.state


def test_a_folder_that_is_not_there_holds_nothing_and_is_not_made(store: FolderModelStore) -> None:
    assert list(store.models()) == []
    assert store.get("qwen3-4b") is None
    assert store.remove("qwen3-4b") == 0
    assert not store.folder.exists()


def test_looking_at_start_loads_nothing_that_only_changes_need(store: FolderModelStore) -> None:
    code = """
import sys
from pathlib import Path
from baton.models.store import FolderModelStore
held = list(FolderModelStore(Path(sys.argv[1]), {}).models())
heavy = {"msgspec", "filelock", "asyncio", "baton.gguf.header"}
heavy |= {"baton.models.store.external_models"}
print(len(held), *sorted(heavy & set(sys.modules)))
"""
    args = [sys.executable, "-c", code, str(store.folder)]
    assert subprocess.check_output(args, text=True) == "0\n"
    store.save(QWEN)
    assert subprocess.check_output(args, text=True) == "1 msgspec\n"


def test_a_record_comes_back_as_it_was_put(store: FolderModelStore) -> None:
    full = replace(
        QWEN, stamp=FileStamp(4, 5), forced=True, paused=True, wrong="half of it is zeros"
    )
    for record in (QWEN, full, replace(QWEN, id="linked", link=str(store.folder / "x.gguf"))):
        held = store.save(record)
        assert held.record == record
        assert store.get(record.id) == held
    assert [held.id for held in FolderModelStore(store.folder, {}).models()] == [
        "linked",
        "qwen3-4b",
    ]


def test_only_this_user_can_read_what_is_recorded(store: FolderModelStore) -> None:
    path = store.save(QWEN).path.with_name("model.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert sorted(file.name for file in path.parent.iterdir()) == ["model.json"]


def test_a_download_is_coming_until_its_file_is_verified(store: FolderModelStore) -> None:
    held = store.save(QWEN)
    assert (held.state, held.bytes) == (ModelState.COMING, 0)
    held.path.with_name(f"{SHA}.partial").write_bytes(b"GG")
    found = store.get(QWEN.id)
    assert found is not None
    assert (found.state, found.bytes) == (ModelState.COMING, 2)
    held.path.write_bytes(b"GGUF")
    assert state(store) is ModelState.CHANGED, "killed between the rename and the record"
    store.save(replace(QWEN, stamp=file_stamp(held.path)))
    assert state(store) is ModelState.HERE
    assert [found.bytes for found in store.models()] == [4]


def test_a_download_without_a_hash_has_a_name_of_its_own(store: FolderModelStore) -> None:
    held = store.save(replace(QWEN, sha256=""))
    held.path.with_name(f"{'f' * 64}.partial").write_bytes(b"GGU")
    held.path.with_name(f"{'f' * 64}.partial.etag").write_bytes(b"x" * 100)
    assert [(model.state, model.bytes) for model in store.models()] == [(ModelState.COMING, 3)]


def test_a_file_that_was_touched_is_changed(store: FolderModelStore) -> None:
    path = arrive(store)
    stamp = file_stamp(path)
    assert stamp is not None
    path.write_bytes(b"GGUFF")
    os.utime(path, ns=(stamp.mtime_ns, stamp.mtime_ns))
    assert state(store) is ModelState.CHANGED, "another size"
    path.write_bytes(b"GGUG")
    os.utime(path, ns=(stamp.mtime_ns, stamp.mtime_ns + 1))
    assert state(store) is ModelState.CHANGED, "another time"
    os.utime(path, ns=(stamp.mtime_ns, stamp.mtime_ns))
    assert state(store) is ModelState.HERE
    path.unlink()
    assert state(store) is ModelState.GONE


def test_what_is_wrong_stays_wrong_until_a_user_says_otherwise(store: FolderModelStore) -> None:
    arrive(store, replace(QWEN, wrong="its hash is another"))
    assert state(store) is ModelState.BROKEN
    arrive(store)
    assert state(store) is ModelState.HERE


def test_a_linked_file_is_used_where_it_is(store: FolderModelStore, tmp_path: Path) -> None:
    theirs = tmp_path / "sha256-of a blob"
    theirs.write_bytes(b"GGUF")
    linked = replace(QWEN, file=theirs.name, link=str(theirs))
    held = store.save(linked)
    assert (held.path, held.state, held.bytes) == (theirs, ModelState.CHANGED, 0)
    store.save(replace(linked, stamp=file_stamp(theirs)))
    assert state(store) is ModelState.LINKED
    theirs.write_bytes(b"other")
    assert state(store) is ModelState.CHANGED
    theirs.unlink()
    assert state(store) is ModelState.GONE
    theirs.write_bytes(b"GGUF")
    store.remove(QWEN.id)
    assert theirs.read_bytes() == b"GGUF"
    assert not (store.folder / QWEN.id).exists()


def test_something_else_in_the_files_place_is_not_a_file(store: FolderModelStore) -> None:
    path = arrive(store)
    path.unlink()
    os.mkfifo(path)
    assert state(store) is ModelState.GONE
    path.unlink()
    path.mkdir()
    assert state(store) is ModelState.GONE


def test_removing_says_how_much_it_freed(store: FolderModelStore) -> None:
    path = arrive(store, data=b"GGUF" * 1000)
    path.with_name(f"{SHA}.partial").write_bytes(b"x" * 500)
    record = path.with_name("model.json").stat().st_size
    other = arrive(store, replace(QWEN, id="other"))
    assert store.remove(QWEN.id) == 4500 + record
    assert not path.parent.exists()
    assert other.exists()
    assert store.remove(QWEN.id) == 0


def test_a_file_with_a_second_link_frees_nothing(store: FolderModelStore, tmp_path: Path) -> None:
    path = arrive(store, data=b"GGUF" * 1000)
    os.link(path, tmp_path / "mine.gguf")
    record = path.with_name("model.json").stat().st_size
    assert store.remove(QWEN.id) == record
    assert (tmp_path / "mine.gguf").exists()


def test_removing_leaves_what_baton_did_not_write(store: FolderModelStore) -> None:
    path = arrive(store)
    path.with_name("notes.txt").write_text("mine")
    path.with_name("mine.gguf").write_text("mine")
    (path.parent / "folder").mkdir()
    store.remove(QWEN.id)
    left = sorted(file.name for file in path.parent.iterdir())
    assert left == ["folder", "mine.gguf", "notes.txt"]


def test_links_never_lead_deleting_outside(store: FolderModelStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "model.json").write_text("theirs")
    theirs = outside / QWEN.file
    theirs.write_bytes(b"GGUF")
    path = arrive(store)
    path.unlink()
    path.symlink_to(theirs)
    path.with_name(f"{SHA}.partial").symlink_to(theirs)
    assert store.remove(QWEN.id) < 1000
    assert not path.parent.exists()
    path.parent.symlink_to(outside)
    assert store.get(QWEN.id) is None
    for change in (lambda: store.remove(QWEN.id), lambda: store.save(QWEN)):
        with pytest.raises(ConfigError, match="link to somewhere else"):
            change()
    assert (outside / "model.json").read_text() == "theirs"
    assert theirs.read_bytes() == b"GGUF"


def test_a_model_that_is_being_downloaded_is_not_removed(store: FolderModelStore) -> None:
    path = store.save(QWEN).path
    partial = path.with_name(f"{SHA}.partial")
    partial.write_bytes(b"GG")
    with (
        FileLock(partial.with_name(f"{SHA}.lock")),
        pytest.raises(ConfigError, match="is being downloaded"),
    ):
        store.remove(QWEN.id)
    assert partial.exists()
    assert state(store) is ModelState.COMING
    assert store.remove(QWEN.id) > 0
    assert not path.parent.exists()


@pytest.mark.parametrize(
    "id", ["", ".", "..", "../x", "a/b", "/a", "A", "con", "nul.x", "com1", "é", "a" * 65, "-a"]
)
def test_names_that_are_not_ids_are_refused(store: FolderModelStore, id: str) -> None:
    for change in (lambda: store.save(replace(QWEN, id=id)), lambda: store.remove(id)):
        with pytest.raises(ConfigError, match="can't be a model's id"):
            change()
    assert store.get(id) is None
    assert not store.folder.exists()


@pytest.mark.parametrize(
    "file",
    [
        *("", ".gguf", "..", "../x.gguf", "a/b.gguf", "a\\b.gguf", "C:x.gguf", "con.gguf", "x.bin"),
        *("a\nb.gguf", "a\x1b.gguf", "a\u202e.gguf", "\udc80.gguf", " a.gguf", "a" * 200 + ".gguf"),
    ],
)
def test_names_that_are_not_files_are_refused(store: FolderModelStore, file: str) -> None:
    with pytest.raises(ConfigError, match="can't be named"):
        store.save(replace(QWEN, file=file))
    assert not store.folder.exists()


@pytest.mark.parametrize(
    "bad",
    [
        replace(QWEN, link="x.gguf"),
        replace(QWEN, link="/x\ny"),
        replace(QWEN, link="/\udcff.gguf"),
        replace(QWEN, sha256="../" + "a" * 61),
        replace(QWEN, size=-1),
        replace(QWEN, size=1 << 60),
        replace(QWEN, source=Source(url="\udcff")),
    ],
    ids=str,
)
def test_what_could_not_be_read_back_is_refused(store: FolderModelStore, bad: ModelRecord) -> None:
    with pytest.raises(ConfigError):
        store.save(bad)
    assert list(store.models()) == []


def test_outside_texts_become_one_line(store: FolderModelStore) -> None:
    held = store.save(replace(QWEN, name="Evil\x1b]0;\nmodel" + "x" * 500, licence="\udc80" * 999))
    assert held.record.name.startswith("Evil�]0; model")
    assert len(held.record.name + held.record.licence) <= 240
    assert store.get(QWEN.id) == held
    assert store.save(replace(QWEN, name="")).record.name == QWEN.id


ANY = st.text(max_size=80)
NEARLY = st.text("a0.-_/\\:~ A\n", min_size=1, max_size=12)
FILES = st.builds("{}.gguf".format, NEARLY | st.text(max_size=220))


@given(NEARLY | ANY, FILES | NEARLY | ANY)
def test_nothing_ever_escapes_the_folder(
    tmp_path_factory: pytest.TempPathFactory, id: str, file: str
) -> None:
    top = tmp_path_factory.mktemp("top")
    store = FolderModelStore(top / "models", {})
    for record in (replace(QWEN, id=id), replace(QWEN, file=file)):
        try:
            held = store.save(record)
        except ConfigError:
            continue
        assert held.path.parent == store.folder / record.id
        held.path.write_bytes(b"GGUF")
        assert store.remove(record.id) > 0
    assert {path.name for path in top.iterdir()} <= {"models"}
    assert not store.folder.exists() or [path.name for path in store.folder.iterdir()] == [".lock"]


def test_a_record_of_another_kind_is_never_fatal(store: FolderModelStore) -> None:
    good = store.save(replace(QWEN, id="good"))
    record = store.save(QWEN).path.with_name("model.json")
    whole = json.loads(record.read_text())
    for bad in (
        b"",
        b"null",
        b"{",
        b"[" * 60000,
        b"\xff\xfe",
        b" " * 70000,
        json.dumps({"schema": 2, "record": whole["record"]}).encode(),
        json.dumps({"schema": 1}).encode(),
        json.dumps({"schema": 1, "record": whole["record"] | {"id": "good"}}).encode(),
        json.dumps({"schema": 1, "record": whole["record"] | {"file": "../../x.gguf"}}).encode(),
        json.dumps({"schema": 1, "record": whole["record"] | {"roles": ["king"]}}).encode(),
    ):
        record.write_bytes(bad)
        assert list(store.models()) == [good]
        assert store.get(QWEN.id) is None
    record.unlink()
    os.mkfifo(record)
    assert list(store.models()) == [good]
    record.unlink()
    record.symlink_to(good.path.with_name("model.json"))
    assert list(store.models()) == [good]


def test_a_full_disk_costs_nothing_that_was_recorded(store: FolderModelStore) -> None:
    resource = pytest.importorskip("resource", reason="other systems set no such limits")
    held = store.save(QWEN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        for id in (QWEN.id, "another"):
            with pytest.raises(ModelFileError, match="What was recorded before is kept"):
                store.save(replace(QWEN, id=id, name="another"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(store.models()) == [held]
    assert list(store.orphans()) == [store.folder / "another"]


@held_to_file_modes()
def test_a_folder_that_takes_nothing_is_reported(store: FolderModelStore) -> None:
    store.folder.mkdir(mode=0o500)
    with pytest.raises(ModelFileError, match="can't be changed"):
        store.save(QWEN)


def test_a_file_in_the_folders_place_is_reported(store: FolderModelStore) -> None:
    store.folder.write_text("a file")
    with pytest.raises(ModelFileError, match="can't be changed"):
        store.save(QWEN)
    assert list(store.models()) == []
