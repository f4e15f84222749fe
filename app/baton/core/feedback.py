"""Signals of how good an answer was: what a person did with it, and what its run shows.

The strongest signal of an answer decides its grade, so that copies never outvote a thumb. Old
signals weigh less.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum

from baton.core.frozen_dataclass import frozen_dataclass


class Signal(StrEnum):
    """What happened to an answer. A person's are stored, the last two are read from events."""

    GOOD = "good"  # the person said so
    BAD = "bad"  # the person said so
    STRONGER = "stronger"  # a stronger worker was asked the same
    AGAIN = "again"  # it was to be answered again
    EDITED = "edited"  # the prompt was changed and sent again
    COPIED = "copied"  # all or a part of it was copied
    AGREED = "agreed"  # the remote worker that replaced it came to the same short answer
    DIFFERED = "differed"  # the remote worker that replaced it came to another


RATINGS = (Signal.GOOD, Signal.BAD)
"""Explicit ratings; one excludes the other."""

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
"""The grade of an answer that each signal stands for (0 to 1), and its weight."""

HALF_LIFE_SECONDS = 180 * 24 * 3600.0
"""After this time a signal weighs half as much."""

_MIN_AGE_WEIGHT = 0.1
"""The weight of the oldest signals, also of those from before the clock was set."""

_SHARED_WORK_WEIGHT = 0.5
"""The weight of an answer for its author, where it includes other workers' results."""


@frozen_dataclass
class AnswerSignals:
    """An answer with the signals that are known of it.

    `kind` is the task kind of the step that wrote it ("" where that is unknown). `alone` is whether
    its worker was shown the conversation itself, so that the grade is of that worker alone.
    `signals` are the last times of each, in seconds since 1970.
    """

    turn: str
    worker: str
    signals: Mapping[Signal, float]
    kind: str = ""
    alone: bool = True


@frozen_dataclass
class GradedAnswer:
    """The grade of a worker's answer to a task of a kind, from 0 to 1, and its weight."""

    worker: str
    kind: str
    good: float
    weight: float
    at: float


def rating(signals: Iterable[Signal]) -> Signal | None:
    """Return the explicit rating among signals, if there is one."""
    return next((signal for signal in signals if signal in RATINGS), None)


def strongest_signal(signals: Mapping[Signal, float]) -> Signal:
    """Return the strongest signal of an answer; the latest of equals."""
    return max(signals, key=lambda signal: (_SIGNAL_GRADES[signal][1], signals[signal]))


def dated_grade(signals: Mapping[Signal, float], now: float) -> tuple[float, float, float]:
    """Return the grade of an answer, its weight now, and its time."""
    signal = strongest_signal(signals)
    good, weight = _SIGNAL_GRADES[signal]
    return good, weight * _age_weight(signals[signal], now), signals[signal]


def _age_weight(at: float, now: float) -> float:
    """Return the weight of a signal by its age; a time in the future counts as now."""
    age = max(0.0, now - at)
    return max(_MIN_AGE_WEIGHT, math.exp2(-age / HALF_LIFE_SECONDS))


def graded_answers(answers: Iterable[AnswerSignals], now: float) -> list[GradedAnswer]:
    found = []
    for answer in answers:
        if answer.kind:
            good, weight, at = dated_grade(answer.signals, now)
            weight *= 1.0 if answer.alone else _SHARED_WORK_WEIGHT
            found.append(GradedAnswer(answer.worker, answer.kind, good, weight, at))
    return found
