"""Models in a folder to carry: what was written is read again, and nothing else is believed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baton.core.catalogue_types import UNKNOWN_SOURCE, Source
from baton.core.errors import ConfigError, ModelFileError
from baton.models.ports import FileStamp, ModelRecord
from baton.models.store.manifest import bundled_record, read_bundle, write_bundle
from models.store.test_model_store import QWEN

CODER = replace(QWEN, id="coder", name="Coder", file="coder.gguf", sha256="c" * 64)


@pytest.fixture
def stick(tmp_path: Path) -> Path:
    folder = tmp_path / "stick"
    folder.mkdir()
    return folder


def pack(stick: Path, *records: ModelRecord) -> list[ModelRecord]:
    """Do what an export does."""
    done = []
    for record in records:
        there = bundled_record(stick, record)
        (stick / there.file).write_bytes(b"GGUF")
        write_bundle(stick, [there])
        done.append(there)
    return done


def test_what_is_written_comes_back_without_what_was_only_true_here(stick: Path) -> None:
    here = replace(QWEN, stamp=FileStamp(4, 5), forced=True, paused=True, link="/other/x")
    pack(stick, here, CODER)
    found = {record.id: (record, path) for record, path in read_bundle(stick)}
    assert found == {
        QWEN.id: (replace(QWEN, added=0.0), stick / QWEN.file),
        "coder": (replace(CODER, added=0.0), stick / "coder.gguf"),
    }


def test_a_second_export_adds_to_the_first_and_renews_it(stick: Path) -> None:
    pack(stick, QWEN)
    pack(stick, CODER)
    pack(stick, replace(QWEN, name="Qwen again"))
    assert [record.name for record, _ in read_bundle(stick)] == ["Coder", "Qwen again"]
    assert len(list(stick.iterdir())) == 3


def test_every_file_gets_a_name_of_its_own(stick: Path) -> None:
    (stick / "model.gguf").write_bytes(b"another's")
    same = [replace(QWEN, id=id, file="Model.gguf") for id in ("a", "b")]
    blob = replace(QWEN, id="c", file="sha256-abc", link="/other/sha256-abc")
    clash = replace(QWEN, id="d", file="b.gguf")
    names = [record.file for record in pack(stick, *same, blob, clash)]
    assert len({name.lower() for name in names}) == 4
    assert names[1:3] == ["b.gguf", "c.gguf"]
    assert (stick / "model.gguf").read_bytes() == b"another's"
    assert [record.id for record, _ in read_bundle(stick)] == ["a", "b", "c", "d"]


def test_what_is_not_verified_is_not_carried(stick: Path) -> None:
    for record in (replace(QWEN, sha256=""), replace(QWEN, size=0)):
        with pytest.raises(ConfigError, match="verified"):
            write_bundle(stick, [record])
    with pytest.raises(ConfigError, match="Two models"):
        write_bundle(stick, [QWEN, replace(CODER, file=QWEN.file.upper())])
    assert list(stick.iterdir()) == []


def test_a_folder_without_a_description_is_reported(stick: Path) -> None:
    with pytest.raises(ModelFileError, match="didn't make"):
        read_bundle(stick)
    with pytest.raises(ModelFileError, match="can't be read: No such file"):
        read_bundle(stick / "none")
    with pytest.raises(ModelFileError, match="can't be written"):
        write_bundle(stick / "none", [QWEN])


def change(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda bundle: bundle["records"][0].update({key: value})


@pytest.mark.parametrize(
    "spoil",
    [
        change("file", "../x.gguf"),
        change("file", "/etc/passwd"),
        change("file", "model.json"),
        change("file", "a\\b.gguf"),
        change("id", "../x"),
        change("id", "nul"),
        change("sha256", "x"),
        change("sha256", ""),
        change("size", -4),
        change("size", "4"),
        change("size", 10**30),
        change("roles", {"king": 1}),
        change("source", []),
        lambda bundle: bundle["records"].append(bundle["records"][0]),
        lambda bundle: bundle.update(schema=2),
        lambda bundle: bundle.update(records=None),
        lambda bundle: bundle.update(padding="x" * 2_000_000),
        lambda bundle: bundle.clear(),
    ],
)
def test_a_description_that_cannot_be_true_is_refused(
    stick: Path, spoil: Callable[[dict[str, Any]], Any]
) -> None:
    pack(stick, QWEN)
    described = stick / "baton-models.json"
    bundle = json.loads(described.read_text())
    spoil(bundle)
    described.write_text(json.dumps(bundle))
    for use in (lambda: read_bundle(stick), lambda: write_bundle(stick, [CODER])):
        with pytest.raises(ModelFileError, match="can't be used"):
            use()


def test_what_a_stick_says_of_this_machine_is_not_believed(stick: Path, tmp_path: Path) -> None:
    pack(stick, QWEN)
    described = stick / "baton-models.json"
    for said, believed in (
        ({"link": "/etc/passwd", "stamp": {"size": 4, "mtime_ns": 1}}, QWEN.source),
        ({"source": {"url": "file:///etc/passwd"}}, UNKNOWN_SOURCE),
        ({"source": {"repo": "a/../..", "file": "x"}}, UNKNOWN_SOURCE),
        ({"source": {"repo": "a/b", "file": "../x", "revision": "b" * 40}}, UNKNOWN_SOURCE),
        ({"source": {"repo": "a/b", "file": "x", "revision": "main?x"}}, UNKNOWN_SOURCE),
        ({"source": {"url": "https://host/x.gguf"}}, Source(url="https://host/x.gguf")),
    ):
        bundle = json.loads(described.read_text())
        bundle["records"][0] |= said
        described.write_text(json.dumps(bundle))
        ((record, path),) = read_bundle(stick)
        assert record == replace(QWEN, added=0.0, source=believed)
        assert path == stick / QWEN.file


def test_a_file_that_is_not_all_there_is_reported(stick: Path, tmp_path: Path) -> None:
    pack(stick, QWEN)
    file = stick / QWEN.file
    file.write_bytes(b"GGU")
    with pytest.raises(ModelFileError, match="has 3 bytes instead of 4"):
        read_bundle(stick)
    file.unlink()
    with pytest.raises(ModelFileError, match="isn't there"):
        read_bundle(stick)
    (tmp_path / "secret").write_bytes(b"GGUF")
    file.symlink_to(tmp_path / "secret")
    with pytest.raises(ModelFileError, match="isn't there"):
        read_bundle(stick)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ModelFileError, match="isn't there"):
        read_bundle(stick)
