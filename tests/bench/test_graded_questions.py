"""An answer is graded by what it says, not by how it says it."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from baton.bench.graded_questions import (
    Kind,
    Question,
    chosen_letter,
    final_number,
    grade_answer,
    python_in,
    read_dataset,
    wilson_interval,
)
from baton.core.errors import ConfigError


def question(kind: Kind, answer: str) -> Question:
    return Question("q", "Well?", answer, kind)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", 42),
        ("6 * 7 = 42", 42),
        ("First 3, then 4.\n#### 7", 7),
        ("So \\boxed{\\frac{3}{4}} of 12.", Fraction(3, 4)),
        ("It is $1,450,000 in all.", 1450000),
        ("1.45e+06", 1450000),
        ("**Answer:** -15", -15),
        ("\u22123", -3),
        ("The answer is 18 dollars a day, which is 126 a week.", 18),
        ("2 apples and 1/2 of one", Fraction(1, 2)),
        ("it costs .5", Fraction(1, 2)),
        ("Nobody knows.", None),
        ("1e999999999", None),
        ("1/0", None),
    ],
)
def test_the_number_is_the_announced_one_or_the_last(text: str, number: Fraction | None) -> None:
    assert final_number(text) == number


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("The answer is (C).", "C"),
        ("the answer is b", "B"),
        ("**Answer: D**", "D"),
        ("A is tempting, but B) is right.", "B"),
        ("I think that A wins: (I)", "I"),
        ("B", "B"),
        ("A", "A"),
        ("\\boxed{\\text{E}}", "E"),
        ("I don't know.", ""),
        ("A dog is no cat", ""),
    ],
)
def test_the_choice_is_the_announced_letter_or_the_last_alone(text: str, chosen: str) -> None:
    assert chosen_letter(text) == chosen


@pytest.mark.parametrize(
    ("kind", "answer", "right", "wrong"),
    [
        ("number", "2,125", "That makes 2125.", "That makes 2126."),
        ("number", "0.3333333", "1/3", "0.33"),
        ("number", "1/12", "0.083333", "0.08333"),
        ("choice", "(c)", "The answer is C", "The answer is B, not C"),
        ("regex", r"(?i)\bparis\b", "It's Paris!", "It's Parish."),
        ("text", "Yes", "The answer is yes.", "The answer is no."),
        ("text", "the cat", "**The Cat**", "the cats"),
    ],
)
def test_every_kind_knows_right_from_wrong(kind: Kind, answer: str, right: str, wrong: str) -> None:
    assert grade_answer(question(kind, answer), right)
    assert not grade_answer(question(kind, answer), wrong)
    assert not grade_answer(question(kind, answer), "")


@pytest.mark.parametrize(
    ("text", "share"), [("391, and bonjour.", 1), ("It's 391.", 0.5), ("3910", 0), ("", 0)]
)
def test_of_several_parts_the_right_ones_count(text: str, share: float) -> None:
    asked = Question("q", "17 * 23, in French?", [r"\b391\b", "(?i)bonjour"], "parts")
    assert grade_answer(asked, text) == share


def test_a_question_shows_its_choices_with_letters() -> None:
    asked = Question("q", "Which?", "B", "choice", choices=("red", "blue"))
    assert asked.prompt == "Which?\nA. red\nB. blue"


def test_code_is_taken_from_its_fences() -> None:
    text = "Here:\n```python\ndef f():\n    return 1\n```\nand\n```\nx = f()\n```\nDone."
    assert python_in(text) == "def f():\n    return 1\n\nx = f()"
    assert python_in("def f(): ...") == "def f(): ..."


def test_the_interval_is_wilsons() -> None:
    low, high = wilson_interval(8, 10)
    assert (round(low, 4), round(high, 4)) == (0.4902, 0.9433)  # as in the literature
    assert wilson_interval(0, 0) == (0.0, 1.0)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share_and_stays_a_share(counted: tuple[int, int]) -> None:
    right, count = counted
    low, high = wilson_interval(right, count)
    share = right / count
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    assert high - low < 2 / math.sqrt(count)


def test_a_model_that_repeats_a_digit_without_end_is_wrong_and_breaks_nothing() -> None:
    asked = Question("q", "How many?", "7", "number")
    for text in ("1" * 5000, "1," * 5000, "7/" + "1" * 5000, "\\frac{1}{" + "1" * 5000 + "}"):
        assert not grade_answer(asked, text)
    assert grade_answer(asked, "1" * 5000 + "\nThe answer is 7.")


def test_a_file_has_a_question_in_each_line(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"id": 1, "question": "Six?", "answer": 6, "kind": "number"}\n\n'
        b'{"id": "b", "question": "Which?", "answer": "A", "kind": "choice", "choices": ["x"]}\n'
    )
    read = read_dataset(file)
    assert read.name == "some.jsonl"
    assert [(one.name, one.right, one.kind) for one in read.questions] == [
        ("1", "6", "number"), ("b", "A", "choice"),
    ]  # fmt: skip
    file.write_bytes(file.read_bytes() + b"\n")
    assert read_dataset(file).digest != read.digest


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "holds no question"),
        (b'{"id": 1, "question": "?", "answer": 1, "kind": "guess"}', "'guess'"),
        (b'{"id": 1, "question": "?", "answer": "x", "kind": "number"}', "isn't a number"),
        (b'{"id": 1, "question": "?", "answer": "12", "kind": "choice"}', "isn't a letter"),
        (b'{"id": 1, "question": "?", "answer": "(", "kind": "regex"}', "regular"),
        (b'{"id": 1, "question": "?", "answer": ["1", "("], "kind": "parts"}', "regular"),
        (b'{"id": 1, "question": "?", "answer": [], "kind": "parts"}', "missing"),
        (b'{"id": 1, "question": "?", "answer": "1", "kind": "parts"}', "a list"),
        (b'{"id": 1, "question": "?", "answer": ["1"], "kind": "regex"}', "a list"),
        (b'{"id": 1, "question": "?", "kind": "python"}', "needs tests"),
        (b'{"id": 1, "question": "?", "kind": "number"}', "missing"),
        (b'\n{"id": 1, "question": "?", "reply": "1"}', "Line 2"),
        (b'{"id":1,"question":"?","answer":"1"}\n' * 2, "two questions '1'"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(ConfigError, match=why):
        read_dataset(tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match="can't be read"):
        read_dataset(tmp_path / "b.jsonl")
