"""The types of the history: conversations, search hits and runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum

from baton.core.events import Event
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Role, TurnStatus


class Signal(StrEnum):
    """What happened to an answer. The user's are stored, the last two are read from events."""

    GOOD = "good"  # the user said so
    BAD = "bad"  # the user said so
    STRONGER = "stronger"  # a stronger worker was asked the same
    AGAIN = "again"  # it was to be answered again
    EDITED = "edited"  # the prompt was changed and sent again
    COPIED = "copied"  # all or a part of it was copied
    AGREED = "agreed"  # the remote worker that replaced it gave the same short answer
    DIFFERED = "differed"  # the remote worker that replaced it gave another


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


@frozen_dataclass
class Conversation:
    """A conversation without its turns. Times in seconds since the epoch, UTC.

    `head` is the newest turn of the branch that was last looked at; turns before `sent_from` (None:
    none) are not sent any more. `policy` None is when to spend as the settings say. `program` is
    the name of the program whose conversation it is ("": the user's own).
    """

    id: str
    title: str
    label: Label
    created: float
    updated: float
    turns: int
    head: str | None
    sent_from: str | None
    system: str | None
    policy: Policy | None = None
    program: str = ""


@frozen_dataclass
class SearchHit:
    """One turn that matches a search; `snippet` is its matching line, `spans` the matches in it.

    Of an answer, `worker` wrote it, and `cost` is what its run was charged, in billionths of a
    dollar; of what the user said, they are "" and 0. `program` is whose conversation it is.
    """

    conversation: str
    title: str
    turn: str
    role: Role
    snippet: str
    spans: tuple[tuple[int, int], ...]
    created: float
    worker: str = ""
    cost: int = 0
    program: str = ""


@frozen_dataclass
class RunRecord:
    """A run with the events it left behind; `status` as in RunView, or "lost"."""

    id: str
    conversation: str
    prompt: str
    answer: str
    status: str
    created: float
    events: tuple[Event, ...]


@frozen_dataclass
class OwnRun:
    """A run of an access token; `is_sole` is whether its conversation holds no other's turns."""

    record: RunRecord
    is_sole: bool


@frozen_dataclass
class OwnAnswer:
    """An answer that an access token had, with its run."""

    run: str
    text: str


@frozen_dataclass
class RecentConversation:
    """A conversation that the user may want to continue, with how its newest turn stands.

    `turn` is that turn, `status` how it ended, `cost` what the conversation was charged in all, in
    billionths of a dollar. `run` is its run, where that didn't end well.
    """

    id: str
    title: str
    updated: float
    turn: str
    status: TurnStatus
    cost: int = 0
    run: RunRecord | None = None


@frozen_dataclass
class Weighing:
    """One decision whether help was worth its price (events.Weighed), with its conversation.

    `at` is in seconds since the epoch; `cost` in nano-dollars.
    """

    at: float
    conversation: str
    gain: float
    cost: int
    ok: bool


@frozen_dataclass
class PastRun:
    """A finished run: what was asked, how far it may travel, what was done with its answer."""

    record: RunRecord
    asked: str
    label: Label
    signals: Mapping[Signal, float]
