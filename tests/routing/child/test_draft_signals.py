"""A local worker's own draft: what its signals say of whether it is right."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from checkable_questions import questions
from fit_draft_signals import Recorded, auroc, fit_draft_signals, left_out_chances
from head_files import signals_numbers
from hypothesis import given, strategies as st

from baton.core.routing_types import Candidate, Draft
from baton.routing.child.draft_signals import DRAFT_FEATURES, DraftSignals

STARTER = Candidate("starter", "SmolLM2-135M-Instruct", 0.135)
OTHER = Candidate("other", "qwen2.5-7b-instruct", 7.0)
PROMPT = "What is the capital of Norway?"
DRAFT = Draft("starter", "The capital of Norway is Oslo.", confidence=-0.3, least=-1.0, first=-0.5)


@pytest.fixture(scope="module")
def signals() -> DraftSignals:
    return fit_draft_signals()


@pytest.mark.parametrize(("words", "least"), [("drawn", 0.72), ("likeliest", 0.75)])
def test_signals_rank_right_answers_first_on_kinds_that_were_left_out(
    words: str, least: float
) -> None:
    recorded = Recorded.read()
    own = recorded.words == words
    right, kinds = recorded.right[own], recorded.kinds[own]
    assert len(right) >= 1000
    chances = left_out_chances(recorded.chosen(DRAFT_FEATURES)[own], right, kinds)
    by_hand = np.clip(1.5 * (recorded.chosen(["confidence"])[own, 0] + 0.4), -1.0, 0.4)
    assert auroc(chances, right) > max(least, auroc(by_hand, right) + 0.02)


def test_a_surer_draft_is_likelier_right(signals: DraftSignals) -> None:
    for worker in (STARTER, OTHER):
        sure, usual, doubtful = (
            signals.shift(PROMPT, replace(DRAFT, confidence=mean), worker)
            for mean in (-0.1, -0.6, -2.0)
        )
        assert sure > usual > doubtful


def test_without_a_confidence_nothing_moves(signals: DraftSignals) -> None:
    for confidence in (None, math.nan, -math.inf):
        assert signals.shift(PROMPT, replace(DRAFT, confidence=confidence), STARTER) == 0.0
    assert DraftSignals.unfitted().shift(PROMPT, DRAFT, STARTER) == 0.0


@given(
    text=st.text(max_size=300),
    mean=st.floats(-40, 0),
    least=st.none() | st.floats(allow_nan=True),
    first=st.none() | st.floats(allow_nan=True),
)
def test_no_draft_moves_an_estimate_by_more_than_two(
    signals: DraftSignals, text: str, mean: float, least: float | None, first: float | None
) -> None:
    draft = Draft("starter", text, confidence=mean, least=least, first=first)
    for worker in (STARTER, OTHER):
        assert abs(signals.shift(PROMPT, draft, worker)) <= 2.0


def test_lines_survive_their_file(signals: DraftSignals) -> None:
    again = DraftSignals.from_numbers(signals_numbers(signals))
    assert again.shift(PROMPT, DRAFT, STARTER) == pytest.approx(
        signals.shift(PROMPT, DRAFT, STARTER), abs=1e-4
    )
    every: tuple[object, ...] = (None, {}, {"families": {"smollm": {}}, "alone": {}})
    for broken in every:
        with pytest.raises((KeyError, TypeError, ValueError)):
            DraftSignals.from_numbers(broken)


def test_questions_are_the_same_each_time_and_their_rules_judge() -> None:
    some = questions(0)
    assert some == questions(0)
    assert len({one.prompt for one in some}) == len(some) >= 1000
    for one in some:
        right = one.accepted[0] if one.judge != "list" else ", ".join(one.accepted)
        assert one.is_right(right), one
        assert not one.is_right("?"), one


def test_a_text_is_judged_by_what_everyday_prompts_of_its_kind_got(
    signals: DraftSignals,
) -> None:
    copied = replace(DRAFT, text=PROMPT, confidence=-0.3)
    short = signals.shift(PROMPT, copied, STARTER, expected=0.0, novelty=0.8)
    text = signals.shift(PROMPT, copied, STARTER, expected=0.0, novelty=0.8, kind="extraction")
    assert text < 0.0 < short, "a copy is sure of itself, and seldom what was asked for"
    surer = signals.shift(
        PROMPT, replace(copied, confidence=-0.1), STARTER, expected=2.0, kind="extraction"
    )
    assert surer + 2.0 > text, "its own words still count, what was expected doesn't"
    assert signals.shift(PROMPT, copied, OTHER, kind="extraction") == signals.shift(
        PROMPT, copied, OTHER
    )
    assert DraftSignals.from_numbers(signals_numbers(signals)).texts.keys() == signals.texts.keys()
