"""Turns of a worker in a role: the features of a trained linear head, and moves by its scores.

After TRINITY (arXiv 2512.04695): turn by turn a worker thinks ahead, works, or verifies what was
written, until a verifier accepts. There the head has an output for each of seven models. Here
everybody has other workers, so it is bilinear: the score of a worker in a role is s W w, with s
what is known of the prompt and the turn, and w what is known of the worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.plan_types import KINDS, Need

MAX_TURNS = 5


class TurnRole(IntEnum):
    """What a worker does in a turn."""

    THINKER = 0
    WORKER = 1
    VERIFIER = 2


@frozen_dataclass
class TurnPosition:
    """What happened so far: `turn` counts from 0, the other numbers are workers' places.

    `thought`, `wrote` and `verified` are the workers that did that last (None: none did);
    `is_rejected` is whether the verifier found something wrong with the answer.
    """

    turn: int = 0
    thought: int | None = None
    wrote: int | None = None
    verified: int | None = None
    is_rejected: bool = False


@frozen_dataclass
class WorkerFacts:
    """What the head sees of a worker.

    `chance` is how likely it does well what is needed, `skill` its level for that kind (0 to 5),
    `dollars` what a turn costs about.
    """

    chance: float
    skill: float
    dollars: float
    remote: bool = False
    is_tool: bool = False


POSITION_FEATURES = 9 + len(KINDS)
WORKER_FEATURES = 10


def position_features(position: TurnPosition, need: Need) -> list[float]:
    """Return what the head sees besides the prompt's meaning, POSITION_FEATURES numbers."""
    turn = [float(position.turn == number) for number in range(MAX_TURNS)]
    kind = [float(need.kind == name) for name in KINDS]
    has_notes, has_draft = position.thought is not None, position.wrote is not None
    last = [float(has_notes), float(has_draft), float(position.is_rejected)]
    return [*turn, *last, need.difficulty / 5, *kind]


def worker_features(worker: WorkerFacts, place: int, position: TurnPosition) -> list[float]:
    """Return what the head sees of a worker, WORKER_FEATURES numbers."""
    return [
        1.0,
        worker.chance,
        worker.skill / 5,
        min(1.0, 50 * worker.dollars),
        float(worker.dollars == 0),
        float(worker.remote),
        float(worker.is_tool),
        float(place == position.thought),
        float(place == position.wrote),
        float(place == position.verified),
    ]


CHANCE, DOLLARS = 1, 3
"""The indices of a worker's chance and price among its features."""
DOLLARS_WEIGHT = 0.4
"""The weight of the price feature against a chance: a dollar weighs 20, up to $0.02."""


def scores_by_rule(workers: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return scores that let the worker with the highest chance less its price answer, once."""
    silent = [-1.0] * len(workers)
    works = [figures[CHANCE] - DOLLARS_WEIGHT * figures[DOLLARS] for figures in workers]
    return [silent, works, silent]


def is_allowed(
    role: TurnRole, place: int, position: TurnPosition, workers: Sequence[WorkerFacts]
) -> bool:
    """Whether a worker may take a role now.

    A thinker comes before anything is written, and once; no worker verifies its own answer, or one
    that was verified already. A tool only works.
    """
    if role is TurnRole.WORKER:
        return position.wrote is None or position.is_rejected
    if workers[place].is_tool:
        return False
    if role is TurnRole.THINKER:
        return position.thought is None and position.wrote is None
    return position.wrote not in (None, place) and not position.is_rejected


def best_move(
    scores: Sequence[Sequence[float]], position: TurnPosition, workers: Sequence[WorkerFacts]
) -> tuple[TurnRole, int] | None:
    """Return the role and the worker with the highest score, None where what is written stands.

    `scores` has a row for each role. The last turn can only be work. What was written and not
    rejected stands where nothing scores above 0.
    """
    moves = [
        (scores[role][place], role, place)
        for role in TurnRole
        for place in range(len(workers))
        if is_allowed(role, place, position, workers)
        and (role is TurnRole.WORKER or position.turn < MAX_TURNS - 1)
    ]
    if position.turn >= MAX_TURNS or not moves:
        return None
    score, role, place = max(moves, key=lambda move: move[0])
    is_written = position.wrote is not None and not position.is_rejected
    return None if is_written and score <= 0 else (role, place)


def position_after(
    position: TurnPosition, role: TurnRole, place: int, is_accepted: bool = True
) -> TurnPosition:
    """Return the position after a turn; `is_accepted` is the verdict of one that verified."""
    turn = position.turn + 1
    match role:
        case TurnRole.THINKER:
            return TurnPosition(turn, place, position.wrote, position.verified)
        case TurnRole.WORKER:
            return TurnPosition(turn, position.thought, place)
        case TurnRole.VERIFIER:
            return TurnPosition(turn, position.thought, position.wrote, place, not is_accepted)
