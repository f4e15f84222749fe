"""Exact computing: the values of the conductor's expressions, and how results are said.

The checks of expressions, the words in `lexicon/` and `relations.toml`, and the numbers among them
were fitted to what the trained conductor writes. Who changes one measures again, against the
figures in docs/orchestration.md:

- `scripts/training/conductor/judge.py` and `judge_sums.py`: how many requests of `held_out/` and
  `sums/` are computed rightly, wrongly or not at all;
- `scripts/score_conductor`: how good whole plans are;
- tests/workers/tools/computation/right_plans.jsonl and wrong_plans.jsonl: a sample of both, which
  the tests hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baton.workers.tools.computation.evaluator import Result


def evaluate(
    tool: str, text: str, *, now: Any = None, results: Mapping[int, Any] | None = None
) -> Result:
    """Return what a tool makes of an expression. Raises CannotCompute.

    `now` is the user's local time (an aware datetime, default: the system's); `results` are the
    values of earlier steps, for `#1`.
    """
    if not text.strip() or "\n" in text.strip():
        raise NotAnExpression
    from baton.workers.tools.computation.numbers import evaluate_numbers

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


class CannotCompute(Exception):
    """Why an expression has no value here, in a sentence."""


class NotAnExpression(CannotCompute):
    """A text that isn't in the language of expressions at all."""

    def __init__(self) -> None:
        super().__init__("This is not an expression that can be computed.")


class NoResult(CannotCompute):
    """Why a sum that is understood has no result: that is its answer, and no model has a better.

    `reason` is the name of a sentence in the lexicons' answers: `too_large`, `by_zero`, `no_root`,
    `no_day`. It is about `value`, where that isn't the whole expression.
    """

    def __init__(self, reason: str, value: str = "") -> None:
        super().__init__(_REASONS[reason].format(value=value))
        self.reason, self.value = reason, value


_REASONS = {
    "too_large": "The numbers are too large.",
    "by_zero": "This would divide by zero.",
    "no_root": "This root isn't a real number.",
    "no_day": "There is no such day as {value}.",
}
