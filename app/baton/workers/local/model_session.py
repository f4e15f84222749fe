"""One life of a model process: how its loading went, and the requests that it has open."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from baton.core.errors import BatonError
from baton.core.messages import Loading, estimated_tokens
from baton.ipc.messages import Failed, Message
from baton.ipc.process import Call, Child, error_of
from baton.workers.local.messages import AnswerPrompt, ModelLoaded, ModelLoading

if TYPE_CHECKING:
    import asyncio


class ModelRequest(NamedTuple):
    """A request to a model, and the name of the worker that makes it."""

    worker: str
    prompt: AnswerPrompt

    @property
    def adapter(self) -> str:
        """The path of the adapter that it puts on the model, "" if none."""
        return str(self.prompt.adapter or "")

    @property
    def mark(self) -> str:
        """A hash of all that a client asks: the same when it is repeated."""
        import hashlib

        prompt = msgspec.structs.replace(self.prompt, id=0, only_counts=False)
        return hashlib.sha256(repr(prompt).encode()).hexdigest()

    @property
    def about_tokens(self) -> int:
        """About how many tokens its texts have."""
        texts = [*(message["content"] for message in self.prompt.messages), self.prompt.grammar]
        return sum(estimated_tokens(text or "") for text in texts)


class ModelSession:
    """A child that loads a model, for several requests, each of which may come and go meanwhile.

    `is_loaded` is whether it has, `on_gpu` whether a GPU may have a part in it, for all that is
    known yet, `users` how many requests are under way with it. `loaded` takes
    what it says of the model, and raises what speaks against it. A model that `is_doubted`, because
    it died of a request, has to answer a word before it counts as loaded.
    """

    def __init__(
        self, child: Child, loaded: Callable[[ModelLoaded], None], is_doubted: bool = False
    ) -> None:
        self.child = child
        self.is_loaded = False
        self.on_gpu = True
        self.users = 0
        self._note_loaded = loaded
        self._fraction = -1.0
        self._error: BatonError | None = None
        self._receiving: asyncio.Lock | None = None
        self._unused: asyncio.Event | None = None
        self._is_doubted = is_doubted
        self._trial: Call | None = None
        self._requests: dict[Call, ModelRequest] = {}

    def enter(self) -> None:
        """Take a request."""
        import asyncio

        self._unused = self._unused or asyncio.Event()
        self._unused.clear()
        self.users += 1

    def call(self, request: ModelRequest) -> Call:
        """Have the child answer a request. Raises FrameError, or ChildDied."""
        if self.child.ended:
            raise self.child.death()
        call = self.child.call(request.prompt)
        self._requests[call] = request
        return call

    def leave(self) -> None:
        """Let a request go; over a death it stays known which ones were being answered."""
        self.users -= 1
        self._requests = {call: one for call, one in self._requests.items() if not call.ended}
        if self._unused is not None and not self.users:
            self._unused.set()

    async def wait_until_unused(self) -> None:
        """Wait until no request is under way."""
        if self._unused is not None and self.users:
            await self._unused.wait()

    @cached_property
    def suspects(self) -> frozenset[str]:
        """What the child has died of: the requests that were being answered, and their adapters.

        While it loads there is nothing in particular.
        """
        found = [one for call, one in self._requests.items() if self.is_loaded and not call.ended]
        return frozenset({one.mark for one in found} | {one.adapter for one in found} - {""})

    def cause_of_death(
        self, request: ModelRequest, is_alone: bool
    ) -> Literal["model", "others", "maybe", "request"]:
        """Return whether the child has died of the model, of other requests, or of this one.

        A child that others borrow as well may have died of theirs, unless this one `is_alone`.
        """
        if not self.is_loaded:
            return "model"
        if not any(one is request for one in self._requests.values()):
            return "others"
        is_only_one = self.suspects <= {request.mark, request.adapter}
        is_sure = self.child.has_failed and (is_alone or not self.child.is_borrowed)
        return "request" if is_only_one and is_sure else "maybe"

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
        if self._trial is None:
            message = await self.child.receive()
            try:
                self._take(message)
            except BatonError as error:
                self._error = error
                raise
        if self._trial is not None:
            while not self._trial.ended:
                await self._trial.receive()
            self.is_loaded = True

    def _take(self, message: Message) -> None:
        match message:
            case ModelLoading(fraction=fraction, on_gpu=on_gpu):
                self.on_gpu = on_gpu
                self._fraction = min(max(fraction, 0.0), 1.0)
            case ModelLoaded() as loaded:
                self._note_loaded(loaded)
                self.is_loaded = not self._is_doubted
                if self._is_doubted:
                    hello = [{"role": "user", "content": "Hello"}]
                    self._trial = self.child.call(AnswerPrompt(hello, 1, 1))
            case Failed() as failed:
                raise error_of(failed)
            case _:
                raise self.child.reject()
