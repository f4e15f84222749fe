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
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import BinaryIO, cast

from baton.children import framing

ALLOWED = frozenset(
    {
        "HIP_VISIBLE_DEVICES",
        "HOME",
        "LANG",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "PATH",
        "PYTHONPATH",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "TMPDIR",
        "XDG_DATA_DIRS",  # where some systems keep their GPUs' drivers
    }
)
ALLOWED_PREFIXES = ("CUDA_", "GGML_", "GOMP_", "OMP_", "VK_")
"""What a child may know of the environment: nothing that could be a secret."""

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

MOST_WAITING = 10_000
"""How many frames may wait to be received, from a child gone mad."""

LAST_WORDS = 4096
"""How much of a child's stderr is kept, in bytes."""


def command(name: str) -> list[str]:
    """Return the command that starts the child of that name, from a checkout or frozen."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "--child", name]
    return [sys.executable, "-P", "-m", f"baton.children.{name}"]


def environment(
    environ: Mapping[str, str] = os.environ, also: Collection[str] = ()
) -> dict[str, str]:
    """Return what a child may know of the environment; `also` names what only this one needs."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in ALLOWED or name in also or name.startswith(ALLOWED_PREFIXES)
    }
    return {**DEFAULTS, **kept}


class Child:
    """A running child process. `inbox` holds its frames until they are received.

    Every method but `receive` returns at once and may be called without an event loop.
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
        self.inbox: deque[framing.Frame] = deque()
        self._signs_of_life = 0
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._last_words = b""
        self._notify: Callable[[], object] = lambda: None
        for work in (self._listen, self._speak, self._overhear):
            threading.Thread(target=work, daemon=True).start()

    def send(self, kind: str, **fields: object) -> None:
        """Send a frame; a dead child hears nothing. Raises FrameError if it is too large."""
        self._outbox.put(framing.encode({"type": kind, **fields}))

    def kill(self) -> None:
        """End the child at once; its process is reaped soon after."""
        self.killed = True
        self._process.kill()

    async def receive(self) -> framing.Frame:
        """Return the next frame. Raises Died, also for a child that fell silent."""
        signs, silent = self._signs_of_life, 0
        while not self.inbox:
            if self.ended:
                raise Died(self.why())
            if not await self._something(1.0):
                # Counted in seconds that we were awake: a suspended machine is no death.
                silent = silent + 1 if signs == self._signs_of_life else 0
                signs = self._signs_of_life
                if silent >= SILENT_SECONDS:
                    self.kill()
                    raise Died("It stopped answering.")
        return self.inbox.popleft()

    async def gone(self) -> None:
        """Wait until the child has ended and is reaped."""
        while not self.ended:
            await self._something(1.0)

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

    async def _something(self, seconds: float) -> bool:
        """Wait for a frame or the child's end; False when neither came in time."""
        import asyncio

        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._notify = lambda: loop.call_soon_threadsafe(event.set)
        if self.inbox or self.ended:
            return True
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True

    def _listen(self) -> None:
        """Take frames until the pipe ends, then reap the process."""
        with cast(BinaryIO, self._process.stdout) as replies:
            try:
                while (frame := framing.read(replies)) is not None:
                    self._signs_of_life += 1
                    if frame.get("type") != "beat":
                        self._take(frame)
            except (framing.FrameError, ValueError):
                self._process.kill()
        self._reap()

    def _take(self, frame: framing.Frame) -> None:
        if len(self.inbox) >= MOST_WAITING:
            raise framing.FrameError("it sends more than anyone receives")
        self.inbox.append(frame)
        self._wake()

    def _reap(self) -> None:
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._outbox.put(None)
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop that waited may be closed
            self._notify()

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
