"""No text can make a terminal do anything."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given, strategies as st

from baton.core.sanitiser import (
    StreamSanitiser,
    escape_json,
    one_line,
    remove_terminal_codes,
    sanitise,
)

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60)
EVERYTHING = "".join(map(chr, range(sys.maxunicode + 1)))
JOINERS = "\u200c\u200d"
NUMBER_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Of category Cf, but visible: Unicode's Prepended_Concatenation_Mark, without the Syriac one."""

EMOJI_STYLES = "\ufe0e\ufe0f"
IGNORABLE = (
    "\xad \u034f \u061c \u115f-\u1160 \u17b4-\u17b5 \u180b-\u180f \u200b-\u200f \u202a-\u202e "
    "\u2060-\u206f \u3164 \ufe00-\ufe0f \ufeff \uffa0 \ufff0-\ufff8 \U0001bca0-\U0001bca3 "
    "\U0001d173-\U0001d17a \U000e0000-\U000e0fff"
)
"""Unicode's Default_Ignorable_Code_Point: what is not drawn where it isn't understood."""

BROKEN = st.text(st.sampled_from("ab \t\r\n\x1b\x85"), max_size=40)
ORDINARY = st.text(
    st.characters(
        categories=("L", "N", "P", "S", "Zs"), exclude_characters="\u115f\u1160\u3164\uffa0"
    ),
    max_size=60,
)
BIDI = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


@given(ANYTHING)
def test_nothing_a_terminal_obeys_is_left(text: str) -> None:
    for char in sanitise(text):
        assert char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cs"}
        assert unicodedata.bidirectional(char) not in BIDI


def test_of_all_characters_no_format_character_is_left_that_cannot_be_seen() -> None:
    formats = {char for char in sanitise(EVERYTHING) if unicodedata.category(char) == "Cf"}
    assert formats - set(NUMBER_SIGNS) == set(JOINERS)


def test_of_all_characters_no_ignorable_one_is_left_but_what_emoji_and_scripts_need() -> None:
    spans = [span.partition("-") for span in IGNORABLE.split(" ")]
    ignorable = {
        char
        for first, _, last in spans
        for char in EVERYTHING[ord(first) : ord(last or first) + 1]
        if char not in JOINERS + EMOJI_STYLES
    }
    assert sanitise("".join(sorted(ignorable))) == "�" * len(ignorable)


@pytest.mark.parametrize(
    "char",
    [
        "\u200b",
        "\u2060",
        "\ufeff",
        "\xad",
        "\u2063",
        "\u206a",
        "\U000e0041",
        "\U000e0100",
        "\u3164",
    ],
)
def test_what_does_not_show_is_shown(char: str) -> None:
    assert sanitise(f"a{char}b") == "a�b"


@pytest.mark.parametrize("text", ["❤️", "👩\u200d🚀", "می\u200cخواهم", "بسم ۝١"])  # noqa: RUF001
def test_emoji_and_scripts_keep_what_they_need(text: str) -> None:
    assert sanitise(text) == text


@given(ANYTHING | BROKEN, st.integers(0, 60), st.integers(0, 60))
def test_chunk_borders_do_not_matter(text: str, at: int, more: int) -> None:
    stream = StreamSanitiser()
    chunks = (text[:at], text[at : at + more], text[at + more :])
    assert "".join(map(stream.feed, chunks)) == sanitise(text)


@given(ANYTHING | BROKEN, st.integers(0, 60))
def test_what_is_drawn_of_a_growing_text_only_grows(text: str, at: int) -> None:
    assert sanitise(text).startswith(sanitise(text[:at]))


@given(st.lists(st.tuples(ORDINARY, st.sampled_from(("\n", "\r", "\r\n")))))
def test_line_breaks_of_every_kind_survive(lines: list[tuple[str, str]]) -> None:
    numbered = [(f"{number}{line}", end) for number, (line, end) in enumerate(lines)]
    text = "".join(line + end for line, end in numbered)
    assert sanitise(text) == "".join(f"{line}\n" for line, _ in numbered)


@given(ANYTHING)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert sanitise(sanitise(text)) == sanitise(text)


@given(ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert sanitise(text) == text


@given(st.text(max_size=60))
def test_escaped_json_is_exact_and_clean(text: str) -> None:
    escaped = escape_json(json.dumps({text: [text]}, ensure_ascii=False, indent=1))
    assert json.loads(escaped) == {text: [text]}
    assert sanitise(escaped) == escaped


def test_escaped_json_has_no_half_of_a_pair() -> None:
    assert escape_json(json.dumps("a\ud800", ensure_ascii=False)) == '"a\ufffd"'
    assert escape_json('"\ud83d\ude00"') == '"\U0001f600"'


def test_halves_of_a_pair_are_joined_over_chunks_and_lone_ones_seen() -> None:
    assert sanitise("\ud83d\ude00 \ud83d b\ude00") == "\U0001f600 \ufffd b\ufffd"
    stream = StreamSanitiser()
    pieces = map(stream.feed, ["a\ud83d", "\ude00", "", "\ud83d", " b", "\ude00", "c\ud83d"])
    assert "".join(pieces) == "a\U0001f600\ufffd b\ufffdc"


@given(ANYTHING, st.integers(2, 50))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert sanitise(line) == line
    assert "\n" not in line
    assert len(line) <= limit


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1mdiff\x1b[m \x1b[38;2;1;2;3mx\x1b[0K\x1b[?25l\x1b[2J", "diff x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b]0;title\x07x\x1b]52;c;aGk=\x07", "link x"),
        ("\x1bPq#0;\n-\x1b\\picture\x1b_Gx\x1b\\", "picture"),
        ("\x1bPtmux;\x1b\x1b]52;c;QQ==\x1b\x1b\\\x1b\\end\x1bktitle\x1b\\", "end"),
        ("\x1b(B\x1b7\x1bcreset\x0f", "reset"),
        ("\x1b\x1b[31mred\x1b[3", "red"),
        ("a\x1b]no end\nb", "ano end\nb"),
        ("\x9b1mbold\x9b0m \x9d0;x\x9c", "bold "),
        ("N\bNA\bAM_\bE |\b/\b-\b", "NAME "),
        ("a\r\n\tb\x0c\rc\x85", "a\r\n\tb\x0c\rc\x85"),
    ],
)
def test_of_terminal_codes_the_shown_text_is_left(text: str, shown: str) -> None:
    assert remove_terminal_codes(text) == shown


@given(ANYTHING)
def test_no_escape_is_left(text: str) -> None:
    left = remove_terminal_codes(text)
    assert not {"\x1b", "\x07", "\x08"} & set(left)


@given(ORDINARY)
def test_ordinary_text_has_no_terminal_codes(text: str) -> None:
    assert remove_terminal_codes(text) == text


def test_known_attacks() -> None:
    assert sanitise("\x1b]52;c;aGk=\x07") == "�]52;c;aGk=�"
    assert sanitise("a\r\nb\rc\nd\r\r\ne\n\rf") == "a\nb\nc\nd\n\ne\n\nf"
    assert sanitise("\x9b31mred") == "�31mred"
    assert sanitise("evil\u202etxt.exe") == "evil�txt.exe"
