"""What signals say of answers: pure rules."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from baton.core.history_types import (
    HALF_LIFE_SECONDS,
    RATINGS,
    AnswerSignals,
    Signal,
    dated_grade,
    graded_answers,
    rating,
    strongest_signal,
)

NOW = 1.8e9
times = st.floats(0, 1e11)
anything = st.dictionaries(st.sampled_from(Signal), times, min_size=1)


def test_a_mark_is_good_or_bad_and_nothing_else() -> None:
    assert rating([Signal.COPIED, Signal.BAD]) is Signal.BAD
    assert rating([Signal.COPIED, Signal.STRONGER]) is None
    assert rating([]) is None


@given(anything)
def test_nothing_outvotes_a_mark(signals: dict[Signal, float]) -> None:
    if rating(signals) is not None:
        assert strongest_signal(signals) in RATINGS


@given(anything, times)
def test_every_opinion_is_within_bounds(signals: dict[Signal, float], now: float) -> None:
    good, weight, at = dated_grade(signals, now)
    assert 0 <= good <= 1
    assert 0.02 <= weight <= 1
    assert math.isfinite(weight)
    assert at in signals.values()


def test_of_two_signals_of_one_weight_the_last_counts() -> None:
    assert strongest_signal({Signal.COPIED: 1.0, Signal.AGAIN: 2.0}) is Signal.AGAIN
    assert strongest_signal({Signal.COPIED: 2.0, Signal.AGAIN: 1.0}) is Signal.COPIED


def test_what_is_old_weighs_less_but_never_nothing() -> None:
    def weight(at: float) -> float:
        return dated_grade({Signal.GOOD: at}, NOW)[1]

    assert weight(NOW) == 1
    assert weight(NOW + 1e9) == 1, "a clock that was wrong"
    assert weight(NOW - HALF_LIFE_SECONDS) == pytest.approx(0.5)
    assert weight(NOW - 2 * HALF_LIFE_SECONDS) == pytest.approx(0.25)
    assert weight(0) == pytest.approx(0.1)


def test_only_answers_of_a_known_kind_are_graded() -> None:
    good = {Signal.GOOD: NOW}
    answers = [
        AnswerSignals("1", "small", good, "chat"),
        AnswerSignals("2", "gone", good, "chat"),
        AnswerSignals("3", "small", good, "writing", alone=False),
        AnswerSignals("4", "small", {Signal.EDITED: NOW}),
    ]
    grades = [(e.worker, e.kind, e.good, e.weight) for e in graded_answers(answers, NOW)]
    assert grades == [
        ("small", "chat", 1.0, 1.0),
        ("gone", "chat", 1.0, 1.0),
        ("small", "writing", 1.0, 0.5),
    ]
