"""Calls as the engine makes them: through the real gate, gateway and ledger, to the kit's cloud.

    async with MeteredGateway(cloud, home) as metered:
        done = await metered.call("anthropic", Fault.STALL)
        done.text, done.error, done.charge ...      # what the user, and the ledger, know of it

A fault travels in the prompt, so that many calls at once each get their own; the cloud must be made
with `choose=asked_fault`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from baton.core.errors import BatonError
from baton.core.labels import Label
from baton.core.ledger_types import Charge, Egress, Scope
from baton.core.messages import Card, Chunk, Message, Request, RequestSent, Role, Text
from baton.core.money import Price, Rates
from baton.core.permissions import ANYTHING, RunTerms
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.money import Ledger
from baton.platform.secrets import PROVIDERS
from baton.workers.cloud import CloudWorker, Gateway
from baton.workers.cloud.gateway import CallTimeouts
from support.fake_cloud import Cloud, Fault, ReceivedRequest

PRICE = Price(Rates(10**9, 4 * 10**9, 10**8, 1_250_000_000), source="a test")
"""A prompt's token costs 1 micro-dollar, an answer's 4, a cached one 0.1, a kept one 1.25."""

PRICES = {"": PRICE}
ROOM = {Scope.DAY: 1000 * 10**9}

MODELS = {
    "openai": "openai/gpt-4o-mini",
    "responses": "openai/gpt-5-codex",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "openrouter": "openrouter/openai/gpt-4o-mini",
    "mistral": "mistral/mistral-small-latest",
    "deepseek": "deepseek/deepseek-chat",
    "groq": "groq/openai/gpt-oss-20b",
    "xai": "xai/grok-3-mini",
    "azure": "azure/gpt-4o-mini",
    "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "bedrock_mantle": "bedrock_mantle/openai.gpt-oss-20b",
    "cerebras": "cerebras/llama-3.3-70b",
    "cohere": "cohere/command-a-03-2025",
    "fireworks_ai": "fireworks_ai/accounts/fireworks/models/llama-v3p1-8b-instruct",
    "huggingface": "huggingface/deepseek-ai/DeepSeek-V3.1:novita",
    "moonshot": "moonshot/kimi-k2-0905-preview",
    "novita": "novita/meta-llama/llama-3.3-70b-instruct",
    "perplexity": "perplexity/openai/gpt-5.2",
    "sambanova": "sambanova/Meta-Llama-3.3-70B-Instruct",
    "together_ai": "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo",
    "vercel_ai_gateway": "vercel_ai_gateway/anthropic/claude-sonnet-4.5",
    "vertex_ai": "vertex_ai/gemini-2.5-flash",
    "zai": "zai/glm-4.6",
    "server": "kit-1",
}
"""Every way to be answered, and a model that is."""

KEYS = {
    PROVIDERS[name].variable if name in PROVIDERS else "LAB_API_KEY": (
        f"sk-canary-{name}-7f3a9c2e5b8d4160"
    )
    for name in MODELS
    if name != "responses"
}
"""A key for each provider, under the variable where it is looked for."""


PATIENCE = CallTimeouts(connect=5, first=60, first_of_slow=60, stall=60)
"""Longer than anything here takes, on however busy a machine."""


def asked_fault(received: ReceivedRequest) -> Fault | None:
    """Return the fault that a prompt asks for."""
    found = re.search(rb"fault=(\w+)", received.body)
    return Fault[found[1].decode()] if found else None


def card_of(kind: str, price: Price | None = PRICE) -> Card:
    """Return the card of a worker that answers in that way."""
    server = kind == "server"
    model = MODELS[kind]
    return Card(
        kind,
        "server" if server else "cloud",
        model.partition("/")[2] or model,
        privacy=Label.LOCAL if server else Label.CLOUD,
        price=price,
        provider="server" if server else model.partition("/")[0],
        model=model,
        remote=not server,
    )


@dataclass
class FinishedCall:
    """One call, once it is over."""

    kind: str
    fault: Fault | None
    run: str
    text: str = ""
    error: BatonError | None = None
    sent: list[RequestSent] = field(default_factory=list)
    tally: CallUsage | None = None
    charge: Charge | None = None
    egress: list[Egress] = field(default_factory=list)


def gateway_of(
    home: Path, patience: CallTimeouts = PATIENCE, environ: Mapping[str, str] | None = None
) -> Gateway:
    """Return a gateway with all keys in its environment, unless that is given."""

    async def nowhere(call: str, destination: str, body: bytes) -> None:
        raise AssertionError("the gateway has no ledger")

    known = {**os.environ, **KEYS} if environ is None else environ
    return Gateway(nowhere, keys_file=home / "keys.toml", patience=patience, environ=known)


@dataclass(frozen=True)
class GatewayNetwork:
    """What is around a gateway: whom its settings name, and a log of whom it connected to."""

    hostile: Cloud
    log: Path

    @property
    def connections(self) -> list[str]:
        """What the gateway connected to and looked up, a line each."""
        return self.log.read_text().splitlines()


class MeteredGateway:
    """One gateway (its own, unless one is given, which several use in turn) and one ledger.

    `workers` has one for each way of being answered.
    """

    def __init__(
        self,
        cloud: Cloud,
        home: Path,
        *,
        ledger: Ledger | None = None,
        gateway: Gateway | None = None,
        price: Price = PRICE,
        room: Mapping[Scope, int] = ROOM,
        patience: float = 0.0,
    ) -> None:
        self.cloud = cloud
        self.price, self.room = price, room
        self._terms = RunTerms(room, patience=patience)
        self.ledger = ledger or Ledger(home / "ledger.db")
        self._shared = gateway is not None
        self.gateway = gateway or gateway_of(home)
        self.gateway.record = self.ledger.sent
        self.workers = {kind: self._worker(kind) for kind in MODELS}
        self._calls = 0

    def _worker(self, kind: str) -> CloudWorker:
        provider = "openai" if kind == "responses" else kind
        return CloudWorker(
            card_of(kind, self.price),
            self.gateway,
            base_url=self.cloud.base(provider),
            api_key_env="LAB_API_KEY" if kind == "server" else PROVIDERS[provider].variable,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._shared:
            await self.gateway.aclose()
        await self.ledger.aclose()

    def metered_worker(self, kind: str, run: str, record: list[CallUsage]) -> MeteredWorker:
        """Return a worker behind the gate, as a run is handed it."""

        async def keep(tally: CallUsage) -> None:
            record.append(tally)

        purse = RunBudget(self.ledger, None, self._terms, ANYTHING, run=run, session="s")
        return MeteredWorker(self.workers[kind], purse, keep)

    def stream(
        self,
        kind: str,
        run: str,
        record: list[CallUsage],
        fault: Fault | None = None,
        cap: int = 300,
        text: str = "what is 5 € in £? 🙂",
    ) -> AsyncGenerator[Chunk]:
        """Begin a call."""
        wish = f" fault={fault.name}." if fault else ""
        messages = (
            Message(Role.SYSTEM, "You are brief."),
            Message(Role.USER, f"Naïve question of {run}: {text}{wish}"),
        )
        request = Request(messages, max_tokens=cap, label=Label.CLOUD)
        return self.metered_worker(kind, run, record).stream(request)

    async def call(
        self,
        kind: str,
        fault: Fault | None = None,
        *,
        cap: int = 300,
        after: int | None = None,
        text: str = "what is 5 € in £? 🙂",
    ) -> FinishedCall:
        """Make a call to its end, or stop listening after so many pieces of text."""
        self._calls += 1
        done = FinishedCall(kind, fault, f"run-{self._calls:04d}-{kind}")
        record: list[CallUsage] = []
        pieces = 0
        try:
            async with aclosing(self.stream(kind, done.run, record, fault, cap, text)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, RequestSent):
                        done.sent.append(chunk)
                    elif isinstance(chunk, Text):
                        done.text += chunk.text
                        pieces += 1
                        if pieces == after:
                            break
        except BatonError as error:
            done.error = error
        done.tally = record[0] if record else None
        charges = await self.ledger.charges(done.run)
        done.charge = charges[0] if len(charges) == 1 else None
        done.egress = await self.ledger.egress(done.run)
        return done

    async def quiet(self) -> None:
        """Wait until the cloud has billed everything."""
        await asyncio.to_thread(self.cloud.quiet, 30.0)
