"""The only way out, in this process: where a request goes, with which key, and what is believed."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from baton.children import addresses
from baton.children.calls import Call
from baton.children.front import Failure
from baton.children.outward import Outward, Rules
from baton.domain.labels import Label
from support.cloud import Cloud, Reply
from support.home_network import at_home

KEY = "sk-canary-0123456789abcdefghij"
ANSWER = Reply().text
Out = Callable[..., Outward]


@dataclass
class Heard:
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
        return self.failure is not None and self.failure.fields.get("declined", False) is True


def asked(base_url: str, **more: Any) -> Call:
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
        "first": 10.0,
        "temperature": None,
        "seed": None,
        "announce": lambda host, body: None,
    }
    return Call(**given | more)


def body_of(call: Call, **more: Any) -> bytes:
    """Return the request for such a call."""
    body = {"model": call.model, "messages": call.messages, "max_tokens": call.cap, "stream": True}
    return json.dumps(body | {"stream_options": {"include_usage": True}} | more).encode()


async def hear(way: Outward, call: Call, body: bytes = b"") -> Heard:
    """Make a call; what it announces may be sent at once."""
    heard = Heard()

    def announce(host: str, _: bytes) -> None:
        heard.announced.append(host)
        call.go.set()

    call.announce = announce
    try:
        await way.prepare(call)
        async with aclosing(way.post(call, body or body_of(call))) as texts:
            async for text in texts:
                heard.text += text
    except Failure as failure:
        heard.failure = failure
    return heard


def outward(environ: Mapping[str, str] | None = None, **rules: Any) -> Outward:
    """Return a way out that knows one key and reads no file."""
    given: dict[str, Any] = {"keys_file": Path("none.toml"), "connect": 5.0, "stall": 10.0}
    return Outward(Rules(**given | rules), {"LAB_KEY": KEY} if environ is None else environ)


@pytest.fixture
async def out() -> AsyncIterator[Out]:
    """Return `outward`; what it makes is closed after the test."""
    made: list[Outward] = []

    def make(*given: Any, **rules: Any) -> Outward:
        made.append(outward(*given, **rules))
        return made[-1]

    yield make
    for way in made:
        await way.aclose()


# Proxies


def proxied(address: str) -> dict[str, Any]:
    """Ask a server of the home network, with a proxy in the environment, then with a set one."""
    with Cloud(host=address) as server, Cloud() as proxy:
        named = {"HTTP_PROXY": proxy.url, "ALL_PROXY": proxy.url}
        heard = asyncio.run(hear(outward(proxies=named), asked(server.base("server"))))
        unset = proxy.posts, [received.key for received in server.calls]
        keyless = asked(server.base("server"), variable="", needs_key=False)
        through = asyncio.run(hear(outward(proxy=proxy.url), keyless))
        keyed = asyncio.run(hear(outward(proxy=proxy.url), asked(server.base("server"))))
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
    found = at_home(proxied)
    assert found["text"] == ANSWER
    assert found["to"] == [True]
    assert found["unset"] == [0, [KEY]]
    assert found["through"] == [True], "one that was set is used, and named"
    assert found["proxied"] == 1
    [said] = found["keyed"]
    assert "would read its key" in said
    assert found["keys"] == [""]


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_no_key_goes_through_a_proxy_in_the_clear(out: Out, scheme: str) -> None:
    proxies = {"ALL_PROXY": f"{scheme}://me:secret@127.0.0.1:9"}
    heard = await hear(out(proxies=proxies), asked("http://198.51.100.1/v1"))
    assert heard.announced == []
    assert heard.failure is not None
    assert heard.failure.fields["error"] == "ConfigError"
    assert "127.0.0.1:9 would read its key" in heard.said
    assert "secret" not in str(heard.failure.fields)


async def test_the_password_of_a_proxy_is_not_announced(out: Out) -> None:
    with Cloud() as proxy:
        named = proxy.url.replace("//", "//me:secret@")
        call = asked("http://198.51.100.1/v1", variable="", needs_key=False)
        heard = await hear(out(proxies={"HTTP_PROXY": named}), call)
    assert heard.text == ANSWER
    assert heard.announced == [f"198.51.100.1 through 127.0.0.1:{proxy.port}"]


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "ftp://127.0.0.1:9", "http://[::1"])
async def test_a_proxy_that_cannot_be_used_is_an_error(out: Out, proxy: str) -> None:
    heard = await hear(out(proxy=proxy), asked("https://198.51.100.1/v1"))
    assert heard.announced == []
    assert heard.said == "The proxy for The lab can't be used. Nothing was sent."


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
        ("ample.org", False),
        ("example.org.evil", False),
        (" , example.org ,", True),
    ],
)
def test_what_no_proxy_excepts(excepted: str, is_direct: bool) -> None:
    environ = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": excepted}
    found = addresses.proxy_for("https://gpu.example.org/v1", "", environ)
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


# Names


async def test_a_name_of_the_home_network_leads_nowhere_else(
    out: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is judged as it is written; what it stands for is looked at before anything goes."""
    found = {"nas": "198.51.100.1", "nas.local": "8.8.8.8", "box.lan": "127.0.0.1"}

    def looked_up(host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        place = (found.get(name, name), port or 0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place)]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    for name in ("nas", "nas.local"):
        heard = await hear(out(), asked(f"http://{name}:9/v1"))
        assert heard.announced == []
        assert f"{found[name]} is not in the home network" in heard.said
    with Cloud() as cloud:
        base = cloud.base("server").replace("127.0.0.1", "box.lan")
        heard = await hear(out(), asked(base))
        assert (heard.text, heard.failure) == (ANSWER, None)
        [received] = cloud.calls
        assert dict(received.headers)["host"] == f"box.lan:{cloud.port}"
