"""Clients that send or ask in ways that would hold others up, or go around what is private."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import Card, Chunk, Finish, Request, RequestSent, Text, Usage
from baton.core.money import NANO, Price, Rates
from baton.server.access import Grant
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import served_baton

LONG = "My diagnosis is asthma, and the doctor said so on Monday.\nNobody else may hear of it."
SMALL = Card("small", "local", "Small", context=1_000_000, slots=64)
GPT = Card(
    "gpt",
    "cloud",
    "GPT",
    privacy=Label.CLOUD,
    context=100_000,
    price=Price(Rates(10 * NANO, 10 * NANO, 0, 0), source="test"),
    remote=True,
)


def reply(request: Request) -> Iterable[Chunk]:
    if request.call:
        yield RequestSent("api.openai.com", 500)
    yield Text("The sea is calm today.")
    yield Usage(40, 12, Finish.STOP)


def ask(text: str, model: str = "gpt", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


def tool(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "look", **fields}}


def form(text: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": text}}}
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
WAYS: dict[str, dict[str, Any]] = {
    "a tool's description": ask("Go on.", tools=[tool(description=LONG)]),
    "a tool's parameters": ask("Go on.", tools=[tool(parameters={"title": LONG})]),
    "the form of the answer": ask("Go on.", response_format=form(LONG)),
    "a tool's result": {
        "model": "gpt",
        "messages": [
            {"role": "user", "content": "Look it up."},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": LONG},
        ],
    },
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_private_text_is_recognised_wherever_it_stands(tmp_path: Path, way: str) -> None:
    gpt = ScriptedWorker(reply, GPT)
    workers = [ScriptedWorker(reply, SMALL), gpt]
    async with (
        served_baton(tmp_path, workers, ceilings={Scope.DAY: 10 * NANO}) as served,
        served.client(Grant.SPEND) as spend,
        served.client(Grant.PRIVATE) as private,
    ):
        assert (await spend.post("/chat/completions", json=ask("Hello."))).status_code == 200
        said = await private.post("/chat/completions", json=ask(LONG, "small"))
        assert said.status_code == 200
        answer = await spend.post("/chat/completions", json=WAYS[way])
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "private")
    assert len(gpt.requests) == 1


async def test_a_refused_request_is_read_no_further(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n".encode())
        async with asyncio.timeout(10):
            answer = await reader.read()  # to the connection's end
        assert answer.startswith(b"HTTP/1.1 401")
        writer.close()


async def test_a_response_in_the_background_has_to_be_kept(tmp_path: Path) -> None:
    asked = {"model": "small", "input": "Hello", "background": True, "baton": {"keep": False}}
    async with (
        served_baton(tmp_path, [ScriptedWorker(reply, SMALL)]) as served,
        served.client() as client,
    ):
        assert (await client.post("/responses", json=asked)).status_code == 400
        headers = {"x-baton-keep": "0"}
        asked.pop("baton")
        answer = await client.post("/responses", json=asked, headers=headers)
        assert answer.status_code == 400


async def test_large_requests_that_are_over_take_no_memory(tmp_path: Path) -> None:
    """Neither those that aren't stored nor those in the background are remembered whole."""
    async with (
        served_baton(tmp_path, [ScriptedWorker(reply, SMALL)]) as served,
        served.client() as client,
    ):
        for number in range(6):
            text = f"{number} " + "many words " * 20_000
            await client.post("/chat/completions", json=ask(text, "small", store=False))
            begun = await client.post(
                "/responses", json={"model": "small", "input": text, "background": True}
            )
            id = begun.json()["id"]
            while (await client.get(f"/responses/{id}")).json()["status"] == "in_progress":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            done = (await client.get(f"/responses/{id}")).json()
            assert done["output"][0]["content"][0]["text"] == "The sea is calm today."
        gc.collect()
        left = [one for one in gc.get_objects() if type(one).__name__ == "ClientRequest"]
        assert sum(one.size for one in left) < 2 * 220_000
