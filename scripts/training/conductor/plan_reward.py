"""What a written plan is worth for a drawn request: what the conductor is rewarded for.

The gym runs the plan as the product would: code gives its parts to a roster's workers by what the
plan says they need, and the reward is what that yields for the parts that the request truly has.
An expression that computes anything else than was asked for costs WRONG besides. One that can't be
computed costs less, as the product notices it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import gym
from gym_report import Assigner, PerceivedPart, true_steps
from plan_check import HEADS, comparable, is_same
from request_generator import Example

from baton.core.errors import PlanError
from baton.core.messages import estimated_tokens
from baton.core.planning.plan_lines import PlanPart, is_repeating, parse_lines
from baton.workers.tools.computation import CannotCompute

WRONG = 0.5
"""What an expression costs that wasn't asked for, or computes something else."""

UNREADABLE = -0.25
"""What a text is worth that isn't a plan: less than leaving the request to one worker. An
expression that can't be computed costs as much."""

MIN_SHARED = 0.75
"""The share of a part's words that make another text the same task."""

MOST_PARTS = 4
"""What the gym can find the best plan of."""

_WORD = re.compile(r"\w+")
_LITERAL = re.compile(r"\d+(?:[.:-]\d+)*|[A-Z]\w+")
_REFERENCE = re.compile(r"#(\d)")


@dataclass(frozen=True)
class SampledRequest:
    """A request that was drawn with its true parts and a roster."""

    prompt: str
    parts: tuple[PlanPart, ...]
    episode: gym.Episode


def draw(example: Example, rosters: gym.Rosters) -> SampledRequest | None:
    """Return an example as an episode, None where it has too many parts.

    Its roster has a calculator, which stands for all tools, as the product always has them.
    """
    parts = written_out(parse_lines(example.target))
    if len(parts) > MOST_PARTS:
        return None
    workers = rosters.draw()
    if not any(worker.is_tool for worker in workers):
        workers = (*workers, gym.Worker("calculator", "tool", 0.0, 0.0, {"calculation": 5.0}))
    tasks = tuple(_task(part) for part in parts)
    episode = gym.Episode(tasks, workers, estimated_tokens(example.prompt))
    return SampledRequest(example.prompt, parts, episode)


def _task(part: PlanPart) -> gym.Task:
    """Return a part as the gym sees it: what a sum asks of a model grows with its digits."""
    if part.tool:
        difficulty = min(4, 1 + sum(map(str.isdigit, part.text)) // 3)
        return gym.Task("calculation", difficulty, part.inputs, computable=True)
    return gym.Task(part.need.kind, part.need.difficulty, part.inputs)


def written_out(parts: Sequence[PlanPart]) -> tuple[PlanPart, ...]:
    """Return parts whose sums hold earlier sums in brackets instead of `#1`."""
    found: list[PlanPart] = []
    for part in parts:
        text = part.text
        if part.tool == "calculator":
            text = _REFERENCE.sub(lambda match: _inline_result(match, found), text)
        found.append(replace(part, text=text))
    return tuple(found)


def _inline_result(match: re.Match[str], before: Sequence[PlanPart]) -> str:
    named = before[int(match[1]) - 1]
    return f"({named.text})" if named.tool == "calculator" else match[0]


def reward(
    drawn: SampledRequest,
    text: str,
    curve: gym.Curve = gym.CURVE,
    rng: random.Random | None = None,
    spreads: Sequence[tuple[float, ...]] = (),
    assigner: Assigner | None = None,
) -> float:
    """Return what a plan is worth, at most 1; with `rng` its parts' outcomes are drawn, 0 or 1.

    `spreads` say how likely each difficulty is, for each part that no tool does. An exact search
    assigns the workers where there is no other `assigner`.
    """
    try:
        parts = written_out(parse_lines(text))
    except PlanError:
        return UNREADABLE
    if is_repeating(text) or len(parts) > MOST_PARTS:
        return UNREADABLE
    is_alone = len(parts) == 1
    covers = [
        tuple(_covered_parts(part, number, drawn, is_alone))
        for number, part in enumerate(parts, start=1)
    ]
    lost = sum(
        _cost_of_wrong(part)
        for part, those in zip(parts, covers, strict=True)
        if part.tool and not those
    )
    likely = iter(spreads)
    believed = []
    for part, those in zip(parts, covers, strict=True):
        task = _task(part) if part.tool else replace(_task(part), spread=next(likely, ()))
        believed.append(PerceivedPart(task, those))
    steps = true_steps(believed, drawn.episode, assigner, curve)
    if rng is None:
        found = gym.reward(drawn.episode, steps, curve)
    else:
        found = gym.outcome(drawn.episode, steps, rng, curve)
    return found - lost


def _cost_of_wrong(part: PlanPart) -> float:
    """Return what an expression costs that computes nothing that was asked for."""
    try:
        comparable(HEADS[part.tool], part.text)
    except CannotCompute:
        return -UNREADABLE
    return WRONG


def _covered_parts(part: PlanPart, place: int, drawn: SampledRequest, is_alone: bool) -> list[int]:
    """Return the true parts that a part does: by its value, by its words, or all by being whole."""
    if part.is_whole_request or (is_alone and not part.tool and len(drawn.parts) == 1):
        return list(range(1, len(drawn.parts) + 1))
    if part.tool:
        return _computed_sums(part, place, drawn.parts)
    return [
        number
        for number, true in enumerate(drawn.parts, start=1)
        if (_left_to(part, true) if true.tool else _same_task(part, true, drawn))
    ]


def _computed_sums(part: PlanPart, place: int, true_parts: Sequence[PlanPart]) -> list[int]:
    """Return the sum that an expression is the same as, with those that are only there for it.

    Where several have the same result, it is the one in its place, else the last.
    """
    head = HEADS[part.tool]
    same = [
        number
        for number, true in enumerate(true_parts, start=1)
        if true.tool == part.tool and is_same(part, f"{head}: {true.text}")
    ]
    if not same:
        return []
    number = place if place in same else same[-1]
    return sorted({number, *(n for n in true_parts[number - 1].inputs if true_parts[n - 1].tool)})


def _left_to(part: PlanPart, true: PlanPart) -> bool:
    """Whether a task for a model holds all that a true sum is made of."""
    literals = set(_LITERAL.findall(true.text))
    return bool(literals) and literals <= set(_LITERAL.findall(part.text))


def _same_task(part: PlanPart, true: PlanPart, drawn: SampledRequest) -> bool:
    """Whether a part holds most words of a true one, and one that no other true part has.

    A text that two parts are about is in both.
    """
    wanted, said = _words(drawn.prompt if true.is_whole_request else true.text), _words(part.text)
    others = (_words(other.text) for other in drawn.parts if other is not true)
    own = wanted.difference(*others)
    return len(wanted & said) >= MIN_SHARED * len(wanted) and (not own or bool(own & said))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
