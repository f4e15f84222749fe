"""A relay on loopback, between litellm and the world.

litellm is given its address and a secret that is good for one call. It never learns a key, and
what it posts goes out as the call's one request; what comes back is passed on as it comes.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import h11

from baton.children.calls import Call
from baton.children.front import Failure
from baton.children.outward import Answer, Outward

MOST_BODY = 32 * 1024 * 1024
READ_BYTES = 65536

_SECRETS = (b"authorization", b"x-api-key", b"x-goog-api-key")

_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refused(Exception):
    """A request that isn't passed on."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Relay:
    """Passes on what is posted under a call's secret, once."""

    def __init__(self, outward: Outward) -> None:
        self._outward = outward
        self._calls: dict[str, Call] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on a port of its own."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def admit(self, call: Call) -> None:
        """Let a call's secret through."""
        self._calls[call.secret] = call

    def dismiss(self, call: Call) -> None:
        """Forget a call, and stop it."""
        self._calls.pop(call.secret, None)
        if call.posting is not None:
            call.posting.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = h11.Connection(h11.SERVER)
        with suppress(OSError, h11.ProtocolError):
            while await self._exchange(line, (reader, writer)):
                line.start_next_cycle()
        writer.close()

    async def _exchange(self, line: h11.Connection, stream: _Stream) -> bool:
        """Answer one request; True if another may follow on this connection."""
        head = await _next(line, stream)
        if not isinstance(head, h11.Request):
            return False
        try:
            body = await _body(line, stream)
            call = self._admitted(head)
        except Refused as refused:
            await _refuse(line, stream, refused.status, str(refused))
            return _is_done(line)
        call.posting = asyncio.current_task()
        try:
            return await self._pass_on(call, body, line, stream)
        finally:
            call.posting = None

    def _admitted(self, head: h11.Request) -> Call:
        for name, value in head.headers:
            if name in _SECRETS:
                call = self._calls.get(value.decode("latin-1").removeprefix("Bearer "))
                if call is None or head.method != b"POST":
                    continue
                if call.posted:
                    raise Refused(409, "a call is one request")
                return call
        raise Refused(401, "no such call")

    async def _pass_on(
        self, call: Call, body: bytes, line: h11.Connection, stream: _Stream
    ) -> bool:
        try:
            async with self._outward.post(call, body) as answer:
                await _pass_back(answer, line, stream)
        except Failure:
            if line.our_state is h11.SEND_RESPONSE:
                await _refuse(line, stream, 400, "refused")
                return _is_done(line)
            stream[1].transport.abort()  # what comes in the middle is no end
        return _is_done(line)


def _is_done(line: h11.Connection) -> bool:
    return line.our_state is h11.DONE


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


async def _pass_back(answer: Answer, line: h11.Connection, stream: _Stream) -> None:
    """Pass an answer on as it comes. Whoever stops listening doesn't stop it being read."""
    _, writer = stream
    headers = [("content-type", answer.content_type), ("transfer-encoding", "chunked")]
    writer.write(line.send(h11.Response(status_code=200, headers=headers)))
    heard = True
    async for piece, _text in answer.pieces:
        if heard:
            heard = await _write(writer, line.send(h11.Data(data=piece)))
    if heard:
        await _write(writer, line.send(h11.EndOfMessage()))


async def _write(writer: asyncio.StreamWriter, data: bytes) -> bool:
    try:
        writer.write(data)
        await writer.drain()
    except OSError:
        return False
    return True


async def _refuse(line: h11.Connection, stream: _Stream, status: int, message: str) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
    stream[1].write(
        line.send(h11.Response(status_code=status, headers=headers))
        + line.send(h11.Data(data=body))
        + line.send(h11.EndOfMessage())
    )
    await stream[1].drain()
