"""A worker whose model runs in a child process on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from baton.adapters.local.files import check_gguf
from baton.adapters.local.memory import Crowded, Memory
from baton.children import framing
from baton.children.process import Child, Died, environment
from baton.domain.chat import (
    Card,
    Chunk,
    Finish,
    Loading,
    Reading,
    Request,
    Retrying,
    Text,
    Usage,
    Writing,
    about_tokens,
)
from baton.domain.errors import (
    BatonError,
    ContextTooLong,
    ModelFileError,
    WorkerError,
    WorkerUnavailable,
)
from baton.domain.sanitise import one_line

if TYPE_CHECKING:
    import asyncio

BACKOFF = (1.0, 2.0, 4.0)
"""Seconds before each further try while no text has come."""

DEATHS = 3
DEATHS_SECONDS = 600.0
"""A worker that died so often in that time, with no answer in between, is left alone."""

GRACE_SECONDS = 1.5
"""How long a child may take to stop before it is killed; with that, all of it takes below 2 s."""

ENDS = ("stopped", "done", "failed")
"""The frames after which a child is at rest."""


class LocalWorker:
    """Answers with one GGUF model, one request at a time.

    The child process is started by the first request (or `warm`), ends when it has been idle for
    `idle_seconds` (0: never), and is started again when it died. `card.context` is the most the
    context may grow to, in tokens; `threads` 0 means one per physical core; `gpu_layers` -1 as
    many as fit; `temperature` None what the model file recommends.
    """

    def __init__(
        self,
        card: Card,
        path: Path,
        memory: Memory,
        *,
        threads: int = 0,
        gpu_layers: int = -1,
        temperature: float | None = None,
        idle_seconds: float = 600.0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.card = card
        self._path = path
        self._memory = memory
        self._threads = threads
        self._gpu_layers = gpu_layers
        self._temperature = temperature
        self._idle_seconds = idle_seconds
        self._environ = environ
        self._slot: asyncio.Lock | None = None
        self._child: Child | None = None
        self._loaded = False
        self._bytes = 0
        self._gpu_share = 1.0
        self._ask = 0
        self._deaths: list[float] = []

    def warm(self) -> None:
        """Begin to load the model; also before there is an event loop."""
        with suppress(BatonError):  # the first request meets it again, and tells
            self._running()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer the request; see engine.ports.Worker."""
        import asyncio

        self._slot = self._slot or asyncio.Lock()
        try:
            async with self._slot, aclosing(self._persistently(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self._memory.freed()

    async def _persistently(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer, and try again as long as no text has come."""
        import asyncio

        self._refuse_in_quarantine()
        wrote = False
        for delay in (*BACKOFF, None):
            try:
                async with aclosing(self._with_room(request)) as chunks:
                    async for chunk in chunks:
                        wrote = wrote or isinstance(chunk, Text)
                        yield chunk
                self._deaths.clear()
                return
            except Died as death:
                self._mourn()
                if wrote or delay is None:
                    raise self._unavailable(str(death), wrote) from death
                yield Retrying(f"{self.card.name} fell over. {death}", delay)
                await asyncio.sleep(delay)

    async def _with_room(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer once there is room beside the models that are answering."""
        while True:
            rests = self._memory.rests
            try:
                async with aclosing(self._attempt(request)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except Crowded:  # nothing of it is loaded now, so nobody waits for it meanwhile
                await self._memory.change(rests)

    async def aclose(self) -> None:
        """Unload the model and forgive its deaths; the worker may be used again."""
        child, self._child = self._child, None
        self._deaths.clear()
        self._gpu_share = 1.0
        if child is not None:
            child.kill()
            await child.gone()
        self._memory.freed()

    @property
    def loading(self) -> bool:
        """Whether its model is being read, and nobody has been told yet that it is there."""
        if self._child is None or self._child.ended or self._loaded:
            return False
        return all(frame.get("type") == "loading" for frame in list(self._child.inbox))

    @property
    def resident(self) -> int:
        """Bytes of memory the model may take now."""
        return self._bytes if self._child is not None and not self._child.ended else 0

    @property
    def busy(self) -> bool:
        """Whether it is answering."""
        return self._slot is not None and self._slot.locked()

    def unload(self) -> None:
        """Let the model's memory go."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _running(self) -> Child:
        """Return the child, started if need be."""
        if self._child is not None and self._child.ended:
            if not self._child.went_idle:
                self._mourn()
            self._child = None
        if self._child is None:
            self._child = self._start()
        return self._child

    def _start(self) -> Child:
        self._bytes = max(check_gguf(self._path), self._bytes)
        self._memory.make_room(self, self._bytes)
        try:
            child = Child("runner", environment(self._environ))
        except OSError as error:
            raise WorkerUnavailable(
                f"{self.card.name} can't be started: {error.strerror}.",
                "Close other programs, then try again.",
            ) from error
        self._loaded = False
        child.send(
            "load",
            path=str(self._path),
            context=self.card.context,
            threads=self._threads,
            gpu_layers=self._gpu_layers,
            gpu_share=self._gpu_share,
            idle_seconds=self._idle_seconds or None,
        )
        return child

    async def _attempt(self, request: Request) -> AsyncGenerator[Chunk]:
        """Ask once. Raises Died. Whichever way it ends, the child is ready again or gone."""
        child = self._running()
        try:
            async with aclosing(self._load(child)) as chunks:
                async for chunk in chunks:
                    yield chunk
            on_cpu = self.card.hardware == "CPU only"
            turn = self._memory.processor.share(self._threads) if on_cpu else nullcontext()
            async with turn, aclosing(self._answer(child, request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except (Died, ModelFileError):
            child.kill()
            raise

    async def _load(self, child: Child) -> AsyncGenerator[Chunk]:
        """Wait until the model is loaded."""
        from baton.engine.meter import uninterrupted

        try:
            while not self._loaded:
                chunk = self._chunk(await child.receive())
                if chunk is not None:
                    yield chunk
        finally:
            if not self._loaded:
                await uninterrupted(self._stop(child))

    async def _answer(self, child: Child, request: Request) -> AsyncGenerator[Chunk]:
        """Ask the child, and listen to the end."""
        from baton.engine.meter import uninterrupted

        self._send(child, request)
        at_rest = False
        try:
            while not at_rest:
                chunk = self._chunk(await child.receive())
                at_rest = isinstance(chunk, Usage)
                if chunk is not None:
                    yield chunk
        except (Died, ModelFileError):
            child.kill()
            raise
        except BatonError:
            at_rest = self._loaded  # it refused this request, and is ready for the next
            raise
        finally:
            if not at_rest:
                await uninterrupted(self._stop(child))

    def _send(self, child: Child, request: Request) -> None:
        self._ask += 1
        temperature = request.temperature
        grammar = request.shape.grammar if request.shape else None
        try:
            child.send(
                "ask",
                id=self._ask,
                messages=[{"role": m.role.value, "content": m.text} for m in request.messages],
                max_tokens=request.max_tokens,
                max_output=self.card.max_output,
                temperature=self._temperature if temperature is None else temperature,
                seed=request.seed,
                grammar=grammar,
            )
        except framing.FrameError as error:
            texts = [*(message.text for message in request.messages), grammar or ""]
            needed = sum(map(about_tokens, texts))
            raise ContextTooLong(needed, self.card.context) from error

    async def _stop(self, child: Child) -> None:
        """Make the child stop within the grace time, else end it."""
        import asyncio

        if self._loaded and not child.killed:
            child.send("cancel", id=self._ask)
            with suppress(TimeoutError, Died):
                async with asyncio.timeout(GRACE_SECONDS):
                    while (await child.receive()).get("type") not in ENDS:
                        pass
                    return
        child.kill()
        await child.gone()
        if self._child is child:
            self._child = None

    def _chunk(self, frame: framing.Frame) -> Chunk | None:
        """Read a frame. A child is as trustworthy as its model file: Died if it makes no sense."""
        match frame:
            case {"type": "text", "text": str(text), "tokens": int(tokens)}:
                return Text(text, tokens)
            case {"type": "speed", "tokens_per_second": float(speed)}:
                return Writing(speed)
            case {"type": "reading", "done": int(done), "total": int(total)}:
                return Reading(done, total)
            case {"type": "loading", "fraction": float(fraction)}:
                return Loading(min(max(fraction, 0.0), 1.0))
            case {"type": "loaded"}:
                self._note(frame)
                return None
            case {
                "type": "done",
                "tokens_in": int(tokens_in),
                "tokens_out": int(tokens_out),
                "finish": "stop" | "length" as finish,
                "cached": int(cached),
                "context": int(context),
                "confidence": float() | None as confidence,
            }:
                counted = Usage(tokens_in, tokens_out, Finish(finish), cached, context)
                return replace(counted, confidence=confidence)
            case {"type": "failed"}:
                raise _error(frame)
        raise Died("It answered nonsense.")

    def _note(self, frame: framing.Frame) -> None:
        """Learn from the child what has been loaded. Raises ModelFileError if it is too large."""
        match frame:
            case {
                "parameters": int(parameters),
                "context": int(context),
                "bytes": int(size),
                "hardware": str(hardware),
                "licence": str(licence),
                "note": str(note),
            }:
                self._bytes = size
                self._memory.make_room(self, size)
                self._loaded = True
                known = self.card
                self.card = replace(
                    known,
                    context=context,
                    parameters=parameters,
                    hardware=one_line(hardware),
                    licence=known.licence or one_line(licence, 60),
                    note=known.note if note in known.note else f"{known.note} {note}".strip(),
                )
            case _:
                raise Died("It answered nonsense.")

    def _mourn(self) -> None:
        """Count a death, and try with less on the GPU if it died over loading."""
        self._deaths.append(time.monotonic())
        self._child = None
        if not self._loaded:
            self._gpu_share = 0.5 if self._gpu_share == 1 else 0.0

    def _refuse_in_quarantine(self) -> None:
        since = time.monotonic() - DEATHS_SECONDS
        self._deaths = [death for death in self._deaths if death > since]
        if len(self._deaths) < DEATHS:
            return
        minutes = max(1, round((self._deaths[-DEATHS] - since) / 60))
        raise WorkerUnavailable(
            f"{self.card.name} fell over {len(self._deaths)} times within ten minutes and is left"
            " alone for now.",
            f"Choose another worker, try again in {minutes} minutes, or run `baton doctor`.",
        )

    def _unavailable(self, reason: str, wrote: bool) -> WorkerUnavailable:
        kept = " What it had written is kept." if wrote else ""
        return WorkerUnavailable(f"{self.card.name} fell over. {reason}{kept}", "Try again.")


def _error(frame: framing.Frame) -> BatonError:
    """Turn a child's failure into the error it stands for."""
    match frame:
        case {"error": "ContextTooLong", "needed": int(needed), "limit": int(limit)}:
            return ContextTooLong(needed, limit)
        case {"error": str(name), "message": str(message), "hint": str(hint)}:
            kinds = {"ModelFileError": ModelFileError, "WorkerUnavailable": WorkerUnavailable}
            return kinds.get(name, WorkerError)(one_line(message, 500), one_line(hint, 500))
    return WorkerError("The model failed without saying why.", "Try again.")
