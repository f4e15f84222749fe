"""Texts that are expressions already, and all others, which are none."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from baton.workers.tools.computation import CannotCompute, evaluate
from baton.workers.tools.computation.lexicon import LANGUAGES
from baton.workers.tools.computation.written_expression import (
    MAX_CLAIMS,
    judge_claims,
    sum_expression,
    written_expression,
)


def read_expression(text: str, language: str = "") -> str:
    """Return a text as a line of a plan, "" where it isn't an expression."""
    written = written_expression(text, language)
    return f"{written.tool}: {written.expression}" if written else ""


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("17+25", "17 + 25"),
        ("17 + 25 = ?", "17 + 25"),
        ("What is 17 + 25?", "17 + 25"),
        ("what\u2019s 12*(3+4)", "12 * (3 + 4)"),
        ("How much is 2 \u00f7 3?", "2 / 3"),
        ("Calculate: 3 \u00b7 4.", "3 * 4"),
        ("compute `3 x 4`", "3 * 4"),
        ("Was ist 17 \u2212 3?", "17 - 3"),
        ("wie viel ist 1.500,5 + 1", "1500.5 + 1"),
        ("berechne 1.500 * 2", "1500 * 2"),
        ("Combien font 3 * 4 ?", "3 * 4"),
        ("calcule 1,5 * 2", "1.5 * 2"),
        ("\u00bfCu\u00e1nto es 15\u00d73?", "15 * 3"),
        ("calcula 1.234,5 / 5", "1234.5 / 5"),
        ("quanto fa 3 * 4?", "3 * 4"),
        ("quanto é 1.234.567 + 1", "1234567 + 1"),
        ("calcola 2 + 2", "2 + 2"),
        ("1,234,567.8 - 1", "1234567.8 - 1"),
        ("1.234 + 1", "1.234 + 1"),
        ("1,234 + 1", "1234 + 1"),
        ("1,23 + 0,234", "1.23 + 0.234"),
        ("12\u202f500 + 1'000 + 1 000", "12500 + 1000 + 1000"),
        (".5 + 1e3", "0.5 + 1e3"),
        ("15% of 80", "15% * 80"),
        ("What is 15 % von 80?", "15% * 80"),
        ("200 + 10%", "200 + 10%"),
        ("(5 + 5)% * 30", "percent(5 + 5) * 30"),
        ("15 % 4", "mod(15, 4)"),
        ("10 mod 3 * 2", "mod(10, 3) * 2"),
        ("2 + 10 mod 3", "2 + mod(10, 3)"),
        ("10 // 3", "quot(10, 3)"),
        ("2 ** 3 ^ 2", "2^3^2"),
        ("-3² + +4³", "-3^2 + 4^3"),
        ("2^-1", "2^-1"),
        ("5! + (1+2)!", "fact(5) + fact(1 + 2)"),
        ("3!^2", "fact(3)^2"),
        ("\u221a16 + \u221a(9) \u221a4!", "sqrt(16) + sqrt(9) * sqrt(fact(4))"),
        ("2(3+4) sqrt(16)", "2 * (3 + 4) * sqrt(16)"),
        ("gcd(12,18) + max(1, 2,5)", "gcd(12, 18) + max(1, 2, 5)"),
        ("2π", "2 * pi"),
        ("log10(100) + factorial(3)", "log(100) + fact(3)"),
    ],
)
def test_a_sum_is_read_as_people_write_it(text: str, expression: str) -> None:
    assert read_expression(text) == f"calc: {expression}"


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("42 km in miles", "42 km -> mi"),
        ("60 mph to km/h", "60 mph -> km/h"),
        ("100 \u00b0F in \u00b0C?", "100 F -> C"),
        ("-40 \u00b0C into \u00b0F", "-40 C -> F"),
        ("Convert 100 degrees Fahrenheit to Celsius", "100 F -> C"),
        ("What is 1,500 m in km?", "1500 m -> km"),
        ("1 in in cm", "1 in -> cm"),
        ("8 Mb in MB", "8 Mbit -> MB"),
        ("1 acre in m²", "1 acre -> m2"),
        ("2,5 Kilometer in Meilen", "2.5 km -> mi"),
        ("wie viel sind 42 km in Meilen?", "42 km -> mi"),
        ("combien font 42 km en miles ?", "42 km -> mi"),
        ("42 km a millas", "42 km -> mi"),
        ("42 km em milhas", "42 km -> mi"),
        ("5 km in kg", "5 km -> kg"),
    ],
)
def test_a_conversion_is_read_with_the_units_of_its_language(text: str, expression: str) -> None:
    assert read_expression(text) == f"units: {expression}"


@pytest.mark.parametrize(
    "text",
    [
        "What time is it?",
        "what's the current time",
        "Wie spät ist es?",
        "Wie viel Uhr ist es jetzt?",
        "Quelle heure est-il ?",
        "\u00bfQu\u00e9 hora es?",
        "Que horas s\u00e3o?",
        "Che ora \u00e8?",
        "今何時ですか",
        "现在几点了\uff1f",
    ],
)
def test_the_question_for_the_time_is_read_in_many_languages(text: str) -> None:
    assert read_expression(text) == "clock: now()"


@pytest.mark.parametrize(
    "text",
    [
        "What's today\u2019s date?",
        "what is the date today",
        "What day is it today?",
        "Welches Datum ist heute?",
        "Welcher Tag ist heute?",
        "quel jour est-on aujourd'hui",
        "Qu\u00e9 d\u00eda es hoy?",
        "que dia é hoje?",
        "che giorno è oggi?",
        "今日は何日ですか",
        "今天几号\uff1f",
    ],
)
def test_the_question_for_the_date_is_read_in_many_languages(text: str) -> None:
    assert read_expression(text) == "clock: today()"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        "Tom has 3 apples and buys 4 more. How many are there?",
        "What is 3 + 4 and 5 + 6?",
        "What is x + 3?",
        "17 plus 25",
        "seventeen + 25",
        "How many miles are in 5 km?",
        "5 mb in kb",
        "5 km in 3 days",
        "2 hours a day",
        "1 meter**9**9**9 in km",
        "3 in 9**9**9**9",
        "12 parsecs in furlongs",
        "2 + 2 = 5",
        "2½ + 1",
        "1 +",
        "1 2",
        "()",
        "sqrt 4",
        "sqrt()",
        "__import__('os').getpid()",
        "What is the time complexity of quicksort?",
        "What time is it in the story?",
        "tell me about the date palm",
        "How many days until Christmas?",
    ],
)
def test_any_other_text_is_not_an_expression(text: str) -> None:
    assert written_expression(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("12,34 + 1,2,3", "one way"),
        ("1.2.3 + 1", "one way"),
        ("1,00,000 + 1", "one way"),
        ("1,234.567.8", "one way"),
        ("(" * 60 + "1" + ")" * 60, "too deeply"),
        ("-" * 200 + "1", "too deeply"),
        ("2^" * 60 + "1", "too deeply"),
        ("(1 + 2", "not closed"),
        ("1+" * 600 + "1", "too long"),
    ],
)
def test_a_sum_that_cant_be_read_says_why(text: str, reason: str) -> None:
    with pytest.raises(CannotCompute, match=reason):
        written_expression(text)


def test_a_long_text_is_not_even_looked_at() -> None:
    assert written_expression("1+" * 600_000 + "1") is None


NUMBERS = st.decimals(-(10**9), 10**9, allow_nan=False, places=4)


@given(NUMBERS)
def test_a_number_is_read_as_it_was_written(number: object) -> None:
    for written in (f"{number:f}", f"{number:,f}"):
        assert evaluate("calc", sum_expression(written, "en")).value == Fraction(str(number))
    german = f"{number:,f}".translate(str.maketrans(",.", ".,"))
    assert evaluate("calc", sum_expression(german, "de")).value == Fraction(str(number))


@given(st.fractions(max_denominator=10**6), st.fractions(max_denominator=10**6))
def test_sums_are_exact(a: Fraction, b: Fraction) -> None:
    def value(text: str) -> object:
        return evaluate("calc", sum_expression(text, "en")).value

    x, y = (f"({n.numerator} \u00f7 {n.denominator})" for n in (a, b))
    assert value(f"{x} + {y}") == a + b
    assert value(f"{x} \u2212 {y} \u00d7 3") == a - b * 3
    assert value(f"({x}{y})²") == (a * b) ** 2


@given(
    st.text(alphabet="0123456789+-*/^()%!., \u221aesqrtofmind=\u2248²xkm", max_size=60),
    st.sampled_from(("", *LANGUAGES)),
)
def test_what_is_read_can_be_computed_or_refused(text: str, language: str) -> None:
    with suppress(CannotCompute):
        if written := written_expression(text, language):
            evaluate(written.tool, written.expression)


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
def test_what_is_not_a_claim_is_refused(text: str) -> None:
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
