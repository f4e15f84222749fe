"""A provider on this machine's own loopback, for the self-test: it gives one answer, and counts."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

ANSWER = "Ad libitum."
TOKENS_IN, TOKENS_OUT = 1000, 200
"""What the provider says that it counted."""

_MAX_BODY_BYTES = 1 << 20


class LoopbackProvider:
    """Listens while entered; `bodies` and `keys` are what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.keys: list[str] = []
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def is_reachable(self) -> bool:
        """Tell whether this machine can talk with itself at all."""
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            fields = dict(_header_field(line) for line in head.split("\r\n")[1:] if ":" in line)
            size = min(int(fields.get("content-length", "0")), _MAX_BODY_BYTES)
            self.bodies.append(await reader.readexactly(size))
            self.keys.append(fields.get("authorization", ""))
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            )
            writer.write(b"".join(_answer_events()))
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # it hung up, as `reachable` does
        finally:
            writer.close()


def _header_field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def _answer_events() -> list[bytes]:
    usage = {
        "prompt_tokens": TOKENS_IN,
        "completion_tokens": TOKENS_OUT,
        "total_tokens": TOKENS_IN + TOKENS_OUT,
    }
    return [
        *(_answer_event([{"index": 0, "delta": {"content": word}}]) for word in ANSWER.split("|")),
        _answer_event([{"index": 0, "delta": {}, "finish_reason": "stop"}]),
        _answer_event([], usage=usage),
        b"data: [DONE]\n\n",
    ]


def _answer_event(choices: list[dict[str, Any]], **more: Any) -> bytes:
    event = {
        "id": "chatcmpl-0",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "self-test",
        "choices": choices,
        **more,
    }
    return f"data: {json.dumps(event)}\n\n".encode()
