"""Where a call goes: its address in each dialect, what counts as this machine, and its proxy."""

from __future__ import annotations

import pytest

from baton.core.labels import Label, address_label
from baton.platform.proxies import is_usable, loopback_addresses, proxy_for, request_address


def test_addresses() -> None:
    assert request_address("https://a/v1/", "chat", "m") == "https://a/v1/chat/completions"
    assert request_address("https://a/v1", "responses", "m") == "https://a/v1/responses"
    assert request_address("https://a", "messages", "m") == "https://a/v1/messages"
    assert request_address("https://a/v1", "messages", "m") == "https://a/v1/messages"
    address = request_address("https://a/v1beta", "gemini", "../x?key=1")
    assert address == "https://a/v1beta/models/..%2Fx%3Fkey%3D1:streamGenerateContent?alt=sse"


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
def test_what_is_not_an_address(url: str) -> None:
    assert not is_usable(url)
    assert address_label(url) is Label.CLOUD


@pytest.mark.parametrize(
    ("url", "chosen", "environ", "proxy"),
    [
        ("https://a.example", "", {}, None),
        ("https://a.example", "http://p:1", {"HTTPS_PROXY": "http://q"}, "http://p:1"),
        ("https://a.example", "", {"https_proxy": "http://q:1"}, "http://q:1"),
        ("http://a.example", "", {"HTTPS_PROXY": "http://q"}, None),
        ("http://a.example", "", {"ALL_PROXY": "http://q:1/"}, "http://q:1/"),
        ("http://a.example", "", {"http_proxy": "127.0.0.1:1"}, "http://127.0.0.1:1"),
        ("http://a.example", "", {"HTTP_PROXY": "http://q:1"}, None),
        ("https://a.example", "", {"http_proxy": "http://q:1"}, None),
        ("https://a.example", "", {"HTTPS_PROXY": "A:1", "https_proxy": "b:1"}, "http://b:1"),
        ("https://a.example", "", {"HTTPS_PROXY": "A:1", "https_proxy": ""}, "http://A:1"),
        ("https://a.example", "", {"all_proxy": "a:1", "HTTPS_PROXY": "b:1"}, "http://b:1"),
        ("https://a.example", "", {"all_proxy": "socks5h://s"}, "socks5h://s:1080"),
        ("https://a.example", "", {"all_proxy": "socks5://me:pw@s:9"}, "socks5://me:pw@s:9"),
        ("https://a.example", "", {"all_proxy": "https://q"}, "https://q:443"),
        ("https://a.example", "", {"all_proxy": " q "}, "http://q:1080"),
        ("https://a.example", "", {"all_proxy": "[::1]"}, "http://[::1]:1080"),
        ("https://a.example", " q:2 ", {}, "http://q:2"),
        ("https://a.example", "", {"all_proxy": "q:1", "no_proxy": "b a.example"}, None),
        ("https://a.example", "", {"all_proxy": "q:1", "no_proxy": "b\ta.example."}, None),
        ("https://x.a.example", "", {"all_proxy": "q:1", "no_proxy": ".A.example"}, None),
        ("https://[2001:db8::1]", "", {"all_proxy": "q:1", "no_proxy": "[2001:db8::1]"}, None),
        ("https://a.example", "", {"all_proxy": "q:1", "no_proxy": "", "NO_PROXY": "*"}, None),
        ("https://a.example", "", {"HTTPS_PROXY": "http://q", "NO_PROXY": "b, .example"}, None),
        ("https://a.example", "", {"HTTPS_PROXY": "http://q", "NO_PROXY": "*"}, None),
        ("https://an.example", "", {"HTTPS_PROXY": "q:1", "NO_PROXY": "n.example"}, "http://q:1"),
        ("http://127.0.0.1:1", "http://p", {"ALL_PROXY": "http://q"}, None),
        ("http://198.51.100.9", "", {"ALL_PROXY": "q", "NO_PROXY": "198.51.100.1/24"}, None),
        (
            "http://198.51.101.9",
            "",
            {"ALL_PROXY": "q:1", "NO_PROXY": "198.51.100.1/24"},
            "http://q:1",
        ),
    ],
)
def test_proxies(url: str, chosen: str, environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(url, chosen, environ) == proxy
