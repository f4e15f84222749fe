"""The only way out, in this process: where a request goes, with which key, and what is believed."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from baton.core.labels import Label
from baton.ipc.parent_channel import Failure
from baton.platform import proxies as addresses
from baton.platform.proxies import request_address
from baton.workers.cloud.child import call_errors
from baton.workers.cloud.child.cloud_call import KEY_PLACEHOLDER, CloudCall, HttpRequest
from baton.workers.cloud.child.http_client import CloudHttpClient, KeyFilter
from baton.workers.cloud.messages import SetUpGateway, TokenCount
from support.fake_cloud import Cloud, Reply
from support.home_network import at_home
from support.secret_search import parts_of
from support.socks_proxy import socks_proxy

KEY = "sk-canary-0123456789abcdefghij"
BEARER = {"Authorization": f"Bearer {KEY_PLACEHOLDER}"}
ANSWER = Reply().text
Out = Callable[..., CloudHttpClient]


@dataclass
class CallOutcome:
    """What one call gave, and what was announced before anything was sent."""

    text: str = ""
    failure: Failure | None = None
    announced: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        """The sentence of the failure."""
        return str(self.failure or "")

    @property
    def declined(self) -> bool:
        """Whether the failure cost nothing."""
        return self.failure is not None and self.failure.failed.declined


def make_call(base_url: str, **more: Any) -> CloudCall:
    """Return a call to a server that speaks Chat Completions."""
    given: dict[str, Any] = {
        "id": 1,
        "who": "The lab",
        "provider": "server",
        "model": "m",
        "base_url": base_url,
        "variable": "LAB_KEY",
        "needs_key": True,
        "through_library": False,
        "messages": [{"role": "user", "content": "Hello"}],
        "cap": 300,
        "bound": 2000,
        "context": 0,
        "connect": 5.0,
        "first": 10.0,
        "stall": 10.0,
        "temperature": None,
        "seed": None,
        "announce": lambda host, body: None,
    }
    return CloudCall(**given | more)


def body_of(call: CloudCall, **more: Any) -> bytes:
    """Return the request for such a call."""
    body = {"model": call.model, "messages": call.messages, "max_tokens": call.cap, "stream": True}
    return json.dumps(body | {"stream_options": {"include_usage": True}} | more).encode()


def request_of(
    call: CloudCall, body: bytes = b"", headers: Mapping[str, str] = BEARER, url: str = ""
) -> HttpRequest:
    """Return a call's request with that body, or one that asks for what it should."""
    url = url or request_address(call.base_url, call.dialect, call.model)
    return HttpRequest(url, headers, body or body_of(call))


async def hear(
    way: CloudHttpClient,
    call: CloudCall,
    body: bytes = b"",
    headers: Mapping[str, str] = BEARER,
    url: str = "",
) -> CallOutcome:
    """Make a call; what it announces may be sent at once."""
    heard = CallOutcome()

    def announce(host: str, _: bytes) -> None:
        heard.announced.append(host)
        call.go.set()

    call.announce = announce
    try:
        await way.prepare(call)
        async with aclosing(way.post(call, request_of(call, body, headers, url))) as texts:
            async for text in texts:
                heard.text += text
    except Failure as failure:
        heard.failure = failure
    return heard


def outward(environ: Mapping[str, str] | None = None, **rules: Any) -> CloudHttpClient:
    """Return a way out that knows one key and reads no file."""
    given: dict[str, Any] = {"keys_file": Path("none.toml")}
    return CloudHttpClient(
        SetUpGateway(**given | rules), {"LAB_KEY": KEY} if environ is None else environ
    )


@pytest.fixture
async def out() -> AsyncIterator[Out]:
    """Return `outward`; what it makes is closed after the test."""
    made: list[CloudHttpClient] = []

    def make(*given: Any, **rules: Any) -> CloudHttpClient:
        made.append(outward(*given, **rules))
        return made[-1]

    yield make
    for way in made:
        await way.aclose()


async def test_a_variable_that_holds_no_key_is_named_and_nothing_is_sent(out: Out) -> None:
    with Cloud() as cloud:
        heard = await hear(out({"LAB_KEY": "two words"}), make_call(cloud.base("server")))
        assert "LAB_KEY" in heard.said
        assert "two words" not in heard.said
        assert (heard.announced, cloud.posts) == ([], 0)


# Proxies


def ask_through_proxy(address: str) -> dict[str, Any]:
    """Ask a server of the home network, with a proxy in the environment, then with a set one."""
    with Cloud(host=address) as server, Cloud() as proxy:
        named = {"http_proxy": proxy.url, "ALL_PROXY": proxy.url}
        heard = asyncio.run(hear(outward(proxies=named), make_call(server.base("server"))))
        unset = proxy.posts, [received.key for received in server.calls]
        keyless = make_call(server.base("server"), variable="", needs_key=False)
        through = asyncio.run(hear(outward(proxy=proxy.url), keyless))
        keyed = asyncio.run(hear(outward(proxy=proxy.url), make_call(server.base("server"))))
        return {
            "text": heard.text,
            "to": [place == f"{address}:{server.port}" for place in heard.announced],
            "unset": unset,
            "through": [
                place == f"{address}:{server.port} through 127.0.0.1:{proxy.port}"
                for place in through.announced
            ],
            "proxied": proxy.posts,
            "keyed": [keyed.said, *keyed.announced],
            "keys": [received.key for received in proxy.calls],
        }


def test_no_proxy_of_the_environment_sees_what_is_for_the_home_network() -> None:
    found = at_home(ask_through_proxy)
    assert found["text"] == ANSWER
    assert found["to"] == [True]
    assert found["unset"] == [0, [KEY]]
    assert found["through"] == [True], "one that was set is used, and named"
    assert found["proxied"] == 1
    [said] = found["keyed"]
    assert "would read its key" in said
    assert found["keys"] == [""]


async def test_the_process_that_posts_looks_for_no_proxy_of_its_own(
    out: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the front reads the environment for one, so that what it announces is the way taken."""
    with Cloud() as server, Cloud() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        heard = await hear(out(), make_call(server.base("server")))
        assert (heard.text, proxy.posts, server.posts) == (ANSWER, 0, 1)


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_no_key_goes_through_a_proxy_in_the_clear(out: Out, scheme: str) -> None:
    proxies = {"ALL_PROXY": f"{scheme}://me:secret@127.0.0.1:9"}
    heard = await hear(out(proxies=proxies), make_call("http://198.51.100.1/v1"))
    assert heard.announced == []
    assert heard.failure is not None
    assert heard.failure.failed.error == "ConfigError"
    assert "127.0.0.1:9 would read its key" in heard.said
    assert "secret" not in str(heard.failure.failed)


async def test_the_password_of_a_proxy_is_not_announced(out: Out) -> None:
    with Cloud() as proxy:
        named = proxy.url.replace("//", "//me:secret@")
        call = make_call("http://198.51.100.1/v1", variable="", needs_key=False)
        heard = await hear(out(proxies={"http_proxy": named}), call)
    assert heard.text == ANSWER
    assert heard.announced == [f"198.51.100.1 through 127.0.0.1:{proxy.port}"]


@pytest.mark.parametrize(
    "proxy",
    [
        "socks4://127.0.0.1:9",
        "ftp://127.0.0.1:9",
        "http://[::1",
        "http://",
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://user:word@127.0.0.1:99999",
        "http://\u043froxy:9",
    ],
)
async def test_a_proxy_that_cannot_be_used_is_an_error(out: Out, proxy: str) -> None:
    heard = await hear(out(proxy=proxy), make_call("https://198.51.100.1/v1"))
    assert heard.announced == []
    shown = proxy.replace("user:word@", "")
    assert heard.said == f"The proxy in cloud.proxy, {shown}, can't be used. Nothing was sent."


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_a_socks_proxy_is_used(out: Out, scheme: str) -> None:
    with Cloud() as server, socks_proxy(server.port) as proxy:
        call = make_call("http://far.example.org/v1", variable="", needs_key=False)
        way = out(proxies={"all_proxy": f"{scheme}://127.0.0.1:{proxy.port}"})
        heard = await hear(way, call)
    assert heard.text == ANSWER
    assert proxy.asked == ["far.example.org:80"]
    assert heard.announced == [f"far.example.org through 127.0.0.1:{proxy.port}"]


@pytest.mark.parametrize(
    ("url", "privacy", "wanted"),
    [
        ("http://10.0.0.9:8000/v1", "cloud", None),
        ("http://nas:8000/v1", "cloud", None),
        ("http://nas.local/v1", "cloud", None),
        ("http://[fd00::1]/v1", "cloud", None),
        ("http://localhost:1/v1", "cloud", None),
        ("https://gpu.example.org/v1", "lan", None),
        ("https://gpu.example.org/v1", "local", None),
        ("https://api.openai.com/v1", "cloud", "http://proxy:1"),
        ("http://[2001::1]/v1", "cloud", "http://proxy:1"),
    ],
)
def test_which_addresses_have_a_proxy(url: str, privacy: str, wanted: str | None) -> None:
    environ = {"HTTPS_PROXY": "http://proxy:1", "http_proxy": "http://proxy:1"}
    assert addresses.proxy_for(url, "", environ, Label(privacy)) == wanted
    assert addresses.proxy_for(url, "", environ | {"NO_PROXY": "*"}, Label(privacy)) is None
    chosen = None if "localhost" in url else "http://chosen:1"
    assert addresses.proxy_for(url, "http://chosen:1", environ, Label(privacy)) == chosen


@pytest.mark.parametrize(
    ("excepted", "is_direct"),
    [
        ("example.org", True),
        (".example.org", True),
        ("*.example.org", True),
        ("GPU.EXAMPLE.ORG", True),
        ("gpu.example.org:443", True),
        ("gpu.example.org:8443", False),
        ("gpu.example.org.", True),
        (".example.org.", True),
        ("ample.org", False),
        ("example.org.evil", False),
        (" , example.org ,", True),
    ],
)
def test_what_no_proxy_excepts(excepted: str, is_direct: bool) -> None:
    environ = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": excepted}
    for host in ("gpu.example.org", "gpu.example.org."):
        found = addresses.proxy_for(f"https://{host}/v1", "", environ)
        assert (found is None) is is_direct


@pytest.mark.parametrize(
    ("excepted", "host", "is_direct"),
    [
        ("198.51.100.0/24", "198.51.100.7", True),
        ("198.51.100.0/24", "198.51.101.7", False),
        ("198.51.100.7", "198.51.100.7", True),
        ("2001:db8::/32", "[2001:db8::1]", True),
        ("[2001:db8::1]", "[2001:db8::1]", True),
        ("198.51.100.0/99", "198.51.100.7", False),
    ],
)
def test_no_proxy_excepts_networks(excepted: str, host: str, is_direct: bool) -> None:
    environ = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": excepted}
    found = addresses.proxy_for(f"https://{host}/v1", "", environ)
    assert (found is None) is is_direct


@pytest.mark.parametrize("name", ["SSL_CERT_FILE"])
async def test_certificates_that_cannot_be_read_are_an_error(
    out: Out, tmp_path: Path, name: str
) -> None:
    """Added authorities are trusted besides the well-known ones, so a missing one must show."""
    (tmp_path / "empty.pem").write_text("no certificate")
    os.mkfifo(tmp_path / "pipe.pem")  # reading it would wait for ever
    for path in (tmp_path / "missing.pem", tmp_path / "empty.pem", tmp_path / "pipe.pem"):
        environ = {"LAB_KEY": KEY, name: str(path)}
        way = out(environ)
        await way.warm()
        heard = await hear(way, make_call("https://198.51.100.1/v1"))
        assert heard.announced == []
        assert "SSL_CERT_FILE or SSL_CERT_DIR" in heard.said


# Names


async def test_a_name_of_the_home_network_leads_nowhere_else(
    out: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is judged as it is written; what it stands for is looked at before anything goes."""
    found = {"nas": "198.51.100.1", "nas.local": "8.8.8.8", "box.lan": "127.0.0.1"}

    def looked_up(host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name == "gone.lan":
            raise socket.gaierror
        place = (found.get(name, name), port or 0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place)]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    for name in ("nas", "nas.local"):
        heard = await hear(out(), make_call(f"http://{name}:9/v1"))
        assert heard.announced == []
        assert f"{found[name]} is not in the home network" in heard.said
    heard = await hear(out(), make_call("http://gone.lan:9/v1"))
    assert heard.said.startswith("The lab can't be reached: its name is not known.")
    assert heard.declined
    with Cloud() as cloud:
        base = cloud.base("server").replace("127.0.0.1", "box.lan")
        heard = await hear(out(), make_call(base))
        assert (heard.text, heard.failure) == (ANSWER, None)
        [received] = cloud.calls
        assert dict(received.headers)["host"] == f"box.lan:{cloud.port}"


# What a provider sends


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
OPEN = HEAD + b"\r\n"
"""The head of an answer that lasts until the connection ends."""

PING = b": keep-alive\n\n"
WORD = b'data: {"choices": [{"delta": {"content": "word "}}]}\n\n'
THOUGHT = b'data: {"choices": [{"delta": {"reasoning_content": "Hm. "}}]}\n\n'


@dataclass
class Provider:
    """A server that says always the same; `left` is set when a client hangs up on it."""

    base_url: str = ""
    keys: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def provider(*pieces: bytes | float, again: bool = False) -> AsyncIterator[Provider]:
    """Serve these pieces for each request, a number being a pause; `again` repeats the last two."""
    made = Provider()

    async def send(writer: asyncio.StreamWriter) -> None:
        queue = list(pieces)
        while queue:
            piece = queue.pop(0)
            if isinstance(piece, bytes):
                writer.write(piece)
                await writer.drain()
            else:
                await asyncio.sleep(piece)
            if not queue and again:
                queue = list(pieces[-2:])

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
            made.heads.append(head)
            made.keys += [line[22:] for line in head.split("\r\n") if "authorization" in line]
            sending = asyncio.create_task(send(writer))
            closing = asyncio.create_task(reader.read())
            await asyncio.wait((sending, closing), return_when=asyncio.FIRST_COMPLETED)
            if closing.done():
                made.left.set()
            sending.cancel()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        made.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield made


BOMB = gzip.compress(gzip.compress(WORD * 100_000))
"""A few hundred bytes that, unpacked twice, are five million."""


@pytest.mark.parametrize("status", [b"200 OK", b"500 Oops", b"401 No"])
@pytest.mark.parametrize("encoding", [b"gzip", b"gzip, gzip", b"br", b"identity, deflate", b"x"])
async def test_a_compressed_answer_is_never_unpacked(
    out: Out, status: bytes, encoding: bytes
) -> None:
    head = b"HTTP/1.1 %s\r\ncontent-encoding: %s\r\n\r\n" % (status, encoding)
    async with provider(head, BOMB) as server:
        heard = await hear(out(), make_call(server.base_url))
    assert heard.text == ""
    assert heard.failure is not None
    assert not heard.declined or status.startswith(b"401")
    assert ("compressed" in heard.said) is status.startswith(b"200")


async def test_an_answer_as_it_was_asked_for_is_read(out: Out) -> None:
    head = HEAD + b"content-encoding: identity\r\n\r\n"
    async with provider(head, WORD) as server:
        assert (await hear(out(), make_call(server.base_url))).text == "word "


WHOLE = {
    "choices": [{"message": {"content": "word "}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}
"""An answer that isn't streamed."""

COUNTED = WORD + b'data: {"choices": [{"finish_reason": "stop"}], "usage": %b}\n\n' % (
    json.dumps(WHOLE["usage"]).encode()
)
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain", ""])
@pytest.mark.parametrize("body", [json.dumps(WHOLE, indent=1).encode(), COUNTED])
async def test_an_answer_is_read_whatever_it_is_labelled_as(
    out: Out, body: bytes, kind: str
) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    async with provider(head.encode(), body[:30], 0.01, body[30:]) as server:
        call = make_call(server.base_url)
        heard = await hear(out(), call)
    assert (heard.text, heard.said, call.finish) == ("word ", "", "stop")
    assert call.usage == TokenCount(9, 2)


async def test_a_whole_answer_that_surely_passed_its_cap_is_cut(out: Out) -> None:
    choice = {"message": {"content": "word " * 1000}, "finish_reason": "stop"}
    async with provider(answer(200, json.dumps({"choices": [choice]}).encode())) as server:
        call = make_call(server.base_url, cap=100)
        heard = await hear(out(), call)
    assert (heard.failure, call.usage) == (None, None)
    assert call.output_bound > 100


@pytest.mark.sampled(2)
@pytest.mark.parametrize("begun", [b"", WORD, THOUGHT], ids=["nothing", "word", "thought"])
@pytest.mark.parametrize("kept", [PING, b"\n", b"event: ping\n\n", b'data: {"choices": []}\n\n'])
async def test_who_sends_anything_is_waited_for(out: Out, begun: bytes, kept: bytes) -> None:
    """A model may think for minutes, before its first word or between two."""
    pings = [part for _ in range(12) for part in (kept, 0.1)]
    async with provider(OPEN, begun, *pings, COUNTED, 0.05, DONE) as server:
        heard = await hear(out(), make_call(server.base_url, first=0.9, stall=0.9))
    assert (heard.text, heard.said) == ("word " * (2 if begun == WORD else 1), "")


@pytest.mark.parametrize(
    ("pieces", "more"),
    [((), {"first": 0.3}), ((PING,), {"first": 0.3}), ((WORD, PING), {"stall": 0.3})],
)
async def test_who_falls_silent_is_given_up(
    out: Out, pieces: tuple[bytes, ...], more: dict[str, float]
) -> None:
    async with provider(OPEN, *pieces, 60.0) as server:
        async with asyncio.timeout(8):
            heard = await hear(out(), make_call(server.base_url, **more))
        await asyncio.wait_for(server.left.wait(), 10)
    assert "stopped answering" in heard.said


def connection_timers(port: str) -> list[str]:
    """Return which timer the kernel runs for each connection to a port: 2 is keep-alive."""
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return [row[5].partition(":")[0] for row in rows if row[2].endswith(f":{int(port):04X}")]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's table of connections")
async def test_a_silent_peer_is_asked_whether_it_is_there(out: Out) -> None:
    async with provider(OPEN, WORD, 60.0) as server:
        call = make_call(server.base_url)
        call.go.set()
        async with aclosing(out().post(call, request_of(call))) as texts:
            assert await anext(texts) == "word "
            timers = connection_timers(server.base_url.split(":")[2].removesuffix("/v1"))
        await asyncio.wait_for(server.left.wait(), 10)
    assert timers == ["02"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("piece", [WORD, THOUGHT, PING])
async def test_no_call_continues_for_ever(out: Out, piece: bytes) -> None:
    async with provider(OPEN, piece, 0.05, again=True) as server:
        async with asyncio.timeout(20):
            heard = await hear(out(total=1.0), make_call(server.base_url, cap=10_000))
        await asyncio.wait_for(server.left.wait(), 10)
    assert "stopped answering" in heard.said


@pytest.mark.sampled(0.5)
async def test_after_the_first_word_it_is_waited_for_longer(out: Out) -> None:
    async with provider(OPEN, WORD, 1.1, WORD) as server:
        heard = await hear(out(), make_call(server.base_url, first=0.9, stall=60.0))
    assert heard.text == "word " * 2


async def test_a_slow_writer_is_waited_for(out: Out) -> None:
    words = [part for _ in range(6) for part in (WORD, 0.15)]
    async with provider(OPEN, *words) as server:
        heard = await hear(out(), make_call(server.base_url, first=5.0, stall=5.0))
    assert heard.text == "word " * 6


async def test_an_error_that_trickles_is_not_waited_for(
    out: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_errors, "ERROR_SECONDS", 0.3)
    head = b"HTTP/1.1 500 Oops\r\n\r\n"
    async with provider(head, b" ", 0.05, again=True) as server:
        async with asyncio.timeout(20):
            heard = await hear(out(), make_call(server.base_url))
        await asyncio.wait_for(server.left.wait(), 10)
    assert "failed (HTTP 500)" in heard.said
    assert not heard.declined


RUN = b'data: {"choices": [{"delta": {"content": "--------"}}]}\n\n'
"""So many dashes may be one token."""


@pytest.mark.parametrize(
    "pieces",
    [
        (OPEN, PING * 1000, 0.0),
        (OPEN, b'data: {"choices": []}\n\n' * 1000, 0.0),
        (OPEN, RUN * 1000, 0.0),
        (OPEN, RUN.replace(b"content", b"reasoning") * 1000, 0.0),
        (OPEN, b"data: " + b"x" * 1_000_000, 0.0),
        (OPEN, b"data: " + b"x" * 1_000_000 + b"\n", 0.0),
        (HEAD + b"".join(b"x-%d: 1\r\n" % i for i in range(200)) + b"\r\n", WORD, 0.0),
    ],
    ids=["comments", "events", "text", "thoughts", "a line", "an event", "headers"],
)
async def test_an_answer_beyond_its_bounds_is_ended(
    out: Out, pieces: tuple[bytes | float, ...]
) -> None:
    async with provider(*pieces, again=True) as server:
        async with asyncio.timeout(30):
            heard = await hear(out(), make_call(server.base_url, cap=100))
        await asyncio.wait_for(server.left.wait(), 10)
    assert "doesn't end" in heard.said
    assert len(heard.text) < 20_000


@pytest.mark.parametrize("first", [b"", b"data: {\n\n"], ids=["good", "broken"])
@pytest.mark.parametrize("piece", [WORD, THOUGHT], ids=["text", "thoughts"])
async def test_an_answer_that_surely_passed_its_cap_is_cut_there(
    out: Out, piece: bytes, first: bytes
) -> None:
    async with provider(OPEN, first + piece * 10, 0.0, again=True) as server:
        call = make_call(server.base_url, cap=100)
        async with asyncio.timeout(30):
            heard = await hear(out(), call)
        await asyncio.wait_for(server.left.wait(), 10)
    assert (heard.failure, call.finish) == (None, "length")
    assert call.usage is None
    assert call.output_bound > 100
    assert len(heard.text) < 20_000


async def test_headers_beyond_their_bytes_are_refused(out: Out) -> None:
    async with provider(HEAD + b"x-long: " + b"x" * 300_000) as server:
        heard = await hear(out(), make_call(server.base_url))
    assert heard.failure is not None
    assert heard.text == ""


ERROR = b'{"error": {"message": "The model stumbled.", "type": "server_error"}}'


def answer(status: int, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, size, body)


@pytest.mark.parametrize(
    ("pieces", "is_free"),
    [
        ((answer(500, ERROR),), True),
        ((answer(503, ERROR),), True),
        ((answer(429, ERROR),), True),
        ((answer(400, ERROR),), True),
        ((answer(504, ERROR),), False),
        ((answer(524, ERROR),), False),
        ((answer(999, ERROR),), False),
        ((answer(500, b""),), False),
        ((answer(500, b"<html>Bad gateway</html>"),), False),
        ((answer(500, b'{"message": "upstream"}'),), False),
        ((answer(500, ERROR[:-10]),), False),
        ((answer(500, ERROR, len(ERROR) + 10),), False),
        ((OPEN, b"data: " + ERROR + b"\n\n"), True),
        ((OPEN, PING, b"data: " + ERROR + b"\n\n"), True),
        ((OPEN, b"data: " + ERROR + b"\n"), False),
        ((OPEN, WORD, b"data: " + ERROR + b"\n\n"), False),
        ((OPEN, THOUGHT, b"data: " + ERROR + b"\n\n"), False),
        ((OPEN, b"data: " + ERROR + b"\n\n", WORD), False),
    ],
)
async def test_a_whole_error_before_any_output_costs_nothing(
    out: Out, pieces: tuple[bytes, ...], is_free: bool
) -> None:
    async with provider(*pieces) as server:
        heard = await hear(out(), make_call(server.base_url))
    assert heard.failure is not None
    assert heard.declined is is_free


@pytest.mark.parametrize("location", [b"a" * 65530, b"http:" + b"b" * 65000, b"http://[::1"])
async def test_a_redirect_that_leads_nowhere_may_cost_something(out: Out, location: bytes) -> None:
    head = b"HTTP/1.1 307 X\r\ncontent-length: 0\r\nlocation: " + location + b"\r\n\r\n"
    async with provider(head) as server:
        heard = await hear(out(), make_call(server.base_url))
    assert len(server.heads) == 1
    assert heard.said.startswith("The lab has moved (HTTP 307)")
    assert not heard.declined


async def test_nothing_that_one_answer_sets_goes_out_with_the_next_call(out: Out) -> None:
    """A cookie would be the same for all workers of a host, and in no log."""
    cookie = HEAD + b"set-cookie: who=secret; path=/\r\ncontent-length: 0\r\n\r\n"
    async with provider(cookie) as server, provider(cookie) as other:
        way = out()
        for base_url in (server.base_url, server.base_url, other.base_url):
            await hear(way, make_call(base_url))
    assert len(server.heads + other.heads) == 3
    assert "secret" not in "".join(server.heads + other.heads)


TOOL = b'data: {"choices": [{"delta": {"tool_calls": [{"function": {"name": "f"}}]}}]}\n\n'


@pytest.mark.parametrize(("piece", "is_bounded"), [(WORD, True), (TOOL, False)])
async def test_output_that_is_not_shown_may_have_filled_the_cap(
    out: Out, piece: bytes, is_bounded: bool
) -> None:
    async with provider(OPEN, piece) as server:
        call = make_call(server.base_url)
        call.may_think_unseen = False
        await hear(out(), call)
    assert (call.output_bound < call.cap) is is_bounded


@pytest.mark.parametrize("after", ["Mon, 01 Jan 2024 00:00:00 +" + "9" * 30, "\u0663", "\x1b[2J"])
async def test_a_wait_that_makes_no_sense_is_a_minute(out: Out, after: str) -> None:
    head = f"HTTP/1.1 429 X\r\nretry-after: {after}\r\ncontent-length: {len(ERROR)}\r\n\r\n"
    async with provider(head.encode() + ERROR) as server:
        heard = await hear(out(), make_call(server.base_url))
    assert heard.failure is not None
    assert heard.failure.failed.hint.startswith("Try again in a minute")
    assert heard.declined


@pytest.mark.parametrize("key", ["12345678", "123456789"])
def test_the_shortest_key_that_is_removed_has_eight_characters(key: str) -> None:
    assert call_errors.without_key(f"No key {key}.", key) == "No key [key]."
    assert call_errors.without_key("No key 1234567.", "1234567") == "No key 1234567."


def test_of_a_long_error_only_its_beginning_is_searched_for_the_key() -> None:
    """Searched as a whole, eight megabytes would keep every other call waiting."""
    searched = 0

    class Key(str):
        def __contains__(self, part: object) -> bool:
            nonlocal searched
            searched += 1
            return str.__contains__(self, str(part))

    call = make_call("http://127.0.0.1:1/v1", key=Key(KEY))
    call.reader.error = f"{KEY} " + "x" * 100_000
    failure = call_errors.unfinished_failure(call)
    assert KEY[:8] not in failure.failed.message
    assert 0 < searched < 10_000


KEPT = " What it had written is kept."
EVENT = b"data: " + ERROR + b"\n\n"


@pytest.mark.parametrize(
    ("pieces", "sentences", "hint"),
    [
        (
            (OPEN, EVENT),
            "failed: The model stumbled.",
            "Nothing was charged. Try again later.",
        ),
        ((OPEN, WORD, EVENT), f"failed: The model stumbled.{KEPT}", "Try again later."),
        ((OPEN, WORD, PING), f"The answer of The lab was cut off.{KEPT}", "Try again."),
        ((OPEN, THOUGHT, PING), "The answer of The lab was cut off.", "Try again."),
        ((HEAD + b"content-length: 999\r\n\r\n", WORD), f"was cut.{KEPT}", "Try again."),
        ((OPEN, WORD, b"data: ?\n\n"), f"doesn't understand.{KEPT}", "Check the address"),
        ((OPEN, PING), "doesn't understand.", "Check the address"),
        (
            (answer(400, ERROR),),
            "The lab refused the request: The model stumbled.",
            "Nothing was charged.",
        ),
        ((answer(400, b""),), "refused the request (HTTP 400).", "Nothing was charged."),
    ],
)
async def test_what_was_charged_and_kept_is_said(
    out: Out, pieces: tuple[bytes, ...], sentences: str, hint: str
) -> None:
    async with provider(*pieces) as server:
        heard = await hear(out(), make_call(server.base_url))
    assert heard.failure is not None
    assert heard.failure.failed.message.endswith(sentences)
    assert heard.failure.failed.hint.startswith(hint)


async def test_an_answer_that_falls_silent_is_kept(out: Out) -> None:
    async with provider(OPEN, WORD, 60.0) as server:
        heard = await hear(out(), make_call(server.base_url, stall=0.2))
        await asyncio.wait_for(server.left.wait(), 10)
    assert heard.text == "word "
    assert heard.said.startswith(f"The lab stopped answering.{KEPT}")


# Connections and keys


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_the_connection_of_a_refusal_is_closed_or_used_again(
    out: Out, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body beyond the bounds isn't read to its end, so its connection can't be used again."""
    monkeypatch.setattr(call_errors, "ERROR_SECONDS", 3600.0)
    body = b"x" * 200_000
    async with provider(answer(status, body, 10**9), 60.0) as server:
        heard = await hear(out(), make_call(server.base_url))
        await asyncio.wait_for(server.left.wait(), 10)
    assert heard.failure is not None


async def test_a_call_that_is_stopped_closes_its_connection(out: Out) -> None:
    async with provider(OPEN, WORD, 60.0) as server:
        call = make_call(server.base_url)
        call.go.set()
        way = out()
        await way.prepare(call)
        async with aclosing(way.post(call, request_of(call))) as texts:
            assert await anext(texts) == "word "
        await asyncio.wait_for(server.left.wait(), 10)


async def test_a_request_that_holds_a_key_is_not_sent(out: Out) -> None:
    odd = r"sk-\escaped\0123456789"
    environ = {"LAB_KEY": KEY, "ODD_KEY": odd}
    async with provider(answer(401, ERROR)) as server:
        way = out(environ)
        for key, variable in ((KEY, "LAB_KEY"), (odd, "ODD_KEY"), (KEY, "ODD_KEY")):
            said = [{"role": "user", "content": f"My key is {key}, is it good?"}]
            call = make_call(server.base_url, messages=said, variable=variable)
            heard = await hear(way, call)
            assert heard.announced == []
            assert "it holds a key" in heard.said
        assert server.keys == []


@pytest.mark.parametrize("status", [400, 401, 402, 403])
async def test_a_key_that_was_changed_after_a_refusal_is_used(out: Out, status: int) -> None:
    """Gemini and xAI refuse a key with 400; another key may be of an account with credit."""
    environ = {"LAB_KEY": "old-key-0123456789"}
    async with provider(answer(status, ERROR)) as server:
        way = out(environ)
        await hear(way, make_call(server.base_url))
        environ["LAB_KEY"] = "new-key-0123456789"
        await hear(way, make_call(server.base_url))
        assert server.keys == ["old-key-0123456789", "new-key-0123456789"]


async def test_the_key_goes_into_the_writers_header_and_no_other_header_of_its_goes_along(
    out: Out,
) -> None:
    headers = {
        "X-Api-Key": KEY_PLACEHOLDER,
        "anthropic-version": "2023-06-01",
        "X-Source": KEY_PLACEHOLDER,
        "User-Agent": "a library",
        "Host": "a.example",
    }
    async with provider(answer(401, ERROR)) as server:
        for needs_key in (True, False):
            call = make_call(server.base_url, needs_key=needs_key)
            await hear(out(), call, headers=headers)
    for head, keys in zip(server.heads, ({f"x-api-key: {KEY}"}, set[str]()), strict=True):
        lines = set(head.split("\r\n"))
        assert {line for line in lines if KEY in line or "key" in line} == keys
        assert {"anthropic-version: 2023-06-01", "accept-encoding: identity"} <= lines
        assert not any("x-source" in line or "library" in line for line in lines)
        assert KEY_PLACEHOLDER not in head


async def test_a_placeholder_outside_a_header_is_not_sent(out: Out) -> None:
    async with provider(answer(401, ERROR)) as server:
        call = make_call(server.base_url)
        heard = await hear(out(), call, body_of(call, user=KEY_PLACEHOLDER))
        assert "was not sent: it holds a key" in heard.said
        assert server.heads == []


async def test_another_address_than_the_workers_is_not_asked(out: Out) -> None:
    async with provider(answer(401, ERROR)) as server:
        call = make_call(f"{server.base_url}/v1")
        heard = await hear(out(), call, url=f"{server.base_url}/v2/chat/completions")
        assert "was not sent: it goes to another address" in heard.said
        assert server.heads == []


async def test_two_workers_of_one_provider_send_their_own_keys(out: Out) -> None:
    environ = {"ONE_KEY": "one-key-0123456789", "TWO_KEY": "two-key-0123456789"}
    async with provider(OPEN, WORD) as server:
        way = out(environ)
        for variable in ("ONE_KEY", "TWO_KEY", "ONE_KEY"):
            await hear(way, make_call(server.base_url, variable=variable))
    one, two = environ.values()
    assert server.keys == [one, two, one]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "b\u00fccher.example",
        "\u0430pi.openai.com",
        "\uff11\uff12\uff17.0.0.1",
        "127.0.0.1 ",
        "evil.example\\.local",
        "%31%32%37.0.0.1",
    ],
)
async def test_an_address_that_reads_otherwise_than_it_leads_is_none(out: Out, host: str) -> None:
    """Also letters of other scripts that look like those of a known name."""
    heard = await hear(out(), make_call(f"http://{host}/v1"))
    assert "has no address that can be used" in heard.said
    assert heard.announced == []


@pytest.mark.parametrize("size", [8, 12, 20, len(KEY)])
@pytest.mark.parametrize("start", [0, 7])
async def test_no_part_of_a_key_is_repeated(out: Out, size: int, start: int) -> None:
    part = KEY[start : start + size]
    for kind in ("error", "event"):
        error = json.dumps({"error": {"message": f"Incorrect key {part}."}}).encode()
        pieces = (answer(401, error),) if kind == "error" else (OPEN, b"data: " + error + b"\n\n")
        async with provider(*pieces) as server:
            heard = await hear(out(), make_call(server.base_url))
        assert heard.failure is not None
        assert "Incorrect key [key]." in heard.said
        assert parts_of(KEY) & parts_of(str(heard.failure.failed)) == set()


def words(*texts: str) -> list[bytes]:
    """Return one event for each piece of an answer."""
    deltas = [{"choices": [{"delta": {"content": text}}]} for text in texts]
    return [b"data: " + json.dumps(delta).encode() + b"\n\n" for delta in deltas]


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([f"You sent {KEY}."], "You sent [key]."),
        (["You sent ", *KEY, "."], "You sent [key]."),
        ([KEY[:5], KEY[5:] + KEY[:9], KEY[9:]], "[key][key]"),
        (["Keys begin with sk-"], "Keys begin with sk-"),
        (["Keys begin with sk-", "canary."], "Keys begin with sk-canary."),
        (["Cut: ", KEY[:-1]], "Cut: [key]"),
    ],
)
async def test_a_key_in_an_answer_is_replaced(out: Out, pieces: list[str], shown: str) -> None:
    """Also where the connection is cut within it."""
    async with provider(OPEN, *words(*pieces)) as server:
        heard = await hear(out(), make_call(server.base_url))
    assert heard.text == shown
    assert "was cut off. What it had written is kept." in heard.said


@given(st.data())
def test_no_split_lets_a_key_through(data: st.DataObject) -> None:
    key = data.draw(st.text("ab", min_size=8, max_size=12) | st.just(KEY))
    part = st.just(key) | st.integers(0, len(key)).map(lambda n: key[:n]) | st.text("abs-")
    text = "".join(data.draw(st.lists(part, max_size=6)))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    key_filter = KeyFilter(key)
    pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
    shown = "".join(map(key_filter.add, pieces)) + key_filter.finish()
    assert key not in shown
    if key not in text and not any(text.endswith(key[:n]) for n in range(4, len(key))):
        assert shown == text


def test_a_placeholder_for_a_key_may_be_a_word_of_an_answer() -> None:
    key_filter = KeyFilter("ollama")
    assert key_filter.add("Start ollama.") + key_filter.finish() == "Start ollama."
