"""Claims of sums, judged line by line."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.workers.tools.computation import CannotCompute
from baton.workers.tools.computation.written_expression import MAX_CLAIMS, judge_claims


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("17 + 25 = 42", "Yes: 17 + 25 = 42"),
        ("17 + 25 = 43", "No: 17 + 25 = 42"),
        ("Is 17 + 25 = 43?", "No: 17 + 25 = 42"),
        ("check whether 2 * 3 = 6", "Yes: 2 * 3 = 6"),
        ("1/3 = 0.33", "Yes: 1/3 \u2248 0.3333333333"),
        ("2/3 = 0.66", "Yes: 2/3 \u2248 0.6666666667"),
        ("2/3 = 0.67", "Yes: 2/3 \u2248 0.6666666667"),
        ("2/3 = 0.65", "No: 2/3 \u2248 0.6666666667"),
        ("10/4 = 2", "No: 10/4 = 2.5"),
        ("10/4 = 3", "No: 10/4 = 2.5"),
        ("10/4 \u2248 3", "Yes: 10/4 = 2.5"),
        ("10/4 \u2248 4", "No: 10/4 = 2.5"),
        ("12 \u2248 13", "No: 12 = 12"),
        ("1,234 + 1 = 1,235", "Yes: 1,234 + 1 = 1,235"),
        ("100000/3 = 33,333", "No: 100000/3 \u2248 33,333.33333"),
        ("100000/3 \u2248 33,333", "Yes: 100000/3 \u2248 33,333.33333"),
        ("30 / 120 = 25%", "Yes: 30 / 120 = 0.25"),
        ("1 / 3 = 33.3%", "Yes: 1 / 3 \u2248 0.3333333333"),
        ("1 / 3 = 34.4%", "No: 1 / 3 \u2248 0.3333333333"),
        ("$5 + \u20ac3 = $8", "Yes: $5 + \u20ac3 = 8"),
        ("5 \u20ac * 2 = 10 \u20ac", "Yes: 5 \u20ac * 2 = 10"),
        ("200 + 10% = 220", "Yes: 200 + 10% = 220"),
        ("3 - 5 = \u22122", "Yes: 3 - 5 = \u22122"),
    ],
)
def test_a_claim_is_judged_as_far_as_it_is_written(claim: str, verdict: str) -> None:
    assert judge_claims(claim) == verdict


def test_many_claims_are_judged_one_by_one() -> None:
    said = judge_claims(
        "1 + 1 = 2\n2 + 2 = 5\nx + 1 = 2\n9^9^9 = 1\n1/0 \u2248 1\n2 = roman(2) + 0"
    )
    assert said.splitlines() == ["Yes: 1 + 1 = 2", "No: 2 + 2 = 4", *["Unreadable"] * 4]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 + 1",
        "1 + 1 = ?",
        "1 = 1 = 1",
        "x = 3",
        "1/0 = 3",
        "1 + 1 = 2\nHello.",
        "1 = 1\n" * (MAX_CLAIMS + 1),
        "= " * 100_000,
        " " * 100_000 + "=5",
        "1+" * 100_000 + "1 = 1",
    ],
)
def test_what_is_no_claim_is_refused(text: str) -> None:
    with pytest.raises(CannotCompute):
        judge_claims(text)


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**4), st.integers(0, 8))
def test_a_rounded_value_is_right_and_the_next_but_one_is_wrong(
    over: int, under: int, places: int
) -> None:
    value, step = Fraction(over, under), Fraction(1, 10**places)
    rounded = round(value, places)
    for claimed, right in ((rounded, True), (rounded + 2 * step, False)):
        text = f"{'-' if claimed < 0 else ''}{int(abs(claimed) * 10**places):0{places + 1}}"
        text = f"{text[:-places]}.{text[-places:]}" if places else text
        is_fair = right and (value == rounded or places > 0)
        assert judge_claims(f"{over}/{under} = {text}").startswith("Yes") is is_fair


@given(st.text(alphabet="0123456789+-*/^()%!., $\u221a=\u2248?isx\n", max_size=80))
def test_any_text_is_judged_or_refused(text: str) -> None:
    with suppress(CannotCompute):
        said = judge_claims(text).splitlines()
        assert len(said) == len(text.strip().splitlines())
        assert all(line.startswith(("Yes: ", "No: ", "Unreadable")) for line in said)
