"""A child's end of its pipes: messages from and to its parent, a sign of life, a quiet process.

A child never prints to its pipes otherwise, and ends at once when its parent does.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from baton.ipc import messages
from baton.ipc.messages import Beat, Cancel, Failed, Message

BEAT_SECONDS = 1.0


class Failure(Exception):
    """An error that the parent raises by its name; `needed` and `limit` are ContextTooLong's."""

    def __init__(
        self,
        error: str,
        message: str,
        hint: str = "",
        *,
        needed: int = 0,
        limit: int = 0,
        declined: bool = False,
        unsent: bool = False,
        option: str = "",
        value: str = "",
        lasts: bool = True,
    ) -> None:
        super().__init__(message)
        self.failed = Failed(
            error, message, hint, needed, limit, declined, unsent, option, value, lasts
        )

    def reply(self, id: int = 0) -> Failed:
        """Return the message that reports it for a call."""
        self.failed.id = id
        return self.failed


class ParentChannel:
    """A child's connection with its parent.

    Requests wait in their order until they are received; cancellations are known at once. With
    `deliver` it is called with each message instead, in a thread of its own.
    """

    def __init__(
        self,
        commands: BinaryIO,
        replies: BinaryIO,
        requests: Any,
        deliver: Callable[[Any], None] | None = None,
    ) -> None:
        self._commands = commands
        self._replies = replies
        self._decoder = messages.request_decoder(requests)
        self._deliver = deliver or self._keep
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()

    def send(self, message: Message) -> None:
        """Send a message; without a parent the process ends."""
        data = messages.encode(message)
        if isinstance(message, messages.FinalReply):
            self._cancelled.discard(message.id)
        try:
            with self._lock:
                self._replies.write(data)
                self._replies.flush()
        except OSError:
            os._exit(0)

    def receive(self, seconds: float | None = None) -> Any:
        """Return the next request, None if none comes in time."""
        try:
            return self._requests.get(timeout=seconds)
        except queue.Empty:
            return None

    @property
    def has_cancelled(self) -> bool:
        """Whether any answer that was not ended yet isn't needed any more."""
        return bool(self._cancelled)

    def is_cancelled(self, id: int) -> bool:
        """Whether the answer to a call isn't needed any more."""
        return id in self._cancelled

    def _keep(self, message: Message) -> None:
        if isinstance(message, Cancel):
            self._cancelled.add(message.id)
        else:
            self._requests.put(message)

    def _listen(self) -> None:
        """Take messages, also while native code runs; the end of the pipe is the parent's end."""
        status = 1  # an idle child ends with 0, which isn't a crash
        try:
            while True:
                try:
                    message = messages.read(self._commands, self._decoder)
                except messages.UnknownMessage as unknown:
                    what = "The request makes no sense."
                    self.send(Failed("WorkerError", what, id=unknown.call))
                    continue
                if message is None:
                    status = 0
                    return
                self._deliver(message)
        except Exception:
            _print_exception()
        finally:
            os._exit(status)

    def _beat(self) -> None:
        while True:
            self.send(Beat())
            time.sleep(BEAT_SECONDS)


@contextlib.contextmanager
def connect_parent(requests: Any) -> Iterator[ParentChannel]:
    """Yield a child's channel, which takes a union of requests; the process ends with the block."""
    keep_quiet_and_private()
    status = 1
    try:
        yield ParentChannel(*take_pipes(), requests)
        status = 0
    except Exception:
        _print_exception()
    finally:
        os._exit(status)  # past other threads, and past native clean-up, which may wait for a GPU


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep the pipes for messages; what else is printed goes to stderr."""
    commands, replies = os.dup(0), os.dup(1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return os.fdopen(commands, "rb"), os.fdopen(replies, "wb")


def keep_quiet_and_private() -> None:
    """Allow only own files and no memory dumps, be the first to go when memory is short.

    Ctrl+C is for the parent alone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500", "ascii")


def _print_exception() -> None:
    import traceback

    traceback.print_exc()
