"""The local worker, with the real starter model in a real child process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import replace

import psutil
import pytest

from baton.core.errors import ContextTooLong, ModelFileError
from baton.core.messages import Chunk, Finish, Loading, Reading, Request, Text, Writing
from baton.platform.machine_limits import physical_cores
from baton.workers.local import LocalWorker, Memory, probe_llama, starter
from support.local_worker_calls import CAPITAL, Answer, ask, local_worker, request, small

pytestmark = pytest.mark.local_model

LONG = "The quick brown fox jumps over the lazy dog. " * 600
STORY = "Write a very long story about a river."


@pytest.fixture(scope="module")
def worker() -> Iterator[LocalWorker]:
    """A worker that is loaded once for all tests here."""
    worker = small()
    yield worker
    asyncio.run(worker.aclose())


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children()]


SOON = 20
"""In seconds: far less than what is stopped would take, and enough for a busy machine."""


async def begin(
    worker: LocalWorker, asked: Request, until: Callable[[Chunk], bool]
) -> tuple[list[Chunk], float]:
    """Ask, stop at the first chunk that fits, and return the chunks and how long stopping took."""
    seen = []
    async with aclosing(worker.stream(asked)) as chunks:
        async for chunk in chunks:
            seen.append(chunk)
            if until(chunk):
                break
        stopping = time.monotonic()
    return seen, time.monotonic() - stopping


async def test_it_answers_paris_and_reports_its_phases(worker: LocalWorker) -> None:
    answer = await ask(worker, CAPITAL)
    assert "Paris" in answer.text
    usage = answer.usage
    assert usage.finish is Finish.STOP
    assert (usage.tokens_in, usage.context) == (36, 8192)
    assert usage.confidence is not None
    assert -2 < usage.confidence < 0
    assert usage.least is not None
    assert usage.first is not None
    assert usage.least <= min(usage.confidence, usage.first) < 0
    assert usage.tokens_out == sum(c.tokens for c in answer.chunks if isinstance(c, Text))
    order = [type(chunk) for chunk in answer.chunks if not isinstance(chunk, Writing)]
    assert order == sorted(order, key=[Loading, Reading, Text, type(usage)].index)
    assert worker.card.hardware == "CPU only"
    assert worker.card.note == "Tiny, good for a first try, often wrong."


async def test_a_second_turn_reads_only_what_is_new_and_answers_alike(worker: LocalWorker) -> None:
    first = await ask(worker, CAPITAL)
    turns = (CAPITAL, first.text, "And of Spain?")
    again = await ask(worker, *turns)
    await worker.aclose()
    fresh = await ask(worker, *turns)
    assert again.usage.cached >= first.usage.tokens_in
    assert fresh.usage.cached == 0
    assert again.text == fresh.text


async def test_stopping_while_loading() -> None:
    worker = small()
    _, seconds = await begin(worker, request(CAPITAL), lambda c: isinstance(c, Loading))
    assert seconds <= SOON
    assert "Paris" in (await ask(worker, CAPITAL)).text
    await worker.aclose()


@pytest.mark.sampled(0.5)
async def test_stopping_while_reading(worker: LocalWorker) -> None:
    await ask(worker, CAPITAL)
    before = children()
    seen, seconds = await begin(
        worker, request(LONG), lambda c: isinstance(c, Reading) and c.done > 0
    )
    assert seconds <= SOON
    assert isinstance(seen[-1], Reading)
    assert 0 < seen[-1].done < seen[-1].total
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert children() == before, "it was stopped, not killed"


async def test_stopping_while_writing(worker: LocalWorker) -> None:
    await ask(worker, CAPITAL)
    before = children()
    _, seconds = await begin(worker, request(STORY), lambda c: isinstance(c, Writing))
    assert seconds <= SOON
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert children() == before


async def test_a_cancelled_consumer_stops_the_work(worker: LocalWorker) -> None:
    writing = asyncio.Event()

    async def consume() -> None:
        async with aclosing(worker.stream(request(STORY))) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Text):
                    writing.set()

    task = asyncio.create_task(consume())
    await writing.wait()
    task.cancel()
    async with asyncio.timeout(30):
        await asyncio.wait({task})
    assert task.cancelled()
    assert "Paris" in (await ask(worker, CAPITAL)).text


@pytest.mark.sampled(0.5)
async def test_requests_beyond_its_slots_wait_and_waiting_can_be_cancelled() -> None:
    worker = small(slots=1)
    first = asyncio.create_task(ask(worker, STORY, max_tokens=30))
    second = asyncio.create_task(ask(worker, CAPITAL))
    third = asyncio.create_task(ask(worker, CAPITAL))
    await asyncio.sleep(0.1)
    third.cancel()
    answers = await asyncio.gather(first, second, third, return_exceptions=True)
    assert isinstance(answers[2], asyncio.CancelledError)
    assert isinstance(answers[0], Answer)
    assert isinstance(answers[1], Answer)
    assert answers[0].usage.tokens_out == 30
    assert "Paris" in answers[1].text
    await worker.aclose()


async def test_what_does_not_fit_is_refused_before_anything_runs(worker: LocalWorker) -> None:
    with pytest.raises(ContextTooLong) as too_long:
        await ask(worker, LONG * 3)
    assert too_long.value.needed > too_long.value.limit == 8192
    assert "Paris" in (await ask(worker, CAPITAL, max_tokens=8192)).text, "as much as there is"
    with pytest.raises(ContextTooLong):
        await ask(worker, "a" * 17_000_000)
    assert "Paris" in (await ask(worker, CAPITAL)).text


@pytest.mark.parametrize("text", ["a", " ", "\n", "1", "é", "日本", "🎉", "<|im_end|>", "a b\n"])
async def test_a_megabyte_of_anything_is_refused_soon(worker: LocalWorker, text: str) -> None:
    with pytest.raises(ContextTooLong):
        async with asyncio.timeout(30):
            await ask(worker, text * (1_000_000 // len(text.encode())))


async def test_what_is_far_too_long_is_refused_before_anything_is_loaded() -> None:
    worker = small()
    with pytest.raises(ContextTooLong) as refused:
        await ask(worker, "word " * 1_000_000)
    assert refused.value.limit == 8192
    assert refused.value.needed > 1_000_000
    assert worker.process is None


async def test_a_length_cap_is_reported(worker: LocalWorker) -> None:
    answer = await ask(worker, STORY, max_tokens=5)
    assert (answer.usage.finish, answer.usage.tokens_out) == (Finish.LENGTH, 5)


async def test_lone_surrogates_and_empty_prompts_do_no_harm(worker: LocalWorker) -> None:
    assert (await ask(worker, "\ud800 hello \x00 there", max_tokens=2)).usage.tokens_out <= 2
    assert (await ask(worker, "", max_tokens=2)).usage.tokens_out <= 2


async def test_no_secret_reaches_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "LAB_TOKEN", "BATON_BUDGET__DAY"):
        monkeypatch.setenv(name, "sk-canary")
    worker = small()
    before = set(children())
    worker.warm()
    [pid] = set(children()) - before
    while not (known := psutil.Process(pid).environ()):  # noqa: ASYNC110 - empty until its exec
        await asyncio.sleep(0.01)
    await worker.aclose()
    assert "PATH" in known
    assert "canary" not in str(known)


@pytest.mark.sampled(0.5)
async def test_an_idle_model_is_unloaded_and_comes_back() -> None:
    worker = small(idle_seconds=0.3)
    assert "Paris" in (await ask(worker, CAPITAL)).text
    async with asyncio.timeout(60):
        while worker.resident:  # noqa: ASYNC110 - there is no event when a child goes
            await asyncio.sleep(0.05)
    answer = await ask(worker, CAPITAL)
    assert "Paris" in answer.text
    assert isinstance(answer.chunks[0], Loading)
    await worker.aclose()


@pytest.mark.sampled(0.5)
async def test_the_least_recently_used_model_makes_room() -> None:
    memory = Memory(450_000_000)
    one, other = small(memory), small(memory)
    await ask(one, CAPITAL)
    assert 250_000_000 < one.resident < 450_000_000
    await ask(other, CAPITAL)
    assert (one.resident, other.resident > 0) == (0, True)
    assert "Paris" in (await ask(one, CAPITAL)).text
    assert other.resident == 0
    await one.aclose()


@pytest.mark.sampled(0.5)
async def test_a_model_that_is_answering_is_waited_for_and_not_unloaded() -> None:
    memory = Memory(450_000_000)
    one, other = small(memory), small(memory)
    async with aclosing(one.stream(request(STORY))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Text):
                break
        waiting = [asyncio.create_task(ask(other, CAPITAL)) for _ in range(2)]
        await asyncio.sleep(0.2)
        waiting[1].cancel()
        await asyncio.wait({waiting[1]})
        assert one.resident > 0
        assert not waiting[0].done()
    assert "Paris" in (await waiting[0]).text
    assert (one.resident, other.resident > 0) == (0, True)
    await one.aclose()
    await other.aclose()


async def test_a_model_that_was_unused_while_another_gave_up_is_not_waited_for() -> None:
    memory = Memory()
    rests = memory.releases
    memory.notify_release()
    async with asyncio.timeout(30):
        await memory.wait_for_release(rests)
    waiting = asyncio.create_task(memory.wait_for_release(memory.releases))
    await asyncio.sleep(0)
    assert not waiting.done()
    memory.notify_release()
    async with asyncio.timeout(30):
        await waiting


@pytest.mark.sampled(0.5)
async def test_workers_take_turns_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_THREAD_LIMIT", raising=False)
    memory = Memory()
    one, other = small(memory, threads=physical_cores() + 1), small(memory, threads=0)
    async with aclosing(one.stream(request(STORY))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Text):
                break
        stopped = asyncio.create_task(ask(other, CAPITAL))
        waiting = asyncio.create_task(ask(other, CAPITAL))
        async with asyncio.timeout(60):
            while other.card.hardware != "CPU only":  # noqa: ASYNC110 - loading isn't waited for
                await asyncio.sleep(0.02)
        stopped.cancel()
        await asyncio.wait({stopped})
        assert other.resident > 0, "it was stopped, not killed"
        assert not waiting.done()
    assert "Paris" in (await waiting).text
    await one.aclose()
    await other.aclose()


async def test_a_context_that_outgrows_the_memory_is_reported() -> None:
    worker = small(Memory(150_000_000))
    with pytest.raises(ModelFileError, match=r"needs about [\d.]+ MB of memory; 150\.0 MB are"):
        await ask(worker, CAPITAL)
    assert worker.resident == 0


@pytest.mark.sampled(0.5)
async def test_a_smaller_context_is_kept_to() -> None:
    model = starter()
    worker = local_worker(replace(model.card, context=512, max_output=20), model.path, Memory())
    with pytest.raises(ContextTooLong) as too_long:
        await ask(worker, LONG)
    assert too_long.value.limit == 512
    assert (await ask(worker, STORY)).usage.tokens_out <= 20
    await worker.aclose()


async def test_what_the_doctor_asks() -> None:
    before = children()
    llama = await probe_llama()
    assert "CPU" in llama.system
    assert llama.version
    assert children() == before
