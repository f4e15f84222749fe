"""The trained conductor: splits a request into parts, each of them a step.

A small model writes the parts, one a line (core.planning.plan_lines); code marks the request before
it reads, checks every part after it, and chooses the workers. A doubtful request is not split.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Protocol

from baton.core.errors import PlanError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label
from baton.core.messages import Message, Purpose, Request, Role
from baton.core.plan_types import FILE, HISTORY, MAX_DRAWN_STEPS, PROMPT, Material, Need, Plan, Step
from baton.core.planning.plan_lines import PlanPart, is_repeating, parse_lines
from baton.core.ports import RoutingContext, Worker
from baton.core.reading.bare_expressions import is_computable
from baton.core.reading.follow_up import request_text
from baton.core.reading.request_words import asks, is_simple, may_have_parts, wants_reasoning
from baton.core.reading.task_kind import text_need

MAX_PLAN_TOKENS = 160
MIN_CONFIDENCE = -0.03
"""The least mean log-probability of a plan's tokens with which it is followed without a sum beyond
doubt. Of 500 single requests 496 then stay whole; with -0.025 499, and of 150 with parts 2 fewer
get a step for each."""

MIN_COMPUTED_CONFIDENCE = -0.038
"""The same for one sum, alone or among other parts."""

MIN_SIMPLE_CONFIDENCE = -0.1
"""The same where the request says hardly more than one operation. With both 334 of 390 that tools
can answer are computed rightly and 3 wrongly."""

MIN_MIXED_CONFIDENCE = -0.12
"""The same for several parts, one of them a sum beyond doubt, over all lines but those of sums in
doubt. Of 150 requests with parts 3 more get a step for each than with -0.1, of 1,500 others none.
"""

MAX_COMPUTED_CHARS = 200
"""A longer request for one thing is a story with numbers in it, which an expression seldom
covers. What people have computed has fewer than 100."""


DOUBTFUL_NEED = Need("calculation", 2)
"""What a part asks of a model whose expression isn't computed."""


@frozen_dataclass
class CheckedPart:
    """A part as a step's subtask, what is wrong with it ("" for nothing), and the user's words
    that it stands for. `refers`: they speak of an earlier result.
    """

    text: str
    problem: str
    words: str
    refers: bool = False


class RequestTools(Protocol):
    """Reads requests before and after the model does."""

    def warm(self) -> None:
        """Begin what takes long before a first request, and return at once. Never raises."""
        ...

    async def mark(self, request: str) -> str:
        """Return a request with its numbers, dates and units in plain form. Raises WorkerError."""
        ...

    async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
        """Return the parts as subtasks, then what the plan omits.

        Raises WorkerError.
        """
        ...


@frozen_dataclass
class TrainedConductor:
    """The worker that writes parts, which no other step is ever given to, and its tools."""

    worker: Worker
    tools: RequestTools

    def warm_for(self, request: str) -> None:
        """Begin what takes long, where this request will be shown to it."""
        if may_have_parts(request) and not is_computable(request):
            self.tools.warm()
            self.worker.warm()


@frozen_dataclass
class WrittenPlan:
    """What a worker wrote, and the mean log-probability of its tokens, of all and of each line's,
    where that is known.
    """

    text: str
    confidence: float | None = None
    lines: Sequence[float] = ()


Write = Callable[[Request], Awaitable[WrittenPlan]]
"""Has the conductor's worker write, metered and recorded. Raises what a worker raises."""


async def split_request(
    conductor: TrainedConductor, routing: RoutingContext, write: Write
) -> Plan | None:
    """Return the plan of a request that has parts or can be computed, None for any other.

    Steps that no tool does have no worker yet. Raises BatonError where the conductor fails.
    """
    tools = frozenset(card.id for card in routing.roster if card.is_tool)
    reader = RequestReader(conductor.tools, tools, write, routing.limits.label)
    material = routing.material
    # The numbers of a follow-up mean nothing without what it follows.
    if request_text(material) != material.question:
        return None
    parts = await reader.parts(material.question)
    return plan_from_parts(parts, material) if parts else None


@frozen_dataclass
class RequestReader:
    """Reads a request's parts with the conductor and with the tools that are in the roster."""

    tools: RequestTools
    roster: Collection[str]
    write: Write
    label: Label = Label.LOCAL

    async def parts(self, request: str) -> Sequence[PlanPart]:
        """Return a request's parts as subtasks, () for a request that is one thing for a model.

        A part that is left to a model though it may be a sum is shown to the conductor once more,
        by itself. Raises BatonError.
        """
        found, count = await self._read_once(request)
        parts = list(found)
        for place, part in enumerate(parts if len(parts) > 1 else ()):
            is_open = place >= count or part.need == DOUBTFUL_NEED
            if is_open and not (part.tool or part.inputs) and _NUMBER.search(part.text):
                alone, _ = await self._read_once(part.text)
                if len(alone) == 1 and alone[0].tool:
                    parts[place] = alone[0]
        return parts

    async def _read_once(self, request: str) -> tuple[Sequence[PlanPart], int]:
        """Return a request's parts, and how many of them the conductor wrote."""
        if not may_have_parts(request):
            return (), 0
        written = await self.write(await self._conductor_request(request))
        parts = self._parse_parts(written.text)
        if not parts or not is_worth_following(request, parts, written):
            return (), 0
        checked = await self.tools.check(request, parts)
        doubtful = doubtful_parts(request, parts, written)
        checked = [
            replace(check, problem=check.problem or "The model isn't sure of it.")
            if place in doubtful
            else check
            for place, check in enumerate(checked)
        ]
        return checked_subtasks(parts, checked), len(parts)

    async def _conductor_request(self, request: str) -> Request:
        messages = (Message(Role.USER, await self.tools.mark(request)),)
        return Request(messages, Purpose.PLAN, MAX_PLAN_TOKENS, temperature=0.0, label=self.label)

    def _parse_parts(self, text: str) -> Sequence[PlanPart]:
        """Return the parts in what the conductor wrote, () where they can't be read or run."""
        try:
            parts = () if is_repeating(text) else parse_lines(text)
        except PlanError:
            return ()
        return parts if all(not part.tool or part.tool in self.roster for part in parts) else ()


_NUMBER = re.compile(r"\d")
"""The sign of a possible sum; number words are rare where a plan left something out."""


def checked_subtasks(
    parts: Sequence[PlanPart], checked: Sequence[CheckedPart]
) -> tuple[PlanPart, ...]:
    """Return a request's parts as subtasks, () where they are in doubt.

    A model works out an expression in doubt from the user's words, what that uses, and what the
    plan omits. Where a text is in doubt, a single expression is, or the parts are too many, it
    isn't split.
    """
    tools = [part.tool for part in parts]
    pairs = list(zip(parts, checked, strict=False))
    in_doubt = [
        check
        for check, tool in zip_longest(checked, tools)
        if check.problem and (not tool or len(checked) == 1)
    ]
    if in_doubt or len(checked) > MAX_DRAWN_STEPS:
        return ()
    doubtful = {place for place, check in enumerate(checked) if check.problem}
    is_open = bool(doubtful) or len(checked) > len(parts)
    if is_open and any(part.tool and not asks(check.words) for part, check in pairs):
        return ()  # what isn't asked for is a step of a story
    doubtful |= {
        n - 1 for place, part in enumerate(parts) if place in doubtful for n in part.inputs
    }
    sound = tuple(
        replace(part, text=check.words, tool="", need=DOUBTFUL_NEED)
        if part.tool and place in doubtful
        else replace(part, text=check.text)
        for place, (part, check) in enumerate(pairs)
    )
    omitted = [PlanPart(one.text, need=text_need(one.text)) for one in checked[len(parts) :]]
    return with_implied_inputs((*sound, *omitted), checked)


def with_implied_inputs(
    parts: Sequence[PlanPart], checked: Sequence[CheckedPart]
) -> tuple[PlanPart, ...]:
    """Return parts of which each that speaks of a result, and names none, sees the one before."""
    return tuple(
        replace(part, inputs=(number,))
        if number and check.refers and not (part.tool or part.inputs)
        else part
        for number, (part, check) in enumerate(zip(parts, checked, strict=True))
    )


def is_worth_following(request: str, parts: Sequence[PlanPart], written: WrittenPlan) -> bool:
    """Whether there is anything to a plan, and the model was sure enough of it."""
    tasks = {(part.tool, part.text.casefold()) for part in parts}
    if len(tasks) < len(parts):
        return False
    has_tool = any(part.tool for part in parts)
    if has_tool and wants_reasoning(request):
        return False
    if len(parts) == 1 and not (has_tool and len(request) <= MAX_COMPUTED_CHARS):
        return False
    if written.confidence is None:
        return True
    if is_one_sum(parts):
        return is_sure(request, parts, written.confidence)
    doubtful = doubtful_parts(request, parts, written)
    sure = [line for place, line in enumerate(written.lines) if place not in doubtful]
    confidence = sum(sure) / len(sure) if doubtful and sure else written.confidence
    has_sum = any(part.tool and place not in doubtful for place, part in enumerate(parts))
    return confidence >= (MIN_MIXED_CONFIDENCE if has_sum else MIN_CONFIDENCE)


def is_sure(request: str, sums: Sequence[PlanPart], confidence: float | None) -> bool:
    """Whether the model was sure enough of sums for them to be computed."""
    is_short = len(sums) == 1 and is_simple(request, sums[0].text)
    least = MIN_SIMPLE_CONFIDENCE if is_short else MIN_COMPUTED_CONFIDENCE
    return confidence is None or confidence >= least


def doubtful_parts(
    request: str, parts: Sequence[PlanPart], written: WrittenPlan
) -> Collection[int]:
    """Return the places of the sums, among several parts, of which the model wasn't sure enough.

    What uses such a result isn't sure either.
    """
    if is_one_sum(parts) or len(written.lines) < len(parts):
        return set()
    doubtful: set[int] = set()
    for place, (part, line) in enumerate(zip(parts, written.lines, strict=False)):
        uses_doubtful = doubtful & {number - 1 for number in part.inputs}
        if part.tool and (uses_doubtful or not is_sure(request, [part], line)):
            doubtful.add(place)
    return doubtful


def is_one_sum(parts: Sequence[PlanPart]) -> bool:
    """Whether tools do every part, and each but the last is there for a later one."""
    used = {number for part in parts for number in part.inputs}
    return all(part.tool for part in parts) and used >= set(range(1, len(parts)))


def plan_from_parts(parts: Sequence[PlanPart], material: Material) -> Plan:
    """Return the plan whose answer is all parts, in their order."""
    steps = tuple(_plan_step(part, material) for part in parts)
    return Plan(steps, tuple(range(1, len(steps) + 1)))


def _plan_step(part: PlanPart, material: Material) -> Step:
    inputs = tuple(map(str, part.inputs))
    if part.tool:  # it answers in the language of the prompt
        return Step(part.tool, part.text, (PROMPT, *inputs), part.need)
    files = tuple(FILE + name for name in material.files)
    history = (HISTORY,) if len(material.turns) > 1 and not inputs else ()
    return Step("", part.text, (*history, *files, *inputs), part.need)
