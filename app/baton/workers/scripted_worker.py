"""A worker that follows a script: for tests, the self-test and demonstrations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable

from baton.core.messages import Card, Chunk, Finish, Request, Text, Usage, estimated_tokens

Script = Callable[[Request], Iterable[Chunk | BaseException | float]]
"""Gives, for a request, chunks to yield, errors to raise and pauses (in seconds) to make."""


def echo_script(request: Request) -> Iterable[Chunk]:
    """Say the last message back, word by word."""
    for word in request.messages[-1].text.split(" "):
        yield Text(word + " ")


class ScriptedWorker:
    """A deterministic worker. Every request it was given stays in `requests`."""

    def __init__(self, script: Script = echo_script, card: Card | None = None) -> None:
        self.card = card or Card("scripted", "scripted", "Scripted worker", context=4096)
        self.requests: list[Request] = []
        self._script = script

    def warm(self) -> None:
        """Nothing takes long here."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Run the script; a Usage is added when the script doesn't end with its own."""
        self.requests.append(request)
        written, ended = 0, False
        for item in self._script(request):
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, float):
                await asyncio.sleep(item)
                continue
            written += isinstance(item, Text)
            ended = isinstance(item, Usage)
            yield item
        if not ended:
            read = sum(estimated_tokens(message.text) for message in request.messages)
            yield Usage(read, written, Finish.STOP, context=self.card.context)

    async def aclose(self) -> None:
        """Nothing is held."""
