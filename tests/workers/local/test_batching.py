"""Several requests at once on one model, in a real child process.

A tiny model does where an answer's form says what it is; the starter model where words count.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from baton.core.errors import WorkerUnavailable
from baton.core.messages import AnswerFormat, Chunk, Loading, Reading, Request, Retrying, Text
from baton.ipc import supervisor
from baton.workers.local import GenerationSettings, LocalWorker, starter
from support.adapter_files import adapter
from support.local_worker_calls import CAPITAL, Answer, ask, listen, request, small
from support.tiny_models import tiny_worker

pytestmark = [pytest.mark.sampled(1), pytest.mark.local_model]

LONG = "The quick brown fox jumps over the lazy dog. " * 100
STORY = "Write a very long story about a river."
LANDS = ("France", "Italy", "Japan", "Germany")
CITIES = ("Paris", "Rome", "Tokyo", "Berlin")


@pytest.fixture(scope="module")
def worker() -> Iterator[LocalWorker]:
    """A worker with the starter model and 16 slots that is loaded once for all tests here."""
    worker = small(slots=16)
    yield worker
    asyncio.run(worker.aclose())


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWorker]:
    """A worker with a tiny model and 16 slots that is loaded once for all tests here."""
    worker = tiny_worker(tmp_path_factory.mktemp("tiny"), slots=16)
    yield worker
    asyncio.run(worker.aclose())


def exactly(text: str, *prompts: str) -> Request:
    """Return a request to which only that text is an answer."""
    form = AnswerFormat(f'root ::= "{text}"', "{}")
    return replace(request(*prompts, temperature=0.0), shape=form)


def numbers(first: int, count: int) -> str:
    return " ".join(str(number) for number in range(first, first + count))


def digits(count: int, prompt: str) -> Request:
    """Return a request to which an answer is so many digits, each of them a tiny model's token."""
    return replace(
        request(prompt, max_tokens=count), shape=AnswerFormat("root ::= [0-9] root", "{}")
    )


async def until(chunks: AsyncGenerator[Chunk], kind: type[Chunk]) -> Chunk:
    async for chunk in chunks:
        if isinstance(chunk, kind):
            return chunk
    raise AssertionError(f"no {kind.__name__} came")


async def test_sixteen_requests_at_once_each_get_their_own_answer(worker: LocalWorker) -> None:
    texts = [numbers(1000 * n, 2) for n in range(12)]
    forced = [listen(worker, exactly(text, f"Count {n}.")) for n, text in enumerate(texts)]
    alone = [(await listen(worker, choice(land))).text for land in LANDS]
    free = [listen(worker, choice(land)) for land in LANDS]
    answers = await asyncio.gather(*forced, *free)
    assert [answer.text for answer in answers] == [*texts, *alone]
    for answer in answers:
        counted = sum(chunk.tokens for chunk in answer.chunks if isinstance(chunk, Text))
        assert answer.usage.tokens_out == counted
    assert len({answer.usage.tokens_in for answer in answers}) > 1


def choice(land: str) -> Request:
    """Ask for a capital, among four of them."""
    form = AnswerFormat("root ::= " + " | ".join(f'"{city}"' for city in CITIES), "{}")
    asked = request(f"What is the capital of {land}?", temperature=0.0)
    return replace(asked, shape=form)


async def test_each_conversation_finds_what_it_left(quick: LocalWorker) -> None:
    prompts = [f"Tell me something about the number {n}." for n in range(6)]
    first = await asyncio.gather(*(ask(quick, prompt, max_tokens=8) for prompt in prompts))
    turns = zip(prompts, first, strict=True)
    again = await asyncio.gather(
        *(ask(quick, prompt, answer.text, "Go on.", max_tokens=2) for prompt, answer in turns)
    )
    for before, after in zip(first, again, strict=True):
        assert after.usage.cached >= before.usage.tokens_in


async def test_a_beginning_that_another_is_using_is_not_read_again(quick: LocalWorker) -> None:
    await quick.aclose()
    lines = "Seven sailors sailed the seven seas. " * 20
    async with aclosing(quick.stream(digits(2000, lines + STORY))) as chunks:
        await until(chunks, Text)
        beside = await ask(quick, lines + CAPITAL, max_tokens=2)
        assert await until(chunks, Text), "it is still written"
    assert beside.usage.cached > len(lines)


async def test_one_that_is_stopped_leaves_the_others(quick: LocalWorker) -> None:
    await ask(quick, CAPITAL, max_tokens=1)
    process = quick.process
    text = numbers(100, 60)
    others = [asyncio.create_task(listen(quick, exactly(text, f"{n}"))) for n in range(3)]
    for kind, asked in ((Reading, request(LONG)), (Text, digits(2000, STORY))):
        async with aclosing(quick.stream(asked)) as chunks:
            await until(chunks, kind)
    assert [answer.text for answer in await asyncio.gather(*others)] == [text] * 3
    assert quick.process == process, "it was stopped, not killed"


async def test_a_long_prompt_leaves_time_to_those_that_write(quick: LocalWorker) -> None:
    async with aclosing(quick.stream(digits(2000, STORY))) as story:
        await until(story, Text)
        written = 0

        async def write() -> None:
            nonlocal written
            async for chunk in story:
                written += chunk.tokens if isinstance(chunk, Text) else 0

        writing = asyncio.create_task(write())
        async with aclosing(quick.stream(request(LONG[:4000], max_tokens=1))) as chunks:
            seen = [c async for c in chunks]
        reads = [chunk for chunk in seen if isinstance(chunk, Reading)]
        turns = len({chunk.done for chunk in reads})
        assert not writing.done()
        writing.cancel()
        await asyncio.wait({writing})
    assert reads[-1].total > 4000
    assert turns > reads[-1].total / 64, "in smaller pieces than without writers"
    assert written >= turns / 2


async def test_a_form_and_an_adapter_beside_free_answers(
    worker: LocalWorker, tmp_path: Path
) -> None:
    chance = adapter(tmp_path / "chance.gguf")
    plan = adapter(tmp_path / "plan.gguf", prompt="One, two, three, {prompt},")
    card = replace(starter().card, id="other")
    changed = LocalWorker(card, worker.model, GenerationSettings(0.0, adapter=chance))
    planner = LocalWorker(
        card, worker.model, GenerationSettings(0.0, adapter=plan, adapter_scale=0.0)
    )

    alone = await ask(changed, CAPITAL, max_tokens=2)
    plain = await ask(worker, CAPITAL, max_tokens=2)
    in_italy = await listen(worker, choice("Italy"))
    counted, city, one, planned, other = await asyncio.gather(
        listen(worker, exactly(numbers(1, 20), "Count.")),
        listen(worker, choice("Italy")),
        ask(changed, CAPITAL, max_tokens=2),
        ask(planner, "four, five", max_tokens=2),
        ask(changed, CAPITAL, max_tokens=2),
    )
    assert (counted.text, city.text) == (numbers(1, 20), in_italy.text)
    assert planned.text.startswith(" six")
    # Beside others the random adapter's flat figures may tip: it is on in each, what it says aside.
    assert plain.text not in (one.text, other.text, alone.text)


async def test_planning_does_not_wait_for_an_answer_to_end(
    worker: LocalWorker, tmp_path: Path
) -> None:
    plan = adapter(tmp_path / "plan.gguf", prompt="One, two, three, {prompt},")
    settings = GenerationSettings(0.0, adapter=plan, adapter_scale=0.0)
    planner = LocalWorker(replace(starter().card, id="planner"), worker.model, settings)
    async with aclosing(worker.stream(exactly(numbers(1, 400), "Count."))) as story:
        await until(story, Text)
        assert (await ask(planner, "four, five", max_tokens=2)).text.startswith(" six")
        assert await until(story, Text)


async def test_one_that_cannot_be_answered_fails_alone(quick: LocalWorker) -> None:
    text = numbers(7, 40)
    wrong = replace(request(CAPITAL), shape=AnswerFormat("root ::= missing", "{}"))
    found = await asyncio.gather(
        listen(quick, exactly(text, "Count.")),
        listen(quick, wrong),
        ask(quick, LONG * 6),
        listen(quick, exactly(text, "Go on.")),
        return_exceptions=True,
    )
    assert [type(one).__name__ for one in found[1:3]] == ["ConfigError", "ContextTooLong"]
    for one in (found[0], found[3]):
        assert isinstance(one, Answer)
        assert one.text == text


@pytest.mark.parametrize(
    ("context", "kv", "lines", "count"),
    [(8192, "f16", 7, 30), (1024, "f16", 1, 90), (1024, "q8_0", 1, 90)],
)
async def test_a_context_that_grows_or_is_too_small_mixes_nothing_up(
    tmp_path: Path, context: int, kv: str, lines: int, count: int
) -> None:
    """Where all don't fit, some wait or are put back; what they wrote is neither lost nor twice."""
    worker = tiny_worker(tmp_path, slots=4, context=context, kv=kv)
    texts = [numbers(100 * n, count) for n in range(1, 5)]
    long = "A line of text to be read. " * lines
    answers = await asyncio.gather(
        *(listen(worker, exactly(text, f"{n} {long}")) for n, text in enumerate(texts))
    )
    assert [answer.text for answer in answers] == texts
    read = sum(answer.usage.tokens_in for answer in answers)
    assert read < min(context, 2048) < read + sum(answer.usage.tokens_out for answer in answers)
    await worker.aclose()


async def test_two_slots_write_exactly_what_one_does() -> None:
    found = []
    for slots in (1, 2):
        worker = small(slots=slots)
        answer = await listen(worker, request(STORY, max_tokens=24, temperature=0.0))
        found.append((answer.text, answer.usage))
        await worker.aclose()
    assert found[0] == found[1]


async def test_those_that_wait_while_it_loads_survive_its_death(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", (0.1, 0.1, 0.1))
    worker = tiny_worker(tmp_path, slots=4)
    texts = [numbers(10 * n, 5) for n in range(4)]
    tasks = [asyncio.create_task(listen(worker, exactly(text, "Count."))) for text in texts]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        while worker.process is None:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    os.kill(worker.process, signal.SIGKILL)
    answers = await asyncio.gather(*tasks)
    assert [answer.text for answer in answers] == texts
    for answer in answers:
        assert sum(isinstance(chunk, Retrying) for chunk in answer.chunks) == 1
        assert any(isinstance(chunk, Loading) for chunk in answer.chunks)
    await worker.aclose()


async def test_a_death_fails_who_had_written_and_repeats_the_others(quick: LocalWorker) -> None:
    async with aclosing(quick.stream(digits(2000, STORY))) as story:
        await until(story, Text)
        async with aclosing(quick.stream(request(LONG, max_tokens=2))) as reading:
            await until(reading, Reading)
            assert quick.process is not None
            os.kill(quick.process, signal.SIGKILL)
            assert await until(reading, Retrying)
            with pytest.raises(WorkerUnavailable, match="kept"):
                await until(story, Loading)
            assert quick.model.recent_deaths() == []
            await until(reading, Text)


async def test_who_leaves_while_it_loads_leaves_it_to_the_others() -> None:
    worker = small(slots=4)
    async with aclosing(worker.stream(request(CAPITAL))) as first:
        await until(first, Loading)
        process = worker.process
        others = [asyncio.create_task(ask(worker, CAPITAL)) for _ in range(2)]
        await asyncio.sleep(0.05)
    assert all("Paris" in answer.text for answer in await asyncio.gather(*others))
    assert worker.process == process
    await worker.aclose()
    assert not [c for c in psutil.Process().children() if c.pid == process]


async def test_a_file_that_changes_is_loaded_once_those_that_read_it_have_ended(
    tmp_path: Path,
) -> None:
    worker = tiny_worker(tmp_path, slots=2)
    path = worker.model.path
    first = asyncio.create_task(listen(worker, digits(1000, "Count.")))
    async with asyncio.timeout(60):
        while worker.card.hardware != "CPU only":  # noqa: ASYNC110 - loading isn't waited for
            await asyncio.sleep(0.02)
    process = worker.process
    new = tmp_path / "new.gguf"
    new.write_bytes(path.read_bytes())
    new.replace(path)
    second = await listen(worker, exactly("Tokyo", "Which city?"))
    assert first.done()
    assert len((await first).text) == 1000
    assert second.text == "Tokyo"
    assert any(isinstance(chunk, Loading) for chunk in second.chunks)
    assert worker.process != process
    await worker.aclose()
