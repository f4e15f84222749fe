"""Judges an adapter on the prompts of `held_out/`, with llama.cpp, as the product runs it.

    PYTHONPATH=app .venv/bin/python scripts/training/conductor/judge.py ADAPTER.gguf [-v]

What it counts is what the product would do: computable prompts are right, wrong, split or not
computed; others whole, split, or given to a tool. Of compounds it counts plans with the right
number of parts, tools, values, dependences, and texts that hold what they must. With `--visible`,
a sample of the routing data's questions, each of which is one thing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import real_texts
from plan_check import HEADS, check_plan, is_same
from planner import Planner, WrittenPlan

from baton.core.messages import Request
from baton.core.planning.plan_lines import TOOL_HEADS, PlanPart
from baton.core.planning.request_parts import (
    CheckedPart,
    RequestReader,
    WrittenPlan as PlanText,
    is_one_sum,
)
from baton.workers.local import starter
from baton.workers.tools.computation.lexicon import LANGUAGES
from baton.workers.tools.computation.marked_text import mark

HELD_OUT = Path(__file__).parent / "held_out"
Row = Mapping[str, Any]


def rows(name: str, languages: Sequence[str]) -> list[Row]:
    """Return the prompts of a file in these languages."""
    lines = (HELD_OUT / name).read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["lang"] in languages]


Planning = Callable[[str], WrittenPlan]
"""Writes a request's plan."""


class PlanTools:
    """The tools' process, in this one; the planner marks by itself."""

    def warm(self) -> None:
        """Nothing takes long here."""

    async def mark(self, request: str) -> str:
        """Return the request."""
        return request

    async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
        """Return the parts as subtasks, then what the plan omits."""
        return check_plan(request, parts)


def followed_parts(prompt: str, plan: Planning) -> Sequence[PlanPart]:
    """Return the parts that the product would run, () where one worker answers all of it."""

    async def write(request: Request) -> PlanText:
        return plan(request.messages[0].text).plan

    reader = RequestReader(PlanTools(), TOOL_HEADS.values(), write)
    return asyncio.run(reader.parts(prompt))


def grade_computable(parts: Sequence[PlanPart], row: Row) -> list[str]:
    """Return what became of a prompt that a tool can answer; in several steps, the last is it."""
    if not parts:
        return ["not computed"]
    if not is_one_sum(parts):
        return ["split"] if len(parts) > 1 else ["wrong"]
    return ["right" if is_same(parts[-1], row["expression"]) else "wrong"]


def grade_whole(parts: Sequence[PlanPart], row: Row) -> list[str]:
    """Return what became of a prompt that is one thing for a model."""
    if not parts:
        return ["whole"]
    return ["tool" if any(part.tool for part in parts) else "split"]


def grade_compound(parts: Sequence[PlanPart], row: Row) -> list[str]:
    """Return what is right in the plan of a compound prompt."""
    wanted = row["parts"]
    if len(parts) != len(wanted):
        return [] if parts else ["whole"]
    right = ["parts"]
    pairs = list(zip(parts, wanted, strict=True))
    if all(HEADS.get(part.tool, "text") == want["tool"] for part, want in pairs):
        right.append("tools")
        if all(is_same(p, f"{w['tool']}: {w['expression']}") for p, w in pairs if p.tool):
            right.append("values")
    if all(set(want["needs"]) <= set(part.inputs) for part, want in pairs):
        right.append("dependences")
    if all(_holds(part, want) for part, want in pairs if not part.tool):
        right.append("texts")
    return [*right, *(["all"] if len(right) == 5 else [])]


def _holds(part: PlanPart, wanted: Row) -> bool:
    said = f"{part.text} {mark(part.text).text}".lower()
    return all(str(piece).lower() in said for piece in wanted["must_contain"])


def judge(plan: Planning, languages: Sequence[str], verbose: bool) -> dict[str, Any]:
    """Return the counts of each set, and seconds a plan."""
    counts: dict[str, Counter[str]] = {}
    seconds: list[float] = []

    def each(name: str, file: str, good: str, grade: Any) -> None:
        counted = counts.setdefault(name, Counter())
        for row in rows(file, languages):
            written = plan(row["prompt"])
            seconds.append(written.seconds)
            found = grade(followed_parts(row["prompt"], plan), row)
            counted.update([*found, "prompts"])
            if verbose and good not in found:
                marked, sure = written.request.text, round(written.confidence, 3)
                print(row["id"], *found, sure, repr(marked), "|", repr(written.text))

    for language in languages:
        file = f"computable.{language}.jsonl"
        each(f"computable {language}", file, "right", grade_computable)
    each("negatives", "negatives.jsonl", "whole", grade_whole)
    each("singles", "singles.jsonl", "whole", grade_whole)
    each("compounds", "compounds.jsonl", "all", grade_compound)
    seconds.sort()
    return {name: dict(counted) for name, counted in counts.items()} | {
        "seconds": {
            "median": round(statistics.median(seconds), 3),
            "p95": round(seconds[int(0.95 * len(seconds))], 3),
        }
    }


def judge_visible(plan: Planning, texts: Sequence[str], verbose: bool) -> dict[str, int]:
    """Return what becomes of questions that are one thing; most aren't candidates for a plan."""
    counted: Counter[str] = Counter()
    for text in texts:
        (found,) = grade_whole(followed_parts(text, plan), {})
        counted.update([found, "prompts"])
        if verbose and found != "whole":
            print(found, repr(text))
    return dict(counted)


class PlanCache:
    """Plans written before, kept in a file of JSON lines: thresholds are tried without the model.

    The file is rewritten where the adapter is newer, a plan where its marked request is another.
    """

    def __init__(self, file: Path, write: Planning, adapter: Path) -> None:
        if file.is_file() and file.stat().st_mtime < adapter.stat().st_mtime:
            file.unlink()
        self._file, self._write = file, write
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        self._rows = {row["marked"]: row for row in map(json.loads, lines)}

    def __call__(self, prompt: str) -> WrittenPlan:
        """Return the plan for a prompt."""
        marked = mark(prompt)
        if (row := self._rows.get(marked.text)) is None:
            written = self._write(prompt)
            row = self._rows[marked.text] = {
                "marked": marked.text,
                "text": written.text,
                "seconds": written.seconds,
                "confidence": written.confidence,
                "spreads": written.spreads,
                "lines": written.lines,
            }
            with self._file.open("a", encoding="utf-8") as file:
                print(json.dumps(row, ensure_ascii=False), file=file)
        return WrittenPlan(
            prompt,
            marked,
            row["text"],
            row["seconds"],
            row["confidence"],
            tuple(map(tuple, row["spreads"])),
            tuple(row["lines"]),
        )


def main() -> None:
    """Read the arguments, judge, and print the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("adapter", type=Path)
    parser.add_argument("--base", type=Path, default=starter().path)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--grammar", action="store_true")
    parser.add_argument("--plans", type=Path, help="a file in which the plans are kept")
    parser.add_argument(
        "--visible", type=Path, help="judge questions of the routing data in this folder instead"
    )
    parser.add_argument("--sample", type=int, default=1000, help="how many of them")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    planner = Planner(args.base, args.adapter, grammar=args.grammar)
    planning = PlanCache(args.plans, planner.plan, args.adapter) if args.plans else planner.plan
    if args.visible:
        texts = [text.prompt for text in real_texts.read_texts(args.visible)]
        some = random.Random(1).sample(texts, min(args.sample, len(texts)))
        found = judge_visible(planning, some, args.verbose)
    else:
        found = judge(planning, args.languages.split(","), args.verbose)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
