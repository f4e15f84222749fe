"""The front's end of the fetcher: one child for all downloads, ended when nobody needs it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress

from baton.children import framing
from baton.children.process import Child, Died, environment
from baton.domain.errors import WorkerUnavailable

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")

NEEDED = frozenset(
    {
        "HF_ENDPOINT",
        "HF_HOME",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "HF_HUB_DOWNLOAD_TIMEOUT",
        "HF_HUB_OFFLINE",
        "HF_TOKEN",
        "HF_TOKEN_PATH",
        "HUGGING_FACE_HUB_TOKEN",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "USERPROFILE",
        "XDG_CACHE_HOME",
        *_PROXIES,
        *map(str.lower, _PROXIES),
    }
)
"""What hubs, accounts, proxies and certificates need of the environment."""

SILENT = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
"""The hub's client tells nobody anything."""

GRACE_SECONDS = 5.0
"""How long the child may take to let go of a download before it is killed."""

LAST_GRACE_SECONDS = 1.0
"""The same when everything ends."""

ENDS = ("done", "stopped", "failed")
"""The frames that end a line."""


class Fetcher:
    """Starts the child when it is first needed, and anew after it died or had nothing to do.

    `idle` is how many seconds it may have nothing to do.
    """

    def __init__(self, environ: Mapping[str, str], idle: float) -> None:
        self._environ = environ
        self._idle = idle
        self._child: Child | None = None
        self._lines: dict[int, Line] = {}
        self._numbers = itertools.count(1)
        self._delivery: tuple[Child, asyncio.Task[None]] | None = None
        self._rest: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The child's process, where it runs."""
        return None if self._child is None or self._child.ended else self._child.pid

    def open(self, kind: str, **asked: object) -> Line:
        """Ask for something. Raises WorkerUnavailable."""
        if self._rest is not None:
            self._rest.cancel()
        child, number = self._running(), next(self._numbers)
        child.send(kind, id=number, **asked)
        line = self._lines[number] = Line(self, child, number)
        self._deliver(child)
        return line

    def drop(self, number: int) -> None:
        """Forget a line; without any, the child may rest."""
        self._lines.pop(number, None)
        if not self._lines and self._child is not None:
            loop = asyncio.get_running_loop()
            self._rest = loop.call_later(self._idle, self._end_idle)

    async def aclose(self) -> None:
        """Stop everything and end the child; the fetcher may be used again."""
        if self._rest is not None:
            self._rest.cancel()
        child, self._child = self._child, None
        if child is None:
            return
        lines = [line for line in self._lines.values() if line.child is child]
        await _stopped(lines)
        for line in lines:
            line.put({"type": "stopped"})
        child.kill()
        await child.gone()

    def _end_idle(self) -> None:
        if not self._lines and self._child is not None:
            self._child.kill()
            self._child = None

    def _running(self) -> Child:
        if self._child is None or self._child.ended or self._child.killed:
            try:
                self._child = Child("fetcher", {**environment(self._environ, NEEDED), **SILENT})
            except OSError as error:
                raise WorkerUnavailable(
                    f"What fetches models can't be started: {error.strerror}.",
                    "Close other programs, then try again.",
                ) from error
        return self._child

    def _deliver(self, child: Child) -> None:
        """See to it that the child's frames reach their lines, in the loop that runs now."""
        loop = asyncio.get_running_loop()
        if self._delivery is not None:
            served, task = self._delivery
            if served is child and not task.done() and task.get_loop() is loop:
                return
        self._delivery = (child, loop.create_task(self._hand_out(child)))

    async def _hand_out(self, child: Child) -> None:
        try:
            while True:
                frame = await child.receive()
                number = frame.get("id")
                if type(number) is int and (line := self._lines.get(number)):
                    line.put(frame)
        except Died as death:
            for line in [line for line in self._lines.values() if line.child is child]:
                line.put(death)


class Line:
    """One question's way to the child and back. Of progress only the latest is kept."""

    def __init__(self, fetcher: Fetcher, child: Child, number: int) -> None:
        self.child = child
        self.ended = asyncio.Event()
        self._fetcher = fetcher
        self._number = number
        self._end: framing.Frame | Died | None = None
        self._latest: framing.Frame | None = None
        self._news = asyncio.Event()

    def put(self, news: framing.Frame | Died) -> None:
        """Take what the child says, or that it died; after the end nothing counts."""
        if self._end is not None:
            return
        if isinstance(news, Died) or news.get("type") in ENDS:
            self._end = news
            self.ended.set()
        else:
            self._latest = news
        self._news.set()

    async def receive(self) -> framing.Frame:
        """Return the next frame. Raises Died."""
        while True:
            await self._news.wait()
            if self._latest is not None:
                frame, self._latest = self._latest, None
                return frame
            if isinstance(self._end, Died):
                raise self._end
            if self._end is not None:
                return self._end
            self._news.clear()

    def stop(self) -> None:
        """Tell the child that nobody wants it any more."""
        if not self.ended.is_set():
            self.child.send("stop", id=self._number)

    def abandon(self) -> None:
        """Forget it, whatever the child makes of it."""
        self.stop()
        self._fetcher.drop(self._number)

    async def close(self) -> None:
        """Stop it unless it has ended; a child that doesn't let go of it in time is ended."""
        self.stop()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self.ended.wait()
        except TimeoutError:
            self.child.kill()
        finally:
            self._fetcher.drop(self._number)


async def _stopped(lines: Sequence[Line]) -> None:
    """Stop all of these, and wait a little for it."""
    for line in lines:
        line.stop()
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_GRACE_SECONDS):
            for line in lines:
                await line.ended.wait()
