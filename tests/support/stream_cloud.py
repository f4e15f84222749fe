"""The tests' cloud, answering each POST with a stream of the corpus that its prompt names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from support.cloud_answer import Bill
from support.fake_cloud import Cloud
from support.http_connection import Connection
from support.received_requests import ReceivedRequest
from support.stream_mutations import Mutant


def prompt_of(number: int) -> str:
    """Return the prompt that is answered with that stream; long enough for every count."""
    return f"stream {number}. {'x' * 4000}"


class StreamCloud(Cloud):
    """Sends the pieces of `mutants`, and bills what each says that it costs."""

    mutants: Sequence[Mutant] = ()

    def _answer(self, received: ReceivedRequest, path: str) -> Any:
        found = re.search(rb"stream (\d+)\.", received.body)
        assert found is not None
        return _StreamAnswer(received, self.mutants[int(found[1])])


class _StreamAnswer:
    """One POST while it is being answered."""

    def __init__(self, received: ReceivedRequest, mutant: Mutant) -> None:
        self._received, self._mutant = received, mutant

    def bill(self) -> Bill:
        """Return what it costs by its own words."""
        nanos = self._mutant.bill or 0
        return Bill(self._received.number, self._mutant.stream.id, 0, 0, 0, 0, 0, nanos)

    async def send(self, connection: Connection) -> bool:
        """Send all pieces, each a chunk."""
        kind = self._mutant.content_type or ""
        await connection.begin(kind, {}, split=False, gzip=False)
        for piece in self._mutant.pieces:
            await connection.send(piece)
        return await connection.end()
