"""A model in a child process on this machine, and the requests that take turns with it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from baton.core.errors import BatonError, ModelFileError, WorkerUnavailable
from baton.core.messages import Chunk, Retrying, Text, Usage
from baton.core.sanitiser import one_line
from baton.ipc import frames
from baton.ipc.process import ENDS, Child, Died, environment
from baton.ipc.supervisor import start
from baton.workers.local.model_file import load_for
from baton.workers.local.model_memory import Crowded, Memory, NoRoom
from baton.workers.local.protocol import Unfit, chunk_of, error_of

if TYPE_CHECKING:
    import asyncio

BACKOFF = (1.0, 2.0, 4.0)
"""Seconds before each further try while no text has come."""

DEATHS = 3
DEATHS_SECONDS = 600.0
"""A model that died so often in that time, with no answer in between, is left alone."""

GRACE_SECONDS = 1.5
"""How long a child may take to stop before it is killed; with that, all of it takes below 2 s."""

State = tuple[int, int, int]
"""What shows that a file isn't what it was: its number on the disk, size, and time of change."""


class Facts(NamedTuple):
    """What a child says of the model that it has loaded."""

    context: int
    parameters: int
    hardware: str
    licence: str
    note: str


class Ask(NamedTuple):
    """What a child is to be asked: who asks, and the fields of the frame.

    `closings` is how often the host had been closed by then: it is no longer asked after the next.
    """

    name: str
    fields: Mapping[str, Any]
    closings: int = 0


class Host:
    """Holds one GGUF model, and answers with it, one request at a time.

    The child process is started by the first request (or `warm`), ends when it has been idle for
    `idle_seconds` (0: never), and is started again when it died. `context` is the most that may
    grow to, in tokens; see LocalWorker for the rest.
    """

    def __init__(
        self,
        path: Path,
        memory: Memory,
        context: int,
        *,
        threads: int = 0,
        gpu_layers: int = -1,
        kv: str = "f16",
        force: bool = False,
        idle_seconds: float = 600.0,
        environ: Mapping[str, str] = os.environ,
        ready: Callable[[], Awaitable[None]] | None = None,
        trusted: Callable[[], bool] | None = None,
    ) -> None:
        self.facts: Facts | None = None
        self.force = force
        self.path = path
        self._memory = memory
        self._context = context
        self._threads = threads
        self._gpu_layers = gpu_layers
        self._kv = kv
        self._idle_seconds = idle_seconds
        self._environ = environ
        self._ready = ready
        self._trusted = trusted
        self._slot: asyncio.Lock | None = None
        self._child: Child | None = None
        self._loaded = False
        self._state: State | None = None
        self._bytes = 0
        self._gpu_share = 1.0
        self._ask = 0
        self._is_at_rest = True
        self._closings = 0
        self._deaths: dict[str, list[float]] = {}  # by the adapter over which it died, "" for none

    def warm(self, name: str) -> None:
        """Begin to load the model, unless its file would have to be read first to be trusted."""
        if self._ready is not None and not (self._trusted is not None and self._trusted()):
            return
        with suppress(BatonError):  # the first request meets it again, and tells
            self._running(name)

    async def stream(self, ask: Ask) -> AsyncGenerator[Chunk]:
        """Answer what is asked, when those before it have been; see core.ports.Worker.

        It waits for room beside the models that are answering, and tries again after a crash as
        long as no text has come.
        """
        import asyncio

        self._slot = self._slot or asyncio.Lock()
        ask = ask._replace(closings=self._closings)
        adapter, delays, wrote = str(ask.fields["adapter"]), iter(BACKOFF), False
        try:
            async with self._slot:
                self._refuse_in_quarantine(ask.name, adapter)
                while True:
                    rests = self._memory.rests
                    try:
                        async with aclosing(self._attempt(ask)) as chunks:
                            async for chunk in chunks:
                                wrote = wrote or isinstance(chunk, Text)
                                yield chunk
                        self._deaths.pop("", None)
                        self._deaths.pop(adapter, None)
                        return
                    except Crowded:  # nothing of it is loaded now, so nothing waits for it
                        await self._memory.change(rests)
                    except NoRoom:
                        if not await self._memory.find_gpus():  # asking them takes a child's start
                            raise
                    except Died as death:
                        is_closed = ask.closings != self._closings
                        if not is_closed:
                            self._mourn(adapter)
                        delay = None if wrote or is_closed else next(delays, None)
                        if delay is None:
                            raise _unavailable(ask.name, str(death), wrote, adapter) from death
                        yield Retrying(f"{ask.name} failed. {death}", delay)
                        await asyncio.sleep(delay)
        finally:
            self._memory.freed()

    async def aclose(self) -> None:
        """Unload the model and forgive its deaths; it may be used again."""
        self._closings += 1
        child, self._child = self._child, None
        self._deaths.clear()
        self._gpu_share = 1.0
        if child is not None:
            await child.aclose()
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
    def process(self) -> int | None:
        """The id of the process that holds the model now, None if there is none."""
        return self._child.pid if self._child is not None and not self._child.ended else None

    @property
    def busy(self) -> bool:
        """Whether it is answering."""
        return self._slot is not None and self._slot.locked()

    def unload(self) -> None:
        """Let the model's memory go."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _living(self) -> Child | None:
        """Return the child, if there is one that hasn't ended."""
        if self._child is not None and self._child.ended:
            if not self._child.went_idle:
                self._mourn()
            self._child = None
        elif self._child is not None and self._file_changed():
            self.unload()  # parts of it are still read in place, and would be nonsense now
        return self._child

    def _file_changed(self) -> bool:
        """Tell whether there is another file by now. One that is gone is read to the end."""
        now = _state_of(self.path)
        return now is not None and now != self._state

    def _running(self, name: str) -> Child:
        """Return the child, started if need be."""
        child = self._living()
        if child is None:
            child = self._child = self._start(name)
        return child

    def _start(self, name: str) -> Child:
        self._state = _state_of(self.path)
        load = load_for(self.path, self._context, self._kv)
        self._bytes = max(load.total, self._bytes)
        self._memory.make_room(self, self._bytes, load)
        child = start("runner", environment(self._environ), name)
        self._loaded = False
        child.send(
            "load",
            path=str(self.path),
            context=self._context,
            threads=self._threads,
            gpu_layers=self._gpu_layers,
            gpu_share=self._gpu_share,
            expected=asdict(load),
            idle_seconds=self._idle_seconds or None,
        )
        return child

    async def _attempt(self, ask: Ask) -> AsyncGenerator[Chunk]:
        """Ask once. Raises Died. Whichever way it ends, the child is ready again or gone."""
        if self._ready is not None and self._living() is None:
            await self._ready()
        if ask.closings != self._closings:
            raise Died("It was stopped.")
        child = self._running(ask.name)
        try:
            async with aclosing(self._load(child)) as chunks:
                async for chunk in chunks:
                    yield chunk
            on_cpu = self.facts is not None and self.facts.hardware == "CPU only"
            turn = self._memory.processor.share(self._threads) if on_cpu else nullcontext()
            async with turn, self._asking(child, ask):
                while not self._is_at_rest:
                    answer = self._chunk(await child.receive())
                    self._is_at_rest = isinstance(answer, Usage)
                    if answer is not None:
                        yield answer
        except Unfit:
            raise  # the model itself is well
        except (Died, ModelFileError):
            child.kill()
            raise

    async def _load(self, child: Child) -> AsyncGenerator[Chunk]:
        """Wait until the model is loaded."""
        from baton.core.aio import uninterrupted

        try:
            while not self._loaded:
                chunk = self._chunk(await child.receive())
                if chunk is not None:
                    yield chunk
        finally:
            if not self._loaded:
                await uninterrupted(self._stop(child))

    @asynccontextmanager
    async def _asking(self, child: Child, ask: Ask) -> AsyncGenerator[None]:
        """Ask the child, and have it at rest or gone in the end, whichever way that comes.

        Raises framing.FrameError for too long a text.
        """
        from baton.core.aio import uninterrupted

        self._ask += 1
        self._is_at_rest = True
        try:
            child.send("ask", id=self._ask, **ask.fields)
            self._is_at_rest = False
            yield
        except Unfit:
            self._is_at_rest = True
            raise
        except (Died, ModelFileError):
            child.kill()
            raise
        except BatonError:
            self._is_at_rest = self._loaded  # it refused this request, and is ready for the next
            raise
        finally:
            if not self._is_at_rest:
                await uninterrupted(self._stop(child))

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
        await child.aclose()
        if self._child is child:
            self._child = None

    def _chunk(self, frame: frames.Frame) -> Chunk | None:
        """Read a frame. Raises Died if it makes no sense, else the error it stands for."""
        match frame:
            case {"type": "loaded"}:
                self._note(frame)
                return None
            case {"type": "failed"}:
                raise error_of(frame)
        return chunk_of(frame)

    def _note(self, frame: frames.Frame) -> None:
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
                licence, hardware = one_line(licence, 60), one_line(hardware)
                self.facts = Facts(context, parameters, hardware, licence, note)
            case _:
                raise Died("It sent an invalid reply.")

    def _mourn(self, adapter: str = "") -> None:
        """Count a death, and try with less on the GPU if it died over loading.

        One with an adapter on counts against that: others ask the same model without it.
        """
        over = adapter if self._loaded else ""
        self._deaths.setdefault(over, []).append(time.monotonic())
        self._child = None
        if not self._loaded:
            self._gpu_share = 0.5 if self._gpu_share == 1 else 0.0

    def _refuse_in_quarantine(self, name: str, adapter: str) -> None:
        since = time.monotonic() - DEATHS_SECONDS
        for over in {"", adapter}:
            deaths = [death for death in self._deaths.pop(over, []) if death > since]
            if not deaths:
                continue
            self._deaths[over] = deaths
            if len(deaths) < DEATHS:
                continue
            minutes = max(1, round((deaths[-DEATHS] - since) / 60))
            raise WorkerUnavailable(
                f"{name} failed {len(deaths)} times within ten minutes and is not started for now.",
                f"Choose another worker, try again in {minutes} minutes, or run `baton doctor`.",
            )


def _state_of(path: Path) -> State | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _unavailable(name: str, reason: str, wrote: bool, adapter: str) -> WorkerUnavailable:
    kept = " What it had written is kept." if wrote else ""
    hint = f"Try again, or without the adapter {Path(adapter).name}." if adapter else "Try again."
    return WorkerUnavailable(f"{name} failed. {reason}{kept}", hint)
