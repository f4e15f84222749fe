"""Malformed, slow, huge and cut requests: no status 500, nothing left over, still quick."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from baton.server import http_server
from support.endpoint_description import describe_endpoint
from support.served_baton import Served, served_baton, wait_until

VALID: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": "baton/auto",
        "messages": [{"role": "user", "content": "Hello there"}],
        "stream": True,
    },
    "/v1/responses": {"model": "baton/auto", "input": [{"role": "user", "content": "Hello"}]},
    "/v1/messages": {
        "model": "baton/auto",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    },
}
ODD: list[Any] = [
    None,
    True,
    -1,
    1e308,
    2**70,
    "",
    "\0",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    [],
    {},
    [[[[[]]]]],
    {"type": "text"},
    {"type": "image_url", "image_url": {"url": "http://evil.example"}},
    "x" * 5000,
]

BUDGETS = ["0", "1e9", "-1", "NaN", "0_1", "\xff"]


def damage(value: Any, chance: random.Random) -> Any:
    """Return a JSON value with one part of it replaced, left out or added."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        name = chance.choice([*value, "unknown"])
        if chance.random() < 0.2:
            return {key: part for key, part in value.items() if key != name}
        return {**value, name: damage(value.get(name), chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        place = chance.randrange(len(value))
        return [*value[:place], damage(value[place], chance), *value[place + 1 :]]
    return chance.choice(ODD)


def raw_request(served: Served, chance: random.Random) -> bytes:
    """Return the bytes of a request that is wrong in some way, or of no request at all."""
    path = chance.choice([*VALID, "/v1/models", "/v1/models/../..", "/v1/responses/x", "/%00"])
    body = json.dumps(damage(VALID.get(path, {}), chance)).encode()
    if chance.random() < 0.3:
        cut = chance.randrange(len(body) + 1)
        body = (
            body[:cut] + chance.randbytes(chance.randrange(8)) + body[chance.choice([cut, 10**6]) :]
        )
    length = len(body) + chance.choice([0, 0, 0, 0, 5, -1, 10**12])
    lines = [
        f"{chance.choice(['POST', 'POST', 'GET', 'PUT', 'OPTIONS', 'G E T'])} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{served.port}",
        f"Authorization: Bearer {chance.choice([served.token] * 5 + ['', 'x' * 3000])}",
        f"Content-Length: {length}",
        chance.choice(
            ["X: y", "X" * 70_000 + ": y", "Transfer-Encoding: chunked", ": ", "\x01: a"]
        ),
        f"X-Baton-Budget: {chance.choice(BUDGETS)}",
        f"X-Baton-Deadline: {chance.choice(['1', '0', 'inf', 'x'])}",
    ]
    kept = lines if chance.random() < 0.5 else [*lines[:4]]
    return "\r\n".join([*kept, "", ""]).encode("latin-1") + body


async def exchange(served: Served, data: bytes, chance: random.Random) -> int:
    """Send bytes, now and then in pieces, and leave; return the status of the answer, 0: none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        cut = chance.randrange(1, len(data)) if chance.random() < 0.3 else len(data)
        writer.write(data[:cut])
        await writer.drain()
        if chance.random() < 0.5:
            writer.write(data[cut:])
            await writer.drain()
        if chance.random() < 0.2:
            return 0  # the client leaves without a word
        async with asyncio.timeout(0.3):
            head = await reader.readline()
        return int(head.split()[1]) if head else 0
    except (TimeoutError, ConnectionError, IndexError):
        return 0
    finally:
        writer.transport.abort()


async def attack(served: Served, count: int, seed: int) -> dict[int, bytes]:
    """Send requests, twenty at once; return by status the last one that was answered with it."""
    seen: dict[int, bytes] = {}
    turn = asyncio.Semaphore(20)

    async def send(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        data = raw_request(served, chance)
        async with turn:
            seen[await exchange(served, data, chance)] = data

    await asyncio.gather(*map(send, range(count)))
    return seen


async def check_served(served: Served, count: int) -> None:
    """Attack, and check that nothing failed, stayed, or became slow."""
    statuses = await attack(served, 60, seed=1)
    await runs_over(served)
    descriptors, objects = psutil.Process().num_fds(), len(gc.get_objects())
    statuses |= await attack(served, count, seed=2)
    await runs_over(served)
    assert not {status: data for status, data in statuses.items() if status >= 500}
    assert {200, 400} <= statuses.keys()
    assert psutil.Process().num_fds() <= descriptors + 2
    gc.collect()
    assert len(gc.get_objects()) < objects * 1.2 + 20_000
    async with served.client() as client:
        assert (await client.get("/models")).status_code == 200


async def runs_over(served: Served) -> None:
    """Wait until the runs of all requests are over."""
    await wait_until(lambda: all(run.is_over for run in served.runner.served))


async def test_hundreds_of_malformed_requests(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served:
        await check_served(served, 300)


@pytest.mark.parametrize("odd", [[], {}, 5, None, True])
async def test_words_that_are_not_words_are_refused(tmp_path: Path, odd: object) -> None:
    items = [
        {"role": odd, "content": "Hello"},
        {"role": "user", "content": [{"type": odd, "text": "Hello"}]},
        {"type": odd, "content": "Hello"},
    ]
    async with served_baton(tmp_path) as served, served.client() as client:
        for item in items:
            for path, name in (("/responses", "input"), ("/chat/completions", "messages")):
                body = {"model": "baton/auto", name: [item]}
                assert (await client.post(path, json=body)).status_code == 400, (path, item)
        choice = {"tool_choice": {"type": odd}}
        body = VALID["/v1/messages"] | choice
        assert (await client.post("/messages", json=body)).status_code == 400


@pytest.mark.long
async def test_ten_thousand_malformed_requests(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served:
        await check_served(served, 10_000)


async def test_a_head_that_never_ends_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEADER_SECONDS", 0.2)
    async with served_baton(tmp_path) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: ")
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        answer = await client.post("/chat/completions", content=b"[" * (8 * 10**6 + 1))
        assert answer.status_code == 413
        deep = await client.post("/chat/completions", content=b"[" * 10**6)
        assert deep.status_code == 400


async def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        for body in (b'{"model": "\xff"}', b'{"\xff": 1}', b'"\xed\xa0\x80"'):
            answer = await client.post("/chat/completions", content=body)
            assert (answer.status_code, "not JSON" in answer.text) == (400, True)


async def test_json_is_read_to_a_depth(tmp_path: Path) -> None:
    """Near the interpreter's limit one place reads what another one can't write again."""
    user = {"role": "user", "content": "Hello"}
    use = {"type": "tool_use", "id": "x", "name": "f", "input": "DEEP"}
    shape = {"type": "json_schema", "name": "f", "schema": "DEEP"}
    call = {"id": "x", "function": {"name": "f", "arguments": "DEEP AS TEXT"}}
    bodies: dict[str, dict[str, Any]] = {
        "/messages": {
            "messages": [user, {"role": "assistant", "content": [use]}, user],
            "max_tokens": 5,
        },
        "/responses": {"input": "Hello", "text": {"format": shape}},
        "/chat/completions": {
            "messages": [user, {"role": "assistant", "tool_calls": [call]}, user]
        },
    }
    async with served_baton(tmp_path) as served, served.client() as client:
        for depth in (90, 500, *range(910, 950, 3), 1200):
            deep = '{"a":' * depth + "1" + "}" * depth
            for path, fields in bodies.items():
                body = json.dumps({"model": "baton/auto", **fields})
                body = body.replace('"DEEP"', deep).replace('"DEEP AS TEXT"', json.dumps(deep))
                answer = await client.post(path, content=body)
                is_text = path == "/chat/completions"
                wanted = 200 if depth < 100 or is_text else 400
                assert answer.status_code == wanted, (path, depth, answer.text)


@pytest.mark.parametrize("path", [*VALID])
async def test_errors_have_the_shape_of_the_protocol(tmp_path: Path, path: str) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        answer = await client.post(path.removeprefix("/v1"), json={"model": 5})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert "model" in f"{error}" or "messages" in f"{error}"


def _check_described(count: int, tmp_path: Path) -> None:
    """Send what schemathesis makes of the endpoint's description."""

    async def serve(ready: asyncio.Future[Served], end: asyncio.Event) -> None:
        async with served_baton(tmp_path) as served:
            ready.set_result(served)
            await end.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ready: asyncio.Future[Served] = loop.create_future()
    end = asyncio.Event()
    serving = asyncio.run_coroutine_threadsafe(serve(ready, end), loop)
    try:
        served = asyncio.run_coroutine_threadsafe(_result(ready), loop).result(30)
        headers = {"authorization": f"Bearer {served.token}"}
        schema = schemathesis.openapi.from_dict(describe_endpoint())
        schema.config.update(base_url=served.url.removesuffix("/v1"))
        statuses = set()
        for operation in schema.get_all_operations():
            made: Any = operation.ok()  # type: ignore[union-attr]

            @settings(
                max_examples=count,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=made.as_strategy())
            def send(case: Any) -> None:
                answer = case.call(headers=headers, timeout=20)
                statuses.add(answer.status_code)
                assert answer.status_code < 500, answer.text

            send()
        assert 200 in statuses
    finally:
        loop.call_soon_threadsafe(end.set)
        serving.result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _result(future: asyncio.Future[Served]) -> Served:
    return await future


def test_what_its_description_allows_is_answered(tmp_path: Path) -> None:
    _check_described(8, tmp_path)


@pytest.mark.long
def test_thousands_that_its_description_allows_are_answered(tmp_path: Path) -> None:
    _check_described(1_000, tmp_path)
