"""A relay on loopback, where litellm believes the provider to be.

litellm is given its address, and a secret that is good for one request. What it posts is caught
here and goes out by the only way there is; it never learns a key, and never sees an answer: it
reports a cut stream as a normal end with invented usage, stumbles over odd events and takes longer
to read than the world to answer.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import h11

MOST_BODY = 32 * 1024 * 1024
READ_BYTES = 65536
HEAD_SECONDS = 10.0
"""How long a connection may stay open without saying what it wants."""

_SECRETS = (b"authorization", b"x-api-key", b"x-goog-api-key")

_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refused(Exception):
    """A request that isn't taken."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Relay:
    """Catches what is posted under a secret, once."""

    def __init__(self) -> None:
        self._awaited: dict[str, asyncio.Future[bytes]] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on a port of its own."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def aclose(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def expect(self, secret: str) -> asyncio.Future[bytes]:
        """Return what will be posted under this secret."""
        return self._awaited.setdefault(secret, asyncio.get_running_loop().create_future())

    def forget(self, secret: str) -> None:
        """Take nothing more under this secret."""
        self._awaited.pop(secret, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = h11.Connection(h11.SERVER)
        with suppress(OSError, h11.ProtocolError):
            try:
                await self._take(line, (reader, writer))
                await reader.read()  # until litellm, which waits for an answer, is stopped
            except Refused as refused:
                writer.write(_refusal(line, refused))
                await writer.drain()
        writer.close()

    async def _take(self, line: h11.Connection, stream: _Stream) -> None:
        async with asyncio.timeout(HEAD_SECONDS):  # a TimeoutError is an OSError
            head = await _next(line, stream)
        if not isinstance(head, h11.Request):
            raise h11.RemoteProtocolError("no request came")
        awaited = self._admitted(head)  # first: a stranger's body is not kept in memory
        body = await _body(line, stream)
        if awaited.done():
            raise Refused(409, "a call is one request")
        awaited.set_result(body)

    def _admitted(self, head: h11.Request) -> asyncio.Future[bytes]:
        for name, value in head.headers:
            if name in _SECRETS and head.method == b"POST":
                secret = value.decode("latin-1").removeprefix("Bearer ")
                if awaited := self._awaited.get(secret):
                    return awaited
        raise Refused(401, "no such call")


async def _next(line: h11.Connection, stream: _Stream) -> object:
    while (event := line.next_event()) is h11.NEED_DATA:
        line.receive_data(await stream[0].read(READ_BYTES))
    return event


async def _body(line: h11.Connection, stream: _Stream) -> bytes:
    body = bytearray()
    while isinstance(event := await _next(line, stream), h11.Data):
        body += event.data
        if len(body) > MOST_BODY:
            raise Refused(413, "too large")
    return bytes(body)


def _refusal(line: h11.Connection, refused: Refused) -> bytes:
    body = json.dumps({"error": {"message": str(refused)}}).encode()
    headers = [
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        ("connection", "close"),
    ]
    events = (
        h11.Response(status_code=refused.status, headers=headers),
        h11.Data(data=body),
        h11.EndOfMessage(),
    )
    return b"".join(line.send(event) or b"" for event in events)
