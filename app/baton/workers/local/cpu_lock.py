"""The joint processor of loaded models: who computes now, and who waits for its turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cached_property


class Processor:
    """Lets models compute at once only while each of their threads has a core of its own.

    Threads of one model wait for each other at every layer, spinning. On two cores, two models
    with two threads each wrote 15 to 18 tokens a second each; one of them alone wrote 106. With one
    thread each they wrote 26 to 66 at once, and alone no more. So whoever comes first computes with
    all threads that it is set to; others wait in order, and those set to fewer share the cores.
    `cores` 0 means as many as this process may use.
    """

    def __init__(self, cores: int = 0) -> None:
        self._given = cores
        self._busy = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def share(self, threads: int) -> AsyncGenerator[None]:
        """Compute with so many threads (0: one per core), once it is one's turn."""
        wanted = min(threads or self._cores, self._cores)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, turn))
        self._admit()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._busy -= wanted
            else:
                self._waiting.remove((wanted, turn))
            self._admit()

    @cached_property
    def _cores(self) -> int:
        from baton.workers.local.child.cpu_threads import physical_cores

        return self._given or physical_cores()

    def _admit(self) -> None:
        while self._waiting and self._busy + self._waiting[0][0] <= self._cores:
            wanted, turn = self._waiting[0]
            if turn.done():
                return  # it was cancelled, and leaves the row when it is told
            self._waiting.popleft()
            self._busy += wanted
            turn.set_result(None)
