"""Models of other programs are found where those keep them, beside any other files."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baton.core.catalogue_types import UNKNOWN_SOURCE, Source
from baton.models.ports import ExternalModel
from baton.models.store import FolderModelStore, external_models
from baton.models.store.external_models import FolderScan, find_external_models
from baton.models.store.model_store import file_stamp
from models.store.test_model_store import QWEN
from support.gguf_writer import Tensor, Value, header

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems, other folders")

REVISION = "d" * 40


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder of a user who has used other programs before."""
    monkeypatch.setattr(external_models, "SHARED_OLLAMA_FOLDERS", ())
    return tmp_path / "person"


@pytest.fixture
def store(person: Path, tmp_path: Path) -> FolderModelStore:
    return FolderModelStore(tmp_path / "models", {"HOME": str(person)})


def gguf(salt: str = "", tensors: int = 1, **texts: str) -> bytes:
    """Return the beginning of a model file, after which there is little."""
    keys: dict[str, Value] = {f"general.{key}": value for key, value in texts.items()}
    keys["tokenizer.ggml.tokens"] = ["a"]
    return header(keys, [Tensor("w", (0,))] * tensors) + os.fsencode(salt)


def lay(path: Path, data: bytes | None = None) -> Path:
    """Write a file, a model unless said otherwise, whose contents are its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gguf(str(path), architecture="llama") if data is None else data)
    return path


def cache_hub_file(
    person: Path, repo: str, file: str, data: bytes | None = None
) -> tuple[Path, str]:
    """Lay a file as huggingface_hub does; return its path and hash."""
    folder = person / ".cache/huggingface/hub" / f"models--{repo.replace('/', '--')}"
    data = gguf(file, architecture="qwen3") if data is None else data
    sha256 = hashlib.sha256(data).hexdigest()
    blob = lay(folder / "blobs" / sha256, data)
    path = folder / "snapshots" / REVISION / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(blob, path.parent))
    return path, sha256


def pull_ollama_model(
    root: Path, name: str, data: bytes | None = None, **changes: Any
) -> tuple[Path, str]:
    """Lay a model as Ollama does; return its path and hash."""
    data = gguf(name, architecture="llama") if data is None else data
    sha256 = hashlib.sha256(data).hexdigest()
    blob = lay(root / "blobs" / f"sha256-{sha256}", data)
    kind = "application/vnd.ollama.image.model"
    layer = {"mediaType": kind, "digest": f"sha256:{sha256}", "size": len(data)} | changes
    more = {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:x", "size": 1}
    manifest = {"schemaVersion": 2, "config": more, "layers": [layer, more]}
    lay(root / "manifests" / name, json.dumps(manifest).encode())
    return blob, sha256


def names(found: list[ExternalModel] | Any) -> list[str]:
    return [model.name for model in found]


def test_a_user_without_other_programs_has_nothing(store: FolderModelStore, person: Path) -> None:
    assert list(store.external_models()) == []
    assert list(FolderModelStore(store.folder, {}).external_models()) == []
    assert not person.exists()


def test_the_hugging_face_cache_yields_hash_and_source(
    store: FolderModelStore, person: Path
) -> None:
    path, sha256 = cache_hub_file(person, "unsloth/Qwen3-4B-GGUF", "Q4/Qwen3-4B-Q4_K_M.gguf")
    source = Source("unsloth/Qwen3-4B-GGUF", "Q4/Qwen3-4B-Q4_K_M.gguf", REVISION)
    assert list(store.external_models()) == [
        ExternalModel("Qwen3-4B-Q4_K_M", path, path.stat().st_size, "Hugging Face", sha256, source)
    ]


@pytest.mark.parametrize("name", ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"])
def test_a_cache_that_was_moved_is_found(person: Path, tmp_path: Path, name: str) -> None:
    cache_hub_file(person, "a/b", "model-a.gguf")
    moved = tmp_path / "moved"
    (person / ".cache/huggingface").rename(moved)
    if name == "XDG_CACHE_HOME":
        moved.rename(tmp_path / "huggingface")
        moved = tmp_path
    elif name == "HF_HUB_CACHE":
        moved = moved / "hub"
    store = FolderModelStore(tmp_path / "models", {"HOME": str(person), name: str(moved)})
    assert names(store.external_models()) == ["model-a"]


def test_ollama_yields_name_and_hash(store: FolderModelStore, person: Path) -> None:
    root = person / ".ollama/models"
    blob, sha256 = pull_ollama_model(root, "registry.ollama.ai/library/qwen3/8b")
    pull_ollama_model(root, "registry.ollama.ai/someone/tuned/latest")
    pull_ollama_model(root, "hf.co/unsloth/Qwen3-GGUF/Q4_K_M")
    found = list(store.external_models())
    assert names(found) == ["hf.co/unsloth/Qwen3-GGUF:Q4_K_M", "qwen3:8b", "someone/tuned:latest"]
    assert found[1] == ExternalModel(
        "qwen3:8b", blob, blob.stat().st_size, "Ollama", sha256, UNKNOWN_SOURCE
    )


def test_ollama_as_a_service_and_in_another_folder(
    person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_models, "SHARED_OLLAMA_FOLDERS", (tmp_path / "service",))
    pull_ollama_model(tmp_path / "service", "registry.ollama.ai/library/a/1b")
    pull_ollama_model(tmp_path / "moved", "registry.ollama.ai/library/b/1b")
    environ = {"HOME": str(person), "OLLAMA_MODELS": str(tmp_path / "moved")}
    assert names(FolderModelStore(tmp_path / "models", environ).external_models()) == [
        "a:1b",
        "b:1b",
    ]


def test_programs_that_keep_plain_files(store: FolderModelStore, person: Path) -> None:
    places = {
        ".lmstudio/models/someone/Qwen3-GGUF/Qwen3-Q4.gguf": ("LM Studio", "Qwen3-Q4"),
        ".cache/lm-studio/models/someone/Old-GGUF/Old.gguf": ("LM Studio", "Old"),
        ".cache/llama.cpp/ggml-org_gemma_Q4.gguf": ("llama.cpp", "ggml-org_gemma_Q4"),
        ".local/share/nomic.ai/GPT4All/Llama.Q4_0.gguf": ("GPT4All", "Llama.Q4_0"),
        ".local/share/Jan/data/llamacpp/models/jan-v1/model.gguf": ("Jan", "jan-v1"),
    }
    for place in places:
        lay(person / place)
    found = {(model.program, model.name): model.path for model in store.external_models()}
    assert found == {what: person / place for place, what in places.items()}


def test_lm_studio_says_where_it_is(store: FolderModelStore, person: Path, tmp_path: Path) -> None:
    lay(tmp_path / "big disk/models/a/b/here.gguf")
    lay(person / ".lmstudio-home-pointer", f"{tmp_path / 'big disk'}\n".encode())
    assert names(store.external_models()) == ["here"]


def test_what_is_not_a_model_that_talks_is_left_out(store: FolderModelStore, person: Path) -> None:
    folder = person / ".lmstudio/models/a/b"
    for name in (
        "mmproj-model-f16.gguf",
        "ggml-vocab-llama.gguf",
        "nomic-embed-text.gguf",
        "big-00001-of-00003.gguf",
        "my-lora.gguf",
        "bge-reranker.gguf",
        "incomplete-x.gguf",
        "README.md",
        "model.safetensors",
        "x.gguf.part",
    ):
        lay(folder / name)
    lay(folder / "words.gguf", gguf(architecture="llama", tensors=0))
    lay(folder / "minilm.gguf", gguf(architecture="nomic-bert"))
    lay(folder / "tuned.gguf", gguf(architecture="llama", type="adapter"))
    lay(folder / "empty.gguf", b"")
    lay(folder / "short.gguf", b"GGUF")
    lay(folder / "html.gguf", b"<html>" * 100)
    lay(folder / "old.gguf", b"GGUF" + struct.pack("<IQQ", 1, 1, 0))
    lay(folder / "huge.gguf", b"GGUF" + struct.pack("<IQQQ", 3, 1, 2**63, 2**63))
    lay(folder / "explora.gguf")
    root = person / ".ollama/models"
    pull_ollama_model(root, "registry.ollama.ai/library/all-minilm/22m", gguf(architecture="bert"))
    pull_ollama_model(root, "registry.ollama.ai/library/mxbai-embed-large/latest")
    assert names(store.external_models()) == ["explora"]


def test_what_is_used_already_is_left_out(
    store: FolderModelStore, person: Path, tmp_path: Path
) -> None:
    path, sha256 = cache_hub_file(person, "a/b", "model-a.gguf")
    other, _ = cache_hub_file(person, "a/c", "model-b.gguf")
    blob, _ = pull_ollama_model(person / ".ollama/models", "registry.ollama.ai/library/a/1b")
    assert names(store.external_models()) == ["model-a", "model-b", "a:1b"]
    store.save(replace(QWEN, id="link", file=path.name, link=os.path.realpath(path)))
    store.save(replace(QWEN, id="blob", file=blob.name, link=str(blob)))
    assert names(store.external_models()) == ["model-b"]
    coming = replace(QWEN, sha256=Path(os.path.realpath(other)).name)
    held = store.save(coming)
    assert names(store.external_models()) == ["model-b"], "instead of the download"
    held.path.write_bytes(other.read_bytes())
    store.save(replace(coming, stamp=file_stamp(held.path)))
    assert names(store.external_models()) == []
    assert sha256


def test_the_same_file_is_offered_once(
    store: FolderModelStore, person: Path, tmp_path: Path
) -> None:
    path, _ = cache_hub_file(person, "a/b", "model-a.gguf")
    later = path.parent.with_name("e" * 40) / path.name
    later.parent.mkdir()
    later.symlink_to(os.path.realpath(path))
    studio = person / ".lmstudio/models/a/b/mine.gguf"
    studio.parent.mkdir(parents=True)
    studio.symlink_to(path)
    assert names(store.external_models()) == ["model-a"]


def test_loose_files_in_the_models_folder_are_offered(store: FolderModelStore) -> None:
    store.save(QWEN)
    lay(store.folder / QWEN.id / "unnamed.gguf")
    loose = lay(store.folder / "loose.gguf")
    lay(store.folder / "by hand" / "mine.gguf")
    lay(store.folder / "spoilt" / "model.json", b"{")
    lay(store.folder / "spoilt" / "kept.gguf")
    found = list(store.external_models())
    assert names(found) == ["kept", "loose", "mine"]
    store.save(replace(QWEN, id="loose", file="loose.gguf", link=str(loose)))
    assert names(store.external_models()) == ["kept", "mine"]
    assert list(store.orphans()) == [], "a person may have laid it there"
    assert any("unnamed.gguf" in problem for problem in store.problems())


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"layers":' + b"[" * 5000,
        b"[]",
        b'{"layers": {}}',
        b'{"layers": [1]}',
        b'{"layers": [{"mediaType": [], "digest": 1, "size": "x"}]}',
        b" " * 300_000 + b"{}",
    ],
    ids=range(10),
)
def test_a_hostile_manifest_is_passed_over(
    store: FolderModelStore, person: Path, manifest: bytes
) -> None:
    root = person / ".ollama/models"
    pull_ollama_model(root, "registry.ollama.ai/library/good/1b")
    lay(root / "manifests/registry.ollama.ai/library/bad/1b", manifest)
    assert names(store.external_models()) == ["good:1b"]


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": "sha256:../../../../secret"},
        {"digest": "sha256:" + "a" * 64},
        {"digest": "md5:" + "a" * 64},
        {"size": 5},
        {"mediaType": "application/vnd.ollama.image.adapter"},
    ],
    ids=str,
)
def test_a_manifest_that_leads_out_of_the_folder_is_passed_over(
    store: FolderModelStore, person: Path, changes: dict[str, Any]
) -> None:
    lay(person / "secret")
    pull_ollama_model(person / ".ollama/models", "registry.ollama.ai/library/a/1b", **changes)
    assert names(store.external_models()) == []


def test_a_model_that_needs_an_adapter_is_not_offered_without(
    store: FolderModelStore, person: Path
) -> None:
    root = person / ".ollama/models"
    pull_ollama_model(root, "registry.ollama.ai/library/a/1b")
    path = root / "manifests/registry.ollama.ai/library/a/1b"
    manifest = json.loads(path.read_text())
    manifest["layers"].append(
        {"mediaType": "application/vnd.ollama.image.adapter", "digest": "sha256:x", "size": 1}
    )
    path.write_text(json.dumps(manifest))
    assert names(store.external_models()) == []


def test_pipes_loops_and_strange_names_are_passed_over(
    store: FolderModelStore, person: Path
) -> None:
    folder = person / ".lmstudio/models/a/b"
    lay(folder / "good.gguf")
    os.mkfifo(folder / "pipe.gguf")
    (folder / "loop.gguf").symlink_to(folder / "loop.gguf")
    (folder / "nowhere.gguf").symlink_to(folder / "none")
    (folder / "device.gguf").symlink_to("/dev/zero")
    (folder / "piped.gguf").symlink_to(folder / "pipe.gguf")
    (folder / "folder.gguf").mkdir()
    (folder / "around").symlink_to(folder)
    (person / "other").mkdir()
    lay(person / "other" / "outside.gguf")
    (folder / "out").symlink_to(person / "other")
    lay(folder / "evil\x1b]0;x\x07.gguf")
    lay(Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.gguf")))
    os.mkfifo(person / ".lmstudio-home-pointer")
    root = person / ".ollama/models/manifests/registry.ollama.ai/library/x"
    root.mkdir(parents=True)
    os.mkfifo(root / "latest")
    assert names(store.external_models()) == ["good"]


def test_a_link_out_of_the_cache_yields_no_hash(store: FolderModelStore, person: Path) -> None:
    path, _ = cache_hub_file(person, "a/b", "model-a.gguf")
    path.unlink()
    path.symlink_to(lay(person / "other" / ("a" * 64)))
    assert [model.sha256 for model in store.external_models()] == [""]


@pytest.mark.parametrize("folder", ["models--a--b", "models--..--..", "models--", "datasets--a--b"])
def test_strange_folders_in_the_cache(store: FolderModelStore, person: Path, folder: str) -> None:
    root = person / ".cache/huggingface/hub" / folder / "snapshots"
    lay(root / "main" / "model-a.gguf")
    for model in store.external_models():
        assert model.source == UNKNOWN_SOURCE
        assert model.sha256 == ""


def test_a_look_ends_however_much_there_is(person: Path, tmp_path: Path) -> None:
    folder = person / ".lmstudio/models/a/b"
    for number in range(50):
        lay(folder / f"{number}.gguf")
    deep = person / ".lmstudio/models"
    for _ in range(30):
        deep = deep / "deep"
    lay(deep / "deep.gguf")
    environ = {"HOME": str(person)}
    assert len(find_external_models(tmp_path / "models", environ, [], FolderScan())) == 50
    assert len(find_external_models(tmp_path / "models", environ, [], FolderScan(entries=20))) < 20
    assert find_external_models(tmp_path / "models", environ, [], FolderScan(seconds=-1)) == []
