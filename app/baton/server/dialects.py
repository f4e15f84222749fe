"""The protocols of the endpoint: their addresses, and how each reads requests and writes answers.

An answer is one object, or server-sent events: they begin soon, stay alive, and come in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.types import Send

from baton.server.api_errors import ApiError
from baton.server.client_request import ClientRequest
from baton.server.completions import (
    ChatStream,
    CompletionStream,
    completion,
    completion_object,
    read_chat,
    read_completion,
)
from baton.server.messages import MessageStream, message_object, read_messages
from baton.server.responses import ResponseStream, read_responses, response
from baton.server.served_run import Answer, StreamWriter


@dataclass(frozen=True, slots=True)
class Dialect:
    """A protocol: how requests are read and answers written.

    `is_named` is whether each event of a stream has its type beside it, `last` what ends one, and
    `ping` what keeps one alive.
    """

    read: Callable[[Mapping[str, Any], Mapping[str, str]], ClientRequest]
    whole: Callable[[Answer, ClientRequest], dict[str, Any]]
    stream: Callable[[ClientRequest], StreamWriter]
    is_named: bool = True
    last: bytes = b""
    ping: bytes = b": still here\n\n"
    is_anthropic: bool = False

    def error(self, error: ApiError) -> dict[str, Any]:
        """Return an error as this protocol's clients read it."""
        return error.anthropic() if self.is_anthropic else error.openai()


CHAT = Dialect(
    read_chat,
    completion,
    ChatStream,
    is_named=False,
    last=b"data: [DONE]\n\n",
)
RESPONSES = Dialect(read_responses, response, ResponseStream)
MESSAGES = Dialect(
    read_messages,
    lambda answer, asked: message_object(answer),
    lambda asked: MessageStream(),
    ping=b'event: ping\ndata: {"type": "ping"}\n\n',
    is_anthropic=True,
)


COMPLETIONS = Dialect(
    read_completion,
    completion_object,
    CompletionStream,
    is_named=False,
    last=b"data: [DONE]\n\n",
)


HEAD_SECONDS, KEEPALIVE_SECONDS = 2.0, 10.0
"""After so many seconds a stream begins, though there is no piece yet: until then an error has a
status. After so many more without one it says that it is still alive."""


class EventStream:
    """Server-sent events, in a dialect's form; `first` returns those that begin it."""

    def __init__(
        self, send: Send, dialect: Dialect, first: Callable[[], list[dict[str, Any]]]
    ) -> None:
        self.has_begun = False
        self._send = send
        self._dialect = dialect
        self._first = first
        self._is_idle = True
        self._sending = asyncio.Lock()

    async def begin(self) -> None:
        """Send the head and the first events, unless they were."""
        async with self._sending:
            if self.has_begun:
                return
            self.has_begun = True
            headers = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                (b"cache-control", b"no-store"),
                (b"x-content-type-options", b"nosniff"),
            ]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send_body(b"".join(map(self._frame, self._first())))

    async def send(self, events: list[dict[str, Any]]) -> None:
        """Send events."""
        await self._write(b"".join(map(self._frame, events)))

    async def finish(self) -> None:
        """End the stream."""
        await self._write(self._dialect.last, more=False)

    @asynccontextmanager
    async def kept_alive(self, recorded: asyncio.Event) -> AsyncIterator[None]:
        """Begin soon once a run is `recorded`, and send a keep-alive while it is idle."""
        beating = asyncio.create_task(self._keep_alive(recorded))
        try:
            yield
        finally:
            async with self._sending:  # not in the middle of what it sends
                beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _keep_alive(self, recorded: asyncio.Event) -> None:
        await recorded.wait()
        await asyncio.sleep(HEAD_SECONDS)
        await self.begin()
        while True:
            self._is_idle = True
            await asyncio.sleep(KEEPALIVE_SECONDS)
            if self._is_idle:
                await self._write(self._dialect.ping)

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        self._is_idle = False
        async with self._sending:
            await self._send_body(data, more=more)

    async def _send_body(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    def _frame(self, event: dict[str, Any]) -> bytes:
        data = b"data: " + msgspec.json.encode(event) + b"\n\n"
        return f"event: {event['type']}\n".encode() + data if self._dialect.is_named else data


API_ROOT = "/v1"

ASKED_PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/models",
    "/v1/responses",
    "/v1/responses/input_tokens",
)
"""What clients put behind the address that they are given."""

_SERVED = frozenset(path.split("/")[2] for path in ASKED_PATHS)


def canonical_path(path: str) -> str:
    """Return the address that is meant: without double slashes, and with /v1 once."""
    parts = [part for part in path.split("/") if part]
    while len(parts) > 1 and parts[0] == "v1" and parts[1] in ("v1", *_SERVED):
        del parts[0]
    return "/".join(["", *(["v1"] if parts and parts[0] in _SERVED else []), *parts]) or "/"


def is_anthropic(path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request with this canonical path is of Anthropic's protocol."""
    return f"{path}/".startswith("/v1/messages/") or "anthropic-version" in headers


def no_address_text(path: str, headers: Mapping[str, str]) -> str:
    """Say that there is nothing at a canonical path, and which address clients need."""
    root = f"http://{headers.get('host', '')}"
    meant = [one for one in ASKED_PATHS if path.endswith(one.removeprefix(API_ROOT))]
    near = f" Did you mean {max(meant, key=len)}?" if meant else ""
    if path.startswith(f"{API_ROOT}/") and not meant:
        return f"There is nothing at this address. Served are: {', '.join(ASKED_PATHS)}."
    return (
        f"There is nothing at this address.{near} The address ends with {API_ROOT} for clients of"
        f" OpenAI's protocol ({root}{API_ROOT}), and without it for those of Anthropic's ({root})."
    )
