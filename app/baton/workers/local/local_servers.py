"""Finds engines that already run: on this machine, or on a host that the user names.

The front asks only loopback addresses, as numbers, so that no name is looked up and nothing leaves
this machine; another host is asked by the gateway, at the ports where engines usually are. The
caller leaves it out in offline mode. What an engine answers is untrusted text: it is bounded, and
left out where a terminal would obey it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from baton.core.forwarders import is_sellers
from baton.core.labels import Label, address_label
from baton.core.model_names import unused_id
from baton.core.sanitiser import one_line

TIMEOUT_SECONDS = 0.3
"""How long an engine on this machine may take to say what it has, in seconds."""

MAX_ANSWER_BYTES = 1 << 20
"""How much of an answer is read, in bytes."""

_MAX_MODELS = 200
"""How many models of one engine are taken, and how long a name may be."""


DEFAULT_SLOTS = 4
"""How many calls an engine takes at once that doesn't say so; the setting's default."""

_MAX_SLOTS = 64


@dataclass(frozen=True, slots=True)
class ServerModel:
    """One model of engines that run. `id` is a suggestion; `size` is in bytes, 0 if unknown.

    `addresses` are those where it is the same model, `slots` how many calls each takes at once (0:
    the engine doesn't say). `cloud` means that the engine only forwards what it is sent.
    """

    id: str
    engine: str
    model: str
    addresses: tuple[str, ...]
    size: int = 0
    cloud: bool = False
    slots: tuple[int, ...] = (0,)

    @property
    def is_here(self) -> bool:
        """Whether all of it is on this machine."""
        return all(address_label(url) is Label.LOCAL for url in self.addresses)

    @property
    def hosts(self) -> list[str]:
        """The host of each address."""
        return [urlsplit(url).hostname or "" for url in self.addresses]

    @property
    def base_url(self) -> str | list[str]:
        """Its address, or the list of them, as config.toml has it."""
        return self.addresses[0] if len(self.addresses) == 1 else list(self.addresses)

    @property
    def known_slots(self) -> int | list[int] | None:
        """How many calls it takes at once, as config.toml has it; None: no engine says."""
        if not any(self.slots):
            return None
        slots = [size or DEFAULT_SLOTS for size in self.slots]
        return slots[0] if len({*slots}) == 1 else slots

    @property
    def entry(self) -> dict[str, Any]:
        """Its entry in `[[workers]]`, once the user confirmed that it computes here."""
        entry: dict[str, Any] = {"id": self.id, "kind": "server", "model": self.model}
        entry["base_url"] = self.base_url
        if self.known_slots is not None:
            entry["slots"] = self.known_slots
        if self.cloud:
            return {**entry, "privacy": "cloud"}
        return {**entry, "here": True} if self.is_here else entry


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

    @property
    def url(self) -> str:
        """The address without a path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def server_addresses(environ: Mapping[str, str] = os.environ) -> tuple[ServerAddress, ...]:
    """Return where engines usually are; OLLAMA_HOST is followed if it names this machine."""
    ollama, *others = host_addresses("127.0.0.1")
    host, port = _ollama_host(environ.get("OLLAMA_HOST", ""))
    return replace(ollama, host=host, port=port), *others


def host_addresses(host: str) -> tuple[ServerAddress, ...]:
    """Return where engines usually are on a host."""
    return (
        ServerAddress("Ollama", host, 11434, "/api/tags", _ollama),
        ServerAddress("LM Studio", host, 1234, "/v1/models", _openai),
        ServerAddress("llama-server", host, 8080, "/v1/models", _llama_server),
        ServerAddress("vLLM", host, 8000, "/v1/models", partial(_owned, "vllm")),
        ServerAddress("SGLang", host, 30000, "/v1/models", partial(_owned, "sglang")),
    )


async def find_server_models(
    where: Sequence[ServerAddress] | None = None,
    taken: Iterable[str] = (),
    limit: float = TIMEOUT_SECONDS,
) -> list[ServerModel]:
    """Return the models of the engines that answer within `limit` seconds.

    `taken` are ids that are in use already.
    """
    return merge_server_models(await ask_engines(where, limit), taken)


async def ask_engines(
    where: Sequence[ServerAddress] | None = None, limit: float = TIMEOUT_SECONDS
) -> list[ServerModel]:
    """Return the models of the engines that answer, each by itself and without an id."""
    asked = server_addresses() if where is None else where
    found = await asyncio.gather(*(_ask_engine(place, limit) for place in asked))
    return [model for models in found for model in models]


async def _ask_engine(place: ServerAddress, limit: float) -> list[ServerModel]:
    models = list(_usable(place, await _ask(place, limit)))
    slots = 0
    if models and place.engine == "llama-server":
        slots = _slots(await _ask(replace(place, path="/props"), limit))
    return [
        ServerModel("", place.engine, m.name, (f"{place.url}/v1",), m.size, m.cloud, (slots,))
        for m in models
    ]


def merge_server_models(found: Iterable[ServerModel], taken: Iterable[str]) -> list[ServerModel]:
    """Make one of each model that several hosts offer by the same name, and suggest an id for it.

    What one host offers twice stays two: its engines share a processor.
    """
    merged: list[ServerModel] = []
    for model in found:
        same = (
            n
            for n, other in enumerate(merged)
            if (other.model, other.cloud) == (model.model, model.cloud)
            and not {*other.hosts} & {*model.hosts}
        )
        if (at := next(same, None)) is None:
            merged.append(model)
            continue
        first = merged[at]
        addresses, slots = first.addresses + model.addresses, first.slots + model.slots
        merged[at] = replace(first, addresses=addresses, slots=slots)
    used = {*taken}
    return [replace(model, id=suggest_id(model.model, used)) for model in merged]


async def list_server_models(base_url: str) -> list[ListedModel]:
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
    return list(_usable(place, await _ask(place, TIMEOUT_SECONDS)))


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
            writer.write(
                f"GET {place.path} HTTP/1.1\r\nHost: {place.url.removeprefix('http://')}\r\n"
                "Accept: application/json\r\nConnection: close\r\n\r\n".encode()
            )
            raw = b""
            while len(raw) <= MAX_ANSWER_BYTES and (data := await reader.read(65536)):
                raw += data
        return _body(raw)
    except (OSError, TimeoutError, ValueError, HTTPException, RecursionError):
        return None
    finally:
        if writer is not None:
            writer.transport.abort()


def _body(raw: bytes) -> Any:
    if len(raw) > MAX_ANSWER_BYTES:
        raise ValueError("more than any list of models")
    answer = HTTPResponse(_Said(raw))  # type: ignore[arg-type]
    answer.begin()
    return json.loads(answer.read()) if answer.status == 200 else None


class _Said:
    """Bytes that came, in the place of the socket they came from."""

    def __init__(self, raw: bytes) -> None:
        self._said = raw

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


def _owned(owner: str, answer: Any) -> Iterator[ListedModel]:
    """Read /v1/models of an engine that names itself as the owner of its models."""
    for model in answer["data"]:
        if model["owned_by"] == owner:
            yield ListedModel(model["id"])


def _slots(answer: Any) -> int:
    """Read llama-server's /props: how many calls it takes at once, 0 if it doesn't say."""
    slots = answer.get("total_slots") if isinstance(answer, dict) else None
    return min(slots, _MAX_SLOTS) if isinstance(slots, int) and slots > 0 else 0


def _size(size: Any) -> int:
    return size if isinstance(size, int) and size > 0 else 0


def suggest_id(name: str, used: set[str]) -> str:
    """Return a short id that isn't in use, and take it.

    "hf.co/someone/Qwen3-8B-GGUF:Q4_K_M" is "qwen3-8b".
    """
    short = name.rsplit("/", 1)[-1].lower().removesuffix(".gguf").removesuffix(":latest")
    short = re.sub(r"[-.]gguf(:.*)?$", "", short)
    short = re.sub(r"[^a-z0-9._-]+", "-", short).strip("-._")[:40] or "model"
    suggestion = unused_id(short, used)
    used.add(suggestion)
    return suggestion
