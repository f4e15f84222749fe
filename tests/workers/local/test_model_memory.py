"""Who computes, and in what order."""

from __future__ import annotations

import asyncio

from baton.workers.local.model_memory import CpuLock


class WaitingModels:
    """Models that want to compute."""

    def __init__(self, cores: int) -> None:
        self.processor = CpuLock(cores)
        self.working: list[str] = []
        self.stops: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, threads: int) -> None:
        self.stops[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._work(name, threads))
        await settle()

    async def _work(self, name: str, threads: int) -> None:
        async with self.processor.hold(threads):
            self.working.append(name)
            await self.stops[name].wait()
        self.working.remove(name)

    async def end(self, name: str) -> None:
        self.stops[name].set()
        await settle()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_that_wants_all_cores_computes_alone_and_others_in_order() -> None:
    crowd = WaitingModels(4)
    for name in "abc":
        await crowd.come(name, 0)
    assert crowd.working == ["a"]
    await crowd.end("a")
    assert crowd.working == ["b"]
    await crowd.end("b")
    assert crowd.working == ["c"]


async def test_those_that_fit_beside_each_other_compute_at_once() -> None:
    crowd = WaitingModels(4)
    for name, threads in (("a", 2), ("b", 1), ("c", 2), ("d", 1)):
        await crowd.come(name, threads)
    assert crowd.working == ["a", "b"], "none overtakes"
    await crowd.end("a")
    assert crowd.working == ["b", "c", "d"]


async def test_more_threads_than_cores_still_get_their_turn() -> None:
    crowd = WaitingModels(2)
    await crowd.come("a", 16)
    assert crowd.working == ["a"]


async def test_a_model_that_leaves_the_queue_or_the_work_makes_way() -> None:
    crowd = WaitingModels(2)
    await crowd.come("a", 1)
    await crowd.come("b", 2)
    await crowd.come("c", 1)
    await crowd.cancel("b")
    assert crowd.working == ["a", "c"]
    await crowd.come("d", 2)
    crowd.tasks["a"].cancel()
    crowd.tasks["c"].cancel()
    await settle()
    assert crowd.working[-1] == "d"


async def test_a_turn_that_comes_with_a_cancellation_is_passed_on() -> None:
    crowd = WaitingModels(1)
    for name in "abc":
        await crowd.come(name, 1)
    crowd.stops["a"].set()
    crowd.tasks["b"].cancel()
    await settle()
    assert crowd.working == ["c"]
