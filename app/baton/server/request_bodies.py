"""Reads requests' bodies, all of them together within bounds.

Who sends slowly is cut off first where others need the room: so neither half a body nor a hundred
of them keep anybody from being answered.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.requests import Request

from baton.server.api_errors import ApiError
from baton.server.client_request import MAX_BODY_BYTES

BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

SMALL_BODY_BYTES = 64 * 1024
"""A body up to this size needs no room among the large ones."""

MAX_LARGE_BYTES = 16 * 10**6
"""How large all bodies may be together that are larger, from their arrival until they are answered;
of each there are some copies in memory by then."""

MAX_ARRIVING = 64
"""How many bodies may be on their way at once."""


@dataclass(slots=True, eq=False)
class _Body:
    """A body: until when it may arrive, and how much of the room it holds."""

    limit: asyncio.Timeout
    data: bytearray = field(default_factory=bytearray)
    held: int = 0


class BodyReader:
    """Reads bodies one beside the other."""

    def __init__(self) -> None:
        self._arriving: OrderedDict[_Body, None] = OrderedDict()
        self._used = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytearray]:
        """Yield a request's body, whose room is held until this is left.

        Raises ApiError for one that is too large or too slow, or where there is no room.
        """
        body = _Body(asyncio.timeout(BODY_SECONDS))
        try:
            await self._receive(body, request)
            yield body.data
        finally:
            self._used -= body.held

    async def _receive(self, body: _Body, request: Request) -> None:
        self._arriving[body] = None
        try:
            if len(self._arriving) > MAX_ARRIVING:
                self._cut_off(next(iter(self._arriving)))
            async with body.limit:
                async for part in request.stream():
                    body.data += part
                    self._make_room(body)
        except TimeoutError as error:
            message = "The body came too slowly, or other requests needed its memory."
            raise ApiError(408, "timeout", message) from error
        finally:
            self._arriving.pop(body, None)

    def _make_room(self, body: _Body) -> None:
        """Take room for what has come of a body; the oldest others that still arrive make it."""
        size = len(body.data)
        if size > MAX_BODY_BYTES:
            raise ApiError(
                413, "request_too_large", f"The body is larger than {MAX_BODY_BYTES:,} bytes."
            )
        if size <= SMALL_BODY_BYTES:
            return
        others = (other for other in list(self._arriving) if other.held and other is not body)
        while self._used + size - body.held > MAX_LARGE_BYTES:
            if (other := next(others, None)) is None:
                message = "Too many large requests are being answered."
                raise ApiError(429, "too_many_requests", message, "Try again in a moment.")
            self._cut_off(other)
        self._used += size - body.held
        body.held = size

    def _cut_off(self, body: _Body) -> None:
        """End a body that still arrives; its room is free at once."""
        self._arriving.pop(body)
        self._used -= body.held
        body.held = 0
        body.data = bytearray()
        if body.limit.when() is not None:
            body.limit.reschedule(0)
