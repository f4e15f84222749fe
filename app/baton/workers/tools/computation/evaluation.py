"""Evaluates the expressions of all tools; units and dates are imported when they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baton.workers.tools.computation import CannotCompute, NotAnExpression
from baton.workers.tools.computation.evaluator import Result
from baton.workers.tools.computation.numbers import evaluate_numbers


def evaluate(
    tool: str, text: str, *, now: Any = None, results: Mapping[int, Any] | None = None
) -> Result:
    """Return what a tool makes of an expression. Raises CannotCompute.

    `now` is the user's local time (an aware datetime, default: the system's); `results` are the
    values of earlier steps, for `#1`.
    """
    if not text.strip() or "\n" in text.strip():
        raise NotAnExpression
    earlier = {f"#{number}": value for number, value in (results or {}).items()}
    match tool:
        case "calc":
            return evaluate_numbers(text, earlier)
        case "units":
            from baton.workers.tools.computation.quantities import evaluate_quantities

            return evaluate_quantities(text, earlier)
        case "clock":
            from baton.workers.tools.computation.dates import evaluate_dates

            return evaluate_dates(text, earlier, now)
    raise CannotCompute(f"There is no tool {tool!r}.")
