"""Streams begin at once, stay alive, and end with one event that says how, in every protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from baton.core.errors import ContextTooLong, WorkerError
from baton.core.messages import Card, Chunk, Finish, Request, Text, Usage
from baton.server import dialects
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import SMALL, Served, served_baton

PATHS = ["/chat/completions", "/messages", "/responses"]
TOOL: Any = {"type": "function", "name": "edit", "parameters": {"type": "object"}}
CALL = '<tool_call>\n{"name": "edit", "arguments": {"path": "a.py"}}\n</tool_call>'


def worker_of(*parts: Chunk | BaseException | float | str, card: Card = SMALL) -> ScriptedWorker:
    """Return a worker that says or does these things, then ends."""

    def script(request: Request) -> Iterable[Chunk | BaseException | float]:
        for part in parts:
            yield Text(part) if isinstance(part, str) else part
        yield Usage(12, 3, Finish.STOP)

    return ScriptedWorker(script, card)


def body(path: str, **fields: Any) -> dict[str, Any]:
    said = (
        {"input": "Hi"}
        if path == "/responses"
        else {"messages": [{"role": "user", "content": "Hi"}]}
    )
    return (
        {"model": "small", "max_tokens": 50, "stream": True, **said, **fields}
        if (path != "/responses")
        else {"model": "small", "stream": True, **said, **fields}
    )


async def lines_of(served: Served, path: str, **fields: Any) -> AsyncIterator[str]:
    async with (
        served.client() as client,
        client.stream("POST", path, json=body(path, **fields)) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            yield line


async def events_of(served: Served, path: str, **fields: Any) -> list[dict[str, Any]]:
    lines = [line async for line in lines_of(served, path, **fields)]
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(one) if one != "[DONE]" else {"type": "[DONE]"} for one in data]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "HEAD_SECONDS", 0.02)
    monkeypatch.setattr(dialects, "KEEPALIVE_SECONDS", 0.02)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_begins_before_the_first_word_and_stays_alive(
    path: str, tmp_path: Path
) -> None:
    """F11, B19."""
    async with served_baton(tmp_path, [worker_of(0.4, "Hello.")]) as served:
        lines = [line async for line in lines_of(served, path)]
    first = next(n for n, line in enumerate(lines) if "Hello." in line)
    before = "\n".join(lines[:first])
    begins = {
        "/chat/completions": '"role":"assistant"',
        "/messages": '"type":"message_start"',
        "/responses": '"type":"response.in_progress"',
    }
    assert begins[path] in before
    ping = "event: ping" if path == "/messages" else ": still here"
    assert before.count(ping) >= 2
    assert sum(begins[path] in line for line in lines if line.startswith("data: ")) == 1


@pytest.mark.parametrize("path", PATHS)
async def test_what_fails_before_the_first_word_has_a_status(path: str, tmp_path: Path) -> None:
    """B22: also where only the worker knows that the prompt is too long."""
    worker = worker_of(ContextTooLong(9030, 8192))
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        answer = await client.post(path, json=body(path))
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert "maximum context length is 8192 tokens" in message
    assert "9030" in message
    assert ("prompt is too long: 9030 tokens > 8192 maximum" in message) is (path == "/messages")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("parts", [[], ["Half", 0.1]])
async def test_a_fault_of_batons_own_has_the_shape_of_the_protocol(
    path: str, parts: list[str | float], tmp_path: Path
) -> None:
    worker = worker_of(*parts, KeyError("secret of the prompt"))
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        whole = await client.post(path, json={**body(path), "stream": False})
        assert whole.status_code == 500
        assert "KeyError in scripted_worker.py, line" in whole.json()["error"]["message"]
        assert "secret" not in whole.text
        streamed = await client.post(path, json=body(path))
        assert "KeyError in scripted_worker.py" in streamed.text
        assert streamed.status_code == (200 if parts else 500)


@pytest.mark.parametrize("path", PATHS)
async def test_a_failure_in_mid_stream_ends_it_with_one_event(path: str, tmp_path: Path) -> None:
    """F26, B10."""
    worker = worker_of("Half of it", 0.1, WorkerError("The model failed.", "Try again."))
    async with served_baton(tmp_path, [worker]) as served:
        events = await events_of(served, path)
    assert "Half of it" in json.dumps(events)
    if path == "/chat/completions":
        assert [e["type"] for e in events[-1:]] == ["[DONE]"]
        [failed] = [event for event in events if "error" in event]
        assert failed["error"]["message"].startswith("The model failed.")
        assert not any(c["finish_reason"] for e in events for c in e.get("choices", ()))
        return
    last = events[-1]
    ends = ("error", "message_stop", "response.failed", "response.completed", "response.incomplete")
    assert [e["type"] for e in events if e["type"] in ends] == [last["type"]]
    if path == "/messages":
        assert (last["type"], last["error"]["type"]) == ("error", "api_error")
    else:
        assert last["type"] == "response.failed"
        assert last["response"]["status"] == "failed"
        assert last["response"]["error"]["message"].startswith("The model failed.")
        assert [event["sequence_number"] for event in events] == [*range(len(events))]


async def test_openais_client_sees_a_failed_response(tmp_path: Path) -> None:
    worker = worker_of("Half", 0.1, WorkerError("The model failed.", ""))
    async with (
        served_baton(tmp_path, [worker]) as served,
        openai.AsyncOpenAI(base_url=served.url, api_key=served.token, max_retries=0) as client,
    ):
        stream = await client.responses.create(model="small", input="Hi", stream=True)
        events = [event async for event in stream]
    assert events[-1].type == "response.failed"
    assert events[-1].response.error is not None


@pytest.mark.parametrize("is_background", [False, True])
async def test_a_retrieved_response_equals_the_first_answer(
    is_background: bool, tmp_path: Path
) -> None:
    """F20, F23, F25: streamed or not, in the background or not."""
    asked = {"tools": [TOOL], "tool_choice": "auto", "metadata": {"a": "b"}, "instructions": "Be."}
    fields = {"model": "small", "input": "Hi", "background": is_background, **asked}
    worker = worker_of("I'll edit. ", CALL)
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        events = await events_of(served, "/responses", background=is_background, **asked)
        streamed = events[-1]["response"]
        assert events[-1]["type"] == "response.completed"
        whole = (await client.post("/responses", json=fields)).json()
        for first in (streamed, whole):
            found = (await client.get(f"/responses/{first['id']}")).json()
            while found["status"] == "in_progress":
                await asyncio.sleep(0.02)
                found = (await client.get(f"/responses/{first['id']}")).json()
            assert found["output"][1]["name"] == "edit"
            if first["status"] != "in_progress":
                assert found == first
    async with served_baton(tmp_path, [worker_of()]) as served, served.client() as client:
        again = (await client.get(f"/responses/{streamed['id']}")).json()
        assert [item["type"] for item in again["output"]] == ["message", "function_call"]
        assert again["output"][0]["content"] == streamed["output"][0]["content"]


async def test_a_stream_of_the_background_may_be_left(tmp_path: Path) -> None:
    worker = worker_of("Be", 0.3, "gun.")
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        fields = body("/responses", background=True)
        async with client.stream("POST", "/responses", json=fields) as answer:
            async for line in answer.aiter_lines():
                if "response.created" in line and line.startswith("data: "):
                    id = json.loads(line.removeprefix("data: "))["response"]["id"]
                if '"delta":"Be"' in line:
                    break
        found: dict[str, Any] = {"status": "in_progress"}
        while found["status"] == "in_progress":
            await asyncio.sleep(0.02)
            found = (await client.get(f"/responses/{id}")).json()
    assert found["output"][0]["content"][0]["text"] == "Begun."


async def test_a_custom_tool_streams_its_text(tmp_path: Path) -> None:
    call = json.dumps({"name": "apply_patch", "arguments": {"input": "*** Begin"}})
    tools = [{"type": "custom", "name": "apply_patch"}]
    async with served_baton(tmp_path, [worker_of(f"<tool_call>{call}</tool_call>")]) as served:
        events = await events_of(served, "/responses", tools=tools)
        kinds = [event["type"] for event in events]
        assert "response.custom_tool_call_input.delta" in kinds
        [done] = [e for e in events if e["type"] == "response.custom_tool_call_input.done"]
        assert done["input"] == "*** Begin"
        offered: Any = tools
        async with (
            openai.AsyncOpenAI(base_url=served.url, api_key=served.token) as client,
            client.responses.stream(model="small", input="Hi", tools=offered) as stream,
        ):
            final = await stream.get_final_response()
    assert final.output[0].type == "custom_tool_call"


async def test_a_reader_that_is_slow_to_come_gets_one_head(tmp_path: Path) -> None:
    """The head is sent once, by the first word or by the clock."""
    parts = [part for n in range(40) for part in (0.01, f"w{n} ")]
    async with served_baton(tmp_path, [worker_of(*parts)]) as served:
        answers = [events_of(served, "/chat/completions") for _ in range(8)]
        for events in await asyncio.gather(*answers):
            roles = [c for e in events for c in e.get("choices", ()) if "role" in c["delta"]]
            assert len(roles) == 1
            text = "".join(
                c["delta"].get("content", "") for e in events for c in e.get("choices", ())
            )
            assert text == "".join(f"w{n} " for n in range(40))


async def test_errors_before_a_run_have_a_status_though_it_is_streamed(tmp_path: Path) -> None:
    async with served_baton(tmp_path, [worker_of("Hi")]) as served, served.client() as client:
        answer: httpx.Response = await client.post(
            "/chat/completions", json=body("/chat/completions", n=0)
        )
    assert answer.status_code == 400
