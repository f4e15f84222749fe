"""Who computes, and in what order."""

from __future__ import annotations

import asyncio

from baton.workers.local.model_memory import CpuLock


class WaitingModels:
    """Models that want to compute: the first letter of a name is the model, the rest a request."""

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
        async with self.processor.hold(name[0], threads):
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
    models = WaitingModels(4)
    for name in "abc":
        await models.come(name, 0)
    assert models.working == ["a"]
    await models.end("a")
    assert models.working == ["b"]
    await models.end("b")
    assert models.working == ["c"]


async def test_requests_of_one_model_share_its_cores_and_queue_behind_another_model() -> None:
    models = WaitingModels(4)
    for name in ("a1", "a2", "b1", "a3", "b2"):
        await models.come(name, 0)
    assert models.working == ["a1", "a2"]
    await models.end("a1")
    assert models.working == ["a2"], "a3 doesn't overtake b1"
    await models.end("a2")
    assert models.working == ["b1"]
    await models.end("b1")
    assert models.working == ["a3"]
    await models.end("a3")
    assert models.working == ["b2"]


async def test_those_that_fit_beside_each_other_compute_at_once() -> None:
    models = WaitingModels(4)
    for name, threads in (("a", 2), ("b", 1), ("c", 2), ("d", 1)):
        await models.come(name, threads)
    assert models.working == ["a", "b"], "none overtakes"
    await models.end("a")
    assert models.working == ["b", "c", "d"]


async def test_more_threads_than_cores_still_get_their_turn() -> None:
    models = WaitingModels(2)
    await models.come("a", 16)
    assert models.working == ["a"]


async def test_a_model_that_leaves_the_queue_or_the_work_makes_way() -> None:
    models = WaitingModels(2)
    await models.come("a", 1)
    await models.come("b", 2)
    await models.come("c", 1)
    await models.cancel("b")
    assert models.working == ["a", "c"]
    await models.come("d", 2)
    models.tasks["a"].cancel()
    models.tasks["c"].cancel()
    await settle()
    assert models.working[-1] == "d"


async def test_a_turn_that_comes_with_a_cancellation_is_passed_on() -> None:
    models = WaitingModels(1)
    for name in "abc":
        await models.come(name, 1)
    models.stops["a"].set()
    models.tasks["b"].cancel()
    await settle()
    assert models.working == ["c"]
