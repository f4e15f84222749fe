"""The plan language of the small conductor: parts, one a line.

    calc: 17*23
    translation1: Translate 'good morning' to German
    writing2: write a haiku about it <- 2

docs/orchestration.md describes it. A line's head is a tool (`calc`, `units`, `clock`) or a task
kind with a difficulty; `*` for a text means the request as it stands; ` <- 1, 2` names the earlier
parts whose results this one needs.
"""

from __future__ import annotations

from dataclasses import field

from baton.core.errors import PlanError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.lazy_loading import lazy_pattern
from baton.core.plan_types import KINDS, MAX_DRAWN_STEPS, Need

TOOL_HEADS = {"calc": "calculator", "units": "units", "clock": "clock"}
"""The heads of computed parts, and the tools that compute them."""

WHOLE_REQUEST = "*"
MAX_TEXT_CHARS = 400

_LINE = lazy_pattern(rf"(calc|units|clock|(?:{'|'.join(KINDS)})[1-5]): (.+?)(?: <- (\d(?:, \d)*))?")
_REFERENCE = lazy_pattern(r"#(\d)")


@frozen_dataclass
class PlanPart:
    """One part of a request.

    `tool` computes `text`, an expression; without one a model does what `text` says. `inputs` are
    the numbers of earlier parts, from 1.
    """

    text: str
    tool: str = ""
    need: Need = field(default_factory=Need)
    inputs: tuple[int, ...] = ()

    @property
    def is_whole_request(self) -> bool:
        """Whether it is the request as it stands."""
        return self.text == WHOLE_REQUEST and not self.tool


_REPEATED = lazy_pattern(r"(?<!\S)(\S+(?: \S+){0,3})(?:,? \1){3}\S*$")


def is_repeating(text: str) -> bool:
    """Whether a plan that is being written has begun to repeat itself, so that it is useless.

    A sum may have the same number several times.
    """
    line = text.rpartition("\n")[2]
    if line.partition(":")[0] in TOOL_HEADS:
        return len(line) > MAX_EXPRESSION_CHARS
    return _REPEATED.search(line) is not None


MAX_EXPRESSION_CHARS = 120


def parse_lines(text: str) -> tuple[PlanPart, ...]:
    """Return the parts that a plan's lines name. Raises PlanError."""
    lines = text.strip("\n").split("\n")
    if len(lines) > MAX_DRAWN_STEPS:
        raise PlanError(f"A plan has 1 to {MAX_DRAWN_STEPS} parts, not {len(lines)}.")
    parts = tuple(_parse_line(number, line) for number, line in enumerate(lines, start=1))
    if len(parts) > 1 and any(part.is_whole_request for part in parts):
        raise PlanError("Only a plan of one part can be about the whole request.")
    return parts


def _parse_line(number: int, line: str) -> PlanPart:
    match = _LINE.fullmatch(line)
    if match is None:
        raise PlanError(f"Line {number} of the plan can't be read.")
    head, text = match[1], match[2].strip()
    inputs = tuple(sorted({int(n) for n in (match[3] or "").split(", ") if n}))
    used = {int(n) for n in _REFERENCE.findall(text)}
    if any(not 1 <= n < number for n in (*inputs, *used)):
        raise PlanError(f"Line {number} of the plan needs a later part.")
    if not text or len(text) > MAX_TEXT_CHARS:
        raise PlanError(f"Line {number} of the plan says nothing, or too much.")
    if head in TOOL_HEADS:
        return PlanPart(
            text, TOOL_HEADS[head], Need("calculation", 1), tuple(sorted({*inputs, *used}))
        )
    return PlanPart(text, "", Need(head[:-1], int(head[-1])), inputs)
