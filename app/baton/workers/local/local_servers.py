"""Finds engines that already run on this machine: Ollama, LM Studio, llama-server.

Asks only loopback addresses, as numbers, so that no name is looked up and nothing leaves this
machine. The caller leaves it out in offline mode. What an engine answers is untrusted text: it is
bounded, and left out where a terminal would obey it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from baton.core.forwarders import is_sellers
from baton.core.sanitiser import one_line

TIMEOUT_SECONDS = 0.3
"""How long an engine on this machine may take to say what it has, in seconds."""

MAX_ANSWER_BYTES = 1 << 20
"""How much of an answer is read, in bytes."""

_MAX_MODELS = 200
"""How many models of one engine are taken, and how long a name may be."""


@dataclass(frozen=True, slots=True)
class ServerModel:
    """One model of an engine that runs. `id` is a suggestion; `size` is in bytes, 0 if unknown.

    `cloud` means that the engine only forwards what it is sent.
    """

    id: str
    engine: str
    model: str
    base_url: str
    size: int = 0
    cloud: bool = False

    @property
    def entry(self) -> dict[str, str | bool]:
        """Its entry in `[[workers]]`, once the person confirmed that it computes here."""
        entry = {"id": self.id, "kind": "server", "model": self.model, "base_url": self.base_url}
        return {**entry, "privacy": "cloud"} if self.cloud else {**entry, "here": True}


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as its engine lists it."""

    name: str
    size: int = 0
    cloud: bool = False


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where an engine would be, what to ask it, and how to read what it answers."""

    engine: str
    host: str
    port: int
    path: str
    read: Callable[[Any], Iterable[ListedModel]]


def server_addresses(environ: Mapping[str, str] = os.environ) -> tuple[ServerAddress, ...]:
    """Return where engines usually are; OLLAMA_HOST is followed if it names this machine."""
    host, port = _ollama_host(environ.get("OLLAMA_HOST", ""))
    return (
        ServerAddress("Ollama", host, port, "/api/tags", _ollama),
        ServerAddress("LM Studio", "127.0.0.1", 1234, "/v1/models", _openai),
        ServerAddress("llama-server", "127.0.0.1", 8080, "/v1/models", _llama_server),
    )


async def find_server_models(
    where: Sequence[ServerAddress] | None = None,
    taken: Iterable[str] = (),
    limit: float = TIMEOUT_SECONDS,
) -> list[ServerModel]:
    """Return the models of the engines that answer within `limit` seconds.

    `taken` are ids that are in use already.
    """
    asked = server_addresses() if where is None else where
    answers = await asyncio.gather(*(_ask(place, limit) for place in asked))
    used = set(taken)
    return [
        ServerModel(
            suggest_id(model.name, used),
            place.engine,
            model.name,
            _base(place),
            model.size,
            model.cloud,
        )
        for place, answer in zip(asked, answers, strict=True)
        for model in _usable(place, answer)
    ]


async def list_server_models(base_url: str, limit: float = TIMEOUT_SECONDS) -> list[ListedModel]:
    """Return the models of the server at an address of this machine; none where none answers.

    `cloud` are those of which it says who sells them.
    """
    try:
        url = urlsplit(base_url)
        host, port = url.hostname or "", url.port or 80
    except ValueError:
        return []
    host = "127.0.0.1" if host == "localhost" else host
    place = ServerAddress("", host, port, f"{url.path.rstrip('/')}/models", _openai)
    return list(_usable(place, await _ask(place, limit)))


def _ollama_host(value: str) -> tuple[str, int]:
    """Read OLLAMA_HOST as Ollama does; an address of another machine is ignored."""
    usual = "127.0.0.1", 11434
    try:
        url = urlsplit(value if "://" in value else f"http://{value}")
        host, port = url.hostname or usual[0], url.port
        if host in ("localhost", "0.0.0.0", "::"):
            host = usual[0]
        if url.scheme != "http" or not ipaddress.ip_address(host).is_loopback:
            return usual
    except ValueError:
        return usual
    return host, port or (80 if value.startswith("http:") else usual[1])


async def _ask(place: ServerAddress, limit: float) -> Any:
    """Return what the engine says as JSON, or None where none answers in time."""
    writer = None
    try:
        async with asyncio.timeout(limit):
            reader, writer = await asyncio.open_connection(place.host, place.port)
            name = f"[{place.host}]" if ":" in place.host else place.host
            writer.write(
                f"GET {place.path} HTTP/1.1\r\nHost: {name}:{place.port}\r\n"
                "Accept: application/json\r\nConnection: close\r\n\r\n".encode()
            )
            said = b""
            while len(said) <= MAX_ANSWER_BYTES and (data := await reader.read(65536)):
                said += data
        return _body(said)
    except (OSError, TimeoutError, ValueError, HTTPException, RecursionError):
        return None
    finally:
        if writer is not None:
            writer.transport.abort()


def _body(said: bytes) -> Any:
    if len(said) > MAX_ANSWER_BYTES:
        raise ValueError("more than any list of models")
    answer = HTTPResponse(_Said(said))  # type: ignore[arg-type]
    answer.begin()
    return json.loads(answer.read()) if answer.status == 200 else None


class _Said:
    """Bytes that came, in the place of the socket they came from."""

    def __init__(self, said: bytes) -> None:
        self._said = said

    def makefile(self, _mode: str) -> BytesIO:
        return BytesIO(self._said)


def _usable(place: ServerAddress, answer: Any) -> Iterator[ListedModel]:
    """Leave out what can't be named in a terminal or a file, and models that don't write."""
    try:
        models = list(place.read(answer))[:_MAX_MODELS]
    except (KeyError, TypeError, AttributeError):
        return  # something else listens there
    for model in models:
        name = model.name
        fits = isinstance(name, str) and 0 < len(name) <= _MAX_MODELS and one_line(name) == name
        if fits and name.isprintable() and "embed" not in name.lower():
            yield model


def _ollama(answer: Any) -> Iterator[ListedModel]:
    """Read /api/tags: github.com/ollama/ollama, api/types.go, ListModelResponse.

    A model that Ollama only forwards names its `remote_host`; those of its own cloud are tagged
    `cloud` or `...-cloud` as well.
    """
    for model in answer["models"]:
        if "completion" not in (model.get("capabilities") or ["completion"]):
            continue
        name = model.get("model") or model["name"]
        tag = name.rpartition(":")[2].lower()
        remote = bool(model.get("remote_host") or model.get("remote_model"))
        yield ListedModel(name, _size(model.get("size")), remote or tag.endswith("cloud"))


def _openai(answer: Any) -> Iterator[ListedModel]:
    for model in answer["data"]:
        yield ListedModel(model["id"], cloud=is_sellers(model.get("owned_by")))


def _llama_server(answer: Any) -> Iterator[ListedModel]:
    """Read /v1/models, which many programs at that port might answer."""
    for model in answer["data"]:
        if model["owned_by"] == "llamacpp":
            yield ListedModel(model["id"], _size((model.get("meta") or {}).get("size")))


def _size(size: Any) -> int:
    return size if isinstance(size, int) and size > 0 else 0


def _base(place: ServerAddress) -> str:
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"http://{host}:{place.port}/v1"


def suggest_id(name: str, used: set[str]) -> str:
    """Return a short id that isn't in use, and take it.

    "hf.co/someone/Qwen3-8B-GGUF:Q4_K_M" is "qwen3-8b".
    """
    short = name.rsplit("/", 1)[-1].lower().removesuffix(".gguf").removesuffix(":latest")
    short = re.sub(r"[-.]gguf(:.*)?$", "", short)
    short = re.sub(r"[^a-z0-9._-]+", "-", short).strip("-._")[:40] or "model"
    number, suggestion = 1, short
    while suggestion in used:
        number += 1
        suggestion = f"{short}-{number}"
    used.add(suggestion)
    return suggestion
