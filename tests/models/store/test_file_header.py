"""A file's header is read from its beginning, however long it is; nothing else is waited for."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from baton.core.errors import ModelFileError
from baton.gguf.header import HeaderIncomplete, parse_header
from baton.gguf.metadata import MalformedHeader
from baton.models.store import FolderModelStore
from support import gguf_writer

TENSORS = [gguf_writer.Tensor("token_embd.weight", (64, 32))]


@pytest.fixture
def store(tmp_path: Path) -> FolderModelStore:
    return FolderModelStore(tmp_path / "models", {})


@pytest.mark.parametrize("words", [300, 200_000])
def test_a_header_is_read_however_long_it_is(
    store: FolderModelStore, tmp_path: Path, words: int
) -> None:
    data = gguf_writer.whole(
        gguf_writer.facts(general__name="x") | gguf_writer.vocabulary(words), TENSORS
    )
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    assert (len(data) > (2 << 20)) == (words > 300)
    assert store.read_header(path) == parse_header(data, len(data))
    assert store.read_header(path).vocabulary == words


def test_what_is_not_a_model_is_reported(store: FolderModelStore, tmp_path: Path) -> None:
    data = gguf_writer.whole(gguf_writer.facts() | gguf_writer.vocabulary(300), TENSORS)
    path = tmp_path / "model.gguf"
    for wrong in (b"", b"<html>", data[:100], data[:-1000], b"GGUF" + bytes(100)):
        path.write_bytes(wrong)
        with pytest.raises(ModelFileError, match=r"model\.gguf isn't a model that can be used: it"):
            store.read_header(path)


def test_what_is_not_a_file_is_reported(store: FolderModelStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe", tmp_path / "loop", Path("\0")):
        with pytest.raises(ModelFileError):
            store.read_header(path)


def test_mutated_and_hostile_headers_are_reported(store: FolderModelStore, tmp_path: Path) -> None:
    data = gguf_writer.whole(gguf_writer.facts() | gguf_writer.vocabulary(300), TENSORS)
    chance = random.Random(3)
    path = tmp_path / "model.gguf"
    for wrong in (
        *gguf_writer.hostile(),
        *(gguf_writer.mutate_header(data, chance) for _ in range(200)),
    ):
        path.write_bytes(wrong)
        try:
            assert store.read_header(path) == parse_header(wrong, len(wrong))
        except ModelFileError:
            with pytest.raises((HeaderIncomplete, MalformedHeader)):
                parse_header(wrong, len(wrong))
