"""How well conductors split requests whose parts are known: plans are drawn, no step is run.

Each part should have one step of its own that says what the part says and sees the results it
builds on; a tool's part is computed by the tool. What else a plan holds takes away from its score.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean, median

import msgspec

from baton.bench.graded_questions import wilson_interval
from baton.core.errors import ERROR_CLASSES, WorkerError
from baton.core.labels import Label
from baton.core.messages import Message, Prompt, Purpose, Request, Role, Text
from baton.core.permissions import PromptLimits, RunTerms
from baton.core.plan_types import PROMPT, Outcome, Plan, Step, single_step_plan
from baton.core.planning.conductor import LanguageConductor
from baton.core.planning.plan_lines import TOOL_HEADS
from baton.core.ports import NEW, Proposal, StrategyContext, Worker, take_default
from baton.core.run.orchestra import Orchestra
from baton.core.run.run import Run
from baton.core.run.run_context import RunRequest
from baton.core.view import RunView

MODEL_CREDIT = 0.5
"""What a tool's part is worth that a model does in words: it may come out wrong."""

BLIND_CREDIT = 0.5
"""What a part is worth whose step doesn't see a result that it builds on."""

_EXPRESSION_TOOLS = frozenset(TOOL_HEADS.values())
_TOOLS = _EXPRESSION_TOOLS | {"python"}
_REPEATED_EXPRESSION = re.compile(r"\s*\((?:[^()]|\([^()]*\))*\)\.?$")
"""The expression that a tool repeats in brackets behind its result."""

_EPISODES_FILE = Path(__file__).with_name("conductor_episodes.toml")

_PLAN_ERRORS = {"ConfigError", "ContextTooLong", "PlanError", "WorkerError"}
"""Errors that say that a plan can't be used, while the next one may be."""

_LIMITS = PromptLimits(label=Label.LOCAL, attended=False, keep=False, preview=True)
_TERMS = RunTerms(mode="local", offline=True)

Values = Mapping[tuple[str, str], str]
"""The results of tools' expressions, by tool and text; without those that can't be computed."""


class ExpectedPart(msgspec.Struct, frozen=True):
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


class Episode(msgspec.Struct, frozen=True):
    """A request whose parts are known; `language` is its code, as in "de"."""

    id: str
    language: str
    request: str
    parts: tuple[ExpectedPart, ...]


def read_episodes() -> list[Episode]:
    """Return the built-in requests."""
    groups = msgspec.toml.decode(_EPISODES_FILE.read_bytes(), type=dict[str, list[Episode]])
    return groups["episodes"]


@dataclass(frozen=True)
class DrawnPlan:
    """The score of a plan, from 0 to 1, and the seconds that it took."""

    score: float
    seconds: float


@dataclass(frozen=True)
class ConductorRow:
    """How a conductor did on all episodes: a worker's id, "" for the trained conductor."""

    conductor: str
    plans: Sequence[DrawnPlan]

    @property
    def score(self) -> float:
        """The mean of the plans' scores, from 0 to 1."""
        return fmean(one.score for one in self.plans)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that holds that mean with 95 % certainty."""
        return wilson_interval(sum(one.score for one in self.plans), len(self.plans))

    @property
    def seconds(self) -> float:
        """The median time of a plan."""
        return median(one.seconds for one in self.plans)


# Drawing


@dataclass(frozen=True)
class _PlanningStrategy:
    """Proposes what one conductor draws: a worker by its id, "" for the trained one."""

    conductor: str

    async def first(self, context: StrategyContext) -> Proposal:
        if self.conductor:
            return Proposal(await LanguageConductor(self.conductor).plan(context))
        return Proposal(await context.split() or single_step_plan(context.routing.worker))

    async def next(self, context: StrategyContext, outcome: Outcome) -> None:
        return None


async def draw_plans(
    orchestra: Orchestra, conductor: str, episodes: Iterable[Episode]
) -> AsyncIterator[DrawnPlan]:
    """Yield the plan that a conductor ("": the trained one) draws for each episode.

    Nothing remote is asked. Raises what prevents any plan: a model file that can't be loaded, or a
    process that can't be started.
    """
    values: dict[tuple[str, str], str] = {}
    for episode in episodes:
        request = RunRequest(
            Prompt(episode.request),
            NEW,
            _LIMITS,
            _TERMS,
            orchestra.worker().card.id,
            "conductor",
            _PlanningStrategy(conductor),
        )
        view = RunView()
        async with Run(request, orchestra.services, take_default) as run:
            async for event in run:
                view = view.apply(event)
        failure = view.failure
        if failure is not None and failure.error not in _PLAN_ERRORS:
            raise ERROR_CLASSES[failure.error](failure.message, failure.hint)
        score = 0.0
        if view.plan is not None:
            await _compute(values, orchestra.services.workers, episode, view.plan)
            score = score_plan(view.plan, episode, values)
        yield DrawnPlan(score, view.seconds)


async def _compute(
    values: dict[tuple[str, str], str], workers: Mapping[str, Worker], episode: Episode, plan: Plan
) -> None:
    """Add the results of an episode's and a plan's expressions to values."""
    expressions = {(part.tool, part.text) for part in episode.parts}
    expressions |= {(step.worker, step.subtask) for step in plan.steps}
    for tool, text in expressions - values.keys():
        if tool not in _EXPRESSION_TOOLS or tool not in workers:
            continue
        request = Request((Message(Role.USER, text),), Purpose.VERIFY)
        try:
            chunks = [one async for one in workers[tool].stream(request)]
        except WorkerError:
            continue
        values[tool, text] = value_text("".join(c.text for c in chunks if isinstance(c, Text)))


def value_text(result: str) -> str:
    """Return what a tool's sentence says besides the expression: "391" of "17 * 23 = 391"."""
    return re.split(r"[=\u2248]", _REPEATED_EXPRESSION.sub("", result.strip()))[-1].strip()


# Scoring


def score_plan(plan: Plan, episode: Episode, values: Values) -> float:
    """Return the score from 0 to 1 of a plan whose steps have workers.

    One step for the request keeps it whole. Expressions are compared by their `values` where those
    are known, else by their numbers.
    """
    return max(_Match(plan.steps, episode, values).scores())


class _Match:
    """A plan beside an episode: which step may do which part, and what that is worth."""

    def __init__(self, steps: Sequence[Step], episode: Episode, values: Values) -> None:
        self._steps = steps
        self._parts = episode.parts
        self._values = values
        self._tasks = [
            (episode.request if step.is_direct else step.subtask).casefold() for step in steps
        ]
        self._needed: dict[int, frozenset[int]] = {}
        for number, part in enumerate(episode.parts, start=1):
            before = (self._needed[n] for n in part.needs)
            self._needed[number] = frozenset(part.needs).union(*before)

    def scores(self) -> Iterator[float]:
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
                yield sum(self._credit_beside(part, does) for part in numbers) / most

    def _credit(self, number: int, step_number: int) -> float:
        """Return what a step is worth for a part by itself."""
        part, step = self._parts[number - 1], self._steps[step_number - 1]
        holds = self._holds(step_number, number)
        if step.worker not in _TOOLS:
            return (MODEL_CREDIT if part.tool else 1.0) if holds else 0.0
        right = self._values.get((part.tool, part.text))
        result = self._values.get((step.worker, step.subtask))
        if step.worker == part.tool and right is not None and result is not None:
            return float(right == result)
        return float(bool(part.tool) and holds)

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
        return self._steps[step - 1].worker not in _TOOLS and does[other] not in self._seen(step)

    def _sees(self, number: int, does: Mapping[int, int]) -> bool:
        """Whether a part's step sees, or computes, the results that the part builds on."""
        step = does[number]
        missing = [n for n in self._parts[number - 1].needs if does[n] not in self._seen(step)]
        if self._steps[step - 1].worker not in _TOOLS:
            return not missing
        return all(self._parts[n - 1].tool and self._holds(step, n) for n in missing)

    def _seen(self, number: int) -> set[int]:
        """Return the steps whose results went into a step."""
        inputs = set(self._steps[number - 1].inputs)
        return inputs.union(*map(self._seen, inputs))

    def _holds(self, step_number: int, number: int) -> bool:
        """Whether a step says what a part says."""
        part, step = self._parts[number - 1], self._steps[step_number - 1]
        is_shown = PROMPT in step.access and step.worker not in _TOOLS
        entries = part.holds if is_shown else (*part.holds, *part.about)
        task = self._tasks[step_number - 1]
        return all(any(_pattern(one).search(task) for one in e.split("|")) for e in entries)


@cache
def _pattern(entry: str) -> re.Pattern[str]:
    """Return what finds a number as a whole, and a word by its beginning."""
    entry = entry.casefold()
    before = r"(?<!\d)(?<!\d[.,:])" if entry[0].isdigit() else r"(?<!\w)" * entry[0].isalpha()
    after = r"(?!\d)(?![.,:]\d)" if entry[-1].isdigit() else ""
    return re.compile(before + re.escape(entry) + after)
