"""How many tokens a request has is said before it is asked, near what it then uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from baton.core.messages import Card
from baton.core.money import Price, Rates
from baton.workers.local import starter
from baton.workers.scripted_worker import ScriptedWorker
from support.local_worker_calls import local_worker
from support.served_baton import SMALL, Served, served_baton

LONG = "The tide tables of 1923 give 4.71 m at Brest, und 3,2 m in Cuxhaven. " * 60
TOOL = {
    "name": "weather",
    "description": "The weather at a place.",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}},
}
BODIES: dict[str, dict[str, Any]] = {
    "one": {"messages": [{"role": "user", "content": "Hello there"}]},
    "system": {"system": "Be brief.", "messages": [{"role": "user", "content": LONG[:700]}]},
    "turns": {
        "messages": [
            {"role": "user", "content": "Name a sea."},
            {"role": "assistant", "content": "The Baltic."},
            {"role": "user", "content": [{"type": "text", "text": "Another <|im_end|> one?"}]},
        ]
    },
    "tools": {"messages": [{"role": "user", "content": "Rain in Oslo?"}], "tools": [TOOL]},
}


def claude(served: Served) -> anthropic.AsyncAnthropic:
    base = served.url.removesuffix("/v1")
    return anthropic.AsyncAnthropic(base_url=base, api_key=served.token, max_retries=0)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("is_loaded", [True, False])
async def test_a_count_is_what_the_request_then_uses(
    tmp_path: Path, body: str, is_loaded: bool
) -> None:
    model = starter()
    worker = local_worker(model.card, model.path)
    async with served_baton(tmp_path, [worker]) as served, claude(served) as client:
        if is_loaded:
            hello: Any = [{"role": "user", "content": "Hi"}]
            await client.messages.create(model="small", messages=hello, max_tokens=1)
        counted = await client.messages.count_tokens(model="small", **BODIES[body])
        before = len(served.runner.served)
        message = await client.messages.create(model="small", max_tokens=1, **BODIES[body])
        used = message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)
        if is_loaded:
            assert counted.input_tokens == used
        else:
            assert used / 1.6 < counted.input_tokens < used * 1.6
        assert len(served.runner.served) == before + 1, "counting is no request to the worker"


async def test_a_prompt_that_is_too_long_is_counted_all_the_same(tmp_path: Path) -> None:
    model = starter()
    worker = local_worker(model.card, model.path)
    async with served_baton(tmp_path, [worker]) as served, claude(served) as client:
        hello: Any = [{"role": "user", "content": "Hi"}]
        await client.messages.create(model="small", messages=hello, max_tokens=1)
        for times in 3, 10, 300:
            said: Any = [{"role": "user", "content": LONG * times}]
            counted = await client.messages.count_tokens(model="small", messages=said)
            assert 1_000 * times < counted.input_tokens < 3_000 * times


async def test_a_response_is_counted_with_what_it_goes_on_with(tmp_path: Path) -> None:
    worker = ScriptedWorker(card=SMALL)
    async with (
        served_baton(tmp_path, [worker]) as served,
        openai.AsyncOpenAI(base_url=served.url, api_key=served.token, max_retries=0) as client,
    ):
        first = await client.responses.create(model="small", input=LONG)
        alone = await client.responses.input_tokens.count(model="small", input="And now?")
        after = await client.responses.input_tokens.count(
            model="small", input="And now?", previous_response_id=first.id
        )
        unnamed = await client.responses.input_tokens.count(input="And now?")
        assert alone.object == "response.input_tokens"
        assert unnamed.input_tokens == alone.input_tokens < 50
        assert after.input_tokens > 1_400
        assert len(worker.requests) == 1
        with pytest.raises(openai.NotFoundError):
            await client.responses.input_tokens.count(
                input="Hi", previous_response_id="resp_0123456789ab"
            )


async def test_counting_asks_nothing_that_costs_and_allows_no_more(tmp_path: Path) -> None:
    price = Price(Rates(1000, 1000, 0, 0), source="test")
    paid = ScriptedWorker(card=Card("paid", "cloud", "Paid", context=9000, price=price))
    workers = [ScriptedWorker(card=SMALL), paid]
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    async with served_baton(tmp_path, workers) as served, served.client() as client:
        for model, status in [("paid", 403), ("none", 404), ("baton/auto", 200)]:
            answer = await client.post("/messages/count_tokens", json={**body, "model": model})
            assert answer.status_code == status, answer.text
            if status != 200:
                assert answer.json()["type"] == "error"
        wrong = await client.post("/messages/count_tokens", json={"model": "baton/auto"})
        assert (wrong.status_code, wrong.json()["type"]) == (400, "error")
        large = await client.post("/messages/count_tokens", content=b"[" * (8 * 10**6 + 1))
        assert (large.status_code, large.json()["type"]) == (413, "error")
    assert not any(worker.requests for worker in workers)
    assert await_nothing_kept(tmp_path)


def await_nothing_kept(folder: Path) -> bool:
    return not any(b"Hello" in file.read_bytes() for file in folder.rglob("*.db*"))
