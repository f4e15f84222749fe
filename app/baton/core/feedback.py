"""What tells how good an answer was: what a person did with it, and what its run shows by itself.

Everything that is known of one answer comes to one opinion: the strongest thing counts, so that a
thumb is never outvoted by a copy. What is old tells less.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from baton.core.routing_types import Candidate, RatedAnswer


class Signal(StrEnum):
    """What happened to an answer. A person's are stored, the last two are read from events."""

    GOOD = "good"  # the person said so
    BAD = "bad"  # the person said so
    STRONGER = "stronger"  # a stronger worker was asked the same
    AGAIN = "again"  # it was to be answered again
    EDITED = "edited"  # the prompt was changed and sent again
    COPIED = "copied"  # all or a part of it was copied
    AGREED = "agreed"  # the worker elsewhere that replaced it came to the same short answer
    DIFFERED = "differed"  # the worker elsewhere that replaced it came to another


RATINGS = (Signal.GOOD, Signal.BAD)
"""What a person says in so many words; one excludes the other."""

_SIGNAL_GRADES = {
    Signal.GOOD: (1.0, 1.0),
    Signal.BAD: (0.0, 1.0),
    Signal.STRONGER: (0.0, 0.6),
    Signal.AGREED: (1.0, 0.5),
    Signal.DIFFERED: (0.0, 0.5),
    Signal.AGAIN: (0.0, 0.4),
    Signal.COPIED: (1.0, 0.4),
    Signal.EDITED: (0.0, 0.2),
}
"""How good each says that an answer was, and how much it tells."""

HALF_LIFE_SECONDS = 180 * 24 * 3600.0
"""After how many seconds a signal tells half as much."""

_MIN_AGE_WEIGHT = 0.1
"""What is left of the oldest, also of those from before the clock was set."""

_SHARED_WORK_WEIGHT = 0.5
"""How much an answer tells of who wrote it, where others' work was in it."""


@dataclass(frozen=True, slots=True)
class AnswerSignals:
    """An answer of which something is known.

    `kind` is the task kind of the step that wrote it ("" where that is unknown). `alone` is whether
    its worker was shown the conversation itself, so that it tells how that does with the prompt.
    `signals` are when what happened last, in seconds since 1970.
    """

    turn: str
    prompt: str
    worker: str
    signals: Mapping[Signal, float]
    kind: str = ""
    alone: bool = True


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """How good a worker's answer to a task of a kind was, from 0 to 1; `weight` says how surely."""

    worker: str
    kind: str
    good: float
    weight: float
    at: float


def rating(signals: Iterable[Signal]) -> Signal | None:
    """Return what a person said of an answer in so many words, if anything."""
    return next((signal for signal in signals if signal in RATINGS), None)


def strongest_signal(signals: Mapping[Signal, float]) -> Signal:
    """Return which of the signals of an answer counts: the strongest, the last of those."""
    return max(signals, key=lambda signal: (_SIGNAL_GRADES[signal][1], signals[signal]))


def dated_grade(signals: Mapping[Signal, float], now: float) -> tuple[float, float, float]:
    """Return how good an answer was, how much that tells now, and when it was said."""
    signal = strongest_signal(signals)
    good, weight = _SIGNAL_GRADES[signal]
    return good, weight * _age_weight(signals[signal], now), signals[signal]


def _age_weight(at: float, now: float) -> float:
    """Return what is left of something said then; what a wrong clock puts in the future is new."""
    age = max(0.0, now - at)
    return max(_MIN_AGE_WEIGHT, math.exp2(-age / HALF_LIFE_SECONDS))


def graded_answers(answers: Iterable[AnswerSignals], now: float) -> list[GradedAnswer]:
    """Return how workers did at the kinds of tasks they were given."""
    found = []
    for answer in answers:
        if answer.kind:
            good, weight, at = dated_grade(answer.signals, now)
            weight *= 1.0 if answer.alone else _SHARED_WORK_WEIGHT
            found.append(GradedAnswer(answer.worker, answer.kind, good, weight, at))
    return found


def is_about_worker(answer: AnswerSignals) -> bool:
    """Tell whether an answer says how its worker does with a prompt."""
    return answer.alone and bool(answer.prompt.strip())


def rated_answers(
    answers: Iterable[AnswerSignals], candidates: Mapping[str, Candidate], now: float
) -> list[RatedAnswer]:
    """Return what answers tell of how the workers that are here do with prompts."""
    return [
        RatedAnswer(answer.prompt, candidates[answer.worker], *dated_grade(answer.signals, now))
        for answer in answers
        if is_about_worker(answer) and answer.worker in candidates
    ]
