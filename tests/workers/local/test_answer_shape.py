"""An answer in a given form, from the real starter model in a real child process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

import psutil
import pytest

from baton.core.errors import ConfigError, ContextTooLong
from baton.core.messages import AnswerFormat, Finish, Text
from baton.ipc.messages import MAX_FRAME_BYTES
from baton.workers.local import LocalWorker
from support.local_worker_calls import CAPITAL, CITY, ask, listen, request, small

pytestmark = [pytest.mark.sampled(0.5), pytest.mark.local_model]

ENDLESS = AnswerFormat(r'root ::= ("ha" " "?)* "!"', "{}")
SLOW = AnswerFormat('root ::= (("a"?){100}){100}', "{}")
"""Reading it takes llama.cpp longer than anybody waits."""


@pytest.fixture(scope="module")
def worker() -> Iterator[LocalWorker]:
    worker = small()
    yield worker
    asyncio.run(worker.aclose())


@pytest.mark.parametrize(("temperature", "seed"), [(0.0, None), (1.5, 1), (1.5, 2), (1.5, 3)])
async def test_the_answer_has_the_form(
    worker: LocalWorker, temperature: float, seed: int | None
) -> None:
    asked = replace(request(CAPITAL, temperature=temperature), shape=CITY, seed=seed)
    answer = await listen(worker, asked)
    assert json.loads(answer.text).keys() == {"city"}
    assert answer.usage.finish is Finish.STOP


async def test_the_next_answer_is_free_again(worker: LocalWorker) -> None:
    await listen(worker, replace(request(CAPITAL), shape=CITY))
    assert "{" not in (await ask(worker, CAPITAL)).text


async def test_a_cap_is_reported_though_the_form_continues(worker: LocalWorker) -> None:
    answer = await listen(worker, replace(request(CAPITAL, max_tokens=3), shape=CITY))
    assert (answer.usage.finish, answer.usage.tokens_out) == (Finish.LENGTH, 3)
    assert '{"city": "'.startswith(answer.text[:8])


@pytest.mark.parametrize("grammar", [" ", "root ::= [", 'root ::= "a"\0', "(" * 70_000])
async def test_a_form_that_cannot_be_kept_is_reported_and_the_child_lives(
    worker: LocalWorker, grammar: str
) -> None:
    await ask(worker, CAPITAL)
    before = psutil.Process().children()
    with pytest.raises(ConfigError, match="can't keep to the form"):
        await listen(worker, replace(request(CAPITAL), shape=AnswerFormat(grammar, "{}")))
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert psutil.Process().children() == before


async def test_a_cap_is_lowered_to_the_room_there_is(worker: LocalWorker) -> None:
    """F1, F17: more than there is room for is as much as there is room for."""
    answer = await ask(worker, CAPITAL, max_tokens=32_000)
    assert "Paris" in answer.text
    room = worker.card.context
    with pytest.raises(ContextTooLong) as too_long:
        await ask(worker, "word " * (3 * room), max_tokens=32_000)
    assert too_long.value.needed < 5 * room, "of the prompt alone"


async def test_the_stop_text_that_came_is_named(worker: LocalWorker) -> None:
    """F19."""
    free = await listen(worker, request(CAPITAL, temperature=0.0))
    stop = free.text[4:7]
    asked = replace(request(CAPITAL, temperature=0.0), stop=("no such text", stop))
    answer = await listen(worker, asked)
    assert (answer.usage.stop, free.usage.stop) == (stop, "")
    assert answer.text == free.text[: free.text.index(stop)]


async def test_wishes_for_sampling_are_kept_to(worker: LocalWorker) -> None:
    """F14."""
    asked = request("Tell me a story about a dog.", max_tokens=40, temperature=2.0)
    likeliest = await listen(worker, replace(asked, temperature=0.0))
    narrow = await listen(worker, replace(asked, seed=7, sampling={"top_k": 1}))
    assert narrow.text == likeliest.text
    wished = {"frequency_penalty": 2.0, "presence_penalty": 2.0}
    varied = await listen(worker, replace(asked, temperature=0.0, sampling=wished))
    assert varied.text != likeliest.text


async def test_a_form_over_the_limit_of_a_frame_is_refused(worker: LocalWorker) -> None:
    asked = replace(request(CAPITAL), shape=AnswerFormat("a" * MAX_FRAME_BYTES, "{}"))
    with pytest.raises(ContextTooLong) as too_long:
        await listen(worker, asked)
    assert too_long.value.needed > too_long.value.limit
    assert "Paris" in (await ask(worker, CAPITAL)).text


async def test_stopping_within_a_form(worker: LocalWorker) -> None:
    await ask(worker, CAPITAL)
    before = psutil.Process().children()
    async with aclosing(worker.stream(replace(request(CAPITAL), shape=ENDLESS))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Text):
                break
    assert "Paris" in (await ask(worker, CAPITAL)).text
    assert psutil.Process().children() == before


async def test_stopping_while_a_form_is_too_slow(worker: LocalWorker) -> None:
    await ask(worker, CAPITAL)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await listen(worker, replace(request(CAPITAL), shape=SLOW))
    assert "Paris" in (await ask(worker, CAPITAL)).text
