"""How fast a worker writes, measured."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

import pytest

from baton.core.errors import WorkerUnavailable
from baton.core.messages import Card, Chunk, Finish, Request, Text, Thinking, Usage
from baton.workers.local.speed_benchmark import measure_speed
from baton.workers.scripted_worker import ScriptedWorker
from support.local_worker_calls import small
from support.scripted_plans import StubWorker, cloud, local


def write_at_pace(request: Request) -> Iterable[Chunk | float]:
    """Write a hundred tokens a second, first as thoughts, for as long as anybody listens."""
    yield 0.05
    yield Text("a")
    for _ in range(4):
        yield 0.05
        yield Thinking(5, 100.0)
    for _ in range(500):
        yield 0.05
        yield Text("abcde", 5)


async def test_thoughts_and_text_count_but_not_the_wait_before_them() -> None:
    speed = await measure_speed(ScriptedWorker(write_at_pace), 0.5)
    assert speed is not None
    assert 30 < speed <= 100


async def test_one_that_ends_sooner_is_measured_as_far_as_it_went() -> None:
    def brief(request: Request) -> Iterable[Chunk | float]:
        yield Text("a")
        yield 0.05
        yield Text("b", 2)
        yield Usage(1, 3, Finish.STOP)

    speed = await measure_speed(ScriptedWorker(brief))
    assert speed is not None
    assert 0 < speed <= 40


@pytest.mark.parametrize("said", [[], [Text("a")], [WorkerUnavailable("It is down.", "Wait.")]])
async def test_what_cannot_be_measured_is_none(said: list[Chunk | BaseException]) -> None:
    assert await measure_speed(ScriptedWorker(lambda _: said)) is None


async def test_no_remote_worker_is_asked() -> None:
    far, tool = StubWorker(cloud()), StubWorker(Card("clock", "tool", "Clock"))
    assert await measure_speed(far) is None
    assert await measure_speed(tool) is None
    assert far.requests == tool.requests == []


async def test_it_can_be_cancelled_at_once() -> None:
    stopped = asyncio.Event()
    began = asyncio.Event()

    async def endless(request: Request) -> AsyncGenerator[Chunk]:
        try:
            while True:
                began.set()
                yield Text("a")
                await asyncio.sleep(0.01)
        finally:
            stopped.set()

    task = asyncio.create_task(measure_speed(StubWorker(local(), endless), 3600))
    await began.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert stopped.is_set()


@pytest.mark.sampled(0.34)
@pytest.mark.local_model
async def test_the_starter_model_is_measured() -> None:
    worker = small()
    speed = await measure_speed(worker, 1.0)
    assert speed is not None
    assert speed > 0
    await worker.aclose()
