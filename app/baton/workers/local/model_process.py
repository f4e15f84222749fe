"""A model in a child process on this machine, and the requests that it answers side by side."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from baton.core.errors import (
    AdapterError,
    BatonError,
    ContextTooLong,
    ModelFileError,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.messages import (
    Chunk,
    Finish,
    Reading,
    Retrying,
    Text,
    Thinking,
    Usage,
    Writing,
)
from baton.core.sanitiser import one_line
from baton.gguf.split_files import part_paths
from baton.ipc import supervisor
from baton.ipc.messages import Failed, FrameError, Message
from baton.ipc.process import (
    TOOK_TOO_LONG,
    Call,
    Child,
    ChildDied,
    FileVersion,
    ModelOrder,
    environment,
    error_of,
    file_versions,
    start_model,
)
from baton.ipc.supervisor import Supervisor
from baton.workers.local.messages import (
    MAX_BYTES_PER_TOKEN,
    REPLIES,
    AnswerDone,
    AnswerSpeed,
    AnswerText,
    LoadModel,
    ModelLoaded,
    ModelLoading,
    PromptCounted,
    PromptProgress,
    ThoughtTokens,
)
from baton.workers.local.model_file import check_gguf, estimate_file_load
from baton.workers.local.model_memory import Memory, MemoryOccupied, NotEnoughMemory
from baton.workers.local.model_session import ModelRequest, ModelSession

if TYPE_CHECKING:
    import asyncio

    from baton.gguf.memory_fit import ModelLoad
    from baton.ipc.borrower import Borrower

DEFAULT_SLOTS = 2
"""How many requests a model answers at once unless set otherwise; see docs/lab/performance.md."""

GRACE_SECONDS = 1.5
"""How long a child may take to stop before it is killed; with that, all of it takes below 2 s."""

MAX_REQUEST_DEATHS = 2
"""After so many recent deaths of the child over a request, the same one isn't tried again."""

FORM_SECONDS = 0.2
"""How much later than others of which the child may have died those are tried that ask for a form:
it is more likely one of them, and the others needn't wait for it."""


@frozen_dataclass
class LoadSettings:
    """How a model is loaded.

    `context` is the most that its context may grow to, in tokens, `kv` how that is kept; `threads`
    0 means one per physical core; `gpu_layers` -1 as many as fit. Its process ends when it has been
    idle for `idle_seconds` (0: never). It answers up to `slots` requests at once, which share the
    context.
    """

    context: int
    threads: int = 0
    gpu_layers: int = -1
    kv: str = "f16"
    idle_seconds: float = 600.0
    slots: int = DEFAULT_SLOTS


class ModelProcess(Supervisor):
    """Holds one GGUF model, and answers with it, as many requests at once as it has slots.

    Others wait in their order. The child process is started by the first request (or `warm`), and
    again when it died. With `force` it is loaded however little memory is free. `loaded` is what
    the child said of the model, once it was.

    `ready` is awaited before a request has the model loaded: it raises ModelFileError if the file
    must not be. `warm` can't wait for it, so it loads only what `trusted` says is as it was when
    it was last checked.

    Where `find_borrower` finds a background process that lends it, the child is one of its.

    A death while the model loads counts against the model, a later one against the requests that
    were being answered: a single one has failed, of several each is repeated alone, by a child that
    isn't borrowed. That answers a word of Baton's first, so that a broken model is found out. A
    file of which llama.cpp crashes is broken, unless a GPU had a part in it; it isn't loaded again.
    """

    def __init__(
        self,
        path: Path,
        memory: Memory,
        settings: LoadSettings,
        *,
        force: bool = False,
        ready: Callable[[], Awaitable[None]] | None = None,
        trusted: Callable[[], bool] | None = None,
        find_borrower: Callable[[], Borrower | None] = lambda: None,
    ) -> None:
        super().__init__("The model process")
        self.path = path
        self.settings = settings
        self.force = force
        self.loaded: ModelLoaded | None = None
        self._memory = memory
        self._check_file = ready
        self._is_trusted = trusted
        self._find_borrower = find_borrower
        self._slots: asyncio.Semaphore | None = None
        self._alone: asyncio.Lock | None = None
        self._counting: asyncio.Lock | None = None
        self._is_doubted = False
        self._open_requests = 0
        self._session: ModelSession | None = None
        self._state: tuple[FileVersion, ...] = ()
        self._refusal: tuple[tuple[FileVersion, ...], ModelFileError] | None = None
        self._has_answered = False
        self._bytes = 0
        self._gpu_share = 1.0

    def warm(self) -> None:
        """Begin to load the model, unless its file would have to be read first to be trusted."""
        if self._check_file is not None and not (self._is_trusted and self._is_trusted()):
            return
        with suppress(BatonError):  # the first request meets it again, and reports it
            self.running()

    async def count(self, request: ModelRequest) -> int | None:
        """Return how many tokens a prompt has; None where the model isn't loaded, or can't say."""
        import asyncio

        self._counting = self._counting or asyncio.Lock()
        if self.living() is None or self._session is None or not self._is_loaded:
            return None
        session, call = self._session, None
        session.enter()
        try:
            self._refuse_long_request(request)
            self._refuse_deadly_request(request)
            prompt = msgspec.structs.replace(request.prompt, only_counts=True)
            async with self._counting:  # it keeps those that are answered waiting
                call = session.call(request._replace(prompt=prompt))
                reply = await call.receive()
        except (FrameError, ChildDied, WorkerError):  # the request itself meets it again
            return None
        finally:
            session.leave()
            if call is not None and not call.ended:
                call.cancel()
        return reply.tokens if isinstance(reply, PromptCounted) else None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """Answer a request when those before it have been; see core.ports.Worker.

        It is tried again as long as no text has come, and as soon as there is room beside the
        models that are answering.
        """
        import asyncio

        if request.adapter:
            check_gguf(Path(request.adapter))
        self._alone = self._alone or asyncio.Lock()
        closings = self.closings
        async with self._slot():
            self._refuse_long_request(request)
            self._refuse_request_in_quarantine(request)
            delays = iter(supervisor.BACKOFF_SECONDS)
            wrote = is_alone = False
            session: ModelSession | None = None
            while True:
                releases = self._memory.releases
                try:
                    async with self._alone if is_alone else nullcontext():
                        self._refuse_deadly_request(request)
                        session = await self._ready_session(closings)
                        async with aclosing(self._attempt(request, session, is_alone)) as chunks:
                            async for chunk in chunks:
                                wrote = wrote or isinstance(chunk, Text)
                                yield chunk
                    self._is_doubted, self._has_answered = False, True
                    self.forgive(request.adapter, *([request.mark] if self._deaths else []))
                    return
                except MemoryOccupied:  # none of it is loaded now, so it keeps no room meanwhile
                    await self._memory.wait_for_release(releases)
                except NotEnoughMemory:
                    if not await self._memory.find_gpus():  # asking them takes a child's start
                        raise
                except ChildDied as death:
                    closed = closings != self.closings
                    if not closed:
                        self.living()
                        self._judge_file(session)
                    # A process's last words may be of another's request.
                    reason = "Its process ended." if request.prompt.client else str(death)
                    cause = session.cause_of_death(request, is_alone) if session else "model"
                    is_counted = cause == "model" or is_alone
                    is_formed = bool(request.prompt.grammar or request.prompt.schema)
                    delay = next(delays, None) if is_counted else FORM_SECONDS * is_formed
                    if cause == "request" and not wrote:
                        await self._try_file(session, closings)
                        raise _crashed(request, reason) from death
                    if delay is None or wrote or closed or cause == "request":
                        raise _unavailable(request, reason, wrote) from death
                    yield Retrying(f"{request.worker} failed. {reason}", delay)
                    await asyncio.sleep(delay)
                    is_alone = is_alone or cause == "maybe"

    @asynccontextmanager
    async def _slot(self) -> AsyncGenerator[None]:
        """Hold one of the slots, in the order of those who wait."""
        import asyncio

        self._slots = self._slots or asyncio.Semaphore(self.settings.slots)
        try:
            async with self._slots:
                self._open_requests += 1
                try:
                    yield
                finally:
                    self._open_requests -= 1
        finally:
            self._memory.notify_release()

    def _judge_file(self, session: ModelSession | None) -> None:
        """Raise ModelFileError where a child has just died of the file, which is remembered."""
        if session is None:
            return
        error = None
        if session.child.why() == TOOK_TOO_LONG:
            what = "The model's chat template can't be used: it doesn't end."
            error = ModelFileError(what, "Choose another model.")
        elif not session.is_loaded and not session.on_gpu and session.child.has_crashed:
            what = f"{one_line(self.path.name)} is broken: it crashes llama.cpp."
            error = ModelFileError(what, "Download it again, or choose another model.")
        if error is not None:
            self._refusal = self._state, error
            self.forgive()
            raise error

    async def _try_file(self, died: ModelSession | None, closings: int) -> None:
        """Where a model crashed that never answered, have a new child load it and write a word.

        Raises ModelFileError if that can't.
        """
        if died is None or not died.child.has_crashed or self._has_answered:
            return
        session = await self._ready_session(closings)
        session.enter()
        try:
            async for _ in session.wait_until_loaded():
                pass
        except ChildDied:
            self.living()
            self._judge_file(session)
        finally:
            session.leave()

    async def aclose(self) -> None:
        """Unload the model and forgive its deaths; it may be used again."""
        self._gpu_share = 1.0
        self._refusal = None
        await super().aclose()
        self._memory.notify_release()

    @property
    def is_loading(self) -> bool:
        """Whether the model is being loaded, for all that its child has said until now."""
        if self._child is None or self._child.ended or self._is_loaded:
            return False
        return all(isinstance(message, ModelLoading) for message in list(self._child.inbox))

    @property
    def resident(self) -> int:
        """Bytes of memory the model may take now."""
        return self._bytes if self.pid is not None else 0

    @property
    def busy(self) -> bool:
        """Whether it is answering."""
        return self._open_requests > 0

    @property
    def is_borrowed(self) -> bool:
        """Whether the process that holds the model is the background process's."""
        return self._child is not None and self._child.is_borrowed

    def unload(self) -> None:
        """Let the model's memory go."""
        if self._child is not None:
            self._child.unload()
            self._child = None

    def living(self, *causes: str) -> Child | None:
        """Return the child if it lives, and still has the file that is there now.

        A death while it loads leaves less to the GPU. One after that counts against the requests
        that were being answered, and their adapters: others use the same model without these.
        """
        child, session = self._child, self._session
        if child is not None and session is not None and child.has_failed:
            causes = (*causes, *session.suspects)
            self._is_doubted = self._is_doubted or bool(session.suspects)
        alive = super().living(*causes)
        if child is not None and child.has_failed and not self._is_loaded:
            self._gpu_share = 0.5 if self._gpu_share == 1 else 0.0
        is_used = session is not None and session.users
        if alive is not None and not is_used and self._has_file_changed():
            self.unload()  # parts of it are still read in place, and would be wrong now
        return self._child

    @property
    def _is_loaded(self) -> bool:
        return self._session is not None and self._session.is_loaded

    def _has_file_changed(self) -> bool:
        """Whether there is another file by now. One that is gone is read to the end."""
        now = file_versions(*part_paths(self.path))
        return bool(now) and now != self._state

    def _start(self) -> Child:
        """Borrow a child where one is lent, else start one, once there is room for it."""
        settings = self.settings
        self._state = file_versions(*part_paths(self.path))
        load = estimate_file_load(self.path, settings.context, settings.kv, settings.slots)
        self._bytes = max(load.total, self._bytes)
        opening = LoadModel(
            self.path,
            settings.context,
            settings.threads,
            settings.gpu_layers,
            self._gpu_share,
            load,
            settings.idle_seconds or None,
            settings.slots,
        )
        order = ModelOrder("runner", environment(), opening, self._state)
        if (borrower := self._find_borrower()) is not None and not self._is_doubted:
            self._child = borrower.borrow(order, REPLIES)  # what it has counts as taken
        try:
            self._make_room(load, borrower)
        except BatonError:
            self.unload()
            raise
        child = self._child or start_model(order, REPLIES, self._title)
        self._session = ModelSession(child, self._note_loaded, self._is_doubted)
        return child

    def _make_room(self, load: ModelLoad, borrower: Borrower | None) -> None:
        """Make room for the model. Raises MemoryOccupied or NotEnoughMemory."""
        try:
            self._memory.make_room(self, self._bytes, load)
        except NotEnoughMemory:
            if borrower is None or not borrower.free_memory():
                raise
            self._memory.make_room(self, self._bytes, load)

    async def _attempt(
        self, request: ModelRequest, session: ModelSession, is_alone: bool
    ) -> AsyncGenerator[Chunk]:
        """Answer once, when the model is loaded and no other request is tried alone.

        Raises ChildDied. However it ends, the child has no work for it any more, or is gone.
        """
        child, call = session.child, None
        session.enter()
        try:
            async with aclosing(session.wait_until_loaded()) as progress:
                async for chunk in progress:
                    yield chunk
            on_cpu = self.loaded is not None and self.loaded.hardware == "CPU only"
            hold = self._memory.cpu.hold(self, self.settings.threads)
            async with hold if on_cpu else nullcontext():
                if is_alone:
                    await child.at_rest(math.inf)
                elif self._alone is not None and self._alone.locked():
                    async with self._alone:
                        pass
                call = session.call(request)
                while not call.ended or call.messages:
                    yield _chunk_of(await call.receive(), child)
        except FrameError as error:
            limit = self.loaded.context if self.loaded is not None else self.settings.context
            raise ContextTooLong(request.about_tokens, limit) from error
        except AdapterError:
            raise  # the model itself is well
        except ModelFileError:
            child.kill()
            raise
        finally:
            session.leave()
            await _stop(session, call)

    async def _ready_session(self, closings: int) -> ModelSession:
        """Return the child's session, with the file that is there now. Raises ChildDied."""
        while self._session is not None and self._session.users and self._has_file_changed():
            await self._session.wait_until_unused()  # others still read the old one
        if self._check_file is not None and self.living() is None:
            await self._check_file()
        if closings != self.closings:
            raise ChildDied("It was stopped.")
        if self._refusal is not None and self._refusal[0] == file_versions(self.path):
            raise self._refusal[1]
        self.running()
        assert self._session is not None, "there is one for each child"
        return self._session

    def _note_loaded(self, loaded: ModelLoaded) -> None:
        """Note what the child has loaded. Raises ModelFileError if it is too large."""
        self._bytes = loaded.bytes
        self._memory.make_room(self, loaded.bytes)
        hardware, licence = one_line(loaded.hardware), one_line(loaded.licence, 60)
        self.loaded = msgspec.structs.replace(loaded, hardware=hardware, licence=licence)

    def _refuse_request_in_quarantine(self, request: ModelRequest) -> None:
        for cause in {"", request.adapter}:
            advice = "Choose another worker, run `baton doctor`"
            self.refuse_in_quarantine(request.worker, cause, advice)

    def _refuse_long_request(self, request: ModelRequest) -> None:
        """Refuse a prompt that the child would refuse unread, before it is copied."""
        chars = sum(len(message["content"]) for message in request.prompt.messages)
        limit = self.settings.context
        if not request.adapter and chars > limit * MAX_BYTES_PER_TOKEN:
            raise ContextTooLong(chars // 4, limit)

    def _refuse_deadly_request(self, request: ModelRequest) -> None:
        if self._deaths and len(self.recent_deaths(request.mark)) >= MAX_REQUEST_DEATHS:
            raise _crashed(request)


async def _stop(session: ModelSession, call: Call | None) -> None:
    """Have the child stop what it does for a request that has left.

    Where others use it as well, it isn't ended for being slow to stop one.
    """
    from baton.core.aio import uninterrupted

    if not session.is_loaded:
        if not session.users:
            session.child.kill()  # at once, so that no other request gets hold of it
            await uninterrupted(session.child.gone())
    elif call is not None and not call.ended:
        if session.users:
            call.cancel()
        else:
            await uninterrupted(call.close(GRACE_SECONDS))


def _chunk_of(message: Message, child: Child) -> Chunk:
    """Return the part of an answer that a message brings. Raises what a failure stands for."""
    match message:
        case AnswerText(text=text, tokens=tokens):
            return Text(text, tokens)
        case AnswerSpeed(tokens_per_second=speed):
            return Writing(speed)
        case ThoughtTokens(tokens=tokens, tokens_per_second=speed):
            return Thinking(tokens, speed)
        case PromptProgress(done=done, total=total):
            return Reading(done, total)
        case AnswerDone() as end:
            return Usage(
                end.tokens_in,
                end.tokens_out,
                Finish(end.finish),
                end.cached,
                end.context,
                confidence=end.confidence,
                least=end.least,
                first=end.first,
                lines=tuple(end.lines),
                stop=end.stop,
            )
        case Failed() as failed:
            raise error_of(failed)
    raise child.reject()


def _crashed(request: ModelRequest, reason: str = "") -> WorkerError:
    what = f"{request.worker} crashed on this request, so it isn't tried again. {reason}"
    return WorkerError(what.strip(), _hint(request, "Ask otherwise"))


def _unavailable(request: ModelRequest, reason: str, wrote: bool) -> WorkerUnavailable:
    what = f"{request.worker} failed. {reason}{' What it had written is kept.' if wrote else ''}"
    return WorkerUnavailable(what, _hint(request, "Try again"))


def _hint(request: ModelRequest, advice: str) -> str:
    adapter = Path(request.adapter).name
    return f"{advice}, or without the adapter {adapter}." if adapter else f"{advice}."
