"""No text can make a terminal do anything."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from baton.domain.sanitise import one_line, sanitise

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60)
BIDI = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


@given(ANYTHING)
def test_nothing_a_terminal_obeys_is_left(text: str) -> None:
    for char in sanitise(text):
        assert char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cs"}
        assert unicodedata.bidirectional(char) not in BIDI


@given(ANYTHING, st.integers(0, 60))
def test_chunk_borders_do_not_matter(text: str, at: int) -> None:
    assert sanitise(text[:at]) + sanitise(text[at:]) == sanitise(text)


@given(ANYTHING)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert sanitise(sanitise(text)) == sanitise(text)


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=60))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert sanitise(text) == text


@given(ANYTHING, st.integers(2, 50))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert "\n" not in line
    assert len(line) <= limit


def test_known_attacks() -> None:
    assert sanitise("\x1b]52;c;aGk=\x07") == "�]52;c;aGk=�"
    assert sanitise("a\r\nb") == "a\nb"
    assert sanitise("\x9b31mred") == "�31mred"
    assert sanitise("evil\u202etxt.exe") == "evil�txt.exe"
