"""The short answer in a text: what is found, what counts as the same, and what it takes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from baton.core.judging.short_answer import (
    announced_answer,
    answers_agree,
    majority_index,
    short_answer,
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is 18.", "18"),
        ("She has 3 + 4 = 7 apples.\n#### 1,000", "1000"),
        (r"so \[\boxed{\frac{3}{4}}\]", "3/4"),
        (r"\boxed{\dfrac{-14}{6}}", "-7/3"),
        (r"\boxed{2\sqrt{3}}", r"2\sqrt{3}"),
        (r"\boxed{\text{(C)}}", "C"),
        (r"\boxed{12\text{ cm}}", "12"),
        (r"the answer is $\boxed{42}$.", "42"),
        (r"The answer is $90^\circ$", "90"),
        ("The answer is (B).", "B"),
        ("**Answer:** B", "B"),
        ("The answer is option D.", "D"),
        ("**Answer:** 50%", "50"),
        ("The final answer is $1,234,567.50 dollars", "1234567.5"),
        ("It costs $18.00", "18"),
        ("Final answer: True", "true"),
        ("Yes, because it is.", "yes"),
        ("no", "no"),
        ("The answer is 3 + 4 = 7", "7"),
        ("The answer is \u22125.0", "-5"),
        ("The answer is .50", "0.5"),
        ("The answer is Paris.", "paris"),
        ("The answer is (2, 3).", "(2,3)"),
        ("The answer is 12:30", "12:30"),
        ("Answer: 14\n\nThat was easy: 3 steps.", "14"),
        ("First the answer is 4. No, the answer is 5.", "5"),
        ("In total, 1/2 of them", "1/2"),
        ("(C) because it is warm", "C"),
        ("B", "B"),
    ],
)
def test_the_short_answer_is_found(text: str, answer: str) -> None:
    assert short_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "A dog is an animal.",
        "No problem here",
        "The answer is that it depends on many different things in life.",
        "1. one\n2. two\n3. three",
        "No short answer was found in what was recorded here.",
        "Once upon a time there was a king.",
    ],
)
def test_free_text_has_none(text: str) -> None:
    assert short_answer(text) == ""


def test_numbers_agree_by_their_value() -> None:
    assert answers_agree("The answer is 0.5", r"\boxed{\frac12}")
    assert answers_agree("The answer is 1,000", "so it makes 1000.00")
    assert not answers_agree("The answer is 10", "The answer is 100")
    assert not answers_agree("The answer is B", "The answer is C")
    assert not answers_agree("", "")
    assert answers_agree("Once upon a time", "once  upon a TIME")
    assert not answers_agree("The answer is 1/0", "The answer is 0/0")


NUMBERS = st.fractions(max_denominator=1000).map(lambda x: x.limit_denominator(1000))


@given(NUMBERS, st.text(max_size=40), st.sampled_from(["The answer is {}.", "#### {}", "{}"]))
def test_an_announced_number_is_found_behind_any_text(
    number: Fraction, before: str, form: str
) -> None:
    text = f"{before}\n\n{form.format(number)}"
    found = short_answer(text)
    if form != "{}":
        assert Fraction(found) == number
        assert announced_answer(text) == found
    assert answers_agree(text, f"I think the answer is {number}") == (
        Fraction(found or "7/9999") == number
    )


@given(st.integers(-(10**9), 10**9))
def test_a_number_is_the_same_however_it_is_written(number: int) -> None:
    written = [f"{number}", f"{number:,}", f"{number}.00", f"${number:,}", rf"\boxed{{{number}}}"]
    assert {short_answer(f"The answer is {form}") for form in written} == {str(number)}


@given(st.text(max_size=200), st.text(max_size=200))
def test_agreement_is_symmetric_and_everything_agrees_with_itself(a: str, b: str) -> None:
    assert answers_agree(a, b) == answers_agree(b, a)
    assert answers_agree(a, a) == bool(a.strip())


@given(st.lists(st.sampled_from(["1", "2", "3", "tale", "other tale", ""]), max_size=7))
def test_a_majority_is_the_first_of_the_largest_group(texts: list[str]) -> None:
    counts = {text: texts.count(text) for text in texts if text}
    largest = max(counts.values(), default=0)
    winners = [text for text, count in counts.items() if count == largest]
    expected = texts.index(winners[0]) if largest >= 2 and len(winners) == 1 else None
    assert majority_index(texts) == expected


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    "piece",
    [
        "answer is ",
        r"\boxed{",
        r"\boxed{\frac{",
        "####",
        "#### \n",
        "answer" + " " * 9,
        "1,234,",
        "1/",
        "-$",
        "((((",
        "\\",
        "=",
        "9",
        "{,}",
        r"\frac{1",
        r"\text{",
        "yes ",
        "(A) ",
        " ",
        "\u00a0",
        "e-9",
    ],
)
def test_a_hostile_text_ends(piece: str) -> None:
    # What grows with the square of the length would take minutes for this.
    text = piece * 40_000
    assert len(short_answer(text)) <= 240
    assert answers_agree(f"{text}\n#### 7", "The answer is 7.0")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The answer is 5 million", "The answer is 5"),
        ("About 5 million people.", "About 5 billion people."),
        ("The answer is 3 hours and 20 minutes", "The answer is 3 hours and 40 minutes"),
        ("The answer is 5 feet 10 inches", "The answer is 5 feet 2 inches"),
        ("The answer is 5 or 6", "The answer is 5"),
        ("The answer is 1 and 2", "The answer is 1 and 3"),
        ("The answer is 3 x 10^5", "The answer is 3"),
        ("The answer is 10\u2075", "The answer is 10\u2076"),
        ("The answer is 3\u221a2", "The answer is 3\u221a5"),
        ("The answer is 3\u03c0", "The answer is 3"),
        ("The answer is 20%-30%", "The answer is 20%"),
        ("It takes 2 1/2 cups.", "It takes 1/2 cup."),
        ("It leaves at 10:30", "It leaves at 9:30"),
        ("It was March 5.", "It was April 5."),
        ("On March 5, 2020", "On April 6, 2020"),
        ("The odds are 3 to 4", "The odds are 5 to 4"),
        ("3-4", "7-4"),
    ],
)
def test_a_number_that_is_a_part_of_something_is_not_the_answer(one: str, other: str) -> None:
    assert not answers_agree(one, other)
    assert answers_agree(one, one)


@pytest.mark.parametrize(
    "text",
    ["That comes to 18.", "It adds up to 18", "So 12 + 6 = 18.", "He has 18!", "In May, 18."],
)
def test_a_last_number_that_stands_by_itself_still_is(text: str) -> None:
    assert answers_agree(text, "The answer is 18")
