"""Which requests the trained conductor is shown, and what their words say."""

from __future__ import annotations

import pytest

from baton.core.reading.request_words import (
    MAX_REQUEST_CHARS,
    MAX_SIMPLE_WORDS,
    asks,
    is_simple,
    may_have_parts,
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
    ("text", "is_so"),
    [
        ("what is half of 18", True),
        ("Convert 12 miles to km", True),
        ("15% of 240", True),
        ("et combien font douze fois douze ?", True),
        ("Start with 500, take away 20%", False),
        ("Uma fazenda de 640 hectares tem 3/8 de mata", False),
        ("Annas Nachtdienst geht von 20:30 bis 6:15 Uhr", False),
    ],
)
def test_a_part_asks_or_only_says_how_things_are(text: str, is_so: bool) -> None:
    assert asks(text) == is_so


def test_a_short_request_for_one_operation_is_simple() -> None:
    assert is_simple("what is 15 squared", "15^2")
    assert is_simple(
        "A heater draws 2 kW for 3 hours, how many kWh is that?", "2 kW * (3 h) -> kWh"
    )
    assert not is_simple("12 crates of 20 and 17 more", "12 * 20 + 17 - 3")
    assert not is_simple("so " * MAX_SIMPLE_WORDS + "what is 15 squared", "15^2")
