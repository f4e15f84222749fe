"""One life of a model process: how its loading went, and the requests that it has open."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from baton.core.errors import BatonError
from baton.core.messages import Loading
from baton.ipc.messages import Failed, Message
from baton.ipc.process import Child, error_of
from baton.workers.local.messages import ModelLoaded, ModelLoading

if TYPE_CHECKING:
    import asyncio


class ModelSession:
    """A child that loads a model, for several requests, each of which may come and go meanwhile.

    `is_loaded` is whether it has, `users` how many requests are under way with it. `loaded` takes
    what it says of the model, and raises what speaks against it.
    """

    def __init__(self, child: Child, loaded: Callable[[ModelLoaded], None]) -> None:
        self.child = child
        self.is_loaded = False
        self.users = 0
        self._note_loaded = loaded
        self._fraction = -1.0
        self._error: BatonError | None = None
        self._receiving: asyncio.Lock | None = None
        self._unused: asyncio.Event | None = None
        self._adapters: Counter[str] = Counter()

    def enter(self, adapter: str) -> None:
        """Take a request, which puts on that adapter ("": none)."""
        import asyncio

        self._unused = self._unused or asyncio.Event()
        self._unused.clear()
        self.users += 1
        self._adapters[adapter] += 1

    def leave(self, adapter: str) -> None:
        """Let a request go; over a death it stays known which adapters were on."""
        self.users -= 1
        if not self.child.ended:
            self._adapters[adapter] -= 1
        if self._unused is not None and not self.users:
            self._unused.set()

    async def wait_until_unused(self) -> None:
        """Wait until no request is under way."""
        if self._unused is not None and self.users:
            await self._unused.wait()

    @property
    def suspects(self) -> list[str]:
        """What the child may have died of: the adapters that were on, else nothing in particular.

        While it loads none is on.
        """
        on = [adapter for adapter, count in self._adapters.items() if adapter and count > 0]
        return on if self.is_loaded else []

    async def wait_until_loaded(self) -> AsyncGenerator[Loading]:
        """Yield progress until the model is loaded; those who wait share what the child says of it.

        Raises ChildDied, and what a failure stands for, which is the same for all of them.
        """
        import asyncio

        self._receiving = self._receiving or asyncio.Lock()
        shown = -1.0
        while not self.is_loaded:
            async with self._receiving:
                if self._fraction == shown:
                    await self._receive()
            if self._fraction != shown:
                shown = self._fraction
                yield Loading(shown)

    async def _receive(self) -> None:
        """Take what the child says next of its loading, unless another request just did."""
        if self._error is not None:
            raise self._error
        if self.is_loaded:
            return
        message = await self.child.receive()
        try:
            self._take(message)
        except BatonError as error:
            self._error = error
            raise

    def _take(self, message: Message) -> None:
        match message:
            case ModelLoading(fraction=fraction):
                self._fraction = min(max(fraction, 0.0), 1.0)
            case ModelLoaded() as loaded:
                self._note_loaded(loaded)
                self.is_loaded = True
            case Failed() as failed:
                raise error_of(failed)
            case _:
                raise self.child.reject()
