"""The front's end of a child process: starting it, talking with it, and telling why it died.

Light to import and free of asyncio until a frame is awaited, so that a child can be started before
the front has imported the rest of itself.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import BinaryIO, cast

from baton.ipc import frames
from baton.platform.secrets import plain_environ

DEFAULTS = {
    # Threads that wait for each other spin shortly, then sleep. By default they spin so long that
    # one other busy program on the machine makes a model ten times slower.
    "GOMP_SPINCOUNT": "1000",
    "GGML_NO_BACKTRACE": "1",  # else a failed assertion starts a debugger
    # Else ONNX Runtime, as soon as it is imported, gives the person a number in ~/.cache/Microsoft
    # and keeps there what it would report.
    "ORT_DISABLE_TELEMETRY": "1",
}
"""What a child finds in its environment unless the person set it otherwise."""

SILENT_SECONDS = 10
"""How long a child may show no sign of life; it beats each second, even inside native code."""

STARTING_SECONDS = 60
"""The same before the first one: a cold disk and a busy machine make Python slow to start."""

MOST_WAITING = 10_000
"""How many frames may wait to be received, from a child gone mad."""

LAST_WORDS = 4096
"""How much of a child's stderr is kept, in bytes."""

ENDS = ("done", "stopped", "failed")
"""The frames that end a call."""


def command(name: str) -> list[str]:
    """Return the command that starts the child of that name, from a checkout or frozen.

    What this process ignores of the environment (PYTHONPATH), its children ignore as well.
    """
    if getattr(sys, "frozen", False):
        return [sys.executable, "--child", name]
    isolation = "-I" if sys.flags.isolated else "-P"
    return [sys.executable, isolation, "-m", "baton.ipc.child_entry", name]


def environment(
    environ: Mapping[str, str] = os.environ, also: Collection[str] = ()
) -> dict[str, str]:
    """Return what a child may know of the environment; `also` names what only this one needs."""
    return {**DEFAULTS, **plain_environ(environ, also)}


class Mailbox:
    """Frames from a child, in their order, until they are received.

    The thread that reads the pipe puts them in; coroutines of any loop may wait for them.
    """

    def __init__(self, child: Child) -> None:
        self.child = child
        self.frames: deque[frames.Frame] = deque()
        self._waiting: set[Callable[[], object]] = set()

    def put(self, frame: frames.Frame) -> None:
        """Take a frame; of progress only the newest is kept. Raises FrameError for too many."""
        if frame.get("type") == "progress":
            with suppress(IndexError):  # whoever receives may be quicker, or wait until the wake
                if (last := self.frames.pop()).get("type") != "progress":
                    self.frames.append(last)
        if len(self.frames) >= MOST_WAITING:
            raise frames.FrameError("it sends more than anyone receives")
        self.frames.append(frame)
        self.wake()

    def wake(self) -> None:
        """Have those who wait look again."""
        for wake in tuple(self._waiting):
            with suppress(RuntimeError):  # the loop that waited may be closed
                wake()

    async def receive(self) -> frames.Frame:
        """Return the next frame. Raises Died, also for a child that fell silent."""
        child = self.child
        signs, silent = child.signs_of_life, 0
        while True:
            ended = child.ended  # asked before the frames, of which the last may come just now
            with suppress(IndexError):
                return self.frames.popleft()
            if ended:
                raise Died(child.why())
            if not await self.until(lambda: self.frames or child.ended, 1.0):
                # Counted in seconds that we were awake: a suspended machine is no death.
                silent = silent + 1 if signs == child.signs_of_life else 0
                signs = child.signs_of_life
                if silent >= (SILENT_SECONDS if signs else STARTING_SECONDS):
                    child.kill()
                    raise Died("It stopped answering.")

    async def until(self, ready: Callable[[], object], seconds: float | None = None) -> bool:
        """Wait for what a frame or the child's end brings about; False if that takes longer."""
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
    """Something asked of a child, and the way back for what it answers, the last of `ENDS`.

    `id` is in every frame of it, `since` is when it began, on the monotonic clock. `ended` is
    whether the child has said all, received or not. One that nobody receives may simply be left.
    """

    def __init__(self, child: Child, id: int) -> None:
        super().__init__(child)
        self.id = id
        self.since = time.monotonic()
        self.ended = False

    def send(self, kind: str) -> None:
        """Say something more about it."""
        self.child.send(kind, id=self.id)

    def cancel(self) -> None:
        """Tell the child, unless it has ended the call, that nobody wants the answer any more."""
        if not self.ended:
            self.send("cancel")

    async def close(self, grace: float) -> None:
        """Cancel, and wait until the call has ended; a child that lets it last longer is killed.

        One that is still starting is left to it: it finds the cancellation right behind the call.
        """
        self.cancel()
        child = self.child
        if child.signs_of_life and not await self.until(lambda: self.ended or child.ended, grace):
            child.kill()


class Child:
    """A running child process. `inbox` holds the frames that are of no call, until received.

    What waits is a coroutine; all else returns at once and may be called without an event loop.
    """

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        """Start the child. Raises OSError."""
        self._process = subprocess.Popen(
            command(name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            start_new_session=True,  # a Ctrl+C in the terminal is not for it
        )
        self.pid = self._process.pid
        self.ended = False
        self.killed = False
        self.signs_of_life = 0
        self._mailbox = Mailbox(self)
        self.inbox = self._mailbox.frames
        self._calls: dict[int, Call] = {}
        self._asked = 0
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._last_words = b""
        for work in (self._listen, self._speak, self._overhear):
            threading.Thread(target=work, daemon=True).start()

    def send(self, kind: str, **fields: object) -> None:
        """Send a frame; a dead child hears nothing. Raises FrameError if it is too large."""
        self._outbox.put(frames.encode({"type": kind, **fields}))

    def call(self, kind: str, **fields: object) -> Call:
        """Ask for something; many may at once. Raises FrameError if it is too large.

        What comes back with the call's id is for that call alone, and dropped once it has ended.
        """
        number = self._asked + 1
        data = frames.encode({"type": kind, "id": number, **fields})
        call = self._calls[number] = Call(self, number)
        self._asked = number
        self._outbox.put(data)
        return call

    @property
    def calls(self) -> list[Call]:
        """The calls that it has not ended yet."""
        return list(self._calls.values())

    def kill(self) -> None:
        """End the child at once; its process is reaped soon after."""
        self.killed = True
        self._process.kill()

    def receive(self) -> Coroutine[None, None, frames.Frame]:
        """Return the next frame that is of no call. Raises Died, also for one that fell silent."""
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

    def why(self) -> str:
        """Say in a sentence how the child ended."""
        status = self._process.returncode
        if status is None or self.killed:
            return "It was stopped."
        if status < 0:
            name = _signal_name(-status)
            if name == "SIGKILL":
                return "It was killed from outside, perhaps because memory ran out."
            return f"It crashed ({name})."
        words = self._last_words.decode("utf-8", "replace").strip().splitlines()
        return f"It ended (exit code {status}){f': {words[-1]}' if words else ''}."

    @property
    def went_idle(self) -> bool:
        """Whether the child ended of itself, having had nothing to do."""
        return self.ended and self._process.returncode == 0

    @property
    def last_words(self) -> str:
        """The end of what the child wrote to stderr."""
        return self._last_words.decode("utf-8", "replace")

    def _listen(self) -> None:
        """Take frames until the pipe ends, then reap the process."""
        with cast(BinaryIO, self._process.stdout) as replies:
            try:
                while (frame := frames.read(replies)) is not None:
                    self.signs_of_life += 1
                    if frame.get("type") != "beat":
                        self._take(frame)
            except (frames.FrameError, ValueError):
                self._process.kill()
        self._reap()

    def _take(self, frame: frames.Frame) -> None:
        number = frame.get("id")
        if type(number) is not int or not 0 < number <= self._asked:
            self._mailbox.put(frame)
        elif (call := self._calls.get(number)) is not None:
            if frame.get("type") in ENDS:
                call.ended = True
                del self._calls[number]
                self._mailbox.wake()
            call.put(frame)

    def _reap(self) -> None:
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._outbox.put(None)
        self.ended = True
        for mailbox in (self._mailbox, *self.calls):
            mailbox.wake()

    def _speak(self) -> None:
        """Write what is sent: here, because a pipe may be full."""
        commands = cast(BinaryIO, self._process.stdin)
        with suppress(OSError), commands:  # it died, which its stdout tells
            while (data := self._outbox.get()) is not None:
                commands.write(data)
                commands.flush()

    def _overhear(self) -> None:
        """Keep the end of what it prints on stderr."""
        with cast(BinaryIO, self._process.stderr) as prints:
            while data := os.read(prints.fileno(), LAST_WORDS):
                self._last_words = (self._last_words + data)[-LAST_WORDS:]


class Died(Exception):
    """A child ended, or fell silent; the text is a sentence saying how."""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
