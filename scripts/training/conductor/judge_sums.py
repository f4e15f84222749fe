"""Counts how often Baton computes a wrong result: on `sums/`, written from a list of kinds.

    PYTHONPATH=app .venv/bin/python scripts/training/conductor/judge_sums.py SET --plans CACHE [-v]

SET is one of `sums/`: `tuned` (looked at from the beginning), `kept` (its other half), or one
that was written later; each was scored at first sight and then looked at. A prompt goes the
product's way: to a tool as it stands, or by the conductor's plan and all checks; so many are right,
wrong, or left to a worker. Of a plan each result counts that no later step uses: one that isn't
asked for is wrong. Now is 12:00 on 2026-12-02 in Berlin.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from judge import PlanCache, Planning, followed_parts
from plan_check import HEADS
from planner import Planner

from baton.core.reading.bare_expressions import can_compute
from baton.workers.local import conductor_adapter, starter
from baton.workers.tools.computation import CannotCompute, evaluate
from baton.workers.tools.computation.dates import CityTime, ClockTime, Duration
from baton.workers.tools.computation.quantities import Amount
from baton.workers.tools.computation.result_text import plain_value
from baton.workers.tools.computation.written_expression import written_expression

FOLDER = Path(__file__).parent / "sums"
NOW = datetime(2026, 12, 2, 12, tzinfo=timezone(timedelta(hours=1)))
Row = Mapping[str, Any]


class Computed(NamedTuple):
    """The expressions that Baton computes for a prompt with their values, and how many parts it
    has. An expression that a later one uses isn't among them.
    """

    values: Sequence[tuple[str, Any]]
    parts: int = 1


def computed(prompt: str, plan: Planning) -> Computed | None:
    """Return what Baton computes for a prompt, None where a worker answers all of it."""
    if any(can_compute(tool, prompt) for tool in ("calculator", "units", "clock")):
        try:
            written = written_expression(prompt)
            if written is not None:
                value = evaluate(written.tool, written.expression, now=NOW).value
                return Computed([(written.expression, value)])
        except CannotCompute:
            return None
    parts = followed_parts(prompt, plan)
    used = {number for part in parts for number in part.inputs}
    values = [
        (part.text, _value(HEADS[part.tool], part.text))
        for number, part in enumerate(parts, start=1)
        if part.tool and number not in used
    ]
    return Computed(values, len(parts)) if values else None


def _value(tool: str, text: str) -> Any:
    expression, _, where = text.partition(" where ")
    values: dict[int, Any] = {}
    for definition in where.split("; ") if where else ():
        name, _, inner = definition.partition(" = ")
        head, _, source = inner.partition(": ")
        result = evaluate(head, source, now=NOW, results=values)
        plain = plain_value(result)
        values[int(name[1:])] = result.value if plain is None else plain
    return evaluate(tool, expression, now=NOW, results=values).value


def is_right(value: Any, wanted: Any, tolerance: float = 1e-4) -> bool:
    """Whether a computed value is the one that a prompt wants, in any form that says it."""
    if isinstance(wanted, bool):
        wanted = str(wanted).lower()
    number = _number(wanted)
    for form in _forms(value):
        if isinstance(form, Fraction) and number is not None:
            if abs(form - number) <= max(Fraction(tolerance) * abs(number), Fraction(6, 1000)):
                return True
        elif str(form).lower() == str(wanted).lower():
            return True
    return False


def _number(wanted: Any) -> Fraction | None:
    """Return what a wanted value is as a number, a length of time in seconds."""
    if isinstance(wanted, str) and (match := _DURATION.fullmatch(wanted)):
        return sum(
            (Fraction(part or 0) * unit for part, unit in zip(match.groups(), _UNITS, strict=True)),
            Fraction(),
        )
    try:
        return Fraction(str(wanted))
    except ValueError:
        return None


_DURATION = re.compile(r"P(?:([\d.]+)D)?(?:T(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?)?")
_UNITS = (86400, 3600, 60, 1)
_DAYS = {f"{day:%a}".lower(): f"{day:%A}" for day in (NOW + timedelta(n) for n in range(7))}
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}


def _forms(value: Any) -> Iterator[Any]:
    """Yield a value in each form in which a prompt may want it."""
    match value:
        case Amount(parts=parts):
            yield parts[-1][0]
            if all(code in _SECONDS for _, code in parts):
                yield sum((number * _SECONDS[code] for number, code in parts), Fraction())
        case Duration(seconds=seconds):
            yield from (seconds, seconds / 60, seconds / 3600, seconds / 86400)
        case ClockTime():
            yield from (value.text(), value.text()[:5])
        case CityTime(moment=moment):
            yield from (f"{moment:%H:%M}", f"{moment:%Y-%m-%d %H:%M}", f"{moment:%Y-%m-%d}")
        case datetime():
            yield from (f"{value:%H:%M}", f"{value:%Y-%m-%d}")
        case date():
            yield from (value.isoformat(), f"{value:%A}")
        case str():
            yield from (value, *(f"0{base}{value}" for base in "box"), value.removeprefix("0b"))
            yield _DAYS.get(value, value)
        case list():
            yield str(value)
        case _:
            yield value


def grade(row: Row, found: Computed | None) -> str:
    """Return `right`, `wrong`, or `left` for a worker.

    Of several values that are wanted each must be there, unless a worker answers a part; none may
    be there that isn't wanted.
    """
    if found is None:
        return "left"
    tolerance = row.get("tolerance", 1e-4)
    value = row["value"]
    several = value if isinstance(value, list) else [value]
    others = row.get("or") or []
    wanted = [one for one in (*several, *others) if one is not None]
    flat = [one for each in wanted for one in (each if isinstance(each, list) else [each])]
    flat += [str(each) for each in [value, *wanted] if isinstance(each, list)]
    if not all(any(is_right(got, one, tolerance) for one in flat) for _, got in found.values):
        return "wrong"
    is_dropped = found.parts < len(several) and not isinstance(found.values[0][1], list)
    return "wrong" if is_dropped else "right"


def main() -> None:
    """Read the arguments, judge, and print counts by kind, style and language."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=sorted(path.stem for path in FOLDER.glob("*.jsonl")))
    parser.add_argument("--plans", type=Path, required=True)
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    adapter = conductor_adapter()
    assert adapter is not None
    plan = PlanCache(args.plans, Planner(starter().path, adapter, threads=1).plan, adapter)
    lines = (FOLDER / f"{args.set}.jsonl").read_text(encoding="utf-8").splitlines()
    counts: dict[str, Counter[str]] = {}
    for row in map(json.loads, lines):
        found = computed(row["prompt"], plan)
        result = grade(row, found)
        for group in ("all", row["kind"], row["style"], row["lang"]):
            counts.setdefault(group, Counter()).update([result])
        if args.verbose:
            print(result, row["id"], json.dumps(row["prompt"], ensure_ascii=False), row["value"])
            print(
                "    ", [(text, _shown(value)) for text, value in (found.values if found else ())]
            )
    print(json.dumps({group: dict(counted) for group, counted in counts.items()}, indent=1))


def _shown(value: Any) -> str:
    return str(next(iter(_forms(value)), value))


if __name__ == "__main__":
    main()
