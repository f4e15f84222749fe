"""How good the conductor's plans are in the gym, on the prompts of `held_out/` and drawn rosters.

    PYTHONPATH=app .venv/bin/python scripts/training/conductor/gym_report.py --plans FILE [--seed N]

FILE holds plans as judge.py keeps them (`--plans`). A score is (reward - random) / (oracle -
random), ratio of means, with a bootstrap interval over the episodes; differences are paired. The
parts, kinds and difficulties of the prompts were written by hand.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import baselines
import gym
import score_episodes
from likely_kinds import KindReader
from plan_check import is_same
from turn_head import Head

from baton.core.errors import PlanError
from baton.core.messages import estimated_tokens
from baton.core.plan_types import KINDS
from baton.core.planning.plan_lines import PlanPart, parse_lines
from baton.core.planning.request_parts import WrittenPlan
from baton.workers.tools.computation.lexicon import guess_language
from baton.workers.tools.computation.marked_text import mark

HELD_OUT = Path(__file__).parent / "held_out"

MODEL = "conductor, model assigns"
Steps = Sequence[gym.Step]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class PerceivedPart:
    """A part as a planner sees it, which true parts its text covers, and the text."""

    task: gym.Task
    covers: tuple[int, ...]
    text: str = ""


def true_parts(row: Row) -> list[Row]:
    """Return a row's parts; a single request is one."""
    if "parts" in row:
        return list(row["parts"])
    if "expression" in row:
        tool, _, expression = row["expression"].partition(": ")
        return [{"tool": tool, "expression": expression, "needs": [], "must_contain": []}]
    return [{"tool": "text", "needs": [], "must_contain": [], **row}]


def episode_of(row: Row, workers: tuple[gym.Worker, ...]) -> gym.Episode:
    """Return the truth about a row: what a computable part asks of a model is 1 to 4."""
    tasks = []
    for part in true_parts(row):
        computable = part["tool"] != "text"
        kind = "calculation" if computable else part["kind"]
        digits = sum(character.isdigit() for character in part.get("expression", ""))
        difficulty = min(4, 1 + digits // 3) if computable else part["difficulty"]
        tasks.append(gym.Task(kind, difficulty, tuple(part["needs"]), computable=computable))
    return gym.Episode(tuple(tasks), workers, estimated_tokens(row["prompt"]), id=row["id"])


def perceived_parts(row: Row, plan: Row, has_tool: bool, reader: KindReader) -> list[PerceivedPart]:
    """Return what the conductor's plan for a row's prompt says, as the product reads it.

    The plan is a row of those that judge.py keeps.
    """
    try:
        parts: Sequence[PlanPart] = parse_lines(plan["text"])
    except PlanError:
        parts = (score_episodes.WHOLE,)
    found = []
    likely = iter(plan["spreads"])
    written = WrittenPlan(plan["text"], plan["confidence"], plan["lines"])
    steps = score_episodes.as_steps(row["prompt"], parts, has_tool, written)
    for number, step in enumerate(steps):
        part = parts[number] if number < len(parts) else step
        spread = tuple(next(likely, ())) if number < len(parts) and not part.tool else ()
        need = step.need
        if not step.tool:
            spread = score_episodes.calibrated_difficulty(spread, need.difficulty)
        task = gym.Task(
            need.kind, need.difficulty, step.inputs, computable=bool(step.tool), spread=spread
        )
        text = row["prompt"] if step.is_whole_request else step.text
        task = reader.task(task, text)
        found.append(
            PerceivedPart(task, tuple(_covered_parts(step, part, row, len(steps) == 1)), text)
        )
    return found


def _covered_parts(step: PlanPart, part: PlanPart, row: Row, is_alone: bool) -> Iterator[int]:
    """Yield the true parts that a step covers: by its value, or by the words that it must hold.

    A value counts as written, and with earlier results written out. A single step that no tool does
    is the request itself.
    """
    language = guess_language(row["prompt"])
    words = f"{step.text} {mark(step.text, language).text}".casefold()
    for number, true in enumerate(true_parts(row), start=1):
        line = f"{true['tool']}: {true.get('expression', '')}"
        if any(form.tool and is_same(form, line) for form in (part, step)) or (
            not step.tool
            and (
                is_alone
                or step.is_whole_request
                or all(str(piece).casefold() in words for piece in true["must_contain"])
            )
        ):
            yield number


class Assigner(Protocol):
    """Names the workers of an episode's parts, whose texts these are."""

    def steps(self, episode: gym.Episode, texts: Sequence[str]) -> list[gym.Step]:
        """Return a step for each part, and checks behind them."""


def true_steps(
    parts: Sequence[PerceivedPart],
    truth: gym.Episode,
    assigner: Assigner | None = None,
    curve: gym.Curve = gym.BELIEVED,
) -> Steps:
    """Return the steps as the truth sees them: assigned by what was believed, or by an assigner."""
    tasks = tuple(part.task for part in parts)
    guess = gym.Episode(tasks, truth.workers, truth.prompt_tokens)
    texts = [part.text for part in parts]
    chosen = assigner.steps(guess, texts) if assigner else gym.best_plan(guess, curve)[0]
    steps: list[gym.Step] = []
    taken: set[int] = set()
    for step in chosen:
        covers = {n for part in step.parts for n in parts[part - 1].covers} - taken
        taken |= covers
        steps.append(gym.Step(step.worker, tuple(sorted(covers)), step.inputs, step.checks))
    return steps


Assign = Callable[[gym.Episode], Steps]
"""Returns steps that do some parts as they are believed to be."""


def picks(assign: Assign, guess: gym.Episode, truth: gym.Episode) -> Iterator[tuple[str, bool]]:
    """Yield what is asked of choosing workers, and whether it is so.

    Whether the pick for the first part that no tool computes changes once its worker lacks the
    skill, once it lacks another one, and once it costs 20 times as much where the best plan changes
    then; whether a free worker does what one does in the best plan, and a check stands where the
    best plan has one.
    """
    steps = assign(guess)
    place, picked = next(
        ((n, _doer(steps, n)) for n, task in enumerate(guess.tasks, 1) if not task.computable),
        (0, ""),
    )
    worker = next((one for one in guess.workers if one.id == picked), None)
    if worker is not None and not worker.is_tool:
        kind = guess.tasks[place - 1].kind
        other = next(name for name in KINDS if name not in {task.kind for task in guess.tasks})
        for name, lost in (("skill zeroed", kind), ("another skill zeroed", other)):
            poorer = replace(worker, skills={**worker.skills, lost: 0.0})
            yield name, _doer(assign(_with(guess, poorer)), place) != picked
        dearer = _with(guess, replace(worker, price=20 * worker.price))
        if _doer(gym.best_plan(dearer)[0], place) != _doer(gym.best_plan(guess)[0], place):
            yield "price x20 where it matters", _doer(assign(dearer), place) != picked
    best = gym.best_plan(truth)[0]
    free = {one.id for one in truth.workers if not one.price and not one.is_tool}
    if len(guess.tasks) == len(truth.tasks):
        for number in range(1, len(truth.tasks) + 1):
            if _doer(best, number) in free:
                yield "free worker where it is best", _doer(steps, number) in free
        if any(step.checks for step in best):
            yield "check where the best plan has one", any(step.checks for step in steps)


def _doer(steps: Steps, part: int) -> str:
    return next((step.worker for step in steps if part in step.parts), "")


def _with(episode: gym.Episode, worker: gym.Worker) -> gym.Episode:
    workers = tuple(worker if one.id == worker.id else one for one in episode.workers)
    return replace(episode, workers=workers)


def rule_parts(row: Row, has_tool: bool) -> list[PerceivedPart]:
    """Return a row's parts as the rule sees them."""
    found = []
    for text, need, computed in baselines.by_rule(row["prompt"], has_tool):
        task = gym.Task(need.kind, need.difficulty, computable=computed)
        pieces = [
            number
            for number, true in enumerate(true_parts(row), start=1)
            if all(str(p).casefold() in text.casefold() for p in true["must_contain"])
        ]
        found.append(PerceivedPart(task, tuple(pieces)))
    return found


def episodes(seed: int, per_set: int) -> Iterator[tuple[Row, gym.Episode]]:
    """Yield prompts with rosters: as many compounds as single requests and computable ones."""
    rng = random.Random(seed)
    rosters = gym.Rosters(rng)
    for name in ("compounds.jsonl", "singles.jsonl", "negatives.jsonl", "computable.en.jsonl"):
        lines = (HELD_OUT / name).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        for row in rng.sample(rows, min(per_set, len(rows))):
            if len(true_parts(row)) <= 4:
                yield row, episode_of(row, rosters.draw())


CURVES = {
    f" at slope x{slope}, cost x{weight}": gym.Curve(gym.SLOPE * slope, gym.COST_WEIGHT * weight)
    for slope in (0.7, 1.3)
    for weight in (0.3, 3)
}
"""The outcome model, perturbed."""


class Report:
    """Rewards by way, and how often picks are as they should be, over episodes."""

    def __init__(self, seed: int) -> None:
        self._head = Head()
        self._random = random.Random(seed)
        self.rewards: dict[str, list[float]] = {}
        self.picked: dict[str, list[bool]] = {}

    def add(self, row: Row, parts: Sequence[PerceivedPart], truth: gym.Episode) -> None:
        """Run one episode in every way; `parts` are what the conductor believes."""
        has_tool = any(worker.is_tool for worker in truth.workers)
        ways: Mapping[str, Steps] = {
            "random": baselines.random_plan(truth, self._random),
            "cheapest": baselines.cheapest(truth),
            "dearest": baselines.dearest(truth),
            "best single": baselines.best_single(truth),
            "rule": true_steps(rule_parts(row, has_tool), truth, curve=gym.CURVE),
            "conductor": true_steps(parts, truth),
            MODEL: true_steps(parts, truth, self._head),
            "oracle": gym.best_plan(truth)[0],
        }
        for name, steps in ways.items():
            self.rewards.setdefault(name, []).append(gym.reward(truth, steps))
        for name, curve in CURVES.items():
            for way in ("random", "conductor", "oracle"):
                steps = gym.best_plan(truth, curve)[0] if way == "oracle" else ways[way]
                self.rewards.setdefault(way + name, []).append(gym.reward(truth, steps, curve))
        self._add_picks(parts, truth)

    def _add_picks(self, parts: Sequence[PerceivedPart], truth: gym.Episode) -> None:
        texts = [part.text for part in parts]
        guess = gym.Episode(tuple(part.task for part in parts), truth.workers, truth.prompt_tokens)
        assigning: Mapping[str, Assign] = {
            "code": lambda episode: gym.best_plan(episode, gym.BELIEVED)[0],
            "model": lambda episode: self._head.steps(episode, texts),
        }
        for name, assign in assigning.items():
            for asked, is_so in picks(assign, guess, truth):
                self.picked.setdefault(f"{asked}, {name} assigns", []).append(is_so)


def main() -> None:
    """Read the arguments and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plans", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-set", type=int, default=150)
    args = parser.parse_args()
    lines = args.plans.read_text(encoding="utf-8").splitlines()
    plans = {row["prompt"]: row for row in map(json.loads, lines)}
    report, reader = Report(args.seed), KindReader()
    for row, truth in episodes(args.seed, args.per_set):
        if row["prompt"] in plans:
            has_tool = any(worker.is_tool for worker in truth.workers)
            report.add(row, perceived_parts(row, plans[row["prompt"]], has_tool, reader), truth)
    rewards = report.rewards
    print(f"{len(rewards['oracle'])} episodes")
    for name in ("cheapest", "dearest", "best single", "rule", "conductor", MODEL):
        print(name, _with_interval(partial(_score, rewards, name), rewards, args.seed))
    print("ahead of the rule", _with_interval(
        lambda i: _score(rewards, "conductor", i) - _score(rewards, "rule", i), rewards, args.seed
    ))  # fmt: skip
    for name, answers in sorted(report.picked.items()):
        print(f"{name}: {statistics.fmean(answers):.0%} of {len(answers)}")
    for name in CURVES:
        print(f"conductor{name}", round(_score(rewards, "conductor", None, name), 3))


def _score(
    rewards: Mapping[str, Sequence[float]], name: str, at: Sequence[int] | None, suffix: str = ""
) -> float:
    at = range(len(rewards["oracle"])) if at is None else at
    found, least, most = (
        statistics.fmean(rewards[key + suffix][i] for i in at) for key in (name, "random", "oracle")
    )
    return (found - least) / (most - least)


def _with_interval(
    score: Callable[[Sequence[int] | None], float],
    rewards: Mapping[str, Sequence[float]],
    seed: int,
) -> str:
    rng = random.Random(seed)
    count = len(rewards["oracle"])
    drawn = sorted(score([rng.randrange(count) for _ in range(count)]) for _ in range(1000))
    return f"{score(None):.3f} [{drawn[24]:.3f}, {drawn[974]:.3f}]"


if __name__ == "__main__":
    main()
