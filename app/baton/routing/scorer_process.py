"""The front's end of the scorer: it waits for an answer only so long, and never for a child."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baton.core.sanitiser import one_line
from baton.ipc import frames
from baton.ipc.process import Call, Child, Died, environment
from baton.ipc.supervisor import Supervisor
from baton.routing.router_files import lacking, stamp

if TYPE_CHECKING:
    import asyncio

BACKOFF = (1.0, 2.0, 4.0)
"""Seconds after each death before the child is started again; until then nobody waits for it."""

DEATHS = 3
DEATHS_SECONDS = 600.0
"""A child that died so often in that time is left alone until the first of them is so long ago."""

STUCK_SECONDS = 10.0
"""A child that owes an answer for so long is ended, although its heart beats."""

LOADING_SECONDS = 60.0
"""The same for one that is still loading."""

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""One core is enough for a small encoder; the others are the workers'."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many seconds a question may take: once the child is warm, and while it still loads.

    `idle` is the most for a child that loads while a worker does, for which everybody waits anyway.
    """

    warm: float = 0.1
    cold: float = 0.5
    idle: float = 3.0


USUAL = Limits()
"""Nobody notices the first; the second is mostly spent beside a worker that loads."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a child has loaded: on what it runs, and whether the person's own file is in it."""

    provider: str
    learned: bool


class Unanswered(Exception):
    """There is no answer, or none in time. `why` is a sentence, "" where it was only late."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class Scorer(Supervisor):
    """The scorer's child process, which is left alone for a while when it keeps dying.

    `loaded` is what it holds once it is ready, `waits_anyway` tells whether something slower is
    being loaded. `trouble` is why there are no answers for the time being, and `note` what else the
    person must know, each with what to do, or ""; `on_news` hears that there is one of them.
    """

    def __init__(
        self,
        folder: Path,
        learned: Path | None = None,
        *,
        limits: Limits = USUAL,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__()
        self.waits_anyway: Callable[[], bool] = _never
        self.on_news: Callable[[], None] = _nobody
        self.loaded: Loaded | None = None
        self.note = ""
        self._folder = folder
        self._learned = learned
        self._limits = limits
        self._environ = environ
        what, hint = lacking(folder)
        self._refused = f"{what} {hint}".strip()
        self._stamp: tuple[int, int] | None = None
        self._since = 0.0  # when it began to load or, once it has, to answer
        self._deaths: list[float] = []
        self._last_death = ""
        self._news: tuple[Child, asyncio.Task[None]] | None = None

    @property
    def trouble(self) -> str:
        """Why there are no answers for the time being, and what to do; "" where there are."""
        if self._refused:
            return self._refused
        if self._recent_deaths() >= DEATHS:
            return (
                f"The router process failed {DEATHS} times within ten minutes and is not started"
                f" for now. {self._last_death} `baton doctor` checks it."
            )
        return ""

    def warm(self) -> None:
        """Start the child if it may be; also before there is an event loop."""
        with suppress(Unanswered):
            self.running()

    async def ask(self, kind: str, slack: float = 1.0, **fields: object) -> Any:
        """Return the child's answer. Raises Unanswered, also when it doesn't come in time.

        `slack` is how many times as long as a plain question this one may take.
        """
        child = self.running()
        try:
            call = child.call(kind, **fields)
        except frames.FrameError as error:
            raise Unanswered("It is too long for the router.") from error
        self._listen(child)
        try:
            answer = await self._answer(call, slack)
        except Died as death:
            self._mourn(child, str(death))
            raise Unanswered(self.trouble) from death
        finally:
            call.cancel()
        return _value(answer)

    async def _answer(self, call: Call, slack: float) -> frames.Frame:
        """Wait until there is an answer, or until waiting would keep somebody. Raises Died."""

        def came() -> bool:
            return bool(call.frames) or call.child.ended

        began, limits = time.monotonic(), self._limits
        if self.loaded is None:
            await call.until(came, limits.cold * slack)
        while self.loaded is None and not came() and self.waits_anyway():
            if time.monotonic() - began > limits.idle:
                break
            await call.until(came, 0.01)
        if self.loaded is not None:
            await call.until(came, limits.warm * slack)
        if not came():
            raise Unanswered(self.trouble)
        return await call.receive()

    def distrust(self) -> None:
        """End a child that sent an invalid reply; it counts as a death."""
        if self._child is not None:
            self._child.kill()
            self._mourn(self._child, "It sent an invalid reply.")

    async def aclose(self) -> None:
        """End the child and forgive its deaths; it may be used again."""
        self._deaths.clear()
        self.loaded, self.note = None, ""
        self._refused = " ".join(filter(None, lacking(self._folder)))
        await super().aclose()

    # The child

    def running(self) -> Child:
        """Return the child, started if it may be. Raises Unanswered."""
        if self._refused:
            raise Unanswered(self._refused)
        if self._child is not None and (self._child.ended or self._is_stuck(self._child)):
            why = "It stopped answering." if not self._child.ended else self._child.why()
            self._child.kill()
            self._mourn(self._child, why)
        if self._child is None:
            self._child = self._start()
        elif stamp(self._learned) != self._stamp:
            self._load(self._child)  # `baton learn` wrote it, perhaps in another Baton
        return self._child

    def _start(self) -> Child:
        deaths = self._recent_deaths()
        if deaths >= DEATHS:
            raise Unanswered(self.trouble)
        if deaths and time.monotonic() - self._deaths[-1] < BACKOFF[deaths - 1]:
            raise Unanswered
        try:
            child = Child("scorer", {**environment(self._environ), **ONE_THREAD})
        except OSError as error:
            raise Unanswered(f"The router can't be started: {error.strerror}.") from error
        self._load(child)
        return child

    def _load(self, child: Child) -> None:
        self.loaded, self._since, self._stamp = None, time.monotonic(), stamp(self._learned)
        learned = None if self._stamp is None else str(self._learned)
        child.send("load", folder=str(self._folder), learned=learned, threads=1)

    def _is_stuck(self, child: Child) -> bool:
        now = time.monotonic()
        if self.loaded is None:
            return now - self._since > LOADING_SECONDS
        return any(now - max(call.since, self._since) > STUCK_SECONDS for call in child.calls)

    def _recent_deaths(self) -> int:
        since = time.monotonic() - DEATHS_SECONDS
        self._deaths = [death for death in self._deaths if death > since]
        return len(self._deaths)

    def _mourn(self, child: Child, why: str) -> None:
        """Count a death, once."""
        if self._child is not child:
            return
        self._child, self.loaded = None, None
        self._deaths.append(time.monotonic())
        self._last_death = one_line(why, 200)

    # What it says of itself

    def _listen(self, child: Child) -> None:
        """See to it that this is heard, in the loop that runs now."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._news is not None:
            told, task = self._news
            if told is child and not task.done() and task.get_loop() is loop:
                return
        self._news = (child, loop.create_task(self._hear(child)))

    async def _hear(self, child: Child) -> None:
        try:
            while True:
                self._note(await child.receive())
        except Died as death:
            self._mourn(child, str(death))

    def _note(self, frame: frames.Frame) -> None:
        match frame:
            case {"type": "loaded", "provider": str(provider), "learned": bool(own), "note": note}:
                self.loaded, self._since = Loaded(one_line(provider, 40), own), time.monotonic()
                self.note = one_line(str(note), 300)
                if self.note:
                    self.on_news()
            case {"type": "failed", "id": 0, "message": str(message), "hint": str(hint)}:
                self._refuse(one_line(f"{message} {hint}", 500))

    def _refuse(self, why: str) -> None:
        """Give the child up: what it should load can't be."""
        self._refused = why
        child, self._child = self._child, None
        if child is not None:
            child.kill()
        self.on_news()


def _never() -> bool:
    """Nothing else is being loaded."""
    return False


def _nobody() -> None:
    """Nobody listens."""


def _value(frame: frames.Frame) -> object:
    match frame:
        case {"type": "done", "value": value}:
            return value
        case {"type": "failed", "message": str(message)}:
            raise Unanswered(one_line(message, 300))
    raise Died("It sent an invalid reply.")
