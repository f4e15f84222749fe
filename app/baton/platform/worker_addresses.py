"""The addresses of a `server` worker, as config.toml has them: one, or a list of the same model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line
from baton.platform.settings_sources import SettingPath, SettingsSource

_ADDRESS = re.compile(r"https?://[^\s\"'`<>\u201c-\u201f\u2018-\u201b]+", re.IGNORECASE)
_EDGES = " \t\r\n\xa0\"'`<>\u201c\u201d\u201e\u2018\u2019"


def plain_address(url: str) -> str:
    """Return an address as it is compared with others: two spellings of one place are equal."""
    bare = url.rstrip("/")
    try:
        parts = urlsplit(bare)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:  # no address at all, which a call to it reports
        return bare
    host = "127.0.0.1" if host == "localhost" else host
    port = port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{parts.path}"


def check_addresses(entry: Mapping[str, Any], source: SettingsSource, where: SettingPath) -> None:
    """Refuse an entry whose addresses are none, or can't be those of one model: ConfigError."""
    id, urls, slots = entry["id"], entry.get("base_url", ""), entry.get("slots")
    if urls or entry.get("kind") == "server":
        for url in urls if isinstance(urls, list) else [urls]:
            _check_address(id, url, source.place((*where, "base_url")))
    if isinstance(urls, list):
        _check_list(id, urls, source.place((*where, "base_url")))
    count = len(urls) if isinstance(urls, list) else 1
    if isinstance(slots, list) and len(slots) != count:
        place = source.place((*where, "slots"))
        raise ConfigError(
            f"The worker {id!r} has {count} addresses and slots for {len(slots)} (in {place}).",
            "Write one number for all of them, or a list with one for each.",
        )


def _check_address(id: str, url: object, place: str) -> None:
    """Refuse an address without http://, or with quotation marks or spaces in it."""
    if not isinstance(url, str) or _ADDRESS.fullmatch(url):
        return
    bare = re.sub(r"^(https?):/*", r"\1://", url.strip(_EDGES))
    right = bare if "://" in bare else f"http://{bare}"
    meant = (
        f"Write {right}" if _ADDRESS.fullmatch(right) else "Write it like http://10.0.0.2:8000/v1"
    )
    raise ConfigError(
        f"The worker {id!r} has the address {one_line(repr(url), 80)} (in {place}), and an address"
        " begins with http:// or https:// and holds no spaces or quotation marks.",
        f"{one_line(meant, 120)}.",
    )


def _check_list(id: str, urls: Sequence[str], place: str) -> None:
    if not urls:
        raise ConfigError(
            f"The list of addresses of the worker {id!r} is empty (in {place}).",
            'Write at least one: base_url = ["http://10.0.0.2:8000/v1"]',
        )
    plain = [plain_address(url) for url in urls]
    twice = next((url for n, url in enumerate(urls) if plain[n] in plain[:n]), None)
    if twice is not None:
        raise ConfigError(
            f"The worker {id!r} has the address {one_line(twice, 80)} twice (in {place}).",
            "Name each address once; `slots` says how many calls it takes.",
        )
    paths = dict.fromkeys(url.partition("://")[2].partition("/")[2] for url in plain)
    if len(paths) > 1:
        named = " and ".join(one_line(f"/{path}", 40) for path in list(paths)[:2])
        raise ConfigError(
            f"The addresses of the worker {id!r} have different paths, {named} (in {place}).",
            "All of them serve the same model in the same way; make another worker of the others.",
        )
