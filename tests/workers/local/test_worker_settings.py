"""How a local worker writes and when it loads, as its settings say."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.errors import ModelFileError, WorkerUnavailable
from baton.core.messages import Loading
from baton.workers.local import GenerationSettings, LocalWorker, Memory, starter
from support.local_worker_calls import CAPITAL, ask, listen, local_worker, request, small

pytestmark = [pytest.mark.sampled(0.5), pytest.mark.local_model]

WILD = "Tell me a story about a fox."


@pytest.fixture
async def plain() -> AsyncIterator[LocalWorker]:
    worker = small()
    yield worker
    await worker.aclose()


async def write(
    worker: LocalWorker, settings: GenerationSettings, seed: int | None = None, tokens: int = 12
) -> str:
    """Return the beginning of a story that is written with these settings."""
    configured = LocalWorker(worker.card, worker.model, settings)
    asked = replace(request(WILD, max_tokens=tokens), seed=seed)
    return (await listen(configured, asked)).text


async def test_how_words_are_chosen_reaches_the_model(plain: LocalWorker) -> None:
    likeliest = await write(plain, GenerationSettings(0.0))
    hot = GenerationSettings(2.0, top_k=0, top_p=1.0, min_p=0.0)
    chances = {await write(plain, replace(hot, seed=seed)) for seed in range(2)}
    assert len(chances | {likeliest}) == 3
    assert await write(plain, replace(hot, seed=1)) in chances
    for narrow in ({"top_k": 1}, {"top_p": 0.0}, {"min_p": 1.0}):
        assert await write(plain, replace(hot, seed=5, **narrow)) == likeliest
    # Long enough to repeat a word, with any processor's own rounding.
    repeats = await write(plain, GenerationSettings(0.0), tokens=64)
    assert await write(plain, GenerationSettings(0.0, repeat_penalty=10.0), tokens=64) != repeats


async def test_the_seed_of_a_request_comes_before_the_workers(plain: LocalWorker) -> None:
    hot = GenerationSettings(2.0, top_k=0, top_p=1.0, min_p=0.0, seed=1)
    assert await write(plain, hot, seed=2) == await write(plain, replace(hot, seed=2))
    assert await write(plain, hot, seed=2) != await write(plain, hot)


async def test_a_file_is_looked_at_before_it_is_loaded_and_not_with_each_request() -> None:
    looked: list[str] = []

    async def ready() -> None:
        looked.append("looked")

    worker = small(ready=ready)
    first = await ask(worker, CAPITAL)
    await ask(worker, CAPITAL)
    assert looked == ["looked"]
    assert [chunk for chunk in first.chunks if isinstance(chunk, Loading)]
    await worker.aclose()
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert looked == ["looked", "looked"]
    await worker.aclose()


async def test_a_file_that_is_not_what_it_was_is_not_loaded() -> None:
    fine = False

    async def ready() -> None:
        if not fine:
            raise ModelFileError("The file has changed.", "Fetch it again.")

    worker = small(ready=ready)
    with pytest.raises(ModelFileError, match="has changed"):
        await ask(worker, CAPITAL)
    assert worker.process is None
    fine = True
    assert "Paris" in (await ask(worker, CAPITAL)).text
    await worker.aclose()


async def test_a_file_that_changes_while_it_is_loaded_is_looked_at_again(tmp_path: Path) -> None:
    looked: list[int] = []

    async def ready() -> None:
        looked.append(file.stat().st_mtime_ns)

    file = tmp_path / "model.gguf"
    shutil.copy(starter().path, file)
    worker = local_worker(
        starter().card, file, Memory(), settings=GenerationSettings(0.0), ready=ready
    )
    await ask(worker, CAPITAL, max_tokens=1)
    process = worker.process
    with file.open("r+b") as opened:  # some of it is read in place, and would be invalid
        opened.seek(40 << 20)
        opened.write(bytes(1 << 20))
    os.utime(file, ns=(1, 1))
    await ask(worker, CAPITAL, max_tokens=1)
    assert worker.process != process
    assert len(looked) == 2
    process = worker.process
    file.unlink()  # a process that reads it has it to the end
    await ask(worker, CAPITAL, max_tokens=1)
    assert worker.process == process
    await worker.aclose()


async def test_closing_while_a_file_is_looked_at_loads_nothing() -> None:
    looking, looked = asyncio.Event(), asyncio.Event()

    async def ready() -> None:
        looking.set()
        await looked.wait()

    worker = small(ready=ready)
    asked = [asyncio.create_task(ask(worker, CAPITAL)) for _ in range(2)]
    await looking.wait()
    await worker.aclose()
    looked.set()
    for one in asked:
        with pytest.raises(WorkerUnavailable, match="It was stopped"):
            await one
    assert worker.process is None, "nothing else would end it"


async def test_closing_while_it_answers_does_not_load_it_again() -> None:
    worker = small()
    chunks = worker.stream(request(CAPITAL))
    await anext(chunks)
    await worker.aclose()
    with pytest.raises(WorkerUnavailable, match="It was stopped"):
        [chunk async for chunk in chunks]
    assert worker.process is None


@pytest.mark.parametrize(("trusted", "loads"), [(None, False), (False, False), (True, True)])
async def test_warming_loads_only_what_is_trusted(trusted: bool | None, loads: bool) -> None:
    async def ready() -> None:
        """All is well."""

    worker = small(ready=ready, trusted=None if trusted is None else lambda: trusted)
    worker.warm()
    assert (worker.process is not None) == loads
    assert "Paris" in (await ask(worker, CAPITAL)).text
    await worker.aclose()


async def test_a_forced_model_is_loaded_however_little_memory_there_is() -> None:
    worker = small(Memory(150_000_000))
    with pytest.raises(ModelFileError):
        await ask(worker, CAPITAL)
    worker.model.force = True
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert worker.resident > 150_000_000
    await worker.aclose()


async def test_those_beside_another_close_with_it() -> None:
    one = small()
    other = LocalWorker(replace(starter().card, id="other"), one.model, GenerationSettings(0.0))
    one.warm()
    before = (one.process, one.loading)
    assert before[0] is not None
    assert before == (other.process, other.loading)
    await other.aclose()
    assert {one.process, other.process, one.resident, other.resident} == {None, 0}
