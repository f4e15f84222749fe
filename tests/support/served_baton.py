"""A Baton that serves on loopback with scripted workers, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import httpx._transports.default as httpx_transport
import uvicorn.server

from baton.compose import Baton, library
from baton.compose.local_workers import LocalWorkers
from baton.compose.remote_workers import RemoteWorkers
from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import Card, Chunk, Finish, Request, RequestSent, Text, Usage
from baton.core.money import NANO, Price, Rates
from baton.core.permissions import RunTerms
from baton.core.ports import Router, Worker
from baton.core.run.orchestra import Orchestra
from baton.core.run.rule_router import RuleRouter
from baton.core.run.run_context import Services
from baton.history import Store
from baton.money import Ledger
from baton.platform.paths import find_paths
from baton.platform.settings import Settings
from baton.presentation.served_requests import ServedRequest, request_line
from baton.server import LOOPBACK, ServingLimits, serving
from baton.server.access import Grant
from baton.server.request_runner import RequestRunner
from baton.workers.scripted_worker import ScriptedWorker

if TYPE_CHECKING:
    import openai

SMALL = Card("small", "local", "Small", context=8192, slots=64)
GPT = Card(
    "gpt",
    "cloud",
    "GPT",
    privacy=Label.CLOUD,
    context=100_000,
    price=Price(Rates(10 * NANO, 10 * NANO, 0, 0), source="test"),
    provider="openai",
    model="openai/gpt-5-mini",
    remote=True,
)


def saying(*texts: str, finish: Finish = Finish.STOP, card: Card = SMALL) -> ScriptedWorker:
    """Return a worker that answers with these pieces."""

    def script(request: Request) -> Iterable[Chunk]:
        for text in texts:
            yield Text(text)
        yield Usage(12, len(texts), finish)

    return ScriptedWorker(script, card)


def cut_answer(request: Request) -> Iterable[Chunk]:
    """Answer with what is cut at the most tokens."""
    yield Text("Half of an ans")
    yield Usage(10, 4, Finish.LENGTH)


def remote_answer(request: Request) -> Iterable[Chunk]:
    """Answer as a worker in the cloud."""
    yield RequestSent("api.openai.com", 500)
    yield Text("From far away.")
    yield Usage(40, 5, Finish.STOP)


class _ShortTicks:
    """asyncio for uvicorn, which looks ten times a second whether it is to end: a hundred times."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


uvicorn.server.asyncio = _ShortTicks()  # type: ignore[assignment, attr-defined]

# To read certificates takes 30 ms, which each client did though none of them needs any.
httpx_transport.create_ssl_context = cache(httpx.create_ssl_context)  # type: ignore[attr-defined]

NO_CEILINGS: Mapping[Scope, int] = {}
NO_LIMITS = ServingLimits()
DEFAULT_SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class Served:
    """The endpoint: its address, its tokens, what is behind it, and the lines of requests."""

    url: str
    port: int
    tokens: Mapping[Grant, str]
    baton: Baton
    runner: RequestRunner
    lines: list[str]

    @property
    def token(self) -> str:
        """The token that uses what is free."""
        return self.tokens[Grant.FREE]

    def client(self, grant: Grant = Grant.FREE, **options: Any) -> httpx.AsyncClient:
        """Return a client that shows a token."""
        headers = {"authorization": f"Bearer {self.tokens[grant]}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, **{"timeout": 60, **options})

    def openai_client(self) -> openai.AsyncOpenAI:
        """Return OpenAI's client of the endpoint, which asks once."""
        from openai import AsyncOpenAI  # half a second

        return AsyncOpenAI(base_url=self.url, api_key=self.token, max_retries=0)


@asynccontextmanager
async def served_baton(
    home: Path,
    workers: Sequence[Worker] = (),
    *,
    terms: RunTerms | None = None,
    ceilings: Mapping[Scope, int] = NO_CEILINGS,
    allowed: ServingLimits = NO_LIMITS,
    settings: Settings = DEFAULT_SETTINGS,
    router: Router | None = None,
    hosts: Sequence[str] = LOOPBACK,
) -> AsyncIterator[Served]:
    """Serve with these workers, the first of which answers; all is kept below `home`."""
    paths = find_paths({"BATON_HOME": str(home)})
    used = workers or [ScriptedWorker()]
    store, ledger = Store(paths.database), Ledger(paths.ledger)
    chosen = router or RuleRouter()
    services = Services({w.card.id: w for w in used}, store, ledger=ledger, router=chosen)
    orchestra = Orchestra(services, used[0].card.id, terms or RunTerms(ceilings))
    stock = library(settings, paths)
    local = LocalWorkers(settings, stock)
    away = RemoteWorkers(settings, paths, ledger)
    baton = Baton(orchestra, store, ledger, settings, paths, stock, local, away)
    try:
        lines: list[str] = []

        def report(request: ServedRequest) -> None:
            lines.append(request_line(request))

        async with serving(baton, 0, hosts, allowed=allowed, report=report) as endpoint:
            tokens = {grant: getattr(endpoint.tokens, grant) for grant in Grant}
            yield Served(endpoint.url, endpoint.port, tokens, baton, endpoint.runner, lines)
    finally:
        await baton.aclose()


async def wait_until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait for what another task brings about. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (what is waited for sets no event)
            await asyncio.sleep(0.01)
