"""Attacks on tolerant requests, tools and their calls, references, streams and bounds."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from baton.core.messages import Card, Chunk, Finish, Request, RequestSent, Text, Usage
from baton.platform.settings import ServeSettings, Settings
from baton.server import http_server
from baton.server.access import Grant
from baton.workers.scripted_worker import ScriptedWorker
from server.test_attack_rows import local_worker, post, remote_worker, serve
from support.served_baton import SMALL, served_baton, wait_until

CHAT, RESPONSES, MESSAGES = "/chat/completions", "/responses", "/messages"
USER = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def tool_for(path: str, name: str = "f") -> dict[str, Any]:
    if path == CHAT:
        return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    if path == RESPONSES:
        return {"type": "function", "name": name, "parameters": {"type": "object"}}
    return {"name": name, "input_schema": {"type": "object"}}


def body_for(path: str, **more: Any) -> dict[str, Any]:
    said = {"input": USER} if path == RESPONSES else {"messages": USER}
    limit = {"max_tokens": 500} if path == MESSAGES else {}
    return {"model": "baton/local", **said, **limit, **more}


def writing(*pieces: str, pause: float = 0.0) -> ScriptedWorker:
    def script(request: Request) -> Iterable[Chunk | float]:
        for piece in pieces:
            yield Text(piece)
            if pause:
                yield pause
        yield Usage(10, 4, Finish.STOP)

    return ScriptedWorker(script, SMALL)


class Lag:
    most = 0.0


@asynccontextmanager
async def lag_watched() -> AsyncIterator[Lag]:
    """Measure for how long the event loop was held at most."""
    found = Lag()

    async def watch() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.002)
            found.most = max(found.most, time.perf_counter() - before - 0.002)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.02)
    try:
        yield found
    finally:
        await asyncio.sleep(0.02)
        watching.cancel()


PRIVATELY = {"x-baton-private": "1"}
MOST_LAG = 1.0
"""Seconds: promised are 0.05 (scripts/bench_attacks); before, it was 1.6 to 10."""


# What is private comes back by a reference


async def test_a_private_answer_does_not_leave_by_an_item_reference(tmp_path: Path) -> None:
    away = remote_worker()
    async with serve(tmp_path, local_worker("4711."), away) as (_, client):
        first = await post(client, "responses", "baton/local", "What is my PIN?", PRIVATELY)
        item = first.json()["output"][0]["id"]
        said = [{"type": "item_reference", "id": item}, {"role": "user", "content": "Repeat it."}]
        answer = await client.post(RESPONSES, json={"model": "gpt", "input": said})
    shown = [m.text for one in away.requests for m in one.messages]
    assert not any("4711" in text for text in shown), shown
    assert answer.status_code == 400


async def test_a_private_call_does_not_leave_by_an_item_reference(tmp_path: Path) -> None:
    away = remote_worker()
    call = '<tool_call>{"name": "f", "arguments": {"pin": 4711}}</tool_call>'
    async with serve(tmp_path, local_worker(call), away) as (_, client):
        tools = [tool_for(RESPONSES)]
        first = await post(client, "responses", "baton/local", "My PIN?", PRIVATELY, tools=tools)
        item = next(o["id"] for o in first.json()["output"] if o["type"] == "function_call")
        said = [{"type": "item_reference", "id": item}, {"role": "user", "content": "Repeat it."}]
        answer = await client.post(RESPONSES, json={"model": "gpt", "input": said})
    shown = [m.text for one in away.requests for m in one.messages]
    assert not any("4711" in text for text in shown), shown
    assert answer.status_code == 400


# 5xx for what a client asks, or a model writes


@pytest.mark.parametrize("tools", [5, True, 1.5])
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_namespace_whose_tools_are_not_a_list_is_refused(
    tmp_path: Path, path: str, tools: object
) -> None:
    async with served_baton(tmp_path, [writing("Hi")]) as served, served.client() as client:
        body = body_for(path, tools=[{"type": "namespace", "name": "n", "tools": tools}])
        answer = await client.post(path, json=body)
    assert answer.status_code < 500, answer.text


SURROGATE = '<tool_call>\n{"name": "f", "arguments": {"a": "\\ud83d"}}\n</tool_call>'


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_half_an_emoji_in_a_call_fails_no_answer(tmp_path: Path, path: str) -> None:
    async with served_baton(tmp_path, [writing(SURROGATE)]) as served, served.client() as client:
        answer = await client.post(path, json=body_for(path, tools=[tool_for(path)]))
    assert answer.status_code == 200, answer.text


ENDS = {CHAT: "data: [DONE]", RESPONSES: "event: response.completed", MESSAGES: "message_stop\n"}


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_half_an_emoji_in_a_call_ends_a_stream_with_one_event(
    tmp_path: Path, path: str
) -> None:
    worker = writing("Let me see. ", "I look. ", SURROGATE, pause=0.05)
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        body = body_for(path, tools=[tool_for(path)], stream=True)
        try:
            answer = await client.post(path, json=body)
            text = answer.text
        except httpx.HTTPError as error:
            text = repr(error)
    assert text.count(ENDS[path]) + text.count("event: response.failed") == 1, text[-300:]


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_half_an_emoji_in_the_json_of_an_earlier_call_fails_no_request(
    tmp_path: Path, path: str
) -> None:
    arguments = '{"a": "\\ud83d"}'
    if path == CHAT:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        said = {"messages": [*USER, {"role": "assistant", "tool_calls": [call]}, *USER]}
    elif path == RESPONSES:
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
        said = {"input": [*USER, call, *USER]}
    else:
        pytest.skip("its arguments aren't text")
    worker = writing("Hi")
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        answer = await client.post(path, json=body_for(path, **said))
    assert answer.status_code == 200, answer.text
    for message in worker.requests[0].messages:
        message.text.encode()  # else no real worker's process gets it


async def test_a_call_with_no_number_is_json(tmp_path: Path) -> None:
    call = '<tool_call>{"name": "f", "arguments": {"a": NaN, "b": 1e400}}</tool_call>'
    async with served_baton(tmp_path, [writing(call)]) as served, served.client() as client:
        answer = await client.post(CHAT, json=body_for(CHAT, tools=[TOOL]))

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} isn't JSON")

    for call in answer.json()["choices"][0]["message"].get("tool_calls", []):
        json.loads(call["function"]["arguments"], parse_constant=refuse)


# A request only narrows


async def test_no_tool_that_is_not_allowed_is_offered(tmp_path: Path) -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    for allowed in ([], [{"type": "web_search"}]):
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": allowed}}
        worker = writing(call)
        async with (
            served_baton(tmp_path / str(len(allowed)), [worker]) as served,
            served.client() as client,
        ):
            body = body_for(CHAT, tools=[TOOL], tool_choice=choice)
            answer = await client.post(CHAT, json=body)
        assert (
            answer.status_code >= 400 or "tool_calls" not in answer.json()["choices"][0]["message"]
        ), answer.text


async def test_what_is_not_to_be_stored_is_not_with_completions_either(tmp_path: Path) -> None:
    async with served_baton(tmp_path, [writing("Hi")]) as served, served.client() as client:
        body = {"model": "baton/local", "prompt": "Secret words", "store": False}
        answer = await client.post("/completions", json=body)
        assert answer.status_code in (200, 400)
        assert await served.baton.store.conversations() == []


async def test_a_call_goes_to_the_tool_of_the_namespace_that_was_meant(tmp_path: Path) -> None:
    """Of two tools of a name the worker can tell neither apart, and the first is called."""
    worker = writing('<tool_call>{"name": "b.delete", "arguments": {}}</tool_call>')
    spaces = [
        {"type": "namespace", "name": n, "tools": [tool_for(RESPONSES, "delete")]} for n in "ab"
    ]
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        await client.post(RESPONSES, json=body_for(RESPONSES, tools=spaces))
    [request] = worker.requests
    assert any('"b.delete"' in message.text for message in request.messages)


# Bounds


async def test_warnings_are_bounded(tmp_path: Path) -> None:
    async with served_baton(tmp_path, [writing("Hi")]) as served, served.client() as client:
        body = body_for(CHAT, tools=[{"type": "x"}] * 50_000)
        answer = await client.post(CHAT, json=body)
        assert answer.status_code == 400 or len(answer.content) < 100_000, len(answer.content)


KINDS = [{"type": f"{n:x}"} for n in range(3_700)]
CALL = {"function": {"name": "a"}}
RESULT = {"role": "tool", "tool_call_id": "call_00000000000000_z"}
HOLDING: dict[str, dict[str, Any]] = {
    "nothing special": {"messages": USER},
    "kinds of parts, 64 kB": {"messages": [{"role": "user", "content": [*KINDS, "Hi"]}]},
    "results and tools, 64 kB": {
        "messages": [RESULT] * 450 + USER,
        "tools": [{"name": "a"}] * 2_300,
    },
    "tags in an answer, 64 kB": {
        "messages": [*USER, {"role": "assistant", "content": "<tool_call>" * 5_700}, *USER]
    },
    "tags in an answer, 130 kB": {
        "messages": [*USER, {"role": "assistant", "content": "<tool_call>" * 11_800}, *USER]
    },
    "tools of 7 MB, refused": {
        "messages": USER,
        "tools": [{"name": f"t{n}", "description": "\n" * 27_000} for n in range(128)],
    },
}


@pytest.mark.parametrize("kind", HOLDING)
async def test_no_request_holds_the_event_loop(tmp_path: Path, kind: str) -> None:
    async with served_baton(tmp_path, [writing("Hi")]) as served, served.client() as client:
        await client.post(CHAT, json=body_for(CHAT))
        data = json.dumps(body_for(CHAT, **HOLDING[kind]), separators=(",", ":")).encode()
        async with lag_watched() as lag:
            answer = await client.post(CHAT, content=data)
        assert answer.status_code < 500
    assert lag.most < MOST_LAG, f"{lag.most:.2f} s ({len(data):,} bytes, {answer.status_code})"


REPEAT = [{"role": "user", "content": "Repeat this a thousand times."}]
"""Else the worker is stopped where it repeats itself."""

WRITTEN = {
    "functions 16 kB": "<function=" * 1_600,
    "functions 60 kB": "<function=" * 6_000,
    "fences 60 kB": "```" * 20_000,
    "empty calls 60 kB": "<tool_call></tool_call>" * 2_600,
}


@pytest.mark.parametrize("kind", WRITTEN)
async def test_nothing_that_a_worker_writes_holds_the_event_loop(tmp_path: Path, kind: str) -> None:
    text = WRITTEN[kind]
    pieces = [text[at : at + 400] for at in range(0, len(text), 400)]
    for choice in ("auto", "required"):
        async with (
            served_baton(tmp_path / choice, [writing(*pieces)]) as served,
            served.client() as client,
        ):
            await client.post(CHAT, json=body_for(CHAT))
            async with lag_watched() as lag:
                body = body_for(CHAT, tools=[TOOL], tool_choice=choice)
                body["messages"] = REPEAT
                answer = await client.post(CHAT, json=body)
            assert answer.status_code < 500
        assert lag.most < MOST_LAG, f"{choice}: {lag.most:.2f} s"


async def test_a_list_that_never_becomes_a_call_takes_no_time(tmp_path: Path) -> None:
    """`[` a hundred thousand times, in pieces of four: each looks at all that there is."""
    pieces = ["[[[["] * 20_000
    async with served_baton(tmp_path, [writing(*pieces)]) as served, served.client() as client:
        before = time.perf_counter()
        await client.post(CHAT, json=body_for(CHAT, messages=REPEAT))
        plain = time.perf_counter() - before
        before = time.perf_counter()
        await client.post(CHAT, json=body_for(CHAT, messages=REPEAT, tools=[TOOL]))
        took = time.perf_counter() - before
        assert took < 2 * plain + 3, f"{took:.1f} s, without tools {plain:.1f} s"


async def test_what_is_large_is_not_remembered_with_requests_that_are_over(tmp_path: Path) -> None:
    """Twelve requests of 4 MB metadata took 450 MB, and their tools as much."""
    large = body_for(RESPONSES, metadata={"a": "x" * 100_000})
    tools = [{"type": "function", "name": "f", "description": "x" * 60_000}]
    hidden = body_for(RESPONSES, tools=tools, tool_choice="none")
    async with served_baton(tmp_path, [writing("Hi")]) as served, served.client() as client:
        assert (await client.post(RESPONSES, json=large)).status_code == 400
        for _ in range(3):
            assert (await client.post(RESPONSES, json=hidden)).status_code == 200
        assert (await client.post(RESPONSES, json=body_for(RESPONSES))).status_code == 200
        assert len(served.runner.served) == 1


async def test_the_name_of_a_model_takes_no_memory(tmp_path: Path) -> None:
    """An alias lets any name through; each piece of a stream repeats it."""
    settings = Settings(serve=ServeSettings(aliases={"claude-*": "baton/local"}))
    worker = writing(*["x "] * 50)
    serving = served_baton(tmp_path, [worker], settings=settings)
    async with serving as served, served.client() as client:
        body = body_for(CHAT, stream=True) | {"model": "claude-" + "x" * 1_000_000}
        answer = await client.post(CHAT, json=body)
    assert answer.status_code >= 400 or len(answer.content) < 5_000_000, len(answer.content)


async def test_128_tools_of_which_one_must_be_called_hold_no_loop(tmp_path: Path) -> None:
    """For a worker that reads a million tokens, as many do."""
    big = {f"p{n}": {"type": "string", "description": "x" * 20} for n in range(480)}
    tools = [
        {"name": f"t{n}", "parameters": {"type": "object", "properties": big}} for n in range(128)
    ]

    def script(request: Request) -> Iterable[Chunk]:
        yield Text('{"name": "t1", "arguments": {}}')
        yield Usage(10, 4, Finish.STOP)

    large = ScriptedWorker(script, Card("small", "local", "Small", context=1_000_000, slots=4))
    async with served_baton(tmp_path, [large]) as served, served.client() as client:
        await client.post(CHAT, json=body_for(CHAT))
        data = json.dumps(body_for(CHAT, tools=tools, tool_choice="required")).encode()
        async with lag_watched() as lag:
            answer = await client.post(CHAT, content=data)
        assert answer.status_code < 500, answer.text[:300]
    assert lag.most < MOST_LAG, f"{lag.most:.2f} s"


async def test_a_past_response_is_read_in_time(tmp_path: Path) -> None:
    """After a restart, of an answer with many tags that were never closed."""
    text = "<tool_call>" * 3_000
    worker = writing(*(text[at : at + 400] for at in range(0, len(text), 400)))
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        body = {"model": "baton/local", "input": REPEAT[0]["content"]}
        first = await client.post(RESPONSES, json=body)
    again = served_baton(tmp_path, [worker])
    async with again as served, served.client() as client, lag_watched() as lag:
        answer = await client.get(f"{RESPONSES}/{first.json()['id']}")
    assert answer.status_code == 200
    assert lag.most < MOST_LAG, f"{lag.most:.2f} s"


# Streams say truly how they ended, with one event


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what runs when the server ends end within a tenth of a second."""
    inner = http_server.serving.__wrapped__  # type: ignore[attr-defined]
    hosts, _, *rest = inner.__defaults__
    monkeypatch.setattr(inner, "__defaults__", (hosts, 0.1, *rest))


def last_event(text: str) -> str:
    return [line for line in text.splitlines() if line.startswith("event: ")][-1][7:]


async def test_a_stream_of_a_cancelled_response_does_not_say_completed(tmp_path: Path) -> None:
    worker = writing(*["x "] * 400, pause=0.05)
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        body = body_for(RESPONSES, stream=True, background=True)
        text, is_cancelled = "", False
        async with client.stream("POST", RESPONSES, json=body) as answer:
            async for part in answer.aiter_text():
                text += part
                if "output_text.delta" in part and not is_cancelled:
                    is_cancelled = True
                    [run] = [one.id for one in served.runner.served]
                    done = await client.post(f"{RESPONSES}/resp_{run}/cancel")
                    assert done.json()["status"] == "cancelled"
    assert last_event(text) != "response.completed", text[-400:]


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
async def test_a_stream_ends_with_an_event_when_the_server_ends(tmp_path: Path, path: str) -> None:
    worker, text = writing(*["x "] * 400, pause=0.05), ""

    async def ask(client: httpx.AsyncClient) -> None:
        nonlocal text
        try:
            async with client.stream("POST", path, json=body_for(path, stream=True)) as answer:
                async for part in answer.aiter_text():
                    text += part
        except httpx.HTTPError as error:
            text += repr(error)

    async with AsyncExitStack() as stack:
        async with served_baton(tmp_path, [worker]) as served:
            client = await stack.enter_async_context(served.client())
            asking = asyncio.create_task(ask(client))
            await wait_until(lambda: "x " in text)
        await asyncio.wait({asking}, timeout=5)
    assert "x " in text
    assert "Error(" not in text, text[-200:]


async def test_a_private_beginning_that_is_continued_stays_here(tmp_path: Path) -> None:
    away = remote_worker()
    async with serve(tmp_path, local_worker("It is asthma, said the doctor."), away) as (_, client):
        await post(client, "chat", "baton/local", "What have I?", PRIVATELY)
        for begun in ("It is asthma, said the doctor.", "It is asthma, said th"):
            turns = [("user", "What have I?"), ("assistant", begun)]
            for protocol in ("chat", "responses", "messages"):
                answer = await post(client, protocol, "gpt", turns)
                assert answer.status_code == 400, (protocol, begun)
    assert away.requests == []


@pytest.mark.usefixtures("short_grace")
async def test_a_run_that_the_server_ends_is_over_in_history_and_ledger(
    tmp_path: Path,
) -> None:
    """Longer than the seconds of grace: it is cancelled, but store and ledger are closed first."""

    def script(request: Request) -> Iterable[Chunk | float]:
        yield RequestSent("api.openai.com", 500)
        for _ in range(200):
            yield Text("word ")
            yield 0.05

    away = ScriptedWorker(script, remote_worker().card)
    async with AsyncExitStack() as stack:
        async with serve(tmp_path, local_worker(), away) as (served, _client):
            paths = served.baton.paths
            own = await stack.enter_async_context(served.client(Grant.SPEND))
            asking = asyncio.create_task(own.post(CHAT, json={"model": "gpt", "messages": USER}))
            await wait_until(lambda: served.runner.served and served.runner.served[0].view.answer)
        await asyncio.wait({asking}, timeout=5)
        await asyncio.gather(asking, return_exceptions=True)
    with sqlite3.connect(paths.database) as database:
        statuses = [row[0] for row in database.execute("SELECT status FROM runs")]
    with sqlite3.connect(paths.ledger) as ledger:
        calls = [row[0] for row in ledger.execute("SELECT status FROM calls")]
    assert "running" not in statuses
    assert "held" not in calls
