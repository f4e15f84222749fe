"""How a computed result is said, in the language of the request."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from baton.workers.tools.computation import evaluate
from baton.workers.tools.computation.lexicon import LANGUAGES, lexicon, number_text
from baton.workers.tools.computation.result_text import result_text

NOW = datetime(2026, 11, 23, 12, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("language", "line", "text"),
    [
        ("en", "calc: 17*23", "17 \u00d7 23 = 391"),
        ("de", "calc: (64.20 + 10%) / 4", "(64,20 + 10%) \u00f7 4 = 17,655"),
        ("en", "calc: 100/7", "100 \u00f7 7 \u2248 14.28571429"),
        ("en", "calc: isprime(97)", "Yes, 97 is a prime number."),
        ("fr", "calc: isprime(91)", "Non, 91 n\u2019est pas un nombre premier."),
        ("es", "calc: factors(12)", "12 = 2 \u00d7 2 \u00d7 3"),
        ("it", "calc: change(100, 80)", "Un calo del 20 %. (change(100; 80))"),
        ("en", "units: 12345 g -> kg", "12,345 g are 12.345 kg."),
        ("en", "units: 86399 s -> h", "86,399 s are ≈ 23.9997 h."),
        ("en", "units: 123456 B -> kB", "123,456 bytes are 123.456 kB."),
        ("en", "units: 37.456 C -> F", "37.456 °C are 99.4208 °F."),
        ("en", "units: 0 K -> C", "0 K are \u2212273.15 °C."),
        ("en", "units: 1 GiB -> MB", "1 GiB is 1,073.741824 MB."),
        ("en", "units: 0.3 mm -> ft", "0.3 mm are ≈ 0.0009843 feet."),
        ("de", "units: 2.5 lb -> kg", "2,5 amerikanische Pfund sind 1,133980925 kg."),
        ("en", "units: 42 km -> mi", "42 km are ≈ 26.1 miles."),
        ("de", "units: 42 km -> mi", "42 km sind ≈ 26,1 Meilen."),
        ("pt", "units: 3 m * 4.5 m -> m2", "3 m \u00d7 4,5 m = 13,5 m²"),
        ("en", "units: 350 F -> C", "350 °F are ≈ 176.7 °C."),
        ("de", "clock: weekday(2026-12-25)", "Freitag. (weekday(2026-12-25))"),
        ("en", "clock: days(today, christmas)", "32 days. (days(today, christmas))"),
        ("en", "clock: today()", "Today is Monday, 23 November 2026."),
        ("it", "clock: now(Tokio)", "A Tokio sono le 20:00."),
        ("de", "clock: 23:30 + 45 min", "00:15 (am nächsten Tag) Uhr. (23:30 + 45 min)"),
        ("en", "clock: span(09:15, 17:40)", "8 h 25 min (span(09:15, 17:40))"),
        ("en", "clock: leap(2028)", "Yes, 2028 is a leap year."),
    ],
)
def test_a_result_reads_as_a_user_would_say_it(language: str, line: str, text: str) -> None:
    tool, _, expression = line.partition(": ")
    assert result_text(tool, expression, evaluate(tool, expression, now=NOW), language) == text


@given(st.fractions(-(10**9), 10**9), st.sampled_from(LANGUAGES))
def test_a_number_is_said_to_ten_digits(value: Fraction, language: str) -> None:
    words = lexicon(language)
    text = number_text(value, words)
    for sign, other in (
        (words.thousands[0], ""),
        ("\u202f", ""),
        (words.decimal, "."),
        ("\u2212", "-"),
    ):
        text = text.replace(sign, other)
    assert abs(Fraction(text) - value) <= max(abs(value), Fraction(1)) * Fraction(1, 10**9)
