"""The scorer's child process, seen from the front: bounded waits and restarts."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import baton
from baton.core.errors import WorkerUnavailable
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.plan_types import KINDS
from baton.core.sanitiser import one_line
from baton.ipc.messages import Failed, FinalReply, FrameError, Message
from baton.ipc.process import (
    SINGLE_THREAD_VARIABLES,
    Call,
    Child,
    ChildDied,
    ModelOrder,
    environment,
    file_versions,
    start_model,
)
from baton.ipc.supervisor import MAX_DEATHS, Supervisor
from baton.routing.messages import REPLIES, LoadRouter, RouterLoaded

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


class Unanswered(Exception):
    """There is no answer, or none in time: a sentence says why, "" where it was only late."""


class ScorerProcess(Supervisor):
    """The scorer's child process, which is left alone for a while when it keeps dying.

    `provider` is on what it runs once it is ready ("" before), `is_waiting_anyway` says whether
    something slower is being loaded. `trouble` is why there are no answers for the time being, and
    what to do, or ""; `on_trouble` is called when there is one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limits: ScorerLimits = DEFAULT_LIMITS,
        find_borrower: Callable[[], Borrower | None] = lambda: None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__("The router process")
        self.is_waiting_anyway: Callable[[], bool] = lambda: False
        self.on_trouble: Callable[[], object] = lambda: None
        self.provider = ""
        self._folder = folder
        self._limits = limits
        self._environ = environ
        self._find_borrower = find_borrower
        what, hint = missing_part(folder)
        self._refusal = f"{what} {hint}".strip()
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
        if not self.provider:
            await call.until(came, limits.cold * slack)
        while not self.provider and not came() and self.is_waiting_anyway():
            if time.monotonic() - began > limits.idle:
                break
            await call.until(came, 0.01)
        if self.provider:
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
        self.provider = ""
        self._refusal = " ".join(filter(None, missing_part(self._folder)))
        await super().aclose()

    # The child

    def living(self, *causes: str) -> Child | None:
        """Return the child if it lives; one that is stuck is ended, which counts as a death."""
        if self._child is not None and not self._child.ended and self._is_stuck(self._child):
            self._child.kill("It stopped answering.")
        child = super().living(*causes)
        if child is None:
            self.provider = ""
        return child

    def running(self) -> Child:
        """Return the child, started if it may be. Raises Unanswered."""
        if self._refusal:
            raise Unanswered(self._refusal)
        child = self.living()
        if child is None and (self.trouble or self.backoff_left()):
            raise Unanswered(self.trouble)
        try:
            return super().running()
        except WorkerUnavailable as error:
            raise Unanswered(error.message) from error

    def _start(self) -> Child:
        environ = {**environment(self._environ), **SINGLE_THREAD_VARIABLES}
        self.provider, self._since = "", time.monotonic()
        files = [self._folder / name for name in SHIPPED_FILES]
        order = ModelOrder("scorer", environ, LoadRouter(self._folder), file_versions(*files))
        borrower = self._find_borrower()
        child = None if borrower is None else borrower.borrow(order, REPLIES)
        return child or start_model(order, REPLIES, self._title)

    def _is_stuck(self, child: Child) -> bool:
        now = time.monotonic()
        if not self.provider:
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
            case RouterLoaded(provider=provider):
                self.provider = one_line(provider, 40)
                self._since = time.monotonic()
            case Failed(message=text, hint=hint):
                self._give_up(one_line(f"{text} {hint}", 500))

    def _give_up(self, why: str) -> None:
        """Give the child up: what it should load can't be."""
        self._refusal = why
        child, self._child = self._child, None
        if child is not None:
            child.kill()
        self.on_trouble()


# The files of the router


SHIPPED_FILES = ("encoder.onnx", "tokenizer.json")
"""Without these nothing can be scored; the heads have their own names and are looked for later."""

_LIBRARIES = ("numpy", "onnxruntime", "tokenizers")


def shipped_folder() -> Path:
    """Return the folder of the trained router: in the installed package, else in the checkout."""
    package = Path(baton.__file__).resolve().parent
    inside = package / "models" / "router"
    return inside if inside.is_dir() else package.parents[1] / "models" / "router"


def missing_part(folder: Path) -> tuple[str, str]:
    """Say what is plainly missing for the router to run, and what to do; ("", "") if nothing is.

    Nothing is imported or read for that.
    """
    absent = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
    if absent:
        again = "Run `scripts/baton` once with a network, or install Baton with its extra `cpu`."
        return f"The package {absent[0]} isn't installed, which the router needs.", again
    if any(not (folder / name).is_file() for name in SHIPPED_FILES):
        again = "Get it again: `git checkout models/router` in a checkout, else reinstall Baton."
        return f"The trained router isn't in {folder}.", again
    return "", ""


SKILLS_FILE = "skills.json"

_MAX_FILE_BYTES = 4_000_000
"""More bytes than this aren't such a file."""


def read_scores(folder: Path) -> dict[str, dict[str, tuple[float, int]]]:
    """Return by model and task kind how good its answers were, 0 to 1, and on how many.

    Of a file that isn't there, or is broken, what is sound: the sizes of models serve as well.
    """
    file = folder / SKILLS_FILE
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            return {}
        raw = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(raw, dict):
        return {}
    read = ((model, _read_kinds(kinds)) for model, kinds in raw.items())
    return {model: kinds for model, kinds in read if kinds}


def _read_kinds(raw: object) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for kind, pair in raw.items() if isinstance(raw, dict) else ():
        match pair:
            case [int() | float() as mean, int() as count] if kind in KINDS and count > 0:
                if math.isfinite(mean) and 0 <= mean <= 1:
                    found[kind] = (float(mean), count)
    return found
