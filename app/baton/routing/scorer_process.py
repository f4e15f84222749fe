"""The scorer's child process, seen from the front: bounded waits, restarts, and refits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from baton.core.errors import WorkerError, WorkerUnavailable
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.routing_types import RatedAnswer, RefitResult
from baton.core.sanitiser import one_line
from baton.ipc.messages import Failed, FinalReply, FrameError, Message
from baton.ipc.process import (
    SINGLE_THREAD_VARIABLES,
    Call,
    Child,
    ChildDied,
    ModelOrder,
    environment,
    error_of,
    file_versions,
    start_child,
    start_model,
)
from baton.ipc.supervisor import MAX_DEATHS, Supervisor
from baton.routing.messages import (
    REPLIES,
    AddRated,
    LoadRouter,
    RefitReply,
    RefitRouter,
    RouterLoaded,
)
from baton.routing.protocol import cut_rated
from baton.routing.router_files import SHIPPED_FILES, file_stamp, missing_part, shipped_folder

if TYPE_CHECKING:
    import asyncio

    from baton.ipc.borrower import Borrower

Reply = TypeVar("Reply", bound=FinalReply)

STUCK_SECONDS = 10.0
"""A child that owes an answer for so long is ended, although it sends heartbeats."""

LOADING_SECONDS = 60.0
"""The same for one that is still loading."""


@frozen_dataclass
class ScorerLimits:
    """How many seconds a question may take: once the child is warm, and while it still loads.

    `idle` is the most for a child that loads while a worker does: the prompt waits for it anyway.
    """

    warm: float = 0.1
    cold: float = 0.5
    idle: float = 3.0


DEFAULT_LIMITS = ScorerLimits()
"""The first goes unnoticed; the second is mostly spent beside a worker that loads."""


@frozen_dataclass
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

    `loaded` is what it holds once it is ready, `is_waiting_anyway` says whether something slower is
    being loaded. `trouble` is why there are no answers for the time being, and `note` what else the
    person must know, each with what to do, or ""; `on_news` hears that there is one of them.
    """

    def __init__(
        self,
        folder: Path,
        learned: Path | None = None,
        *,
        limits: ScorerLimits = DEFAULT_LIMITS,
        find_borrower: Callable[[], Borrower | None] = lambda: None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__("The router process")
        self.is_waiting_anyway: Callable[[], bool] = _is_never_waiting
        self.on_news: Callable[[], None] = _ignore_news
        self.loaded: LoadedRouter | None = None
        self.note = ""
        self._folder = folder
        self._learned = learned
        self._limits = limits
        self._environ = environ
        self._find_borrower = find_borrower
        what, hint = missing_part(folder)
        self._refusal = f"{what} {hint}".strip()
        self._stamp: tuple[int, int] | None = None
        self._since = 0.0  # when it began to load or, once it has, to answer
        self._listener: tuple[Child, asyncio.Task[None]] | None = None

    @property
    def trouble(self) -> str:
        """Why there are no answers for the time being, and what to do; "" where there are."""
        if self._refusal:
            return self._refusal
        if len(self.recent_deaths()) >= MAX_DEATHS:
            return (
                f"The router process failed {MAX_DEATHS} times within ten minutes and is not "
                f"started for now. {one_line(self._last_death, 200)} `baton doctor` checks it."
            )
        return ""

    def warm(self) -> None:
        """Start the child if it may be; also before there is an event loop."""
        with suppress(Unanswered):
            self.running()

    async def ask(self, request: Message, kind: type[Reply], slack: float = 1.0) -> Reply:
        """Return the child's answer, of that kind.

        Raises Unanswered, also when it doesn't come in time. `slack` is how many times as long as
        a plain question this one may take.
        """
        child = self.running()
        try:
            call = child.call(request)
        except FrameError as error:
            raise Unanswered("It is too long for the router.") from error
        self._listen_for_notices(child)
        try:
            reply = await self._wait_for_answer(call, slack)
        except ChildDied as death:
            self.living()
            raise Unanswered(self.trouble) from death
        finally:
            call.cancel()
        if isinstance(reply, Failed):
            raise Unanswered(one_line(reply.message, 300))
        if not isinstance(reply, kind):
            raise child.reject()
        return reply

    async def _wait_for_answer(self, call: Call, slack: float) -> Message:
        """Wait until there is an answer, or until waiting would delay the prompt.

        Raises ChildDied.
        """

        def came() -> bool:
            return bool(call.messages) or call.child.ended

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
        reply: Message = await call.receive()
        return reply

    def discard_child(self) -> None:
        """End a child that sent an invalid reply; it counts as a death."""
        if self._child is not None:
            self._child.reject()
        self.living()

    async def aclose(self) -> None:
        """End the child and forgive its deaths; it may be used again."""
        self.loaded, self.note = None, ""
        self._refusal = " ".join(filter(None, missing_part(self._folder)))
        await super().aclose()

    # The child

    def living(self, *causes: str) -> Child | None:
        """Return the child if it lives; one that is stuck is ended, which counts as a death."""
        if self._child is not None and not self._child.ended and self._is_stuck(self._child):
            self._child.kill("It stopped answering.")
        child = super().living(*causes)
        if child is None:
            self.loaded = None
        return child

    def running(self) -> Child:
        """Return the child, started if it may be. Raises Unanswered."""
        if self._refusal:
            raise Unanswered(self._refusal)
        child = self.living()
        if child is None and (self.trouble or self.backoff_left()):
            raise Unanswered(self.trouble)
        if child is not None and file_stamp(self._learned) != self._stamp:
            self._reload(child)  # `baton learn` wrote it, perhaps in another Baton
        try:
            return super().running()
        except WorkerUnavailable as error:
            raise Unanswered(error.message) from error

    def _start(self) -> Child:
        environ = {**environment(self._environ), **SINGLE_THREAD_VARIABLES}
        opening = self._begin_to_load()
        learned = () if opening.learned is None else (opening.learned,)
        files = [self._folder / name for name in SHIPPED_FILES]
        order = ModelOrder("scorer", environ, opening, file_versions(*files, *learned))
        borrower = self._find_borrower()
        child = None if borrower is None else borrower.borrow(order, REPLIES)
        return child or start_model(order, REPLIES, self._title)

    def _reload(self, child: Child) -> None:
        """Have what was learned loaded; others who use the same child go on with what it has."""
        if child.is_borrowed:
            child.kill()
            self._child = None
        else:
            child.order = None  # it isn't what it was started as any more
            child.send(self._begin_to_load())

    def _begin_to_load(self) -> LoadRouter:
        self.loaded, self._since, self._stamp = None, time.monotonic(), file_stamp(self._learned)
        return LoadRouter(self._folder, None if self._stamp is None else self._learned)

    def _is_stuck(self, child: Child) -> bool:
        now = time.monotonic()
        if self.loaded is None:
            return now - self._since > LOADING_SECONDS
        return any(now - max(call.since, self._since) > STUCK_SECONDS for call in child.calls)

    # What it says of itself

    def _listen_for_notices(self, child: Child) -> None:
        """See to it that this is heard, in the loop that runs now."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._listener is not None:
            heard, task = self._listener
            if heard is child and not task.done() and task.get_loop() is loop:
                return
        self._listener = (child, loop.create_task(self._receive_notices(child)))

    async def _receive_notices(self, child: Child) -> None:
        try:
            while True:
                self._handle_notice(await child.receive())
        except ChildDied:
            self.living()

    def _handle_notice(self, message: Message) -> None:
        match message:
            case RouterLoaded(provider=provider, learned=learned, note=note):
                self.loaded = LoadedRouter(one_line(provider, 40), learned)
                self._since = time.monotonic()
                self.note = one_line(note, 300)
                if self.note:
                    self.on_news()
            case Failed(message=text, hint=hint):
                self._give_up(one_line(f"{text} {hint}", 500))

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
    pass


LEARNING_SECONDS = 600.0
"""How long refitting may take; it takes seconds."""

MAX_RATED = 20_000
"""Of more labels than this the newest count."""

_RATED_PER_FRAME = 100
"""Labels in one frame, whose size is bounded: a character may take six bytes in it."""


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
    import asyncio

    place = shipped_folder() if folder is None else folder
    what, hint = missing_part(place)
    if what:
        raise WorkerUnavailable(what, hint)
    environ = {**environment(environ), **SINGLE_THREAD_VARIABLES}
    child = start_child("scorer", environ, REPLIES, "The router process")
    newest = sorted(rated, key=lambda one: one.at)[-MAX_RATED:]
    try:
        async with asyncio.timeout(LEARNING_SECONDS):
            return await _refit_in_child(child, newest, target, place)
    except ChildDied as death:
        what = f"The router process failed while it was learning. {death} Nothing was changed."
        raise WorkerError(what, "Try again, or run `baton doctor`.") from death
    except TimeoutError as error:
        raise WorkerError("Learning took too long and was stopped; nothing was changed.") from error
    finally:
        await child.aclose()


async def _refit_in_child(
    child: Child, rated: Sequence[RatedAnswer], target: Path, folder: Path
) -> RefitResult:
    child.send(LoadRouter(folder, target))
    if isinstance(reply := await child.receive(), Failed):
        raise error_of(reply)
    for first in range(0, len(rated), _RATED_PER_FRAME):
        child.send(AddRated(cut_rated(rated[first : first + _RATED_PER_FRAME])))
    match await child.call(RefitRouter(target)).receive():
        case RefitReply(value=result):
            notes = tuple(one_line(note, 300) for note in result.notes)
            return replace(result, notes=notes)
        case Failed() as failed:
            raise error_of(failed)
    raise child.reject()
