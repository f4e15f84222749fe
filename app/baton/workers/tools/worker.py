"""Workers that compute, and the conductor's request reader.

Expressions are computed here, code is run and requests are marked in a child process. Computing has
a thread of its own: the first sum reads word lists (30 ms of processor time), the first unit
imports pint (0.5 s), and claims may have 500 lines. Beside that thread the app's event loop waited
for 33 ms at most, on two cores with three times as many busy programs; a child process would cost
the same import, its own start, and another import where a plan is checked and then run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TypeVar

from baton.core.errors import WorkerError, WorkerUnavailable
from baton.core.messages import Card, Chunk, Finish, Request, Role, Text, Usage
from baton.core.planning.plan_lines import PlanPart
from baton.core.planning.request_parts import CheckedPart
from baton.core.reading.bare_expressions import ABOUT_BATON
from baton.ipc.messages import Failed, FrameError
from baton.ipc.process import Child, ChildDied, environment, error_of, start_child
from baton.ipc.supervisor import Supervisor
from baton.workers.tools.child.seccomp import describe_sandbox
from baton.workers.tools.messages import (
    REPLIES,
    CodeReply,
    MarkedText,
    MarkReply,
    MarkText,
    RunCode,
)

GRACE_SECONDS = 4.0
"""How long the child may take beyond a call's own limit; then it is ended, and started again."""

MARK_SECONDS = 5.0
"""How long marking a text may take; the first one imports what it needs."""

CODE_SECONDS = 10.0
"""How long code may run."""

_MAX_TRIES = 2
"""Tools have no memory, so a call that died with the child is simply made again, once."""

_Reply = TypeVar("_Reply", CodeReply, MarkReply)


class Toolbox(Supervisor):
    """The tools' child process; a death counts against what it did."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        super().__init__("The tool process")
        self._environ = environ

    async def run_code(self, text: str, seconds: float) -> str:
        """Return what the Python code in a text shows. Raises WorkerError."""
        return (await self._ask(PYTHON.id, RunCode(text, seconds), CodeReply)).text

    async def mark(self, text: str, language: str = "") -> MarkedText:
        """Return a text with its literals marked. Raises WorkerError."""
        return (await self._ask("tool", MarkText(text, language), MarkReply)).marked

    async def _ask(self, cause: str, request: RunCode | MarkText, reply: type[_Reply]) -> _Reply:
        """Return the reply to a request. Raises WorkerError."""
        closings = self.closings
        for left in reversed(range(_MAX_TRIES)):
            try:
                return await self._ask_once(cause, request, reply)
            except ChildDied as death:
                self.living(cause)
                if not left or self.closings != closings:
                    raise WorkerUnavailable(
                        f"The {cause} process failed. {death}", "Try again."
                    ) from death
        raise AssertionError

    async def _ask_once(
        self, cause: str, request: RunCode | MarkText, reply: type[_Reply]
    ) -> _Reply:
        """Return the reply to a request. Raises WorkerError, and ChildDied."""
        child = await self.ready(cause)
        try:
            call = child.call(request)
        except FrameError as error:
            raise WorkerError(f"This is too long for the {cause}.") from error
        seconds = request.seconds if isinstance(request, RunCode) else MARK_SECONDS
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                received = await call.receive()
        except TimeoutError as error:
            child.kill()
            raise WorkerError("It took too long and was stopped.") from error
        finally:
            call.cancel()
        self.forgive(cause)
        if isinstance(received, Failed):
            raise error_of(received)
        if not isinstance(received, reply):
            raise child.reject()
        return received

    def _start(self) -> Child:
        return start_child("tools", environment(self._environ), REPLIES, self._title)


class ToolWorker:
    """One tool; it reads the newest message and nothing else."""

    def __init__(self, card: Card, toolbox: Toolbox, seconds: float = CODE_SECONDS) -> None:
        self.card = card
        self.toolbox = toolbox
        self._seconds = seconds

    def warm(self) -> None:
        """Start the child process where code runs; returns at once."""
        if self.card is PYTHON:
            self.toolbox.start_early()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer the request; see core.ports.Worker."""
        asked = [message.text for message in request.messages if message.role is Role.USER]
        if not asked:
            raise WorkerError(f"Nothing was asked of the {self.card.id}.")
        if self.card is BATON:
            text = asked[-1]  # composed where the workers are known
        elif self.card is PYTHON:
            text = await self.toolbox.run_code(asked[-1], self._seconds)
        else:
            text = await self._compute(asked[-1])
        yield Text(text, 0)
        yield Usage(0, 0, Finish.STOP)

    async def judge_claims(self, claims: Sequence[str]) -> Sequence[str]:
        """Judge sums; see core.ports.ClaimJudge."""

        def judge() -> Sequence[str]:
            from baton.workers.tools.computation.written_expression import judge_line

            return [judge_line(claim) for claim in claims]

        try:
            return await asyncio.to_thread(judge)
        except Exception as error:
            raise WorkerError(f"The {self.card.id} failed on this.") from error

    async def _compute(self, message: str) -> str:
        from baton.workers.tools.computation import CannotCompute, plan_steps

        results: dict[int, MarkedText] = {}
        if texts := plan_steps.results_in_use(message):
            language = await asyncio.to_thread(plan_steps.step_language, message)
            for number, text in texts.items():
                results[number] = await self.toolbox.mark(text, language)
        try:
            return await asyncio.to_thread(plan_steps.compute, self.card.id, message, results)
        except CannotCompute as error:
            raise WorkerError(str(error)) from error
        except Exception as error:
            raise WorkerError(f"The {self.card.id} failed on this.") from error

    async def aclose(self) -> None:
        """End the child process, which all tools share; it is started again when needed."""
        await self.toolbox.aclose()


def sandbox() -> str:
    """Say in a sentence what code would run in here, or "" where none is executed."""
    return describe_sandbox()


def build_tools(
    environ: Mapping[str, str] = os.environ, seconds: float = CODE_SECONDS
) -> Mapping[str, ToolWorker]:
    """Return the tools of this machine by id; there is no `python` where there is no sandbox."""
    toolbox = Toolbox(environ)
    cards = [CALCULATOR, UNITS, CLOCK, BATON, *([PYTHON] if sandbox() else [])]
    return {card.id: ToolWorker(card, toolbox, seconds) for card in cards}


def _card(name: str, title: str, note: str, skills: Mapping[str, float]) -> Card:
    return Card(
        name, "tool", title, note=note, hardware="CPU only", system="", slots=4, skills=skills
    )


CALCULATOR = _card(
    "calculator",
    "Calculator",
    "Computes one written expression exactly. It can't read stories.",
    {"calculation": 5},
)
UNITS = _card("units", "Units", "Converts units, and computes with them, exactly.", {})
CLOCK = _card(
    "clock",
    "Clock",
    "Knows the date and the time in all zones, and counts days.",
    {},
)
BATON = _card(ABOUT_BATON, "Baton", "Says what Baton is and can do.", {})
PYTHON = _card(
    "python",
    "Python",
    "Runs a block of Python code in a sandbox: no files, no network, no processes.",
    {},
)


class RequestReader:
    """Reads requests, which are marked in the tools' process (request_parts.RequestTools)."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    def warm(self) -> None:
        """Start the tools' process."""
        self._toolbox.start_early()

    async def mark(self, request: str) -> str:
        """Return a request with its literals in plain form. Raises WorkerError."""
        return (await self._toolbox.mark(request)).text

    async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
        """Return the parts as subtasks, then what the plan omits. Raises WorkerError."""
        marked = await self._toolbox.mark(request)

        def check() -> Sequence[CheckedPart]:
            from baton.workers.tools.computation.plan_check import check_parts

            return check_parts(marked, parts)

        return await asyncio.to_thread(check)
