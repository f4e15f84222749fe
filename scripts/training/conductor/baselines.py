"""What the conductor has to beat: random, cheapest, dearest, the best single step, and a rule."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import gym

from baton.core.plan_types import Need
from baton.core.reading.task_kind import text_need

_JOIN = re.compile(
    r"(?:[.;?!]\s+|,?\s+)(?:and then|and also|and|then|also|und dann|und|dann|et puis|et|puis|"
    r"y luego|y|luego|e poi|poi|e depois|depois|e)\s+|[?!;\n]\s*(?=\S)|\.\s+(?=[A-Z¿])",
    re.IGNORECASE,
)
_SUM = re.compile(r"\d+(?:[.,]\d+)?\s*[-+*/x%\u00d7\u00f7]|\bhow (?:many|much)\b.*\d")


def _one(episode: gym.Episode, worker: gym.Worker) -> list[gym.Step]:
    return [gym.Step(worker.id, tuple(range(1, len(episode.tasks) + 1)))]


def _models(episode: gym.Episode) -> list[gym.Worker]:
    return [worker for worker in episode.workers if not worker.is_tool]


def random_plan(episode: gym.Episode, rng: random.Random) -> list[gym.Step]:
    """Return a random worker for a random one of both ways: all at once, or a step a part."""
    if rng.random() < 0.5 or len(episode.tasks) == 1:
        return _one(episode, rng.choice(episode.workers))
    return [
        gym.Step(rng.choice(episode.workers).id, (number,), task.inputs)
        for number, task in enumerate(episode.tasks, start=1)
    ]


def cheapest(episode: gym.Episode) -> list[gym.Step]:
    """Return one step by the cheapest model."""
    return _one(episode, min(_models(episode), key=lambda worker: worker.price))


def dearest(episode: gym.Episode) -> list[gym.Step]:
    """Return one step by the most expensive model."""
    return _one(episode, max(_models(episode), key=lambda worker: worker.price))


def best_single(episode: gym.Episode) -> list[gym.Step]:
    """Return the one step that is best, by someone who knows the truth."""
    plans = [_one(episode, worker) for worker in episode.workers]
    return max(plans, key=lambda plan: gym.reward(episode, plan))


def by_rule(prompt: str, has_tool: bool) -> Sequence[tuple[str, Need, bool]]:
    """Return a request's parts as a rule sees them: text, need, and whether a tool computes it.

    Written before any of the prompts kept for judging was read: cut at conjunctions and sentence
    ends, what looks like a sum is computed, kind and difficulty as the product's rule says.
    """
    pieces = [piece.strip(" ,.") for piece in _JOIN.split(prompt)]
    pieces = [piece for piece in pieces if len(piece.split()) > 1] or [prompt]
    found = []
    for piece in pieces[:4]:
        computed = has_tool and len(piece) < 80 and _SUM.search(piece) is not None
        found.append((piece, Need("calculation", 1) if computed else text_need(piece), computed))
    return found
