"""The front's end of the scorer: it waits for an answer only so long, and never for a child."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baton.adapters.router.files import lacking, stamp
from baton.children import framing
from baton.children.process import Child, Died, environment
from baton.domain.sanitise import one_line

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


class Scorer:
    """The scorer's child process: started when first needed, and again when it died.

    `loaded` is what it holds once it is ready, `waits_anyway` tells whether something slower is
    being loaded. `trouble` is why there are no answers for the time being, and `note` what else the
    person must know, each with what to do, or ""; `on_news` hears that there is one of them while
    nobody asks.
    """

    def __init__(
        self,
        folder: Path,
        learned: Path | None = None,
        *,
        limits: Limits = USUAL,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
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
        self._child: Child | None = None
        self._stamp: tuple[int, int] | None = None
        self._started = 0.0
        self._deaths: list[float] = []
        self._last_death = ""
        self._numbers = itertools.count(1)
        self._owed: dict[int, float] = {}
        self._asked: dict[int, tuple[Child, asyncio.Future[framing.Frame]]] = {}
        self._delivery: tuple[Child, asyncio.Task[None]] | None = None

    @property
    def pid(self) -> int | None:
        """The child's process, where it runs."""
        return None if self._child is None or self._child.ended else self._child.pid

    @property
    def trouble(self) -> str:
        """Why there are no answers for the time being, and what to do; "" where there are."""
        if self._refused:
            return self._refused
        if self._recent_deaths() >= DEATHS:
            return (
                f"The router fell over {DEATHS} times within ten minutes and is left alone for now."
                f" {self._last_death} `baton doctor` tries it."
            )
        return ""

    def warm(self) -> None:
        """Start the child if it may be; also before there is an event loop."""
        with suppress(Unanswered):
            self._running()

    async def ask(self, kind: str, slack: float = 1.0, **fields: object) -> Any:
        """Return the child's answer. Raises Unanswered, also when it doesn't come in time.

        `slack` is how many times as long as a plain question this one may take.
        """
        import asyncio

        child, number = self._running(), next(self._numbers)
        answer: asyncio.Future[framing.Frame] = asyncio.get_running_loop().create_future()
        try:
            child.send(kind, id=number, **fields)
        except framing.FrameError as error:
            raise Unanswered("It is too long for the router.") from error
        self._asked[number] = (child, answer)
        self._owed[number] = time.monotonic()
        self._deliver(child)
        try:
            await self._wait(answer, slack)
            if not answer.done():
                raise Unanswered(self.trouble)
            return _value(answer.result())
        except Died as death:
            raise Unanswered(self.trouble) from death
        finally:
            del self._asked[number]
            if not answer.done():
                child.send("cancel", id=number)
            elif not answer.cancelled():
                answer.exception()  # heard, though the one who waited may just have been stopped

    async def _wait(self, answer: asyncio.Future[framing.Frame], slack: float) -> None:
        """Wait until there is an answer, or until waiting would keep somebody."""
        import asyncio

        began, limits = time.monotonic(), self._limits
        if self.loaded is None:
            await asyncio.wait([answer], timeout=limits.cold * slack)
        while self.loaded is None and not answer.done() and self.waits_anyway():
            if time.monotonic() - began > limits.idle:
                return
            await asyncio.wait([answer], timeout=0.01)
        if self.loaded is not None:
            await asyncio.wait([answer], timeout=limits.warm * slack)

    def distrust(self) -> None:
        """End a child that answered nonsense; it counts as a death."""
        if self._child is not None:
            self._child.kill()
            self._mourn(self._child, "It answered nonsense.")

    async def aclose(self) -> None:
        """End the child and forgive its deaths; it may be used again."""
        child, self._child = self._child, None
        self._deaths.clear()
        self.loaded, self.note = None, ""
        self._refused = " ".join(filter(None, lacking(self._folder)))
        if child is not None:
            child.kill()
            await child.gone()

    # The child

    def _running(self) -> Child:
        """Return the child, started if it may be. Raises Unanswered."""
        if self._refused:
            raise Unanswered(self._refused)
        if self._child is not None and (self._child.ended or self._is_stuck()):
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
        self.loaded, self._started, self._stamp = None, time.monotonic(), stamp(self._learned)
        self._owed.clear()
        learned = None if self._stamp is None else str(self._learned)
        child.send("load", folder=str(self._folder), learned=learned, threads=1)

    def _is_stuck(self) -> bool:
        now = time.monotonic()
        if self.loaded is None:
            return now - self._started > LOADING_SECONDS
        return any(now - since > STUCK_SECONDS for since in self._owed.values())

    def _recent_deaths(self) -> int:
        since = time.monotonic() - DEATHS_SECONDS
        self._deaths = [death for death in self._deaths if death > since]
        return len(self._deaths)

    def _mourn(self, child: Child, why: str) -> None:
        """Count a death, once."""
        if self._child is not child:
            return
        self._child, self.loaded = None, None
        self._owed.clear()
        self._deaths.append(time.monotonic())
        self._last_death = one_line(why, 200)

    # Its frames

    def _deliver(self, child: Child) -> None:
        """See to it that the child's frames reach their questions, in the loop that runs now."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._delivery is not None:
            served, task = self._delivery
            if served is child and not task.done() and task.get_loop() is loop:
                return
        self._delivery = (child, loop.create_task(self._listen(child)))

    async def _listen(self, child: Child) -> None:
        """Hand out frames until the child dies."""
        try:
            while True:
                frame = await child.receive()
                if not self._took(frame):
                    self._hand_out(frame)
        except Died as death:
            self._mourn(child, str(death))
            for served, answer in list(self._asked.values()):
                if served is child and not answer.done():
                    answer.set_exception(death)

    def _took(self, frame: framing.Frame) -> bool:
        """Note what a frame says of the child itself."""
        match frame:
            case {"type": "loaded", "provider": str(provider), "learned": bool(own), "note": note}:
                self.loaded = Loaded(one_line(provider, 40), own)
                self.note = one_line(str(note), 300)
                now = time.monotonic()
                self._owed = dict.fromkeys(self._owed, now)
                if self.note and not self._asked:
                    self.on_news()
            case {"type": "failed", "id": 0, "message": str(message), "hint": str(hint)}:
                self._refuse(one_line(f"{message} {hint}", 500))
            case _:
                return False
        return True

    def _refuse(self, why: str) -> None:
        """Give the child up: what it should load can't be."""
        self._refused = why
        child, self._child = self._child, None
        if child is not None:
            child.kill()
        for _, answer in list(self._asked.values()):
            if not answer.done():
                answer.set_exception(Unanswered(why))
        if not self._asked:
            self.on_news()

    def _hand_out(self, frame: framing.Frame) -> None:
        number = frame.get("id")
        if type(number) is not int:
            return
        self._owed.pop(number, None)
        _, answer = self._asked.get(number, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(frame)


def _never() -> bool:
    """Nothing else is being loaded."""
    return False


def _nobody() -> None:
    """Nobody listens."""


def _value(frame: framing.Frame) -> object:
    match frame:
        case {"type": "done", "value": value}:
            return value
        case {"type": "failed", "message": str(message)}:
            raise Unanswered(one_line(message, 300))
    raise Died("It answered nonsense.")
