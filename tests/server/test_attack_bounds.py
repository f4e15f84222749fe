"""Attacks on what the endpoint holds at once and keeps, and the reasons that it gives."""

from __future__ import annotations

import asyncio
import difflib
import itertools
import json
import re
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from baton.core.errors import BudgetExceeded, ContextTooLong, StoreError, WorkerError
from baton.core.hold_decision import decide_hold
from baton.core.ledger_types import HoldRequest, Scope, ScopeBalance
from baton.core.messages import Card, Chunk, Purpose, Request, Text
from baton.core.money import NANO, Price, Rates
from baton.history import Store
from baton.server import http_server, request_bodies, request_runner
from baton.server.access import Grant
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import Served, served_baton, wait_until

CANARY = "canary-7f3a9"
TOO_LONG = ".*maximum context length"
LOGGED = {
    "characters": TOO_LONG,
    "turns": r"There are more than [\d,]+ messages",
    "tokens": TOO_LONG,
}
"""How the reason of a refusal begins in the log."""
CHAT = "/chat/completions"
SMALL = Card("small", "local", "Small", context=8192, slots=64)
LINES = ("POST {path} HTTP/1.1", "Host: 127.0.0.1:{port}", "Authorization: Bearer {token}")


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "baton/auto", "messages": [{"role": "user", "content": text}], **more}


BODIES: dict[str, Callable[[str], dict[str, Any]]] = {
    CHAT: chat,
    "/messages": lambda text: chat(text, max_tokens=5),
    "/responses": lambda text: {"model": "baton/auto", "input": text},
}


def begin_request(served: Served, length: int, token: str = "") -> bytes:
    """Return the head of a chat request with a body of so many bytes."""
    head = "\r\n".join([*LINES, f"Content-Length: {length}", "", ""])
    shown = token or served.token
    return head.format(path=f"/v1{CHAT}", port=served.port, token=shown).encode()


class Sockets(AsyncExitStack):
    """Connections that send what they are given, and are dropped at the end."""

    async def send(self, served: Served, data: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        self.push_async_callback(_end, writer)
        writer.write(data)
        await writer.drain()
        return reader


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def status_of(reader: asyncio.StreamReader) -> int:
    """Return the status of an answer, 0 where the connection is ended without one."""
    async with asyncio.timeout(10):
        line = await reader.readline()
    return int(line.split()[1]) if line else 0


def too_long(request: Request) -> Iterable[Chunk | BaseException]:
    yield ContextTooLong(9_000, 8_192)


@pytest.mark.parametrize("kind", ["characters", "turns", "tokens"])
async def test_a_refused_request_leaves_a_line_in_the_log_and_no_text(
    tmp_path: Path, kind: str
) -> None:
    size = {"characters": 200_000, "turns": 1, "tokens": 2_000}[kind]
    many = [{"role": ("user", "assistant")[n % 2], "content": CANARY} for n in range(40_001)]
    async with (
        served_baton(tmp_path, [ScriptedWorker(too_long, SMALL)]) as served,
        served.client() as client,
    ):
        for path, body in BODIES.items():
            asked = body(f"{CANARY} " * (size // len(CANARY) or 1))
            if kind == "turns":
                asked["input" if path == "/responses" else "messages"] = many
            answer = await client.post(path, json=asked)
            assert answer.status_code == 400, answer.text
            assert CANARY not in answer.text
            log = (served.baton.paths.logs / "serve.log").read_text()
            assert re.search(rf"a Python program .*  400 {LOGGED[kind]}", log)
        assert await served.baton.store.conversations() == []
        assert files_with(tmp_path, CANARY) == []
    assert files_with(tmp_path, CANARY) == []


def files_with(folder: Path, text: str) -> list[str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return [file.name for file in files if text.encode() in file.read_bytes()]


async def test_a_prompt_of_millions_of_digits_is_refused_by_its_length(tmp_path: Path) -> None:
    here = ScriptedWorker(card=SMALL)
    texts = ["What is " + "9" * 4_000_000 + " * " + "9" * 3_000_000, "a@" * 3_700_000]
    async with served_baton(tmp_path, [here]) as served, served.client(Grant.SPEND) as client:
        for (path, body), text in itertools.product(BODIES.items(), texts):
            answer = await client.post(path, json=body(text))
            assert answer.status_code == 400
            assert "maximum context length" in answer.json()["error"]["message"]
            if path != "/messages":
                assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert here.requests == []


async def test_a_slow_large_body_makes_room_for_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_bodies, "SMALL_BODY_BYTES", 1_000)
    monkeypatch.setattr(request_bodies, "MAX_LARGE_BYTES", 10_000)
    large = json.dumps(chat("x" * 8_000)).encode()
    async with (
        served_baton(tmp_path, [ScriptedWorker(card=SMALL)]) as served,
        served.client() as client,
        Sockets() as sockets,
    ):
        slow = await sockets.send(served, begin_request(served, len(large)) + large[:6_000])
        await asyncio.sleep(0.1)
        assert (await client.post(CHAT, json=chat("Hello"))).status_code == 200
        assert not slow.at_eof()
        assert (await client.post(CHAT, content=large)).status_code == 200
        assert await status_of(slow) == 408
        assert (await client.post(CHAT, content=large)).status_code == 200


async def test_large_bodies_hold_their_room_until_they_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_bodies, "SMALL_BODY_BYTES", 1_000)
    monkeypatch.setattr(request_bodies, "MAX_LARGE_BYTES", 10_000)
    released = asyncio.Event()

    def waiting(request: Request) -> Iterable[Chunk | float]:
        while not released.is_set() and len(request.messages[-1].text) > 1_000:
            yield 0.01
        yield Text("Done.")

    here = ScriptedWorker(waiting, SMALL)
    async with served_baton(tmp_path, [here]) as served, served.client() as client:
        first = asyncio.create_task(client.post(CHAT, json=chat("x" * 8_000)))
        await wait_until(lambda: here.requests)
        assert (await client.post(CHAT, json=chat("y" * 8_000))).status_code == 429
        assert (await client.post(CHAT, json=chat("Hello"))).status_code == 200
        released.set()
        assert (await first).status_code == 200
        assert (await client.post(CHAT, json=chat("y" * 8_000))).status_code == 200


@pytest.mark.parametrize("count", [12, 40])
async def test_half_bodies_keep_no_new_client_from_being_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(request_bodies, "MAX_ARRIVING", 6)
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 50)
    monkeypatch.setattr(http_server, "MAX_IDLE_CONNECTIONS", 10)
    async with (
        served_baton(tmp_path) as served,
        served.client() as client,
        Sockets() as sockets,
    ):
        half = begin_request(served, 500) + b'{"model": '
        readers = [await sockets.send(served, half) for _ in range(count)]
        assert (await client.post(CHAT, json=chat("Hello"))).status_code == 200
        assert {await status_of(reader) for reader in readers[: count - 6]} == {408}


async def test_a_body_without_a_token_is_not_waited_for(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, Sockets() as sockets:
        half = begin_request(served, 7_900_000, "unknown") + b"[" * 50_000
        assert await status_of(await sockets.send(served, half)) == 401


@pytest.mark.parametrize("data", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: 127.0"])
async def test_half_heads_keep_no_new_client_from_being_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(http_server, "MAX_IDLE_CONNECTIONS", 8)
    async with (
        served_baton(tmp_path) as served,
        served.client() as client,
        Sockets() as sockets,
    ):
        readers = [await sockets.send(served, data) for _ in range(30)]
        assert (await client.post(CHAT, json=chat("Hello"))).status_code == 200
        assert {await status_of(reader) for reader in readers[:20]} == {0}
        assert (await client.get("/models")).status_code == 200


async def test_a_model_name_of_megabytes_is_not_compared_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That would hold all requests up for more than a second."""
    compared, compare = list[str](), difflib.get_close_matches

    def count(word: str, *parts: Any, **more: Any) -> list[str]:
        compared.append(word)
        return compare(word, *parts, **more)

    monkeypatch.setattr(difflib, "get_close_matches", count)
    async with served_baton(tmp_path) as served, served.client() as client:
        for path, body in BODIES.items():
            answer = await client.post(path, json={**body("Hi"), "model": "x" * 7_900_000})
            assert answer.status_code == 400
            assert len(answer.text) < 500
        assert "baton/ultra" in (await client.get("/models/baton/ultro")).text
    assert max(map(len, compared)) <= 200


async def test_a_token_has_no_more_requests_at_once_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_runner, "MAX_RUNS", 6)
    released = asyncio.Event()
    here = ScriptedWorker(until(released), SMALL)
    async with served_baton(tmp_path, [here]) as served, Sockets() as sockets:
        body = json.dumps(chat("Hi")).encode()
        sent = begin_request(served, len(body)) + body
        readers = await asyncio.gather(*(sockets.send(served, sent) for _ in range(15)))
        statuses = [asyncio.create_task(status_of(reader)) for reader in readers]
        await wait_until(lambda: sum(status.done() for status in statuses) == 9)
        released.set()
        assert sorted(await asyncio.gather(*statuses)) == [200] * 6 + [429] * 9


def until(released: asyncio.Event) -> Callable[[Request], Iterable[Chunk | float]]:
    """Return the script of an answer that isn't there before the event."""

    def script(request: Request) -> Iterable[Chunk | float]:
        while not released.is_set():
            yield 0.01
        yield Text("Done.")

    return script


@pytest.mark.parametrize(("path", "field"), [(CHAT, "stop"), ("/messages", "stop_sequences")])
async def test_stop_texts_are_bounded(tmp_path: Path, path: str, field: str) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        for size, status in ((1_000, 200), (1_001, 400), (900_000, 400)):
            asked = BODIES[path]("Hi") | {field: ["END", "a" * size]}
            assert (await client.post(path, json=asked)).status_code == status


ANY_OBJECT = {"response_format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("text", "more", "status"),
    [
        ("y" * 31_000, {"tool_choice": "required"}, 200),
        ("y" * 33_000, {}, 200),
        ("y" * 33_000, {"tool_choice": "required"}, 400),
        ("€" * 11_000, {"tool_choice": "required"}, 400),
        ("y" * 33_000, ANY_OBJECT, 400),
    ],
)
async def test_the_schema_of_a_tool_is_bounded_where_an_answer_is_held_to_it(
    tmp_path: Path, text: str, more: dict[str, Any], status: int
) -> None:
    function = {"name": "look", "parameters": {"type": "object", "description": text}}
    fields = {"tools": [{"type": "function", "function": function}], "model": "scripted", **more}
    async with served_baton(tmp_path) as served, served.client() as client:
        answer = await client.post(CHAT, json=chat("Hi", **fields))
    assert answer.status_code == status, answer.text


async def test_a_background_request_says_why_it_could_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: Store, *parts: object) -> None:
        raise StoreError("The disk is full.", "Free some space.")

    async with served_baton(tmp_path) as served, served.client() as client:
        monkeypatch.setattr(Store, "begin", fail)
        body = {"model": "baton/auto", "input": "Hello", "background": True}
        answer = await client.post("/responses", json=body)
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "The disk is full. Free some space."


async def test_a_response_says_why_it_cannot_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*parts: object) -> None:
        raise StoreError("The disk is full.", "Free some space.")

    async with served_baton(tmp_path) as served, served.client() as client:
        id = (await client.post("/responses", json=BODIES["/responses"]("Hi"))).json()["id"]
        monkeypatch.setitem(vars(served.baton.store.clients), "run", fail)
        for answer in (
            await client.get(f"/responses/{id}"),
            await client.post(f"/responses/{id}/cancel"),
        ):
            shown = answer.json()["error"]["message"]
            assert (answer.status_code, shown) == (503, "The disk is full. Free some space.")


async def test_a_response_that_is_deleted_while_it_is_looked_up_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        asked = (await client.post("/responses", json=BODIES["/responses"]("Hi"))).json()
    async with served_baton(tmp_path) as served, served.client() as client:
        store = served.baton.store
        look_up = store.clients.run

        async def look_up_late(*parts: Any) -> object:
            found = await look_up(*parts)
            await store.purge(asked["baton"]["conversation_id"])
            return found

        monkeypatch.setitem(vars(store.clients), "run", look_up_late)
        answer = await client.get(f"/responses/{asked['id']}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "response_not_found"


async def test_a_failed_response_in_the_background_is_gone_once_it_is_deleted(
    tmp_path: Path,
) -> None:
    here = ScriptedWorker(lambda request: [WorkerError("It broke.", "")], SMALL)
    async with served_baton(tmp_path, [here]) as served, served.client() as client:
        asked = {**BODIES["/responses"]("Hi"), "background": True, "instructions": CANARY}
        id = (await client.post("/responses", json=asked)).json()["id"]
        assert (await ended_response(client, id))["status"] == "failed"
        for conversation in await served.baton.store.conversations():
            await served.baton.store.hide(conversation.id)
        gone = await client.get(f"/responses/{id}")
    assert gone.status_code == 404
    assert CANARY not in gone.text


async def ended_response(client: httpx.AsyncClient, id: str) -> dict[str, Any]:
    """Return a response in the background once it is over."""
    async with asyncio.timeout(20):
        while True:
            shown: dict[str, Any] = (await client.get(f"/responses/{id}")).json()
            if shown["status"] != "in_progress":
                return shown
            await asyncio.sleep(0.01)


async def test_a_refused_response_in_the_background_says_why(tmp_path: Path) -> None:
    """It is taken out of the history at once, as none of it may stay there."""
    here = ScriptedWorker(too_long, SMALL)
    async with served_baton(tmp_path, [here]) as served, served.client() as client:
        asked = {**BODIES["/responses"]("Hi"), "background": True}
        id = (await client.post("/responses", json=asked)).json()["id"]
        failed = await ended_response(client, id)
        assert await served.baton.store.conversations() == []
    assert failed["status"] == "failed"
    assert "maximum context length" in failed["error"]["message"]


async def test_a_response_in_the_background_of_another_server_is_cancelled_there(
    tmp_path: Path,
) -> None:
    released = asyncio.Event()
    here = ScriptedWorker(until(released), SMALL)
    async with (
        served_baton(tmp_path, [here]) as served,
        served.client() as client,
        served_baton(tmp_path) as other_served,
        other_served.client() as other,
    ):
        asked = {**BODIES["/responses"]("Hi"), "background": True}
        id = (await client.post("/responses", json=asked)).json()["id"]
        assert (await other.get(f"/responses/{id}")).json()["status"] == "in_progress"
        answer = await other.post(f"/responses/{id}/cancel")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "response_not_here")
        cancelled = await client.post(f"/responses/{id}/cancel")
        assert cancelled.json()["status"] == "cancelled"
        assert (await other.post(f"/responses/{id}/cancel")).status_code == 404


def test_a_users_own_budget_of_zero_is_named_as_the_reason() -> None:
    price = Price(Rates(NANO, NANO, 0, 0))
    bill = HoldRequest("r", "s", "gpt", "openai", "gpt", Purpose.ANSWER, price, 100, 500)
    rooms = [ScopeBalance(scope, 0 if scope is Scope.RUN else None) for scope in Scope]
    with pytest.raises(BudgetExceeded) as caught:
        decide_hold(bill, rooms)
    assert "the ceiling is $0 for this prompt" in f"{caught.value}"
    assert "run" not in f"{caught.value}".split()
