"""What one corrective plan gains in the gym, where the first plan failed.

    PYTHONPATH=app .venv/bin/python scripts/training/conductor/correction_report.py --plans FILE

As `baton.core.strategies._parts` does it: a part of a kind that can be checked, and that a
check finds wrong, is done once more by another worker, where that is worth its price. Which parts
go well is drawn. A check finds a wrong part with gym.CHECK_STRENGTH, and takes a right one for
wrong with FALSE_ALARM; both are assumed. FILE holds plans as judge.py keeps them.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import gym
from gym_report import Row, Steps, episodes, perceived_parts, true_steps
from intervals import bootstrap_interval
from likely_kinds import KindReader

from baton.core.strategies._parts import CHECKED_KINDS

FALSE_ALARM = 0.02
FAILED = 100
"""So many episodes whose first plan failed are looked at."""


@dataclass(frozen=True)
class CorrectionResult:
    """The outcome of a plan before and after one correction, and whether there was one."""

    before: float
    after: float
    was_right: bool
    was_changed: bool


def correct(episode: gym.Episode, steps: Steps, rng: random.Random) -> CorrectionResult:
    """Run a plan, look at what came of it, and correct it once."""
    right = draw_outcomes(episode, steps, rng)
    doer = {part: step for step in steps for part in step.parts}
    again = []
    for part, task in enumerate(episode.tasks, start=1):
        is_seen = rng.random() < (FALSE_ALARM if right.get(part) else gym.CHECK_STRENGTH)
        step = doer.get(part)
        if step is None or task.kind not in CHECKED_KINDS or _is_tool(episode, step.worker):
            continue
        if is_seen and (other := another(episode, part, step.worker)):
            again.append(gym.Step(other, (part,), step.inputs))
    before = worth(episode, right) - steps_cost(episode, steps)
    redone = right | draw_outcomes(episode, again, rng)
    after = worth(episode, redone) - steps_cost(episode, [*steps, *again])
    return CorrectionResult(before, after, worth(episode, right) == 1, bool(again))


def another(episode: gym.Episode, part: int, failed: str) -> str:
    """Return the best other worker for a part, "" where none is worth its price."""
    task = episode.tasks[part - 1]
    read = gym.tokens_read(episode, [task])
    values = {}
    for worker in episode.workers:
        if worker.id != failed and not worker.is_tool:
            price = gym.cost(worker, read + gym.WRITTEN_TOKENS[task.kind])
            gain = gym.success(worker, task, read) / len(episode.tasks)
            values[worker.id] = gain - price
    best = max(values, key=values.__getitem__, default="")
    return best if best and values[best] > 0 else ""


def _is_tool(episode: gym.Episode, name: str) -> bool:
    return any(worker.id == name and worker.is_tool for worker in episode.workers)


def draw_outcomes(
    episode: gym.Episode, steps: Sequence[gym.Step], rng: random.Random
) -> dict[int, bool]:
    """Return which parts went well, by how likely the gym says that is."""
    chances, _ = gym.prospects(episode, steps)
    return {part: rng.random() < chance for part, chance in chances.items()}


def worth(episode: gym.Episode, right: Mapping[int, bool]) -> float:
    """Return the share of parts that are right, with all that they need."""
    good = [
        right.get(number, False) and all(right.get(n, False) for n in task.inputs)
        for number, task in enumerate(episode.tasks, start=1)
    ]
    return statistics.fmean(good)


def steps_cost(episode: gym.Episode, steps: Sequence[gym.Step]) -> float:
    """Return what some steps cost in the reward."""
    return gym.prospects(episode, steps)[1]


def results(plans: Mapping[str, Row], seed: int) -> Iterator[CorrectionResult]:
    """Yield what became of each episode; prompts come again with other rosters and other luck."""
    rng, reader = random.Random(seed), KindReader()
    while True:
        for row, truth in episodes(rng.randrange(1 << 30), 150):
            if (plan := plans.get(row["prompt"])) is None:
                continue
            has_tool = any(worker.is_tool for worker in truth.workers)
            parts = perceived_parts(row, plan, has_tool, reader)
            yield correct(truth, true_steps(parts, truth), rng)


def main() -> None:
    """Read the arguments and print what a correction gains."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plans", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    lines = args.plans.read_text(encoding="utf-8").splitlines()
    plans = {row["prompt"]: row for row in map(json.loads, lines)}
    failed: list[float] = []
    corrected, accepted = 0, []
    for found in results(plans, args.seed):
        if found.was_right:
            accepted.append(not found.was_changed)
        else:
            failed.append(found.after - found.before)
            corrected += found.was_changed
        if len(failed) == FAILED:
            break
    print(f"{FAILED} episodes whose first plan failed, {corrected} of them corrected")
    gain, (low, high) = statistics.fmean(failed), bootstrap_interval(failed, args.seed)
    print(f"after minus before: {gain:+.3f} [{low:+.3f}, {high:+.3f}]")
    share = statistics.fmean(accepted)
    print(f"accepted unchanged where all was right: {share:.1%} of {len(accepted)}")


if __name__ == "__main__":
    main()
