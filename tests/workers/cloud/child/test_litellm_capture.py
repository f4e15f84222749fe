"""The relay: one request for each secret, and nothing for anybody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from baton.core.labels import Label, address_label
from baton.platform.proxies import is_usable, loopback_addresses, proxy_for, request_address
from baton.workers.cloud.child.call_errors import without
from baton.workers.cloud.child.litellm_capture import Relay


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    relay = Relay()
    await relay.start()
    yield relay
    await relay.aclose()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    "header",
    [("authorization", "Bearer s3cret"), ("x-api-key", "s3cret"), ("x-goog-api-key", "s3cret")],
)
async def test_it_catches_one_request_and_refuses_a_second(
    relay: Relay, client: httpx.AsyncClient, header: tuple[str, str]
) -> None:
    awaited = relay.expect("s3cret")
    posting = asyncio.create_task(
        client.post(f"{relay.address}/any", content=b"body", headers=dict([header]))
    )
    assert await asyncio.wait_for(awaited, 30) == b"body"
    again = await client.post(f"{relay.address}/any", content=b"x", headers=dict([header]))
    assert (again.status_code, awaited.result()) == (409, b"body")
    posting.cancel()
    await asyncio.wait({posting})


async def test_a_stranger_is_refused(relay: Relay, client: httpx.AsyncClient) -> None:
    awaited = relay.expect("s3cret")
    for headers in ({}, {"x-api-key": "other"}, {"authorization": "Bearer x"}):
        answer = await client.post(f"{relay.address}/any", content=b"x", headers=headers)
        assert answer.status_code == 401
    assert (await client.get(relay.address, headers={"x-api-key": "s3cret"})).status_code == 401
    assert not awaited.done()
    relay.forget("s3cret")
    late = await client.post(relay.address, content=b"x", headers={"x-api-key": "s3cret"})
    assert late.status_code == 401


async def test_a_strangers_body_is_not_waited_for(relay: Relay) -> None:
    """Else whoever is on this machine could fill the memory of the process that holds the keys."""
    port = httpx.URL(relay.address).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n")
    assert (await asyncio.wait_for(reader.readline(), 30)).split()[1] == b"401"
    writer.close()


async def test_noise_does_no_harm(relay: Relay, client: httpx.AsyncClient) -> None:
    port = httpx.URL(relay.address).port
    for noise in (b"", b"\x00\xff" * 100, b"GET / HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nHost"):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(noise)
        writer.close()
        await writer.wait_closed()
    assert (await client.post(relay.address)).status_code == 401


def test_addresses() -> None:
    assert request_address("https://a/v1/", "chat", "m") == "https://a/v1/chat/completions"
    assert request_address("https://a/v1", "responses", "m") == "https://a/v1/responses"
    assert request_address("https://a", "messages", "m") == "https://a/v1/messages"
    assert request_address("https://a/v1", "messages", "m") == "https://a/v1/messages"
    told = request_address("https://a/v1beta", "gemini", "../x?key=1")
    assert told == "https://a/v1beta/models/..%2Fx%3Fkey%3D1:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("url", "numeric"),
    [
        ("http://127.0.0.1:8000/v1", ["http://127.0.0.1:8000/v1"]),
        ("http://[::1]/v1", ["http://[::1]/v1"]),
        ("http://localhost:1/v1", ["http://127.0.0.1:1/v1", "http://[::1]:1/v1"]),
        ("http://localhost.:1/v1", ["http://127.0.0.1:1/v1", "http://[::1]:1/v1"]),
        ("http://127.0.0.1.:1/v1", ["http://127.0.0.1:1/v1"]),
        ("http://[::ffff:127.0.0.1]:1/v1", ["http://[::ffff:127.0.0.1]:1/v1"]),
        ("http://localhost.example/v1", []),
        ("http://127.0.0.1.example/v1", []),
        ("http://127.0.0.1@198.51.100.1/v1", []),
        ("http://0.0.0.0/v1", []),
        ("http://2130706433/v1", []),
    ],
)
def test_what_is_this_machine(url: str, numeric: list[str]) -> None:
    """What may see private texts (`reach`) and what is reached without names and proxies agree."""
    assert loopback_addresses(url) == numeric
    assert (address_label(url) is Label.LOCAL) is bool(numeric)
    assert (proxy_for(url, "http://proxy", {}) is None) is bool(numeric)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example/v1",
        "file:///etc/passwd",
        "unix:///run/x",
        "ftp://a.example",
        "http://",
        "http://[::1",
        "http://a.example:99999",
        "https://me:s3cret@a.example/v1",
        "http://127.0.0.1@a.example/v1",
        "https://a.example/v1?key=s3cret",
        "https://a.example/#v1",
    ],
)
def test_what_is_no_address(url: str) -> None:
    assert not is_usable(url)
    assert address_label(url) is Label.CLOUD


@pytest.mark.parametrize(
    ("url", "chosen", "environ", "proxy"),
    [
        ("https://a.example", "", {}, None),
        ("https://a.example", "http://p", {"HTTPS_PROXY": "http://q"}, "http://p"),
        ("https://a.example", "", {"https_proxy": "http://q"}, "http://q"),
        ("http://a.example", "", {"HTTPS_PROXY": "http://q"}, None),
        ("http://a.example", "", {"ALL_PROXY": "http://q"}, "http://q"),
        ("https://a.example", "", {"HTTPS_PROXY": "http://q", "NO_PROXY": "b, .example"}, None),
        ("https://a.example", "", {"HTTPS_PROXY": "http://q", "NO_PROXY": "*"}, None),
        ("https://an.example", "", {"HTTPS_PROXY": "q", "NO_PROXY": "n.example"}, "q"),
        ("http://127.0.0.1:1", "http://p", {"ALL_PROXY": "http://q"}, None),
    ],
)
def test_proxies(url: str, chosen: str, environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(url, chosen, environ) == proxy


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Key sk-abcdefghijkl is wrong", "Key [key] is wrong"),
        ("Key sk-abcde...fghijkl", "Key [key]...fghijkl"),
        ("sk-abcdefghijklsk-abcdefghijkl", "[key][key]"),
        ("nothing of it", "nothing of it"),
        ("", ""),
    ],
)
def test_keys_are_removed_from_what_providers_say(said: str, left: str) -> None:
    assert without(said, "sk-abcdefghijkl") == left
    assert without(said, "") == said
