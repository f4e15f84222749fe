"""Workers that compute, and the conductor's request reader: they share one child process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from baton.core.errors import WorkerError, WorkerUnavailable
from baton.core.messages import Card, Chunk, Finish, Request, Role, Text, Usage
from baton.core.plan.plan_lines import TOOL_HEADS, PlanPart
from baton.core.plan.request_parts import CheckedPart
from baton.ipc.messages import Failed, FrameError
from baton.ipc.process import Child, ChildDied, environment, error_of, start_child
from baton.ipc.supervisor import Supervisor
from baton.workers.tools.child.seccomp import describe_sandbox
from baton.workers.tools.messages import REPLIES, RunTool, ToolReply

GRACE_SECONDS = 4.0
"""How long the child may take beyond a call's own limit; then it is ended, and started again."""

QUICK_SECONDS = 5.0
"""The limit of a call that only computes; the first one imports what it needs."""

CODE_SECONDS = 10.0
"""How long code may run."""

_MAX_TRIES = 2
"""Tools have no memory, so a call that died with the child is simply made again, once."""


class Toolbox(Supervisor):
    """The tools' child process; a death counts against the tool that ran."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        super().__init__("The tool process")
        self._environ = environ

    async def compute(self, tool: str, text: str, seconds: float) -> str:
        """Return what a tool makes of a text. Raises WorkerError."""
        closings = self.closings
        for left in reversed(range(_MAX_TRIES)):
            try:
                return await self._run(RunTool(tool, text, seconds))
            except ChildDied as death:
                self.living(tool)
                if not left or self.closings != closings:
                    raise WorkerUnavailable(
                        f"The {tool} process failed. {death}", "Try again."
                    ) from death
        raise AssertionError

    async def _run(self, request: RunTool) -> str:
        """Return the tool's answer. Raises WorkerError, and ChildDied."""
        child = await self.ready(request.tool)
        try:
            call = child.call(request)
        except FrameError as error:
            raise WorkerError(f"This is too long for the {request.tool}.") from error
        try:
            async with asyncio.timeout(request.seconds + GRACE_SECONDS):
                reply = await call.receive()
        except TimeoutError as error:
            child.kill()
            raise WorkerError("It took too long and was stopped.") from error
        finally:
            call.cancel()
        self.forgive(request.tool)
        match reply:
            case ToolReply(text=text):
                return text
            case Failed() as failed:
                raise error_of(failed)
        raise child.reject()

    def _start(self) -> Child:
        return start_child("tools", environment(self._environ), REPLIES, self._title)


class ToolWorker:
    """One tool; it reads the newest message and nothing else."""

    def __init__(self, card: Card, toolbox: Toolbox, seconds: float) -> None:
        self.card = card
        self.toolbox = toolbox
        self._seconds = seconds

    def warm(self) -> None:
        """Start the child process; returns at once."""
        self.toolbox.start_early()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer the request; see core.ports.Worker."""
        asked = [message.text for message in request.messages if message.role is Role.USER]
        if not asked:
            raise WorkerError(f"Nothing was asked of the {self.card.id}.")
        text = await self.toolbox.compute(self.card.id, asked[-1], self._seconds)
        yield Text(text, 0)
        yield Usage(0, 0, Finish.STOP)

    async def aclose(self) -> None:
        """End the child process, which all tools share; it is started again when needed."""
        await self.toolbox.aclose()


def sandbox() -> str:
    """Say in a sentence what code would run in here, or "" where none is executed."""
    return describe_sandbox()


def build_tools(
    enabled: bool = True, environ: Mapping[str, str] = os.environ, seconds: float = CODE_SECONDS
) -> Mapping[str, ToolWorker]:
    """Return the tools of this machine by id; there is no `python` where there is no sandbox."""
    if not enabled:
        return {}
    toolbox = Toolbox(environ)
    cards = [(CALCULATOR, QUICK_SECONDS), (UNITS, QUICK_SECONDS), (CLOCK, QUICK_SECONDS)]
    if sandbox():
        cards.append((PYTHON, seconds))
    return {card.id: ToolWorker(card, toolbox, limit) for card, limit in cards}


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
PYTHON = _card(
    "python",
    "Python",
    "Runs a block of Python code in a sandbox: no files, no network, no processes.",
    {},
)


_TOOL_CODES = {tool: head for head, tool in TOOL_HEADS.items()}


class RequestReader:
    """Reads requests in the tools' process (core.plan.request_parts.RequestTools)."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    def warm(self) -> None:
        """Start the tools' process."""
        self._toolbox.start_early()

    async def mark(self, request: str) -> str:
        """Return a request with its literals in plain form. Raises WorkerError."""
        found = json.loads(await self._toolbox.compute("mark", request, QUICK_SECONDS))
        return str(found["text"])

    async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
        """Return the parts as subtasks, then what the plan omits. Raises WorkerError."""
        asked: dict[str, Any] = {
            "request": request,
            "parts": [
                {"tool": _TOOL_CODES.get(part.tool, ""), "text": part.text, "inputs": part.inputs}
                for part in parts
            ],
        }
        found = json.loads(await self._toolbox.compute("check", json.dumps(asked), QUICK_SECONDS))
        if len(found) < len(parts):
            raise WorkerError("The tools' process gave an invalid reply.")
        return [
            CheckedPart(
                str(part["text"]),
                str(part["problem"]),
                str(part["words"]),
                bool(part["refers"]),
            )
            for part in found
        ]
