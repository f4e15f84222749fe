"""Remote workers, asked through the real gateway child; the cloud is the kit's, on loopback."""

from __future__ import annotations

import os
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from baton.core.errors import BatonError
from baton.core.labels import Label
from baton.core.messages import Card, Chunk, Message, Request, RequestSent, Role, Text, Usage
from baton.core.money import FREE, Price, Rates
from baton.core.run.metered_worker import MeteredWorker
from baton.platform.secrets import PROVIDERS
from baton.workers.cloud import CloudWorker, Gateway
from baton.workers.cloud.gateway import CallTimeouts
from support.fake_cloud import Cloud
from support.metered_calls import KEYS

PRICE = Price(Rates(10**9, 2 * 10**9, 10**8, 2 * 10**9), source="the kit")
MODELS = {
    "openai": "openai/gpt-4o-mini",
    "anthropic": "anthropic/claude-haiku-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "openrouter": "openrouter/openai/gpt-5-mini",
    "mistral": "mistral/mistral-small-latest",
    "deepseek": "deepseek/deepseek-chat",
    "groq": "groq/openai/gpt-oss-20b",
    "xai": "xai/grok-4.3",
}
RESPONSES = "openai/gpt-5-pro"
PATIENCE = CallTimeouts(connect=30, first=60, first_of_slow=60, stall=60)
"""For what is not about time: the machine may be busy."""


@dataclass
class Log:
    """What was recorded before it was sent."""

    rows: list[tuple[str, str, bytes]] = field(default_factory=list)

    async def record(self, call: str, destination: str, body: bytes) -> None:
        """Keep a row."""
        self.rows.append((call, destination, body))


@dataclass
class WorkerAnswer:
    """What a worker gave, and how it ended."""

    chunks: list[Chunk]
    error: BatonError | None

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, Text))

    @property
    def usage(self) -> Usage | None:
        """The count, if there is one."""
        found = [chunk for chunk in self.chunks if isinstance(chunk, Usage)]
        assert len(found) <= 1
        return found[0] if found else None

    def has(self, kind: type[Any]) -> bool:
        """Whether such a chunk came."""
        return any(isinstance(chunk, kind) for chunk in self.chunks)

    @property
    def sent(self) -> list[RequestSent]:
        """What left."""
        return [chunk for chunk in self.chunks if isinstance(chunk, RequestSent)]


def new_gateway(log: Log, folder: Path, **options: Any) -> Gateway:
    """Return a gateway whose keys are in its environment."""
    options.setdefault("environ", {**os.environ, **KEYS})
    options.setdefault("patience", PATIENCE)
    return Gateway(log.record, keys_file=folder / "keys.toml", **options)


def cloud_worker(
    gateway: Gateway, cloud: Cloud, provider: str, model: str = "", **options: Any
) -> CloudWorker:
    """Return a worker of that provider, which is the kit's cloud."""
    card = Card(
        provider,
        "cloud",
        provider,
        Label.CLOUD,
        context=100_000,
        price=PRICE,
        provider=provider,
        model=model or MODELS[provider],
        remote=True,
    )
    options.setdefault("base_url", cloud.base(provider))
    options.setdefault("api_key_env", PROVIDERS[provider].variable)
    return CloudWorker(card, gateway, **options)


def server_worker(
    gateway: Gateway, base_url: str, price: Price = FREE, **options: Any
) -> CloudWorker:
    """Return a worker behind a server on this machine."""
    card = Card(
        "lab",
        "server",
        "lab",
        context=32_000,
        price=price,
        provider="server",
        model="qwen3-32b",
        remote=False,
    )
    return CloudWorker(card, gateway, base_url=base_url, **options)


def request(*texts: str, system: str = "Be kind.", **options: Any) -> Request:
    """Return a request: the system's text, then prompts and answers in turn."""
    roles = (Role.USER, Role.ASSISTANT)
    said = [Message(roles[i % 2], text) for i, text in enumerate(texts or ("Hello, wörld 🙂?",))]
    known: dict[str, Any] = {"max_tokens": 300, "call": "call-1", "label": Label.CLOUD}
    return Request((Message(Role.SYSTEM, system), *said), **(known | options))


async def collect_answer(
    worker: CloudWorker | MeteredWorker, asked: Request | None = None
) -> WorkerAnswer:
    """Ask and listen to the end."""
    chunks: list[Chunk] = []
    try:
        async with aclosing(worker.stream(asked or request())) as stream:
            async for chunk in stream:
                chunks.append(chunk)
    except BatonError as error:
        return WorkerAnswer(chunks, error)
    return WorkerAnswer(chunks, None)


def gateways() -> list[psutil.Process]:
    """Return the gateways that run for this process."""
    children = psutil.Process().children()
    return [child for child in children if child.cmdline()[-1].endswith("gateway")]
