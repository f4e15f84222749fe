"""Where a plan's parts stand in a request, and what they leave out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from baton.workers.tools.computation.plan_check import divide_request


def parts(*lines: str) -> list[tuple[str, bool]]:
    """Return parts; an expression begins with =."""
    return [(line.removeprefix("="), line.startswith("=")) for line in lines]


@pytest.mark.parametrize(
    ("request_", "plan", "words"),
    [
        (
            "What's 15% of 240, and translate the answer into French",
            parts("=15% * 240", "translate the answer into French"),
            ["What's 15% of 240", "translate the answer into French"],
        ),
        (
            "add up 12, 18 and 33, double it, and write the result as a Roman numeral",
            parts("=12 + 18 + 33", "=#1 * 2", "=roman(#2)"),
            ["add up 12, 18 and 33", "double it", "write the result as a Roman numeral"],
        ),
        (
            "Is 97 prime? And explain in one line what a prime is.",
            parts("=isprime(97)", "explain in one lien what a prime is"),
            ["Is 97 prime?", "explain in one line what a prime is."],
        ),
        ("Wie viel ist 3 mal 4?", parts("=3 * 4"), ["Wie viel ist 3 mal 4?"]),
        (
            "Two things:\n1. who was Bach?\n2. 84 / 7\n3. (hard) why is the sky blue?",
            parts("who was Bach?", "=84 / 7", "why is the sky blue"),
            ["who was Bach?", "84 / 7", "(hard) why is the sky blue?"],
        ),
        (
            "Put these in order: pear, fig and plum, and also what's 45 in binary",
            parts("put these in order", "=bin(45)"),
            ["Put these in order: pear, fig and plum", "what's 45 in binary"],
        ),
        (
            "Put these in order: pear, fig. And also what's 45 in binary",
            parts("put these in order", "=bin(45)"),
            ["Put these in order: pear, fig.", "what's 45 in binary"],
        ),
        (
            "what is 48 times 37, plus which is heavier, oil or water?",
            parts("=48 * 37", "oil or water"),
            ["what is 48 times 37", "which is heavier, oil or water?"],
        ),
        (
            "Hi there, write a poem, 2 + 2",
            parts("write a poem", "=2 + 2"),
            ["write a poem", "2 + 2"],
        ),
        (
            "Dear Sir, dear Madam: is it polite?",
            parts("Dear Sir"),
            ["Dear Sir, dear Madam: is it polite?"],
        ),
    ],
)
def test_each_part_stands_for_its_own_words(
    request_: str, plan: Sequence[tuple[str, bool]], words: list[str]
) -> None:
    assert divide_request(request_, plan).words == words


@pytest.mark.parametrize(
    ("request_", "plan", "left"),
    [
        (
            "What day is 2027-09-07? And what do people celebrate then?",
            parts("=weekday(2027-09-07)"),
            ["what do people celebrate then?"],
        ),
        (
            "20% tax on 1200 €, and in 4 payments? Explain what tax is.",
            parts("=1200 + 20%", "=#1 / 4"),
            ["Explain what tax is."],
        ),
        (
            "Cuánto es 38 por 46, cuál es el río más largo de África?",
            parts("=38 * 46"),
            ["cuál es el río más largo de África?"],
        ),
        (
            "Divide 434 entre 14 y en qué país está Samarcanda?",
            parts("=434 / 14"),
            ["en qué país está Samarcanda?"],
        ),
        ("143 è un numero primo, chi ha dipinto la Gioconda?", parts("=isprime(143)"),
         ["chi ha dipinto la Gioconda?"]),
        ("A jacket for 140 with 35% off, what is the price then?", parts("=140 - 35%"), []),
        ("How much is 140 with 35% off, and why?", parts("=140 - 35%"), []),
        (
            "Il film inizia alle 20:15 e dura 110 min, a che ora finisce?",
            parts("=20:15 + 110 min"),
            [],
        ),
        (
            "Teile 187 durch 11. Was ist das Gegenteil von 'neu'?",
            parts("=187 / 11"),
            ["Was ist das Gegenteil von 'neu'?"],
        ),
        (
            "1200 € plus 20% de TVA, combien ? Explique aussi le mot abricot.",
            parts("=1200 + 20%"),
            ["Explique aussi le mot abricot."],
        ),
        ("Pasa 26 mi a km. ¿Quién fue él?", parts("=26 mi -> km"), ["¿Quién fue él?"]),
        ("A jacket costs 129 and it's 30% off. What do I pay?", parts("=129 - 30%"), []),
        ("What do I pay? A jacket costs 129 and it's 30% off.", parts("=129 - 30%"), []),
        ("30 people at tables of 8. I need tables, many of them.", parts("=ceil(30 / 8)"), []),
        ("What is 17*23, and how many days are in a leap year?", parts("=17*23"),
         ["how many days are in a leap year?"]),
        ("I have 12 boxes of 20, how many is that?", parts("=12 * 20"), []),
        ("2 + 3? Thanks a lot!", parts("=2 + 3"), []),
        ("Payment due in 10 days. what date is that", parts("=today + 10 d"), []),
        ("it's due in 10 days. how do I tell my boss", parts("=today + 10 d"),
         ["how do I tell my boss"]),
        ("Days until New Year's Eve? Write a rhyme about it.", parts("=days(today, newyearseve)",
         "write a rhyme about it"), []),
    ],
)  # fmt: skip
def test_a_sentence_that_no_part_is_about_is_found(
    request_: str, plan: Sequence[tuple[str, bool]], left: list[str]
) -> None:
    assert divide_request(request_, plan).omitted == left


SOME = ("add", "12", "and", "7,", "then", "write.", "a", "poem?", "3.5", "km", "#1", "*")
WORDS = st.lists(st.sampled_from(SOME), min_size=1)


@given(WORDS, st.lists(st.tuples(WORDS.map(" ".join), st.booleans()), min_size=1, max_size=5))
def test_any_plan_has_a_span_for_each_part_and_adds_no_words(
    request_: list[str], plan: list[tuple[str, bool]]
) -> None:
    text = " ".join(request_)
    division = divide_request(text, plan)
    assert len(division.words) == len(plan)
    pieces = [*division.omitted, division.background]
    assert all(words in text for words in pieces)
    assert all(word in text.split() for part in division.words for word in part.split()[1:-1])
    assert sum(map(len, [*division.words, *pieces])) <= len(text)


def test_a_story_before_the_sums_is_background_and_not_a_request() -> None:
    division = divide_request(
        "My sister turns 30 this week. What is 15% of 80?", parts("=15% * 80")
    )
    assert (division.omitted, division.background) == ([], "My sister turns 30 this week.")
