"""An answer as server-sent events: they begin soon, stay alive, and come one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from starlette.types import Send

from baton.server.dialects import Dialect

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
