"""A child's end of its pipes: frames to and from the front, a sign of life, and a quiet process.

A child never prints to its pipes otherwise, and ends at once when its front does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from baton.ipc import frames

BEAT_SECONDS = 1.0


class Failure(Exception):
    """Something that the front raises as the error of that name; `numbers` are its own."""

    def __init__(self, error: str, message: str, hint: str = "", **numbers: int) -> None:
        super().__init__(message)
        self.fields = {"error": error, "message": message, "hint": hint, **numbers}


class Front:
    """The other end. Each frame that comes from it is given to `receive`, in a thread."""

    def __init__(
        self,
        commands: BinaryIO,
        replies: BinaryIO,
        receive: Callable[[frames.Frame], None],
    ) -> None:
        self._commands = commands
        self._replies = replies
        self._receive = receive
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()

    def send(self, kind: str, **fields: Any) -> None:
        """Send one frame; without a front there is nothing left to do."""
        data = frames.encode({"type": kind, **fields})
        try:
            with self._lock:
                self._replies.write(data)
                self._replies.flush()
        except OSError:
            os._exit(0)

    def _listen(self) -> None:
        """Take frames, also while native code runs; the end of the pipe is the front's end."""
        try:
            while (frame := frames.read(self._commands)) is not None:
                self._receive(frame)
        finally:
            os._exit(0)

    def _beat(self) -> None:
        while True:
            self.send("beat")
            time.sleep(BEAT_SECONDS)


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep the protocol's pipes to ourselves: whatever else prints, prints to stderr."""
    commands, replies = os.dup(0), os.dup(1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return os.fdopen(commands, "rb"), os.fdopen(replies, "wb")


def keep_quiet_and_private() -> None:
    """Own files only, no memory dumps, first to go when memory is short; Ctrl+C is the front's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", "ascii")
