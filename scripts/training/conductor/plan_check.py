"""The results of a plan's parts: the product's check of them, and whether two compute the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

from baton.core.planning.plan_lines import TOOL_HEADS, PlanPart
from baton.core.planning.request_parts import CheckedPart
from baton.workers.tools.computation import CannotCompute, evaluate
from baton.workers.tools.computation.dates import CityTime, ClockTime, Duration
from baton.workers.tools.computation.marked_text import mark
from baton.workers.tools.computation.plan_check import check_parts
from baton.workers.tools.computation.quantities import Amount

HEADS = {tool: head for head, tool in TOOL_HEADS.items()}
NOON = datetime(2026, 11, 23, 12, tzinfo=timezone(timedelta(hours=1)))
RESULTS = {number: Fraction(prime) for number, prime in enumerate((7, 11, 13, 17), start=1)}
"""What `#1` and so on stand for while two expressions are compared."""


def check_plan(prompt: str, parts: Sequence[PlanPart]) -> list[CheckedPart]:
    """Return what the product's check says of a plan's parts."""
    return check_parts(mark(prompt), parts)


def is_same(part: PlanPart, line: str) -> bool:
    """Whether a part computes what a line computes; numbers within a cent or a millionth."""
    tool, _, expression = line.partition(": ")
    try:
        one, other = comparable(HEADS[part.tool], part.text), comparable(tool, expression)
    except CannotCompute:
        return False
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= max(0.006, 1e-6 * abs(other))
    return bool(one == other)


def comparable(tool: str, expression: str) -> Any:
    """Return an expression's value in a form that can be compared. Raises CannotCompute."""
    value = evaluate(tool, expression, now=NOON, results=RESULTS).value
    match value:
        case Amount():
            return tuple(round(_number(amount), 6) for amount, _ in value.parts)
        case ClockTime():
            return value.text()
        case Duration():
            return float(value.seconds)
        case CityTime():
            return f"{value.moment:%H:%M}"
        case datetime():
            return f"{value:%H:%M}"
        case date():
            return value.isoformat()
        case Fraction():
            return _number(value)
    return value


def _number(value: Fraction) -> float | Fraction:
    """Return a number as a float, or as it is where none is as large."""
    return float(value) if abs(value) <= sys.float_info.max else value
