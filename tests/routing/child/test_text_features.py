"""The encoder that is shipped: what it says of texts, and that no text troubles it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from baton.routing.child import RouterFileError
from baton.routing.child.text_features import (
    FEATURE_NAMES,
    HEAD_CHARS,
    TAIL_CHARS,
    WIDTH,
    Encoder,
    readable_excerpt,
    text_features,
)

SHIPPED = Path(__file__).resolve().parents[3] / "models" / "router"

ANYTHING = st.text(st.characters(codec=None), max_size=300)
"""With lone surrogates and NUL."""


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(SHIPPED)


def test_texts_of_the_same_meaning_are_alike(encoder: Encoder) -> None:
    cat, kitten, tax = encoder.vectors(
        ["A cat sleeps on the sofa.", "The kitten naps on the couch.", "How is income taxed?"]
    )
    assert cat @ kitten > 0.5
    assert cat @ tax < 0.2


def test_it_is_the_model_that_its_card_names(encoder: Encoder) -> None:
    """From the original in 32-bit floats; 8 bits came within a cosine of 0.98."""
    (vector,) = encoder.vectors(["This is an example sentence"])
    original = np.array([0.0676569, 0.0634959, 0.0487131, 0.0793049, 0.0374480, 0.0026527])
    np.testing.assert_allclose(vector[:6], original, atol=0.03)


@given(ANYTHING)
@settings(max_examples=40, deadline=None)
def test_any_text_has_a_vector_of_length_one(encoder: Encoder, text: str) -> None:
    vectors = encoder.vectors([text])
    assert vectors.shape == (1, WIDTH)
    assert np.linalg.norm(vectors[0]) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    "text",
    ["", " ", "\0", "\ud800", "a", "x" * 10**6, "字" * 10**6, "\n" * 10**6, "a " * 500_000],
    ids=["empty", "space", "NUL", "surrogate", "letter", "word", "Chinese", "lines", "words"],
)  # fmt: skip
def test_extreme_texts(encoder: Encoder, text: str) -> None:
    vector = encoder.vectors([text])[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-4)


def test_only_the_ends_of_a_long_text_are_read() -> None:
    text = "a" * HEAD_CHARS + "b" * 1_000_000 + "c" * TAIL_CHARS
    assert readable_excerpt(text) == "a" * HEAD_CHARS + "\n" + "c" * TAIL_CHARS


def test_a_text_has_the_same_vector_in_any_company(encoder: Encoder) -> None:
    alone = encoder.vectors(["Why is the sky blue?"])
    among = encoder.vectors(["x" * 900, "Why is the sky blue?", "7"])
    assert alone[0].tobytes() == among[1].tobytes()


def test_no_texts(encoder: Encoder) -> None:
    assert encoder.vectors([]).shape == (0, WIDTH)


def test_a_provider_that_is_not_there_is_passed_over() -> None:
    encoder = Encoder(SHIPPED, provider="NoSuchExecutionProvider")
    assert np.isfinite(encoder.vectors(["a"])).all()


@pytest.mark.parametrize("name", ["encoder.onnx", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "other"])
def test_a_broken_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    for own in ("encoder.onnx", "tokenizer.json"):
        if own != name:
            (tmp_path / own).symlink_to(SHIPPED / own)
    if damage == "empty":
        (tmp_path / name).touch()
    elif damage == "cut":
        shutil.copyfile(SHIPPED / name, tmp_path / name)
        with (tmp_path / name).open("r+b") as file:
            file.truncate(100_000)
    elif damage == "other":
        (tmp_path / name).write_bytes(b"\xff" * 1000)
    with pytest.raises(RouterFileError, match=str(tmp_path)):
        Encoder(tmp_path)


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
