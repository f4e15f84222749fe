"""Which requests the trained conductor is shown, and which operations they name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from baton.core.plan import request_words
from baton.core.plan.request_words import (
    MAX_REQUEST_CHARS,
    may_have_parts,
    names_operations,
    wants_reasoning,
)


@pytest.mark.parametrize(
    "request_text",
    [
        "17*23",
        "what time is it",
        "Wie spät ist es in Tokio?",
        "dreieinhalb Kilometer in Meter",
        "novantatré meno trentotto",
        "What number is MCDXLIV?",
        "¿Qué día es mañana?",
        "Quanto é metade de oitenta?",
        "Write a poem and translate it",
        "Summarise this. Who wrote it?",
        "Explique la photosynthèse, puis donne un exemple",
        "- a joke\n- a riddle",
    ],
)
def test_a_request_with_a_number_or_a_joint_is(request_text: str) -> None:
    assert may_have_parts(request_text)


@pytest.mark.parametrize(
    "request_text",
    [
        "",
        "What is the capital of France?",
        "Hello!",
        "And what is the capital of Spain?",
        "Write a haiku about rain",
        "Wer hat Faust geschrieben?",
        "Qui a peint la Joconde ?",
        'Translate "I came, I saw, I won. Then 3 went home." to Latin',
        "1 + 1 " * MAX_REQUEST_CHARS,
        "What is 2 + 2?\nA. 3\nB. 4\nC. 5",
        "Tom has 3 apples and eats one. " * 25,
    ],
)
def test_a_plain_question_is_not(request_text: str) -> None:
    assert not may_have_parts(request_text)


@pytest.mark.parametrize(
    ("request_text", "is_so"),
    [
        ("Prove that 2 + 2 = 4", True),
        ("Zeige, dass die Summe 180 ist", True),
        ("c'est une devinette : 10 oiseaux sur un fil", True),
        ("Demuestra que la raíz de 2 es irracional", True),
        ("What is 2 + 2?", False),
        ('Translate "prove it" and add 2 and 3', False),
        ("improve 3 sentences", False),
        (r"What is $\frac56$ of 30?", True),
        ("What is the largest prime factor of $5! + 6!$?", True),
        ("a pen is $2 and a book $3, what are 4 pens and 2 books?", False),
        ("from $5 to $8, what is that in percent", False),
    ],
)
def test_a_proof_and_a_riddle_want_reasoning(request_text: str, is_so: bool) -> None:
    assert wants_reasoning(request_text) == is_so


@pytest.mark.parametrize(
    ("request_text", "expression"),
    [
        ("What is 2 to the power of 12?", "2 ^ 12"),
        ("quanto é o mmc de 9 e 12", "lcm(9, 12)"),
        ("add 20% to 640", "640 + 20%"),
        ("Ein Handy kostet 399 € mit 15 % Rabatt, wie viel?", "399 - 15%"),
        ("15% von 240", "15% * 240"),
        ("15 por ciento de 240 más 3", "15% * 240 + 3"),
        ("1500 diviso 12", "1500 / 12"),
        ("Notendurchschnitt von 2, 3 und 4", "avg(2, 3, 4)"),
        ("racine carrée de 1764, arrondie", "round(sqrt(1764))"),
    ],
)
def test_a_named_operation(request_text: str, expression: str) -> None:
    assert names_operations(request_text, "calculator", expression)


@pytest.mark.parametrize(
    ("request_text", "expression"),
    [
        ("el 15% de 80", "80 - 15%"),
        ("45 chairs, 8 in a row: how many rows?", "45 * 8"),
        ("das Doppelte von 318 weniger 50", "318 * 50"),
        ("differences between HDMI 2.0 and 2.1", "2.1 - 2.0"),
        ("3 sausages for 4.50 and 2 buns", "3 * 4.50 + 2"),
        ("40 or 50", "max(40, 50)"),
        ("2 to the power of 12", "12"),
        ("what is the address of 12 Power Street minus 3", "12 ^ 3 / 4"),
    ],
)
def test_an_operation_that_was_not_named(request_text: str, expression: str) -> None:
    assert not names_operations(request_text, "calculator", expression)


def test_units_name_themselves_where_another_unit_is_asked_for() -> None:
    assert names_operations("1.5 cups in ml", "units", "1.5 cup -> ml")
    assert names_operations("2 kW for 3 h in kWh", "units", "2 kW * (3 h) -> kWh")
    assert not names_operations("a chicken of 1.5 kg", "units", "1.5 kg -> kg")
    assert not names_operations("5 km/h for 45 min", "units", "45 min / 5 -> min")
    assert not names_operations("a glass of 0.2 l from 1.5 l", "units", "1.5 l / (0.2 l)")


def test_times_are_never_named_by_a_word() -> None:
    assert not names_operations("30 days minus today", "clock", "today - 30 d")


@given(st.text(alphabet="0123456789 abc.", max_size=40), st.sampled_from("+-*/^"))
def test_numbers_alone_name_nothing(request_text: str, operation: str) -> None:
    assert not names_operations(request_text, "calculator", f"4 {operation} 5")


@pytest.mark.parametrize("operation", sorted(request_words._OPERATION_WORDS))
def test_every_name_is_a_word_of_its_own(operation: str) -> None:
    """A word inside another one names nothing: "mad" isn't "add", "sofar" isn't "far"."""
    names = request_words._OPERATION_PATTERNS[operation]
    for word in re.findall(
        r"(?<![\\\w])[a-z]{4,}(?![\w*?(\[])", request_words._OPERATION_WORDS[operation]
    ):
        assert (
            not names.search(f"xx{word}")
            or "\\w*" + word in request_words._OPERATION_WORDS[operation]
        )
