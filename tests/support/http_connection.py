"""One HTTP/1.1 connection, seen from the server: read requests, answer, stream, stall, cut."""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

_REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 404: "Not Found"}


@dataclass(frozen=True, slots=True)
class Head:
    """A request's first line and headers; header names are in small letters."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """Return a header's value, or ""."""
        return next((value for key, value in self.headers if key == name), "")


class Connection:
    """Raises ConnectionError from every call that sends, as soon as the client has left."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._split = False
        self._gzip: zlib._Compress | None = None

    @property
    def left(self) -> bool:
        """Whether the client is gone."""
        return (
            self._writer.transport.is_closing()
            or self._reader.at_eof()
            or self._reader.exception() is not None
        )

    async def read(self) -> tuple[Head, bytes] | None:
        """Return the next request, or None if there is none."""
        try:
            raw = await self._reader.readuntil(b"\r\n\r\n")
            lines = raw.decode("latin-1").split("\r\n")
            method, target, _ = lines[0].split(" ", 2)
            pairs = [line.partition(":") for line in lines[1:] if line]
            headers = tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)
            head = Head(method, target, headers)
            if head.get("transfer-encoding") == "chunked":
                return head, await self._chunked()
            return head, await self._reader.readexactly(int(head.get("content-length") or 0))
        except asyncio.IncompleteReadError:
            return None

    async def _chunked(self) -> bytes:
        parts = []
        while size := int(await self._reader.readline(), 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readline()
        await self._reader.readline()
        return b"".join(parts)

    async def answer(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> bool:
        """Send a whole answer; return that the connection may be used again."""
        fields = {"content-type": "application/json", **(headers or {})}
        fields["content-length"] = str(len(body))
        await self._write(_head(status, fields) + body)
        return True

    async def begin(
        self, kind: str, headers: Mapping[str, str], *, split: bool, gzip: bool
    ) -> None:
        """Begin an answer in chunks; with `split`, every byte is a chunk of its own."""
        fields = {"content-type": kind, "transfer-encoding": "chunked", **headers}
        self._split = split
        self._gzip = zlib.compressobj(wbits=31) if gzip else None
        if gzip:
            fields["content-encoding"] = "gzip"
        await self._write(_head(200, fields))

    async def send(self, data: bytes) -> None:
        """Send a piece of an answer in chunks."""
        if self._gzip:
            data = self._gzip.compress(data) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        if not data:
            return
        pieces = [data[i : i + 1] for i in range(len(data))] if self._split else [data]
        await self._write(b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces))

    async def end(self) -> bool:
        """End an answer in chunks; return that the connection may be used again."""
        rest = self._gzip.flush() if self._gzip else b""
        self._gzip = None
        await self._write((b"%x\r\n%b\r\n" % (len(rest), rest) if rest else b"") + b"0\r\n\r\n")
        return True

    async def wait(self, seconds: float) -> None:
        """Do nothing for a while, unless the client leaves."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (rest := end - loop.time()) > 0:
            self._check()
            await asyncio.sleep(min(0.02, rest))
        self._check()

    async def part(self, body: bytes, status: int = 200) -> None:
        """Send an answer's head and only half of its body."""
        fields = {"content-type": "application/json", "content-length": str(len(body))}
        await self._write(_head(status, fields) + body[: len(body) // 2])

    def cut(self) -> bool:
        """Let go of the connection without another word; return that it is over."""
        self._writer.close()
        return False

    def reset(self) -> bool:
        """Cut the connection as a crashed machine would; return that it is over."""
        own: socket.socket | None = self._writer.get_extra_info("socket")
        if own is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        return False

    def _check(self) -> None:
        if self.left:
            raise ConnectionResetError("the client left")

    async def _write(self, data: bytes) -> None:
        self._check()
        self._writer.write(data)
        await self._writer.drain()
        await asyncio.sleep(0)  # so that a client's leaving is noticed


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
