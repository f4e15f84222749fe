"""The figures of texts: finite for anything, and about the right thing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.routing.child.text_features import FEATURE_NAMES, text_features


def figures(text: str) -> dict[str, float]:
    return dict(zip(FEATURE_NAMES, text_features(text).tolist(), strict=True))


@given(st.text(st.characters(codec=None), max_size=500))
@settings(max_examples=150, deadline=None)
def test_any_text_has_finite_figures_of_a_sane_size(text: str) -> None:
    found = text_features(text)
    assert found.shape == (len(FEATURE_NAMES),)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert (found < 40).all()


@pytest.mark.parametrize(
    "unit", ["a", "\n", "_", "'a-", "$", "A. ", "([", "9,", "字", "\ud800", "\0"]
)
def test_a_megabyte_of_one_thing(unit: str) -> None:
    found = text_features(unit * (1_000_000 // len(unit)))
    assert np.isfinite(found).all()
    assert found[0] == pytest.approx(np.log1p(len(unit) * (1_000_000 // len(unit))))


def test_they_are_named_once() -> None:
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)


def test_a_question_with_options() -> None:
    text = "Which of these is prime?\nA. 51\nB. 57\nC. 59\nD. 63"
    found = figures(text)
    assert found["options"] == pytest.approx(np.log1p(4))
    assert found["numeric options"] == 1.0
    assert found["stem"] == pytest.approx(np.log1p(len("Which of these is prime?\n")))
    assert figures("Which of these is prime?")["options"] == 0.0


def test_words_count_in_every_case_and_form() -> None:
    assert figures("CALCULATE the sum")["compute there"] == 1.0
    assert figures("we were calculating sums")["compute there"] == 1.0
    assert figures("a calm day")["compute there"] == 0.0


def test_signs() -> None:
    assert figures("\\frac{a}{b}")["formula there"] == 1.0
    assert figures("def f(x):\n  return x")["code there"] == 1.0
    assert figures("It costs $5.")["money there"] == 1.0
    assert figures("Hello there")["code there"] == 0.0


def test_the_same_text_has_the_same_figures() -> None:
    assert text_features("What is 7 * 8?").tobytes() == text_features("What is 7 * 8?").tobytes()
