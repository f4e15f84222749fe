"""Where a call goes: its address in its provider's dialect, and the way there."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

PATHS = {"chat": "/chat/completions", "responses": "/responses", "messages": "/v1/messages"}


def address(base_url: str, dialect: str, model: str) -> str:
    """Return where a request in that dialect is posted to. A key is never part of it."""
    base = base_url.rstrip("/")
    if dialect == "gemini":
        return f"{base}/models/{quote(model, safe='')}:streamGenerateContent?alt=sse"
    if dialect == "messages":
        base = base.removesuffix("/v1")
    return base + PATHS[dialect]


def is_usable(base_url: str) -> bool:
    """Tell whether requests can go there: a plain address, since it is shown and logged.

    A name and password in it would be a second key, in sight of all.
    """
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, as `domain.labels.reach` does: no name is looked up."""
    host = host.strip("[]").rstrip(".")
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if address.version == 6 and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def on_loopback(url: str) -> list[str]:
    """Return the numeric addresses on this machine to try in turn; none if it is elsewhere."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if not is_loopback(host):
        return []
    port = f":{parts.port}" if parts.port else ""
    hosts = (
        ("127.0.0.1", "[::1]") if host == "localhost" else (f"[{host}]" if ":" in host else host,)
    )
    return [parts._replace(netloc=numeric + port).geturl() for numeric in hosts]


def proxy_for(url: str, chosen: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy that the person set for an address: `chosen`, else the environment's."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host):
        return None
    if chosen:
        return chosen
    excepted = _variable(environ, "NO_PROXY").replace(" ", "").split(",")
    if any(_covers(name, host) for name in excepted if name):
        return None
    named = _variable(environ, f"{parts.scheme.upper()}_PROXY")
    return named or _variable(environ, "ALL_PROXY") or None


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.lower()) or environ.get(name) or ""


def _covers(name: str, host: str) -> bool:
    if name == "*":
        return True
    name = name.split(":")[0].lstrip(".").lower()
    return host == name or host.endswith(f".{name}")
