"""Where a call goes: its address in its provider's dialect, and its proxy."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlsplit

from baton.core.labels import Label, address_label, strictest
from baton.core.sanitiser import one_line

_HOST = re.compile(r"[a-z0-9._-]+|[a-f0-9:.]+(%[a-z0-9._-]+)?")
"""A name, as networks know it, or an address."""

DIALECT_PATHS = {"chat": "/chat/completions", "responses": "/responses", "messages": "/v1/messages"}


def request_address(base_url: str, dialect: str, model: str) -> str:
    """Return where a request in that dialect is posted to. A key is never part of it."""
    base = base_url.rstrip("/")
    if dialect == "gemini":
        return f"{base}/models/{quote(model, safe='')}:streamGenerateContent?alt=sse"
    if dialect == "converse":
        return f"{base}/model/{quote(model, safe='')}/converse-stream"
    if dialect == "messages":
        base = base.removesuffix("/v1")
    return base + DIALECT_PATHS[dialect]


def is_usable(base_url: str) -> bool:
    """Whether requests can go there: a plain address, since it is shown and logged.

    A name and password in it would be a second key, in sight of all. Letters of other scripts can
    look like a known name.
    """
    if not has_host(base_url):
        return False
    parts = urlsplit(base_url)
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and plain


def has_host(url: str) -> bool:
    """Whether an address names a host and a port that can be connected to."""
    try:
        parts = urlsplit(url)
        return _HOST.fullmatch(parts.hostname or "") is not None and parts.port != 0
    except ValueError:
        return False


def loopback_addresses(url: str) -> list[str]:
    """Return the numeric addresses on this machine to try in turn; none if it is on another."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if address_label(url) is not Label.LOCAL:
        return []
    return with_hosts(url, ("127.0.0.1", "::1") if host == "localhost" else (host,))


def with_hosts(url: str, hosts: Iterable[str]) -> list[str]:
    """Return an address with each of these numeric hosts in place of its own."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    numeric = (f"[{host}]" if ":" in host else host for host in hosts)
    return [parts._replace(netloc=host + port).geturl() for host in numeric]


def is_lan_name(url: str) -> bool:
    """Whether an address counts as one of the home network by its name alone."""
    host = urlsplit(url).hostname or ""
    return address_label(url) is Label.LAN and not _is_numeric(host)


async def resolve_lan_name(url: str) -> list[str]:
    """Return the numeric addresses that a name of the home network stands for.

    Raises LeavesNetwork if it stands for another place as well, and OSError if for none.
    """
    parts = urlsplit(url)
    found = await asyncio.get_running_loop().getaddrinfo(
        parts.hostname, parts.port, type=socket.SOCK_STREAM
    )
    targets = with_hosts(url, dict.fromkeys(str(place[0]) for *_, place in found))
    for target in targets:
        if address_label(target) is Label.CLOUD:
            raise LeavesNetwork(urlsplit(target).hostname)
    return targets


class LeavesNetwork(Exception):
    """A name of the home network stands for an address that is not in it: the text."""


def proxy_for(
    url: str, chosen: str, environ: Mapping[str, str], privacy: Label = Label.CLOUD
) -> str | None:
    """Return the proxy for an address: `chosen` by the user, else the environment's, as curl
    reads it: without a scheme it is http://, without a port 1080 (https://: 443).

    What may not travel as far as the cloud (by the address, or by its worker's `privacy`) never
    goes through a proxy that only the environment names.
    """
    _, named = _proxy_setting(url, chosen, environ, privacy)
    if not named:
        return None
    proxy = named if "://" in named else f"http://{named}"
    try:
        parts = urlsplit(proxy)
        has_port = parts.port is not None
    except ValueError:
        return proxy  # what opens the connection refuses it
    if has_port or not parts.hostname:
        return proxy
    port = 443 if parts.scheme == "https" else 1080
    return parts._replace(netloc=f"{parts.netloc.rstrip(':')}:{port}").geturl()


def proxy_fault(
    url: str, chosen: str, environ: Mapping[str, str], privacy: Label = Label.CLOUD
) -> tuple[str, str]:
    """Return a sentence on the proxy for an address that can't be used, and what helps."""
    name, named = _proxy_setting(url, chosen, environ, privacy)
    scheme, mark, place = named.rpartition("//")
    shown = f"{scheme}{mark}{place.rpartition('@')[2]}"
    return (
        f"The proxy in {name}, {one_line(shown, 80)}, can't be used. Nothing was sent.",
        "It is HOST:PORT, http://, https://, socks5:// or socks5h://.",
    )


def _proxy_setting(
    url: str, chosen: str, environ: Mapping[str, str], privacy: Label
) -> tuple[str, str]:
    """Return the name of the setting or variable with the proxy for an address, and the proxy.

    Both are "" for none. HTTP_PROXY in capitals isn't read: a web server may set it to what a
    stranger sends.
    """
    parts = urlsplit(url)
    near = strictest((address_label(url), privacy))
    if address_label(url) is Label.LOCAL:
        return "", ""
    if chosen.strip() or near is not Label.CLOUD:
        return "cloud.proxy", chosen.strip()
    excepted = re.split(r"[,\s]+", environ.get("no_proxy") or environ.get("NO_PROXY") or "")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = (parts.hostname or "").rstrip(".")
    if any(_is_excepted(name.lower(), host, port) for name in excepted if name):
        return "", ""
    capitals = ("HTTPS_PROXY",) if parts.scheme == "https" else ()
    for name in (f"{parts.scheme}_proxy", *capitals, "all_proxy", "ALL_PROXY"):
        if named := environ.get(name, "").strip():
            return name, named
    return "", ""


def route_text(url: str, proxy: str | None) -> str:
    """Return where a request goes, for the egress log: host and port, and the proxy's."""
    there = urlsplit(url).netloc
    if proxy is None:
        return there
    return f"{there} through {proxy.rpartition('//')[2].rpartition('@')[2]}"


def _is_excepted(name: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY covers a host: a name, a network or *, with a port."""
    if name == "*":
        return True
    if _is_numeric(host):
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(
                name.strip("[]"), strict=False
            )
        except ValueError:
            return False
    name, _, only = name.partition(":")
    name = name.removeprefix("*").strip(".")
    return only in ("", str(port)) and (host == name or host.endswith(f".{name}"))


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
