"""Replays a provider's bytes through everything that reads them, in this process.

    async with StreamPlayer() as replayer:
        replayed = await replayer.replay(mutant)
        replayed.text, replayed.end, replayed.charge, replayed.is_confirmed ...

The worker, the gateway's calls, its HTTP client and the readers are the real ones; what writes the
request, the connection and the pipes between the processes are replaced. The charge follows the
rule of the gate and the ledger; tests through the real ones are in test_streams_through_gateway.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest import mock

import httpx

from baton.core.errors import BatonError
from baton.core.labels import Label
from baton.core.messages import (
    Card,
    Declined,
    Message,
    Request,
    RequestSent,
    Retrying,
    Role,
    Text,
    Usage,
    max_input_tokens,
)
from baton.core.money import BilledTokens
from baton.ipc.messages import Cancel
from baton.workers.cloud import CloudWorker, Gateway, gateway
from baton.workers.cloud.child.answer_reader import AnswerReader
from baton.workers.cloud.child.cloud_call import CloudCall, HttpRequest
from baton.workers.cloud.child.http_client import CloudHttpClient
from baton.workers.cloud.child.main import CallRunner
from baton.workers.cloud.messages import CallWorker, SetUpGateway
from support.stream_corpus import PRICE, RecordedStream
from support.stream_mutations import Mutant

CAP = 900
PROMPT = f"Be brief. This is the question of a run, a stream. {'x' * 4000}"
"""Long enough for every count of the corpus, and of so few words that each is plausible."""

PROVIDERS = {
    "openai_chat": ("openai", "https://api.openai.com/v1"),
    "openai_responses": ("openai", "https://api.openai.com/v1"),
    "azure_chat": ("azure", "https://kit.openai.azure.com/openai/v1"),
    "azure_responses": ("azure", "https://kit.openai.azure.com/openai/v1"),
    "vertex": ("vertex_ai", "https://aiplatform.googleapis.com/v1"),
    "fireworks": ("fireworks_ai", "https://api.fireworks.ai/inference/v1"),
    "together": ("together_ai", "https://api.together.xyz/v1"),
}
"""A family's provider and address; the others' are by their name at an address of their own."""

SERVERS = ("vllm", "llama_server", "ollama", "lm_studio", "tgi", "sglang")


@dataclass
class ReplayedStream:
    """What came of a stream. `charge` in nano-dollars, `held` is all that was held."""

    text: str = ""
    end: str = ""
    counts: tuple[int, int, int, int] | None = None
    cost: int | None = None
    charge: int = 0
    held: int = 0
    is_confirmed: bool = False
    is_void: bool = False
    error: str = ""
    reader: AnswerReader | None = None

    @property
    def written(self) -> int:
        """The characters of text and thoughts that the reader counted."""
        return self.reader.written if self.reader is not None else 0


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces: tuple[bytes, ...]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class _CannedHttpClient(CloudHttpClient):
    """Answers every request with the stream that is replayed."""

    mutant: Mutant | None = None

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        assert self.mutant is not None
        kind = self.mutant.content_type
        headers = {"content-type": kind} if kind is not None else {}
        return httpx.Response(200, headers=headers, stream=_Pieces(self.mutant.pieces))

    def _open_transport(self, call: CloudCall, proxy: str | None) -> Any:
        return httpx.MockTransport(self._answer)

    def _check_request(self, call: CloudCall, request: HttpRequest) -> None:
        """Requests have tests of their own."""


class _StreamRunner(CallRunner):
    """Runs calls whose requests nothing writes."""

    def __init__(self, parent: Any, setup: SetUpGateway) -> None:
        super().__init__(parent, setup, {})
        self.client = _CannedHttpClient(self._http._rules, {})
        self._http = self.client
        self.dialect = "chat"
        self.call: CloudCall | None = None

    async def _request(self, call: CloudCall) -> HttpRequest:
        call.set_dialect(self.dialect)
        self.call = call
        return HttpRequest(call.base_url, {}, b"{}")


@dataclass
class _LocalCall:
    """A call to the runner, as the front has one to a child process."""

    gateway: _LocalGateway
    id: int = 1
    replies: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)

    async def receive(self) -> Any:
        return await self.replies.get()

    def send(self, message: Any) -> None:
        message.id = self.id
        self.gateway.runner.handle_message(message)

    async def close(self, grace: float) -> None:
        self.send(Cancel())


class _LocalGateway(Gateway):
    """Begins calls in this process."""

    def __init__(self) -> None:
        async def record(call: str, destination: str, body: bytes) -> None:
            """Nothing leaves."""

        super().__init__(record, keys_file=Path("none.toml"), environ={})
        self.current: _LocalCall | None = None
        with mock.patch.object(gateway, "start_child", return_value=self):
            self._start()  # sends the setup

    def send(self, message: Any) -> None:
        """Take the setup as the child would, and what the runner says as its parent."""
        if isinstance(message, SetUpGateway):
            self.runner = _StreamRunner(self, message)
        elif self.current is not None:
            self.current.replies.put_nowait(message)

    async def call(self, card: Card, request: CallWorker, *, remote: bool) -> Any:
        self.current = _LocalCall(self)
        self.current.send(request)
        return self.current


class StreamReplayer:
    """One gateway in this process, which replays one stream after the other."""

    def __init__(self) -> None:
        self._gateway = _LocalGateway()
        self._workers: dict[str, CloudWorker] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._gateway.runner.client.aclose()

    async def replay(self, mutant: Mutant) -> ReplayedStream:
        """Replay a stream to its end."""
        stream, runner = mutant.stream, self._gateway.runner
        runner.client.mutant, runner.dialect, runner.call = mutant, stream.dialect, None
        request = Request(
            (Message(Role.USER, PROMPT),), max_tokens=CAP, call="c", label=Label.CLOUD
        )
        bound = max_input_tokens(request.messages, None)
        replayed = ReplayedStream(held=PRICE.max_cost(bound, CAP))
        usage: Usage | None = None
        is_sent = is_declined = False
        try:
            async with aclosing(self._worker(stream).stream(request)) as chunks:
                async for chunk in chunks:
                    match chunk:
                        case Text(text=text):
                            replayed.text += text
                        case Retrying():  # what came so far were thoughts
                            replayed.text = ""
                        case Usage():
                            usage = chunk
                        case RequestSent():
                            is_sent = True
                        case Declined():
                            is_declined = True
        except BatonError as error:
            replayed.error = str(error)
        replayed.reader = runner.call.reader if runner.call is not None else None
        _settle(replayed, usage, is_void=is_declined or not is_sent)
        return replayed

    def _worker(self, stream: RecordedStream) -> CloudWorker:
        """Return a worker of that family."""
        family = stream.family
        if family not in self._workers:
            default = f"https://api.{family}.example/v1"
            provider, url = PROVIDERS.get(family, (family, default))
            if is_server := family in SERVERS:
                provider, url = "server", "http://127.0.0.1:8000/v1"
            card = Card(
                id=family,
                kind="server" if is_server else "cloud",
                name=family,
                privacy=Label.CLOUD,
                price=PRICE,
                provider=provider,
                model="m" if is_server else f"{provider}/gemini-m",
                remote=True,
            )
            self._workers[family] = CloudWorker(card, self._gateway, base_url=url)
        return self._workers[family]


def _settle(replayed: ReplayedStream, usage: Usage | None, *, is_void: bool) -> None:
    """Charge as the gate and the ledger do."""
    if usage is None:
        replayed.end, replayed.is_void = "error", is_void
        replayed.charge = 0 if is_void else replayed.held
        return
    replayed.end = str(usage.finish)
    if not usage.is_confirmed:
        replayed.charge = PRICE.max_cost(usage.tokens_in, usage.tokens_out)
        return
    replayed.is_confirmed = True
    replayed.cost = usage.reported
    replayed.counts = (usage.tokens_in, usage.tokens_out, usage.cached, usage.cache_written)
    replayed.charge = PRICE.cost(BilledTokens(*replayed.counts, usage.reported))
