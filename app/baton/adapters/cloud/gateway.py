"""The front's end of the gateway: one child for all workers elsewhere, many calls at once."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from baton.children import framing
from baton.children.process import Child, Died, environment
from baton.domain.chat import Card
from baton.domain.errors import BatonError, WorkerError, WorkerUnavailable

Record = Callable[[str, str, bytes], Awaitable[None]]
"""Keeps what a call sends, before it does: the call's id, the destination, exactly these bytes."""

GRACE_SECONDS = 1.5
"""How long the child may take to stop a call before it is killed."""

NEEDED = frozenset(
    {
        "APPDATA",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "KDE_FULL_SESSION",
        "LOCALAPPDATA",
        "LOGNAME",
        "PYTHON_KEYRING_BACKEND",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "USER",
        "USERPROFILE",
        "WAYLAND_DISPLAY",
        "XDG_CONFIG_HOME",
        "XDG_CURRENT_DESKTOP",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
    }
)
"""What keyrings and certificates need of the environment."""

PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")

ENDS = ("done", "stopped", "failed")
"""The frames that end a call."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How many seconds to wait: for a connection, for the first word, and between words.

    `first` is for models that think little; one that is told to think, or that runs on somebody's
    own machine and may first have to be loaded and read a long prompt, gets `first_of_slow`.
    """

    connect: float = 10.0
    first: float = 120.0
    first_of_slow: float = 600.0
    stall: float = 60.0


class Gateway:
    """Starts the child when it is first needed, and once more after it died.

    `record` writes the egress log. Setting `offline` ends the child at once; while it is set, the
    child is started only for workers on this machine, and refuses every other address. Variables
    with keys that no worker named are not passed on to it.
    """

    def __init__(
        self,
        record: Record,
        *,
        keys_file: Path,
        proxy: str = "",
        effort: str = "low",
        offline: bool = False,
        patience: Patience = Patience(),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.record = record
        self.effort = effort
        self.patience = patience
        self._keys_file = keys_file.absolute()
        self._proxy = proxy
        self._offline = offline
        self._environ = environ
        self._variables: set[str] = set()
        self._child: Child | None = None
        self._lines: dict[int, Line] = {}
        self._numbers = itertools.count(1)
        self._router: tuple[Child, asyncio.Task[None]] | None = None

    @property
    def offline(self) -> bool:
        """Whether nothing but this machine may be connected to."""
        return self._offline

    @offline.setter
    def offline(self, value: bool) -> None:
        if value != self._offline:
            self._offline = value
            if self._child is not None:
                self._child.kill()

    def may_read(self, *variables: str) -> None:
        """Let the child know these variables of the environment: a worker's key is in one.

        One that runs already, and isn't at work, is started anew for it.
        """
        new = {name for name in variables if name in self._environ} - self._variables
        self._variables |= new
        if new and self._child is not None and not self._lines:
            self._child.kill()

    def warm(self, card: Card | None = None) -> None:
        """Start the child, and all that a cloud worker needs in it. Returns at once."""
        if self._offline and (card is None or card.remote):
            return
        with suppress(BatonError):  # the first call meets it again, and tells
            child = self._running()
            if card is None or card.kind == "cloud":
                child.send("warm")

    def open(self, card: Card, **asked: object) -> Line:
        """Begin a call. Raises WorkerError, and FrameError if it is too large."""
        if self._offline and card.remote:
            raise WorkerError(
                f"Baton is offline, and {card.id} is not on this machine.",
                "Choose a local worker, or leave offline.",
            )
        child = self._running()
        number = next(self._numbers)
        child.send("call", id=number, **asked)
        line = self._lines[number] = Line(self, child, number)
        self._route(child)
        return line

    async def aclose(self) -> None:
        """End the child; the gateway may be used again."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            await child.gone()

    def drop(self, number: int) -> None:
        """Forget a call that has ended."""
        self._lines.pop(number, None)

    def _running(self) -> Child:
        if self._child is None or self._child.ended or self._child.killed:
            self._child = self._start()
        return self._child

    def _start(self) -> Child:
        known = environment(self._environ, NEEDED | self._variables)
        try:
            child = Child("gateway", known)
        except OSError as error:
            raise WorkerUnavailable(
                f"The gateway can't be started: {error.strerror}.",
                "Close other programs, then try again.",
            ) from error
        names = [*PROXIES, *map(str.lower, PROXIES)]
        child.send(
            "setup",
            keys_file=str(self._keys_file),
            proxy=self._proxy,
            proxies={name: self._environ[name] for name in names if name in self._environ},
            offline=self._offline,
            connect=self.patience.connect,
            stall=self.patience.stall,
            effort=self.effort,
        )
        return child

    def _route(self, child: Child) -> None:
        """See to it that the child's frames reach their calls, in the loop that runs now."""
        loop = asyncio.get_running_loop()
        if self._router is not None:
            served, task = self._router
            if served is child and not task.done() and task.get_loop() is loop:
                return
        self._router = (child, loop.create_task(self._deliver(child)))

    async def _deliver(self, child: Child) -> None:
        try:
            while True:
                frame = await child.receive()
                if line := self._lines.get(frame.get("id", 0)):
                    line.inbox.put_nowait(frame)
        except Died as death:
            for line in [line for line in self._lines.values() if line.child is child]:
                line.inbox.put_nowait(death)


class Line:
    """One call's way to the child and back."""

    def __init__(self, gateway: Gateway, child: Child, number: int) -> None:
        self.child = child
        self.inbox: asyncio.Queue[framing.Frame | Died] = asyncio.Queue()
        self._gateway = gateway
        self._number = number
        self._ended = False

    async def receive(self) -> framing.Frame:
        """Return the call's next frame. Raises Died."""
        frame = await self.inbox.get()
        if isinstance(frame, Died):
            self._ended = True
            raise frame
        self._ended = frame.get("type") in ENDS
        return frame

    def go(self) -> None:
        """Let what was announced leave."""
        self.child.send("go", id=self._number)

    async def close(self) -> None:
        """Stop the call unless it has ended; a child that can't stop it in time is ended."""
        if not self._ended:
            self.child.send("cancel", id=self._number)
            try:
                async with asyncio.timeout(GRACE_SECONDS):
                    while not self._ended:
                        await self.receive()
            except TimeoutError:
                self.child.kill()
            except Died:
                pass
        self._gateway.drop(self._number)
