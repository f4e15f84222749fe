"""Judges an adapter on the prompts of `held_out/`, with llama.cpp, as the product runs it.

    PYTHONPATH=app .venv/bin/python scripts/training/conductor/judge.py ADAPTER.gguf [-v]

Computable prompts are right, wrong, flagged by the check, answered as text, split, or unreadable.
Of compounds it counts plans with the right number of parts, the right tools, the right values, all
dependences, and texts that hold what they must.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

from planner import Planner, Written

from baton.adapters.local import starter
from baton.children.exact import CannotCompute
from baton.children.exact.dates import CityTime, ClockTime, Duration
from baton.children.exact.expression import evaluate
from baton.children.exact.expression_check import problem, unused
from baton.children.exact.lexicon import LANGUAGES
from baton.children.exact.quantities import Amount
from baton.domain.errors import PlanError
from baton.engine.plan_lines import TOOL_HEADS, PlanPart, parse_lines

HELD_OUT = Path(__file__).parent / "held_out"
NOON = datetime(2026, 11, 23, 12, tzinfo=timezone(timedelta(hours=1)))
HEADS = {tool: head for head, tool in TOOL_HEADS.items()}
RESULTS = {number: Fraction(prime) for number, prime in enumerate((7, 11, 13, 17), start=1)}
"""What `#1` and so on stand for while two expressions are compared."""

Row = Mapping[str, Any]


def rows(name: str, languages: Sequence[str]) -> list[Row]:
    """Return the prompts of a file in these languages."""
    lines = (HELD_OUT / name).read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["lang"] in languages]


def comparable(tool: str, expression: str) -> Any:
    """Return an expression's value in a form that can be compared. Raises CannotCompute."""
    value = evaluate(tool, expression, now=NOON, results=RESULTS).value
    match value:
        case Amount():
            return tuple(round(float(amount), 6) for amount, _ in value.parts)
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
            return float(value)
    return value


def is_same(part: PlanPart, line: str) -> bool:
    """Tell whether a part computes what a line computes; numbers within a cent or a millionth."""
    tool, _, expression = line.partition(": ")
    try:
        one, other = comparable(HEADS[part.tool], part.text), comparable(tool, expression)
    except CannotCompute:
        return False
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= max(0.006, 1e-6 * abs(other))
    return bool(one == other)


def is_flagged(parts: Sequence[PlanPart], written: Written) -> bool:
    """Tell whether the product would refuse to compute this plan."""
    tools = [part for part in parts if part.tool]
    for part in tools:
        if problem(HEADS[part.tool], part.text, written.request):
            return True
        try:
            comparable(HEADS[part.tool], part.text)
        except CannotCompute:
            return True
    texts = [part.text for part in parts if not part.tool]
    return bool(tools and unused([part.text for part in tools], texts, written.request))


def grade_computable(parts: Sequence[PlanPart] | None, written: Written, row: Row) -> str:
    """Return what became of a prompt that a tool can answer."""
    if parts is None:
        return "unreadable"
    if not any(part.tool for part in parts):
        return "text"
    if len(parts) > 1:
        return "split"
    if is_flagged(parts, written):
        return "flagged"
    return "right" if is_same(parts[0], row["expression"]) else "wrong"


def grade_whole(parts: Sequence[PlanPart] | None, written: Written, row: Row) -> str:
    """Return what became of a prompt that is one thing for a model."""
    if parts is None:
        return "unreadable"
    if any(part.tool for part in parts):
        return "tool, flagged" if is_flagged(parts, written) else "tool"
    return "split" if len(parts) > 1 else "whole"


def grade_compound(parts: Sequence[PlanPart] | None, written: Written, row: Row) -> list[str]:
    """Return what is right in the plan of a compound prompt."""
    wanted = row["parts"]
    if parts is None:
        return ["unreadable"]
    if len(parts) != len(wanted):
        return []
    right = ["parts"]
    pairs = list(zip(parts, wanted, strict=True))
    if all(HEADS.get(part.tool, "text") == want["tool"] for part, want in pairs):
        right.append("tools")
        if all(is_same(p, f"{w['tool']}: {w['expression']}") for p, w in pairs if p.tool):
            right.append("values")
    if all(set(want["needs"]) <= set(part.inputs) for part, want in pairs):
        right.append("dependences")
    if all(_holds(part, want, written) for part, want in pairs if not part.tool):
        right.append("texts")
    return [*right, *(["all"] if len(right) == 5 else [])]


def _holds(part: PlanPart, wanted: Row, written: Written) -> bool:
    said = f"{part.text} {written.request.restored(part.text)}".lower()
    return all(str(piece).lower() in said for piece in wanted["must_contain"])


def judge(planner: Planner, languages: Sequence[str], verbose: bool) -> dict[str, Any]:
    """Return the counts of each set, and seconds a plan."""
    counts: dict[str, Counter[str]] = {}
    seconds: list[float] = []

    def each(name: str, file: str, good: Sequence[str], grade: Any) -> None:
        counted = counts.setdefault(name, Counter())
        for row in rows(file, languages):
            written = planner.plan(row["prompt"])
            seconds.append(written.seconds)
            try:
                parts: Sequence[PlanPart] | None = parse_lines(written.text)
            except PlanError:
                parts = None
            found = grade(parts, written, row)
            found = [found] if isinstance(found, str) else found
            counted.update([*found, "prompts"])
            if verbose and not set(good) & set(found):
                print(row["id"], *found, repr(written.request.text), "|", repr(written.text))

    for language in languages:
        file = f"computable.{language}.jsonl"
        each(f"computable {language}", file, ["right"], grade_computable)
    each("negatives", "negatives.jsonl", ["whole"], grade_whole)
    each("singles", "singles.jsonl", ["whole"], grade_whole)
    each("compounds", "compounds.jsonl", ["all"], grade_compound)
    seconds.sort()
    return {name: dict(counted) for name, counted in counts.items()} | {
        "seconds": {
            "median": round(statistics.median(seconds), 3),
            "p95": round(seconds[int(0.95 * len(seconds))], 3),
        }
    }


def main() -> None:
    """Read the arguments, judge, and print the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("adapter", type=Path)
    parser.add_argument("--base", type=Path, default=starter().path)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--grammar", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    planner = Planner(args.base, args.adapter, grammar=args.grammar)
    found = judge(planner, args.languages.split(","), args.verbose)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
