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
from baton.routing.router_files import file_stamp, missing_part

if TYPE_CHECKING:
    import asyncio
import asyncio
from collections.abc import Sequence

from baton.core.errors import BatonError, ModelFileError, WorkerError, WorkerUnavailable
from baton.core.routing_types import RatedAnswer, RefitResult
from baton.ipc.supervisor import start
from baton.routing.protocol import decode_learned, encode_rated
from baton.routing.router_files import shipped_folder

BACKOFF_SECONDS = (1.0, 2.0, 4.0)
"""Seconds after each death before the child is started again; until then nobody waits for it."""

MAX_DEATHS = 3
DEATHS_WINDOW_SECONDS = 600.0
"""A child that died so often in that time is left alone until the first of them is so long ago."""

STUCK_SECONDS = 10.0
"""A child that owes an answer for so long is ended, although its heart beats."""

LOADING_SECONDS = 60.0
"""The same for one that is still loading."""

SINGLE_THREAD_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""One core is enough for a small encoder; the others are the workers'."""


@dataclass(frozen=True, slots=True)
class ScorerLimits:
    """How many seconds a question may take: once the child is warm, and while it still loads.

    `idle` is the most for a child that loads while a worker does, for which everybody waits anyway.
    """

    warm: float = 0.1
    cold: float = 0.5
    idle: float = 3.0


DEFAULT_LIMITS = ScorerLimits()
"""Nobody notices the first; the second is mostly spent beside a worker that loads."""


@dataclass(frozen=True, slots=True)
class LoadedRouter:
    """What a child has loaded: on what it runs, and whether the person's own file is in it."""

    provider: str
    learned: bool


class Unanswered(Exception):
    """There is no answer, or none in time. `why` is a sentence, "" where it was only late."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class ScorerProcess(Supervisor):
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
        limits: ScorerLimits = DEFAULT_LIMITS,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__()
        self.is_waiting_anyway: Callable[[], bool] = _is_never_waiting
        self.on_news: Callable[[], None] = _ignore_news
        self.loaded: LoadedRouter | None = None
        self.note = ""
        self._folder = folder
        self._learned = learned
        self._limits = limits
        self._environ = environ
        what, hint = missing_part(folder)
        self._refusal = f"{what} {hint}".strip()
        self._stamp: tuple[int, int] | None = None
        self._since = 0.0  # when it began to load or, once it has, to answer
        self._deaths: list[float] = []
        self._last_death = ""
        self._listener: tuple[Child, asyncio.Task[None]] | None = None

    @property
    def trouble(self) -> str:
        """Why there are no answers for the time being, and what to do; "" where there are."""
        if self._refusal:
            return self._refusal
        if self._recent_deaths() >= MAX_DEATHS:
            return (
                f"The router process failed {MAX_DEATHS} times within ten minutes and is not "
                f"started for now. {self._last_death} `baton doctor` checks it."
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
        self._listen_for_notices(child)
        try:
            answer = await self._wait_for_answer(call, slack)
        except Died as death:
            self._count_death(child, str(death))
            raise Unanswered(self.trouble) from death
        finally:
            call.cancel()
        return _answer_value(answer)

    async def _wait_for_answer(self, call: Call, slack: float) -> frames.Frame:
        """Wait until there is an answer, or until waiting would keep somebody. Raises Died."""

        def came() -> bool:
            return bool(call.frames) or call.child.ended

        began, limits = time.monotonic(), self._limits
        if self.loaded is None:
            await call.until(came, limits.cold * slack)
        while self.loaded is None and not came() and self.is_waiting_anyway():
            if time.monotonic() - began > limits.idle:
                break
            await call.until(came, 0.01)
        if self.loaded is not None:
            await call.until(came, limits.warm * slack)
        if not came():
            raise Unanswered(self.trouble)
        return await call.receive()

    def discard_child(self) -> None:
        """End a child that sent an invalid reply; it counts as a death."""
        if self._child is not None:
            self._child.kill()
            self._count_death(self._child, "It sent an invalid reply.")

    async def aclose(self) -> None:
        """End the child and forgive its deaths; it may be used again."""
        self._deaths.clear()
        self.loaded, self.note = None, ""
        self._refusal = " ".join(filter(None, missing_part(self._folder)))
        await super().aclose()

    # The child

    def running(self) -> Child:
        """Return the child, started if it may be. Raises Unanswered."""
        if self._refusal:
            raise Unanswered(self._refusal)
        if self._child is not None and (self._child.ended or self._is_stuck(self._child)):
            why = "It stopped answering." if not self._child.ended else self._child.why()
            self._child.kill()
            self._count_death(self._child, why)
        if self._child is None:
            self._child = self._start()
        elif file_stamp(self._learned) != self._stamp:
            self._load(self._child)  # `baton learn` wrote it, perhaps in another Baton
        return self._child

    def _start(self) -> Child:
        deaths = self._recent_deaths()
        if deaths >= MAX_DEATHS:
            raise Unanswered(self.trouble)
        if deaths and time.monotonic() - self._deaths[-1] < BACKOFF_SECONDS[deaths - 1]:
            raise Unanswered
        try:
            child = Child("scorer", {**environment(self._environ), **SINGLE_THREAD_ENVIRONMENT})
        except OSError as error:
            raise Unanswered(f"The router can't be started: {error.strerror}.") from error
        self._load(child)
        return child

    def _load(self, child: Child) -> None:
        self.loaded, self._since, self._stamp = None, time.monotonic(), file_stamp(self._learned)
        learned = None if self._stamp is None else str(self._learned)
        child.send("load", folder=str(self._folder), learned=learned, threads=1)

    def _is_stuck(self, child: Child) -> bool:
        now = time.monotonic()
        if self.loaded is None:
            return now - self._since > LOADING_SECONDS
        return any(now - max(call.since, self._since) > STUCK_SECONDS for call in child.calls)

    def _recent_deaths(self) -> int:
        since = time.monotonic() - DEATHS_WINDOW_SECONDS
        self._deaths = [death for death in self._deaths if death > since]
        return len(self._deaths)

    def _count_death(self, child: Child, why: str) -> None:
        """Count a death, once."""
        if self._child is not child:
            return
        self._child, self.loaded = None, None
        self._deaths.append(time.monotonic())
        self._last_death = one_line(why, 200)

    # What it says of itself

    def _listen_for_notices(self, child: Child) -> None:
        """See to it that this is heard, in the loop that runs now."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._listener is not None:
            told, task = self._listener
            if told is child and not task.done() and task.get_loop() is loop:
                return
        self._listener = (child, loop.create_task(self._receive_notices(child)))

    async def _receive_notices(self, child: Child) -> None:
        try:
            while True:
                self._handle_notice(await child.receive())
        except Died as death:
            self._count_death(child, str(death))

    def _handle_notice(self, frame: frames.Frame) -> None:
        match frame:
            case {"type": "loaded", "provider": str(provider), "learned": bool(own), "note": note}:
                self.loaded, self._since = (
                    LoadedRouter(one_line(provider, 40), own),
                    time.monotonic(),
                )
                self.note = one_line(str(note), 300)
                if self.note:
                    self.on_news()
            case {"type": "failed", "id": 0, "message": str(message), "hint": str(hint)}:
                self._give_up(one_line(f"{message} {hint}", 500))

    def _give_up(self, why: str) -> None:
        """Give the child up: what it should load can't be."""
        self._refusal = why
        child, self._child = self._child, None
        if child is not None:
            child.kill()
        self.on_news()


def _is_never_waiting() -> bool:
    """Nothing else is being loaded."""
    return False


def _ignore_news() -> None:
    """Nobody listens."""


def _answer_value(frame: frames.Frame) -> object:
    match frame:
        case {"type": "done", "value": value}:
            return value
        case {"type": "failed", "message": str(message)}:
            raise Unanswered(one_line(message, 300))
    raise Died("It sent an invalid reply.")


LEARNING_SECONDS = 600.0
"""How long refitting may take; it takes seconds."""

MAX_RATED = 20_000
"""Of more labels than this the newest count."""

_RATED_PER_FRAME = 100
"""Labels in one frame, whose size is bounded: a character may take twelve bytes in it."""


async def refit_router(
    rated: Sequence[RatedAnswer],
    target: Path,
    folder: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
) -> RefitResult:
    """Refit the shipped router on labels, and write `target` if that came out better.

    A Baton that runs takes it up with its next prompt. Raises WorkerError or ModelFileError.
    """
    place = shipped_folder() if folder is None else folder
    what, hint = missing_part(place)
    if what:
        raise WorkerUnavailable(what, hint)
    child = start("scorer", {**environment(environ), **SINGLE_THREAD_ENVIRONMENT}, "The router")
    newest = sorted(rated, key=lambda one: one.at)[-MAX_RATED:]
    try:
        async with asyncio.timeout(LEARNING_SECONDS):
            return await _refit_in_child(child, newest, target, place)
    except Died as death:
        what = f"The router process failed while it was learning. {death} Nothing was changed."
        raise WorkerError(what, "Try again, or run `baton doctor`.") from death
    except TimeoutError as error:
        raise WorkerError("Learning took too long and was stopped; nothing was changed.") from error
    finally:
        await child.aclose()


async def _refit_in_child(
    child: Child, rated: Sequence[RatedAnswer], target: Path, folder: Path
) -> RefitResult:
    child.send("load", folder=str(folder), learned=str(target), threads=1)
    for first in range(0, len(rated), _RATED_PER_FRAME):
        child.send("rated", rated=encode_rated(rated[first : first + _RATED_PER_FRAME]))
    child.send("learn", id=1, target=str(target))
    while True:
        match await child.receive():
            case {"type": "loaded"}:
                continue
            case {"type": "done", "id": 1, "value": value}:
                return decode_learned(value)
            case {"type": "failed", "error": str(name), "message": str(text), "hint": str(hint)}:
                raise _error_from_child(name, one_line(text, 500), one_line(hint, 500))
        raise Died("It sent an invalid reply.")


def _error_from_child(name: str, message: str, hint: str) -> BatonError:
    kinds = {"ModelFileError": ModelFileError, "WorkerUnavailable": WorkerUnavailable}
    return kinds.get(name, WorkerError)(message, hint)
