"""The parent's end of a child process: starts it, exchanges messages, and reports how it ended.

Light to import and free of asyncio until a message is awaited, so that a child can be started
before its parent has imported the rest of itself.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import msgspec

from baton.core.errors import (
    ERROR_CLASSES,
    BatonError,
    ContextTooLong,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sanitiser import one_line
from baton.ipc import messages
from baton.ipc.messages import (
    Beat,
    Cancel,
    Discard,
    Ended,
    Failed,
    FinalReply,
    Message,
    ProgressReply,
)
from baton.ipc.spare_process import start_process
from baton.platform.secrets import plain_environ

DEFAULT_VARIABLES = {
    # Threads that wait for each other spin shortly, then sleep. By default they spin so long that
    # one other busy program on the machine makes a model ten times slower.
    "GOMP_SPINCOUNT": "1000",
    "GGML_NO_BACKTRACE": "1",  # else a failed assertion starts a debugger
    # Else ONNX Runtime, as soon as it is imported, gives the user a number in ~/.cache/Microsoft
    # and keeps there what it would report.
    "ORT_DISABLE_TELEMETRY": "1",
}
"""What a child has in its environment unless the user set it otherwise."""

SINGLE_THREAD_VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""What the router's child has in it too: one core is enough for a small encoder."""

MODEL_FOLDER = "/" if os.name == "posix" else None
"""Where children work that hold a model: they may outlive this process."""

SILENT_SECONDS = 10
"""How long a child may show no sign of life; it beats each second, even inside native code."""

LOADED = "loaded"
"""The type of the message with which each child that can be shared says that it has its model."""

STARTING_SECONDS = 60
"""The same before the first one: a cold disk and a busy machine make Python slow to start."""

MAX_UNRECEIVED = 10_000
"""How many messages of a child may wait to be received."""

MAX_STDERR_BYTES = 4096
"""How much of the end of a child's stderr is kept."""

LAST_WORDS_SECONDS = 0.3
"""How long the end of its stderr is waited for once it is gone: a child of its own may hold it."""

_BUILD_PATH = re.compile(
    r"(?:[A-Za-z]:)?[\w.-]*(?:[/\\][^\n/\\:'\"]*)*[/\\](?=[^\s/\\:]+\.(?:c|cc|cpp|cu|h|hpp|m):\d)"
)
"""Where a native library was built: of no use to the user, and not of this machine."""

_CRASHED = "It crashed"

TOOK_TOO_LONG = "It took too long."
"""How a child has ended that set itself an alarm, and was inside native code when it rang."""

_MAX_ERROR_CHARS = 600

_INVALID_REPLY = "It sent an invalid reply."


class ChildDied(Exception):
    """A child ended, or fell silent; the text is a sentence about how."""


class InvalidReply(ChildDied):
    """A child sent what makes no sense, and was ended for it."""


def error_of(failed: Failed) -> BatonError:
    """Return the error that a child's failure stands for."""
    if failed.error == ContextTooLong.__name__:
        return ContextTooLong(failed.needed, failed.limit)
    message = one_line(failed.message, _MAX_ERROR_CHARS)
    if not message:
        return WorkerError("A child process failed without giving a reason.", "Try again.")
    kind = ERROR_CLASSES.get(failed.error, WorkerError)
    return kind(message, one_line(failed.hint, _MAX_ERROR_CHARS))


def command(name: str) -> list[str]:
    """Return the command that starts the child of that name; see `cli.CHILDREN`."""
    return own_command("--child", name)


def own_command(*words: str) -> list[str]:
    """Return the command that runs one of Baton's own, from a checkout or frozen.

    What this process ignores of the environment (PYTHONPATH), it ignores as well.
    """
    if getattr(sys, "frozen", False):
        return [sys.executable, *words]
    return [sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "baton", *words]


def environment(
    environ: Mapping[str, str] = os.environ, also: Collection[str] = ()
) -> dict[str, str]:
    """Return what a child may know of the environment; `also` names what only this one needs."""
    return {**DEFAULT_VARIABLES, **plain_environ(environ, also)}


class Mailbox:
    """Messages from a child, in their order, until they are received.

    The thread that reads the pipe puts them in; coroutines of any loop may wait for them.
    """

    def __init__(self, child: Child) -> None:
        self.child = child
        self.messages: deque[Any] = deque()
        self._waiting: set[Callable[[], object]] = set()

    def put(self, message: Message) -> None:
        """Take a message; of progress only the newest is kept. Raises FrameError for too many."""
        if isinstance(message, ProgressReply):
            with suppress(IndexError):  # a receiver may be quicker, or wait until the wake
                if not isinstance(last := self.messages.pop(), ProgressReply):
                    self.messages.append(last)
        if len(self.messages) >= MAX_UNRECEIVED:
            raise messages.FrameError("it sends more than is received")
        self.messages.append(message)
        self.wake()

    def wake(self) -> None:
        """Have those who wait look again."""
        for wake in tuple(self._waiting):
            with suppress(RuntimeError):  # the loop that waited may be closed
                wake()

    async def receive(self) -> Any:
        """Return the next message. Raises ChildDied, also for a child that fell silent."""
        child = self.child
        signs, silent = child.signs_of_life, 0
        while True:
            ended = child.ended  # asked before the messages, of which the last may come just now
            with suppress(IndexError):
                return self.messages.popleft()
            if ended:
                raise child.death()
            if not await self.until(lambda: self.messages or child.ended, 1.0):
                # Counted in seconds that we were awake: a suspended machine isn't a hang.
                silent = silent + 1 if signs == child.signs_of_life else 0
                signs = child.signs_of_life
                if silent >= (SILENT_SECONDS if signs else STARTING_SECONDS):
                    child.kill("It stopped answering.")
                    raise child.death()

    async def until(self, ready: Callable[[], object], seconds: float | None = None) -> bool:
        """Wait for what a message or the child's end brings about; False if that takes longer."""
        import asyncio

        loop, event = asyncio.get_running_loop(), asyncio.Event()
        wake = partial(loop.call_soon_threadsafe, event.set)
        self._waiting.add(wake)
        try:
            async with asyncio.timeout(seconds):
                while not ready():
                    await event.wait()
                    event.clear()
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(wake)
        return True


class Call(Mailbox):
    """A request to a child, and the way back for its replies, the last of which is final.

    `id` is in every message of it, `since` is when it began, on the monotonic clock. `ended` is
    whether the final reply is there, received or not. A call may simply be left.
    """

    def __init__(self, child: Child, id: int) -> None:
        super().__init__(child)
        self.id = id
        self.since = time.monotonic()
        self.ended = False

    def send(self, message: Message) -> None:
        """Send a further message of this call."""
        message.id = self.id
        self.child.send(message)

    def cancel(self) -> None:
        """Cancel the call in the child, unless it has ended."""
        if not self.ended:
            self.send(Cancel())

    async def close(self, grace: float) -> None:
        """Cancel, and wait until the call has ended; a child that lets it last longer is killed.

        One that is still starting is left to it: it finds the cancellation right behind the call.
        """
        self.cancel()
        child = self.child
        if child.signs_of_life and not await self.until(lambda: self.ended or child.ended, grace):
            await child.aclose()


class FileVersion(msgspec.Struct, frozen=True):
    """A file as it was: what shows that it has changed."""

    path: Path
    number: int
    size: int
    changed: int


def file_versions(*paths: Path) -> tuple[FileVersion, ...]:
    """Return files as they are now; nothing if one of them isn't there."""
    try:
        found = [(path, path.stat()) for path in paths]
    except OSError:
        return ()
    return tuple(FileVersion(path, s.st_ino, s.st_size, s.st_mtime_ns) for path, s in found)


@frozen_dataclass
class ModelOrder:
    """What a child that holds a model is started with: who wants the same can share it.

    `opening` is the first message to it, `files` are those that it reads; without them it can't be
    shared.
    """

    name: str
    environ: Mapping[str, str]
    opening: Message
    files: tuple[FileVersion, ...]


class Transport(Protocol):
    """The way to a child: pipes to a process of ours, or a connection to a shared one."""

    pid: int
    replies: BinaryIO
    commands: BinaryIO

    def kill(self) -> None:
        """End it at once."""
        ...

    def wait(self) -> None:
        """Wait until it is gone; called once its replies have ended."""
        ...

    @property
    def went_idle(self) -> bool:
        """Whether it ended of itself, having had nothing to do."""
        ...

    def ending(self) -> str:
        """Return how it ended, in a sentence."""
        ...

    @property
    def stderr_end(self) -> str:
        """The end of what it wrote to stderr."""
        ...


class ChildProcess:
    """A process that was started here, and the pipes to it."""

    def __init__(self, name: str, environ: Mapping[str, str], folder: str | None = None) -> None:
        """Start it, in that working folder. Raises OSError."""
        self._process = start_process(command(name), environ, folder)
        self.pid = self._process.pid
        self.commands = cast(BinaryIO, self._process.stdin)
        self.replies = cast(BinaryIO, self._process.stdout)
        self._prints = cast(BinaryIO, self._process.stderr)
        self._stderr_end = b""
        self._reading = threading.Thread(target=self._read_stderr, daemon=True)
        self._reading.start()

    def pipes(self) -> tuple[int, int, int]:
        """Return the descriptors of its stdin, stdout and stderr."""
        return self.commands.fileno(), self.replies.fileno(), self._prints.fileno()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def wait(self) -> None:
        """Reap the process, which has closed its stdout."""
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join(LAST_WORDS_SECONDS)

    @property
    def went_idle(self) -> bool:
        """Whether it ended of itself, having had nothing to do."""
        return self._process.returncode == 0

    def ending(self) -> str:
        """Return how it ended, in a sentence."""
        status = self._process.returncode
        return "It was stopped." if status is None else ending_text(status, self.stderr_end)

    @property
    def stderr_end(self) -> str:
        """The end of what it wrote to stderr, without the paths of who built a library."""
        return without_build_paths(self._stderr_end.decode("utf-8", "replace"))

    def _read_stderr(self) -> None:
        """Keep the end of what it prints on stderr."""
        with self._prints as prints:
            while data := os.read(prints.fileno(), MAX_STDERR_BYTES):
                self._stderr_end = (self._stderr_end + data)[-MAX_STDERR_BYTES:]


class Child:
    """A running child process. `inbox` holds the messages that are of no call, until received.

    Waiting is done in coroutines; all else returns at once and may be called without an event loop.
    One with an `order` can be shared. `notices` holds the newest message of each type that was of
    no call.
    """

    def __init__(self, transport: Transport, replies: Any, order: ModelOrder | None = None) -> None:
        """Exchange messages with a child that sends a union of replies."""
        self.transport = transport
        self.order = order
        self.replies = replies
        self.pid = transport.pid
        self.ended = False
        self.killed = False
        self.signs_of_life = 0
        self.notices: dict[type[Message], Message] = {}
        self._decoder = messages.reply_decoder(replies)
        self._fault = ""
        self._mailbox = Mailbox(self)
        self.inbox = self._mailbox.messages
        self._calls: dict[int, Call] = {}
        self._went_idle = False
        self.last_id = 0
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        for work in (self._listen, self._speak):
            threading.Thread(target=work, daemon=True).start()

    def send(self, message: Message) -> None:
        """Send a message; to a dead child it is lost. Raises FrameError if it is too large."""
        self._outbox.put(messages.encode(message))

    def call(self, request: Message) -> Call:
        """Send a request; many may be open at once. Raises FrameError if it is too large.

        What comes back with the call's id is for that call alone, and dropped once it has ended.
        """
        request.id = self.last_id + 1
        data = messages.encode(request)
        call = self._calls[request.id] = Call(self, request.id)
        self.last_id = request.id
        self._outbox.put(data)
        return call

    @property
    def calls(self) -> list[Call]:
        """The calls that it has not ended yet."""
        return list(self._calls.values())

    def kill(self, fault: str = "") -> None:
        """End the child at once; `fault` is a sentence if that is a failure of the child."""
        if not self.ended:
            self._fault = self._fault or fault
            self.killed = True
            self.transport.kill()

    def unload(self) -> None:
        """End the child at once; a borrowed one as soon as it isn't used by others."""
        if self.is_borrowed and not (self.ended or self.killed):
            self.killed = True
            self.send(Discard())  # the lender then ends the connection
        else:
            self.kill()

    @property
    def can_be_handed_over(self) -> bool:
        """Whether it was started here, holds its model, and has nothing to do."""
        is_own = self.order is not None and not self.is_borrowed
        is_loaded = any(kind.__struct_config__.tag == LOADED for kind in self.notices)
        return is_own and is_loaded and not (self.calls or self.killed or self.ended)

    @property
    def is_borrowed(self) -> bool:
        """Whether it is a child of another process, which others may use as well."""
        return not isinstance(self.transport, ChildProcess)

    def reject(self) -> InvalidReply:
        """End the child for a reply that makes no sense; return what to raise."""
        self.kill(_INVALID_REPLY)
        return InvalidReply(_INVALID_REPLY)

    def receive(self) -> Coroutine[None, None, Any]:
        """Return the next message of no call. Raises ChildDied, also for one that fell silent."""
        return self._mailbox.receive()

    async def at_rest(self, seconds: float) -> bool:
        """Wait until every call has ended, or the child has; False if that takes longer."""
        return await self._mailbox.until(lambda: not self._calls or self.ended, seconds)

    async def aclose(self) -> None:
        """End the child at once, and wait until it is reaped."""
        self.kill()
        await self.gone()

    async def gone(self) -> None:
        """Wait until the child has ended and is reaped."""
        await self._mailbox.until(lambda: self.ended)

    @property
    def has_failed(self) -> bool:
        """Whether the child ended by a failure: not idle, and not because its parent ended it."""
        went_idle = self._went_idle or self.transport.went_idle
        return bool(self._fault) or (self.ended and not self.killed and not went_idle)

    @property
    def has_crashed(self) -> bool:
        """Whether native code ended it: by a signal, and not for want of memory."""
        return self.has_failed and self.why().startswith(_CRASHED)

    def death(self) -> ChildDied:
        """Return what to raise for a child that has ended."""
        kind = InvalidReply if self._fault == _INVALID_REPLY else ChildDied
        return kind(self.why())

    def why(self) -> str:
        """Return how the child ended, in a sentence."""
        if self._fault:
            return self._fault
        return "It was stopped." if self.killed else self.transport.ending()

    @property
    def stderr_end(self) -> str:
        """The end of what the child wrote to stderr."""
        return self.transport.stderr_end

    def _listen(self) -> None:
        """Take messages until the pipe ends, then reap the process.

        A fault of ours here ends the child, so that what waits for it gets an error.
        """
        try:
            with self.transport.replies as replies:
                while (message := messages.read(replies, self._decoder)) is not None:
                    self.signs_of_life += 1
                    if isinstance(message, Beat):
                        continue
                    if isinstance(message, Ended):
                        self._fault = self._fault or one_line(message.why, _MAX_ERROR_CHARS)
                        self._went_idle = not message.why
                    elif not 0 < message.id <= self.last_id:
                        self.notices[type(message)] = message
                        self._mailbox.put(message)
                    elif (call := self._calls.get(message.id)) is not None:
                        if isinstance(message, FinalReply):
                            call.ended = True
                            del self._calls[message.id]
                            self._mailbox.wake()
                        call.put(message)
        except messages.CutFrame:
            pass  # it died within one
        except (messages.FrameError, ValueError):
            self.kill(_INVALID_REPLY)
        except Exception as error:
            self.kill(f"Its replies can't be received ({type(error).__name__}).")
            raise
        finally:
            self._reap()

    def _reap(self) -> None:
        self.transport.wait()
        self._outbox.put(None)
        self.ended = True
        for mailbox in (self._mailbox, *self.calls):
            mailbox.wake()

    def _speak(self) -> None:
        """Write what is sent: here, because a pipe may be full."""
        with (
            suppress(OSError),
            self.transport.commands as commands,
        ):  # the child died, which its stdout shows
            while (data := self._outbox.get()) is not None:
                commands.write(data)
                commands.flush()


def start_child(
    name: str,
    environ: Mapping[str, str],
    replies: Any,
    title: str,
    order: ModelOrder | None = None,
) -> Child:
    """Start a child that has a title for people, and can be shared if it has an order.

    Raises WorkerUnavailable.
    """
    try:
        process = ChildProcess(name, environ, MODEL_FOLDER if order is not None else None)
    except OSError as error:
        raise WorkerUnavailable(
            f"{title} can't be started: {error.strerror}.", "Close other programs, then try again."
        ) from error
    return Child(process, replies, order)


def start_model(order: ModelOrder, replies: Any, title: str) -> Child:
    """Start a child of this process's own that holds a model. Raises WorkerUnavailable."""
    child = start_child(order.name, order.environ, replies, title, order)
    child.send(order.opening)
    return child


def without_build_paths(text: str) -> str:
    """Return what a native library printed without the folders that it was built in."""
    return _BUILD_PATH.sub("", text)


def ending_text(status: int, stderr_end: str) -> str:
    """Return how a process with that exit status ended, in a sentence."""
    if status < 0:
        name = _signal_name(-status)
        if name == "SIGKILL":
            return "It was killed from outside, perhaps because memory ran out."
        if name in ("SIGALRM", "SIGPROF"):
            return TOOK_TOO_LONG
        return f"{_CRASHED} ({name})."
    words = stderr_end.strip().splitlines()
    detail = f": {words[-1].rstrip('.')}" if words else ""
    return f"It ended (exit code {status}){detail}."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
