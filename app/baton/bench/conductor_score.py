"""How good a plan is for a request whose parts are known: pure, the same for every conductor.

Each part should have one step of its own that says what the part says and sees the results it
builds on; a tool's part is computed by the tool. What else a plan holds takes away from its score.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

from baton.core.plan_types import PROMPT, Plan, Step, single_step_plan
from baton.core.planning.plan_lines import TOOL_HEADS

MODEL_CREDIT = 0.5
"""What a tool's part is worth that a model does in words: it may come out wrong."""

BLIND_CREDIT = 0.5
"""What a part is worth whose step doesn't see a result that it builds on."""

RESAMPLES = 2000
"""How often a mean is drawn again for its interval."""

_TOOLS = frozenset({*TOOL_HEADS.values(), "python"})
_REPEATED_EXPRESSION = re.compile(r"\s*\((?:[^()]|\([^()]*\))*\)\.?$")
"""The expression that a tool repeats in brackets behind its result."""

Values = Mapping[tuple[str, str], str]
"""What tools' expressions come to, by tool and text; without those that can't be computed."""


@dataclass(frozen=True)
class ExpectedPart:
    """One part of a request, and how it is recognised in a step.

    `text` is how a good plan may put it. A step for it holds each of `holds`, and each of `about`
    unless it is shown the request itself; alternatives stand between "|". `tool` computes `text`
    ("": a model writes). `needs` are the numbers of earlier parts, from 1, whose results it uses.
    """

    text: str
    holds: tuple[str, ...]
    about: tuple[str, ...] = ()
    tool: str = ""
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Episode:
    """A request whose parts are known; `language` is its code, as in "de"."""

    id: str
    language: str
    request: str
    parts: tuple[ExpectedPart, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is one task for one model, which must not be split."""
        return len(self.parts) == 1 and not self.parts[0].tool

    @cached_property
    def needed(self) -> Mapping[int, frozenset[int]]:
        """By part, all earlier ones that it builds on, also through others."""
        found: dict[int, frozenset[int]] = {}
        for number, part in enumerate(self.parts, start=1):
            found[number] = frozenset(part.needs).union(*(found[n] for n in part.needs))
        return found


@dataclass(frozen=True)
class PlanScore:
    """`points` from 0 to 1; `is_right` where each part has its own step, and no other is there.

    A plan is right also where a model does a tool's part.
    """

    points: float
    is_right: bool


def score_plan(plan: Plan | None, episode: Episode, values: Values | None = None) -> PlanScore:
    """Score a plan whose steps have workers; None is a request that stays whole.

    With `values`, expressions are compared by what they come to, else by their numbers.
    """
    match = _Match(plan or single_step_plan(""), episode, values or {})
    return max(match.scores(), key=lambda score: (score.points, score.is_right))


class _Match:
    """A plan beside an episode: which step may do which part, and what that is worth."""

    def __init__(self, plan: Plan, episode: Episode, values: Values) -> None:
        self._steps = plan.steps
        self._parts = episode.parts
        self._needed = episode.needed
        self._values = values
        self._said = [_task_text(step, episode) for step in plan.steps]

    def scores(self) -> Iterator[PlanScore]:
        """Yield the score of each way to give every part a step of its own, or none (0)."""
        numbers = range(1, len(self._parts) + 1)
        able = [
            [0, *(s for s in range(1, len(self._steps) + 1) if self._credit(p, s))] for p in numbers
        ]
        most = max(len(self._parts), len(self._steps))
        for chosen in product(*able):
            used = [step for step in chosen if step]
            if len(set(used)) == len(used):
                does = dict(zip(numbers, chosen, strict=True))
                credit = {part: self._credit_beside(part, does) for part in numbers}
                right = all(credit[part] and self._sees(part, does) for part in numbers)
                yield PlanScore(sum(credit.values()) / most, right and len(used) == most)

    def _credit(self, number: int, step_number: int) -> float:
        """Return what a step is worth for a part by itself."""
        part, step = self._parts[number - 1], self._steps[step_number - 1]
        if step.worker not in _TOOLS:
            if not self._holds(step_number, number):
                return 0.0
            return MODEL_CREDIT if part.tool else 1.0
        if not part.tool:
            return 0.0
        wanted = self._values.get((part.tool, part.text))
        found = self._values.get((step.worker, step.subtask))
        if step.worker == part.tool and wanted is not None and found is not None:
            return float(wanted == found)
        return float(self._holds(step_number, number))

    def _credit_beside(self, number: int, does: Mapping[int, int]) -> float:
        """Return what a part's step is worth, given the steps of the others."""
        step = does[number]
        if not step or any(self._is_taken(other, number, does) for other in does):
            return 0.0
        return self._credit(number, step) * (1.0 if self._sees(number, does) else BLIND_CREDIT)

    def _is_taken(self, other: int, number: int, does: Mapping[int, int]) -> bool:
        """Whether a part's step does another part, too.

        It may repeat what it builds on, where it sees that or computes it.
        """
        step = does[number]
        if other == number or not self._holds(step, other):
            return False
        if other not in self._needed[number]:
            return True
        if self._steps[step - 1].worker in _TOOLS:
            return False
        return does[other] not in self._seen(step)

    def _sees(self, number: int, does: Mapping[int, int]) -> bool:
        """Whether a part's step sees, or computes, the results that the part builds on."""
        step = does[number]
        if not step:
            return False
        missing = [n for n in self._parts[number - 1].needs if does[n] not in self._seen(step)]
        if self._steps[step - 1].worker not in _TOOLS:
            return not missing
        return all(self._parts[n - 1].tool and self._holds(step, n) for n in missing)

    def _seen(self, number: int) -> set[int]:
        """Return the steps whose results went into a step."""
        found = set(self._steps[number - 1].inputs)
        return found.union(*map(self._seen, found))

    def _holds(self, step_number: int, number: int) -> bool:
        """Whether a step says what a part says."""
        part, step = self._parts[number - 1], self._steps[step_number - 1]
        shown = PROMPT in step.access and step.worker not in _TOOLS
        entries = part.holds if shown else (*part.holds, *part.about)
        return all(_is_mentioned(self._said[step_number - 1], entry) for entry in entries)


def _task_text(step: Step, episode: Episode) -> str:
    """Return what a step has to do: the request, where it is the task itself."""
    return (episode.request if step.is_direct else step.subtask).casefold()


def _is_mentioned(said: str, entry: str) -> bool:
    return any(_pattern(one).search(said) for one in entry.split("|"))


@cache
def _pattern(entry: str) -> re.Pattern[str]:
    """Return what finds a number as a whole, and a word by its beginning."""
    entry = entry.casefold()
    before = r"(?<!\d)(?<!\d[.,:])" if entry[0].isdigit() else r"(?<!\w)" * entry[0].isalpha()
    after = r"(?!\d)(?![.,:]\d)" if entry[-1].isdigit() else ""
    return re.compile(before + re.escape(entry) + after)


def value_text(result: str) -> str:
    """Return what a tool's sentence says besides the expression: "391" of "17 * 23 = 391"."""
    said = _REPEATED_EXPRESSION.sub("", result.strip())
    return re.split(r"[=\u2248]", said)[-1].strip()


def bootstrap_interval(points: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return where the mean of points lies in 95 of 100 draws of as many of them."""
    if not points:
        return 0.0, 0.0
    chance = random.Random(seed)
    count = len(points)
    means = sorted(sum(chance.choices(points, k=count)) / count for _ in range(RESAMPLES))
    return means[RESAMPLES // 40], means[-1 - RESAMPLES // 40]


EPISODES_FILE = Path(__file__).with_name("conductor_episodes.toml")


def read_episodes(limit: int | None = None) -> tuple[Episode, ...]:
    """Return the first `limit` episodes, or all of them."""
    rows = tomllib.loads(EPISODES_FILE.read_text("utf-8"))["episodes"]
    return tuple(map(_episode, rows[:limit]))


def _episode(row: dict[str, Any]) -> Episode:
    return Episode(row["id"], row["language"], row["request"], tuple(map(_part, row["parts"])))


def _part(row: dict[str, Any]) -> ExpectedPart:
    return ExpectedPart(
        row["text"],
        tuple(row["holds"]),
        tuple(row.get("about", ())),
        row.get("tool", ""),
        tuple(row.get("needs", ())),
    )
