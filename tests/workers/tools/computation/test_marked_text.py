"""What code marks in a request before a model reads it, in six languages."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from baton.workers.tools.computation.lexicon import LANGUAGES, guess_language, lexicon
from baton.workers.tools.computation.marked_text import mark, unit_code
from baton.workers.tools.computation.quantities import PINT_NAMES

MARKED = [
    ("What is forty-two km in miles?", "What is 42 km in miles?"),
    ("What is 1,234.50 plus twenty-three", "What is 1234.50 plus 23"),
    ("one of the best films of the nineties", "one of the best films of the nineties"),
    ("Is May 3rd, 2027 a Monday?", "Is 2027-05-03 a Monday?"),
    ("the first of May", "the 05-01"),
    ("meet me at 9:15 pm or at half past three", "meet me at 21:15 or at 03:30"),
    ("an hour and a half before 7am", "1.5 h before 07:00"),
    ('translate "I have two cats" into French', 'translate "I have two cats" into French'),
    ("Was sind zweiundvierzig Kilometer in Meilen?", "Was sind 42 km in Meilen?"),
    ("Wie viel sind 19 % von 1.234,50 €?", "Wie viel sind 19% von 1234.50 €?"),
    ("Welcher Tag ist der 3. Mai 2027, der 24.12.?", "Welcher Tag ist der 2027-05-03, der 12-24?"),
    ("der Zug fährt um halb neun los", "der Zug fährt um 08:30 los"),
    ("dreieinhalb Kilometer in Meter", "3.5 km in Meter"),
    ("Combien font vingt-deux fois 1 480,5 ?", "Combien font 22 fois 1480.5 ?"),
    ("Rendez-vous le 3 mai 2027 à 14h30", "Rendez-vous le 2027-05-03 à 14:30"),
    ("¿Cuánto es 2.345 + treinta y uno?", "¿Cuánto es 2345 + 31?"),
    ("2 litros y medio en mililitros", "2.5 l en mililitros"),
    ("el 3 de mayo de 2027", "el 2027-05-03"),
    ("Quanto fa 1.500 diviso dodici?", "Quanto fa 1500 diviso 12?"),
    ("mezzo chilo in once", "0.5 kg in once"),
    ("10 GB a 100 megabit al secondo", "10 GB a 100 Mbit/s"),
    ("A aula começa às 19 horas e dura 3 horas", "A aula começa às 19:00 e dura 3 h"),
    ("gcd(48,180) by 5 o'clock", "gcd(48, 180) by 05:00"),
    ("ggt(48,180), bin 34 y.o.", "ggt(48, 180), bin 34 y.o."),
    ("5'11\" in cm, the old ones", "5 ft 11 in in cm, the old ones"),
    ("3/4 cup, 1 1/2 cups or 3½ cups", "0.75 cup, 1.5 cup or 3.5 cup"),
    ("wie viel kW sind 100 PS?", "wie viel kW sind 100 PS?"),
    ("15 pour 100 de 80 euros", "15% de 80 euros"),
    ("Quanto é 7,5% de R$ 3.200?", "Quanto é 7.5% de R$ 3200?"),
]


@pytest.mark.parametrize(("request_", "marked"), MARKED)
def test_literals_become_those_of_the_plan_language(request_: str, marked: str) -> None:
    assert mark(request_).text == marked


def test_a_request_is_marked_in_its_language() -> None:
    found = mark("Wie viel sind zwölf Prozent von 1.250,50 Euro?")
    assert found.language == "de"
    assert "12%" in found.text
    assert "1250.50" in found.text


def test_a_number_word_beside_a_number_is_another_number() -> None:
    assert mark("geteilt zu acht 372,80 Euro").text.split()[2:4] == ["8", "372.80"]


@pytest.mark.parametrize(("request_", "marked"), MARKED)
def test_a_part_can_be_given_back_as_it_was_written(request_: str, marked: str) -> None:
    found = mark(request_)
    assert found.restored(found.text) == request_


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("what is the capital of Peru", "en"),
        ("wie spät ist es in Lima", "de"),
        ("quelle heure est-il à Lima", "fr"),
        ("¿qué hora es en Lima?", "es"),
        ("che ore sono a Lima", "it"),
        ("que horas são em Lima", "pt"),
        ("novantatré meno trentotto", "it"),
        ("17*23", "en"),
    ],
)
def test_the_language_is_guessed(text: str, language: str) -> None:
    assert guess_language(text) == language


@given(st.text(max_size=200))
def test_any_text_can_be_marked(text: str) -> None:
    marked = mark(text)
    assert marked.language in LANGUAGES
    if not marked.literals:
        assert marked.text == text


@given(st.integers(0, 10**7), st.sampled_from(LANGUAGES))
def test_separators_between_thousands_go(number: int, language: str) -> None:
    separator = lexicon(language).thousands[0]
    written = f"{number:,}".replace(",", separator)
    assert mark(f"x {written} y", language).text == f"x {number} y"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_lexicon_knows_every_unit_and_says_every_result(language: str) -> None:
    words = lexicon(language)
    assert set(PINT_NAMES) - set(words.units) <= {"in2", "l/100km"}
    assert all(len(forms) >= 2 for forms in words.units.values())
    assert (len(words.months), len(words.weekdays)) == (12, 7)
    assert set(words.answers) == set(lexicon("de").answers)
    assert unit_code(words.units["km"][1], language) == "km"


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("già che ci sei somma sei e 3", "già che ci sei somma 6 e 3"),
        ("tu sei bravo, chi sei?", "tu sei bravo, chi sei?"),
        ("sei un genio", "sei un genio"),
        ("sei mele e sei pere", "6 mele e 6 pere"),
    ],
)
def test_you_are_is_not_a_number_in_italian(text: str, marked: str) -> None:
    assert mark(text, "it").text == marked
