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


async def test_a_count_is_what_the_request_then_uses(tmp_path: Path) -> None:
    """Before the model is loaded it is an estimate, afterwards the number itself."""
    model = starter()
    worker = local_worker(model.card, model.path)
    async with served_baton(tmp_path, [worker]) as served, claude(served) as client:

        async def count(fields: dict[str, Any]) -> int:
            return (await client.messages.count_tokens(model="small", **fields)).input_tokens

        estimates = {name: await count(fields) for name, fields in BODIES.items()}
        assert served.runner.served == [], "counting asks the worker nothing"
        for name, fields in BODIES.items():
            message = await client.messages.create(model="small", max_tokens=1, **fields)
            used = message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)
            assert used / 1.6 < estimates[name] < used * 1.6, name
            assert await count(fields) == used, name
        assert len(served.runner.served) == len(BODIES)
        for times in 3, 10, 300:  # also of what is too long to be asked
            said = [{"role": "user", "content": LONG * times}]
            assert 1_000 * times < await count({"messages": said}) < 3_000 * times


async def test_a_response_is_counted_with_what_it_continues_with(tmp_path: Path) -> None:
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
