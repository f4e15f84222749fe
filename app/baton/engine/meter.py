"""Every worker that anyone is handed is metered, so no call can go unrecorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from baton.domain.chat import Card, Chunk, Loading, Request, Text, Usage
from baton.engine.ports import Worker

T = TypeVar("T")


@dataclass(slots=True)
class Tally:
    """What one call used. Times in seconds; `usage` stays None unless the worker truly ended."""

    worker: str
    request: Request
    tokens_out: int = 0
    seconds: float = 0.0
    first_token: float | None = None
    loading: float = 0.0
    usage: Usage | None = None


Record = Callable[[Tally], Coroutine[Any, Any, None]]
"""Keeps what a call used."""


class Metered:
    """A worker that reports every call to `record`, however the call ends."""

    def __init__(self, worker: Worker, record: Record) -> None:
        self._worker = worker
        self._record = record

    @property
    def card(self) -> Card:
        """The card of the worker inside."""
        return self._worker.card

    def warm(self) -> None:
        """Warm the worker inside."""
        self._worker.warm()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Pass the worker's chunks on, and count them."""
        tally = Tally(self.card.id, request)
        start = time.monotonic()
        try:
            async with aclosing(self._worker.stream(request)) as chunks:
                async for chunk in chunks:
                    _count(tally, chunk, time.monotonic() - start)
                    yield chunk
        finally:
            tally.seconds = time.monotonic() - start
            await uninterrupted(self._record(tally))

    async def aclose(self) -> None:
        """Close the worker inside."""
        await self._worker.aclose()


def _count(tally: Tally, chunk: Chunk, elapsed: float) -> None:
    match chunk:
        case Loading():
            tally.loading = elapsed
        case Text(tokens=tokens):
            tally.tokens_out += tokens
            if tally.first_token is None:
                tally.first_token = elapsed
        case Usage():
            tally.usage = chunk
            tally.tokens_out = chunk.tokens_out
        case _:
            pass


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await work to its end, however often its awaiter is cancelled meanwhile.

    A cancellation that came meanwhile is raised afterwards, unless the work itself failed.
    """
    task = asyncio.create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    result = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return result
