"""Engines that run on this machine are found, and nothing that answers there can do harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from msgspec import convert

from baton.core.labels import Label
from baton.platform.settings import ServerWorkerSettings
from baton.workers.local.local_servers import (
    TIMEOUT_SECONDS,
    ServerAddress,
    ServerModel,
    find_server_models,
    merge_server_models,
    server_addresses,
)

OLLAMA, LM_STUDIO, LLAMA_SERVER, VLLM, SGLANG = server_addresses({})
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serve_locally(
    usual: ServerAddress, answer: Answer
) -> AsyncIterator[tuple[ServerAddress, list[bytes]]]:
    """Serve at a free port of loopback; give the place to ask and what it was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        try:
            await answer(writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield replace(usual, port=server.sockets[0].getsockname()[1]), asked
        server.close()


def says(body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    return answer


def models(*named: object) -> Answer:
    return says(json.dumps({"models": named, "data": named}).encode())


async def found_at(usual: ServerAddress, answer: Answer, limit: float = 30) -> list[ServerModel]:
    async with serve_locally(usual, answer) as (place, _):
        return await find_server_models([place], limit=limit)


async def test_a_running_ollama_is_found_and_its_cloud_models_are_distinguished() -> None:
    answer = models(
        {"name": "qwen3:8b", "model": "qwen3:8b", "size": 5_200_000_000, "digest": "x"},
        {"name": "gpt-oss:120b-cloud", "model": "gpt-oss:120b-cloud", "size": 384},
        {"name": "glm-4.6:cloud", "model": "glm-4.6:cloud", "size": 300},
        {"name": "mine", "remote_model": "gpt-oss:120b", "remote_host": "https://ollama.com:443"},
        {"name": "nomic-embed-text:latest", "size": 274_000_000},
        {"name": "bge-m3", "capabilities": ["embedding"]},
        {"name": "hf.co/someone/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "size": 1},
    )
    async with serve_locally(OLLAMA, answer) as (place, asked):
        found = await find_server_models([place], ("qwen3-8b",), limit=30)
    assert [(f.id, f.model, f.size, f.cloud) for f in found] == [
        ("qwen3-8b-2", "qwen3:8b", 5_200_000_000, False),
        ("gpt-oss-120b-cloud", "gpt-oss:120b-cloud", 384, True),
        ("glm-4.6-cloud", "glm-4.6:cloud", 300, True),
        ("mine", "mine", 0, True),
        ("llama-3.2-1b-instruct", "hf.co/someone/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", 1, False),
    ]
    assert {(f.engine, f.addresses) for f in found} == {
        ("Ollama", (f"http://127.0.0.1:{place.port}/v1",))
    }
    [request] = asked
    assert request.startswith(b"GET /api/tags HTTP/1.1\r\n")


async def test_a_running_lm_studio_and_llama_server_are_found() -> None:
    named = {"id": "qwen3-4b", "object": "model", "owned_by": "organization_owner"}
    [found] = await found_at(LM_STUDIO, models(named, {"id": "text-embedding-nomic"}))
    assert (found.id, found.engine, found.cloud) == ("qwen3-4b", "LM Studio", False)
    meta = {"size": 17, "n_params": 3}
    answer = models({"id": "/models/Qwen3-8B.Q8_0.gguf", "owned_by": "llamacpp", "meta": meta})
    [found] = await found_at(LLAMA_SERVER, answer)
    assert (found.id, found.engine, found.size) == ("qwen3-8b.q8_0", "llama-server", 17)


async def test_llama_server_says_how_many_calls_it_takes_at_once() -> None:
    listed = {"data": [{"id": "qwen3-8b", "owned_by": "llamacpp"}], "total_slots": 6}
    answer = says(json.dumps(listed).encode())
    async with serve_locally(LLAMA_SERVER, answer) as (place, asked):
        [found] = await find_server_models([place], limit=30)
    assert (found.slots, found.known_slots, found.entry["slots"]) == ((6,), 6, 6)
    paths = [request.split()[1] for request in asked]
    assert paths == [b"/v1/models", b"/props"]


async def test_an_engine_that_does_not_say_is_not_asked_further() -> None:
    named = {"id": "Qwen/Qwen3-8B", "object": "model", "owned_by": "vllm"}
    async with serve_locally(VLLM, models(named)) as (place, asked):
        [found] = await find_server_models([place], limit=30)
    assert (found.engine, found.id, found.known_slots) == ("vLLM", "qwen3-8b", None)
    assert "slots" not in found.entry
    assert len(asked) == 1


@pytest.mark.parametrize("usual", [LLAMA_SERVER, VLLM, SGLANG])
async def test_something_else_at_the_port_of_an_engine_is_not_a_worker(
    usual: ServerAddress,
) -> None:
    assert await found_at(usual, models({"id": "a", "owned_by": "somebody"})) == []
    assert await found_at(usual, models({"id": "a"})) == []


def offered(host: str, model: str, slots: int = 0, cloud: bool = False) -> ServerModel:
    url = f"http://{host}:8080/v1"
    return ServerModel("", "llama-server", model, (url,), cloud=cloud, slots=(slots,))


def test_a_model_of_several_hosts_is_one_worker_with_several_addresses() -> None:
    found = [
        offered("10.0.0.2", "qwen3-8b", 4),
        offered("10.0.0.2", "gemma-3"),
        offered("10.0.0.3", "qwen3-8b", 8),
        offered("10.0.0.4", "qwen3-8b"),
        offered("10.0.0.4", "gemma-3", cloud=True),
    ]
    both, gemma, cloud = merge_server_models(found, ("qwen3-8b",))
    assert both.entry == {
        "id": "qwen3-8b-2",
        "kind": "server",
        "model": "qwen3-8b",
        "base_url": [f"http://10.0.0.{n}:8080/v1" for n in (2, 3, 4)],
        "slots": [4, 8, 4],
    }
    assert convert(both.entry, ServerWorkerSettings).address_slots == (4, 8, 4)
    assert (gemma.base_url, gemma.known_slots) == ("http://10.0.0.2:8080/v1", None)
    assert (cloud.id, cloud.entry["privacy"]) == ("gemma-3-2", "cloud")


def test_two_engines_of_one_host_are_not_one_worker() -> None:
    first, second = offered("10.0.0.2", "a"), offered("10.0.0.2", "a")
    assert [m.id for m in merge_server_models([first, second], ())] == ["a", "a-2"]


def test_what_is_on_another_host_does_not_count_as_here() -> None:
    here, there = offered("127.0.0.1", "a"), offered("10.0.0.2", "a")
    [both] = merge_server_models([here, there], ())
    assert here.entry["here"]
    assert "here" not in there.entry
    assert "here" not in both.entry


async def test_an_answer_in_chunks_is_read() -> None:
    body = b'{"data": [{"id": "small"}]}'

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for byte in body:
            writer.write(b"1\r\n" + bytes([byte]) + b"\r\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    assert [f.model for f in await found_at(LM_STUDIO, answer)] == ["small"]


async def hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def trickle(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(600):
        writer.write(b"X-More: 1\r\n")
        await writer.drain()
        await asyncio.sleep(0.1)


async def flood(writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\n\r\n{"data": [{"id": "')
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@pytest.mark.parametrize(
    "answer",
    [
        *(hang, trickle, flood, hang_up),
        says(b""),
        says(b"not JSON"),
        says(b'{"data": [{"id": "a"}]}', b"HTTP/1.1 404 Not Found\r\n"),
        says(b'{"data": [{"id": "a"}]}', b"HTTP/1.1 302 Found\r\nLocation: http://x.example/\r\n"),
        says(b'{"data": [{"id": "a"}]}', b"SSH-2.0-OpenSSH\r\n"),
        says(b'{"data": [{"id": "a"}]}', b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n"),
        says(b'{"data": [{"id": ["a"]}]}'),
        says(b'{"data": [{"id": 1}, {"id": ""}, {"id": null}]}'),
        says(b'{"data": {"id": "a"}}'),
        says(b'{"data": 3}'),
        says(b"[]"),
        says(b"null"),
        says(b"[" * 100_000),
        says(b'{"data": [{"id": "a", "size": ' + b"9" * 6000 + b"}]}"),
        says(b'{"data": [{"id": "\\u001b]0;owned\\u0007"}, {"id": "a\\nb"}, {"id": "\\u202eb"}]}'),
        says(b'{"data": [{"id": "\\ud800"}, {"id": "' + b"x" * 300 + b'"}]}'),
    ],
)
async def test_any_other_server_is_not_a_worker(answer: Answer) -> None:
    assert await found_at(LM_STUDIO, answer, TIMEOUT_SECONDS) == []
    assert await found_at(OLLAMA, answer, TIMEOUT_SECONDS) == []


async def test_where_nothing_listens_nothing_is_found() -> None:
    async with serve_locally(OLLAMA, hang) as (place, _):
        pass
    assert await find_server_models([place]) == []


async def test_a_very_long_list_is_cut() -> None:
    answer = models(*({"id": f"m{n}"} for n in range(1000)))
    assert len(await found_at(LM_STUDIO, answer)) == 200


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [
        ("", "127.0.0.1", 11434),
        ("127.0.0.1:9999", "127.0.0.1", 9999),
        ("0.0.0.0", "127.0.0.1", 11434),
        ("0.0.0.0:9999", "127.0.0.1", 9999),
        (":9999", "127.0.0.1", 9999),
        ("localhost:9999", "127.0.0.1", 9999),
        ("http://127.0.0.1", "127.0.0.1", 80),
        ("http://[::1]:9999/", "::1", 9999),
        ("192.168.1.9:9999", "127.0.0.1", 11434),
        ("gpu.example.org", "127.0.0.1", 11434),
        ("https://127.0.0.1:9999", "127.0.0.1", 11434),
        ("http://127.0.0.1:port", "127.0.0.1", 11434),
        ("http://[::1", "127.0.0.1", 11434),
    ],
)
def test_ollama_is_looked_for_where_it_listens_if_that_is_here(
    value: str, host: str, port: int
) -> None:
    ollama, *others = server_addresses({"OLLAMA_HOST": value})
    assert (ollama.host, ollama.port) == (host, port)
    assert {other.host for other in others} == {"127.0.0.1"}


def test_what_is_found_makes_an_entry_in_the_settings() -> None:
    here = ServerModel("a", "Ollama", "a:8b", ("http://127.0.0.1:11434/v1",))
    cloud = replace(here, id="b", cloud=True)
    assert convert(here.entry, ServerWorkerSettings).privacy is None  # as the address says
    assert convert(cloud.entry, ServerWorkerSettings).privacy is Label.CLOUD
