"""The trained conductor: what a request is made of, each part a step of its own.

A small model writes the parts, one a line (engine.plan_lines); code marks the request before it
reads, checks every part after it, and chooses the workers. Whatever is in doubt is not split.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from baton.domain.chat import Message, Purpose, Request, Role
from baton.domain.errors import PlanError
from baton.domain.plan import FILE, HISTORY, PROMPT, Material, Plan, Step
from baton.engine.plan_lines import PlanPart, parse_lines
from baton.engine.ports import Situation, Worker
from baton.engine.request_cues import may_have_parts

MAX_PLAN_TOKENS = 160
MIN_CONFIDENCE = -0.05
"""The mean log-probability of a plan's tokens below which it isn't followed: of 200 single requests
197 then stay whole, and of 150 with parts 3 fewer are split than with -0.25."""

MIN_COMPUTED_CONFIDENCE = -0.05
"""The same for a single sum. Of 390 that tools can answer, 267 are then computed rightly and 16
wrongly; with -0.15 302 and 41."""

MIN_MIXED_CONFIDENCE = -0.08
"""The same for several parts, one of them computed: longer plans hold more that could be otherwise.
"""

MAX_COMPUTED_CHARS = 200
"""A longer request for one thing is a story with numbers in it, which an expression seldom tells
whole. What people have computed has fewer than 100."""


@dataclass(frozen=True, slots=True)
class CheckedPart:
    """A part as a step's subtask, and what is wrong with it ("" for nothing)."""

    text: str
    problem: str


class RequestTools(Protocol):
    """Reads requests before and after the model does."""

    def warm(self) -> None:
        """Begin whatever takes long before a first request, and return at once. Never raises."""
        ...

    async def mark(self, request: str) -> str:
        """Return a request with its numbers, dates and units in plain form. Raises WorkerError."""
        ...

    async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
        """Return the parts in the person's words, and what is wrong with them.

        Raises WorkerError.
        """
        ...


@dataclass(frozen=True, slots=True)
class TrainedConductor:
    """The worker that writes parts, which no other step is ever given to, and its tools."""

    worker: Worker
    tools: RequestTools

    def warm_for(self, request: str) -> None:
        """Begin what takes long, where this request will be shown to it."""
        if may_have_parts(request):
            self.tools.warm()
            self.worker.warm()


@dataclass(frozen=True, slots=True)
class Written:
    """What a worker wrote, and the mean log-probability of its tokens, where that is known."""

    text: str
    confidence: float | None = None


Write = Callable[[Request], Awaitable[Written]]
"""Has the conductor's worker write, metered and recorded. Raises what a worker raises."""


async def split(conductor: TrainedConductor, situation: Situation, write: Write) -> Plan | None:
    """Return the plan of a request that has parts or can be computed, None for any other.

    Steps that no tool does have no worker yet. Raises BatonError where the conductor fails.
    """
    request = situation.material.prompt
    if not may_have_parts(request):
        return None
    marked = await conductor.tools.mark(request)
    written = await write(
        Request(
            (Message(Role.USER, marked),),
            Purpose.PLAN,
            MAX_PLAN_TOKENS,
            temperature=0.0,
            label=situation.limits.label,
        )
    )
    try:
        parts = parse_lines(written.text)
    except PlanError:
        return None
    if not is_followed(request, parts, written.confidence):
        return None
    there = {card.id for card in situation.roster if card.is_tool}
    if any(part.tool and part.tool not in there for part in parts):
        return None
    checked = await conductor.tools.check(request, parts)
    if any(part.problem for part in checked):
        return None
    return plan_of(parts, [part.text for part in checked], situation.material)


def is_followed(request: str, parts: Sequence[PlanPart], confidence: float | None) -> bool:
    """Tell whether there is anything to a plan, and the model was sure enough of it."""
    tasks = {(part.tool, part.text.casefold()) for part in parts}
    if len(tasks) < len(parts):
        return False
    has_tool = any(part.tool for part in parts)
    if len(parts) == 1 and not (has_tool and len(request) <= MAX_COMPUTED_CHARS):
        return False
    least = MIN_MIXED_CONFIDENCE if has_tool else MIN_CONFIDENCE
    if len(parts) == 1:
        least = MIN_COMPUTED_CONFIDENCE
    return confidence is None or confidence >= least


def plan_of(parts: Sequence[PlanPart], subtasks: Sequence[str], material: Material) -> Plan:
    """Return the plan whose answer is all parts, in their order."""
    steps = tuple(
        _step(part, subtask, material) for part, subtask in zip(parts, subtasks, strict=True)
    )
    return Plan(steps, tuple(range(1, len(steps) + 1)))


def _step(part: PlanPart, subtask: str, material: Material) -> Step:
    inputs = tuple(map(str, part.inputs))
    if part.tool:  # it answers in the language of the prompt
        return Step(part.tool, subtask, (PROMPT, *inputs), part.need)
    files = tuple(FILE + name for name in material.files)
    history = (HISTORY,) if len(material.turns) > 1 and not inputs else ()
    return Step("", subtask, (*history, *files, *inputs), part.need)
