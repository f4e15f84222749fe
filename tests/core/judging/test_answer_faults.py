"""A text that repeats itself is stopped where that began; good texts never are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from baton.core.judging.answer_faults import RepetitionWatch, end_before_repeat

INTRO = "The mountains are high and the air is thin. "
ROUND = "I walked up to the summit and saw a bird that sang. It was a wonderful bird. "
VERSE = (
    "Row, row, row your boat,\nGently down the stream.\n"
    "Merrily, merrily, merrily, merrily,\nLife is but a dream.\n"
)


def stop(text: str, prompt: str = "Tell me more.", piece: int = 4) -> tuple[int, str] | None:
    """Return after how many characters a growing text is stopped, and what stays of it."""
    watch = RepetitionWatch(prompt)
    for end in range(piece, len(text) + piece, piece):
        if cut := watch.end_before_repeat(text[:end]):
            return min(end, len(text)), text[:cut].rstrip()
    return None


def test_prose_is_stopped_at_its_second_repeat_and_ends_before_the_first() -> None:
    stopped = stop(INTRO + ROUND * 20)
    assert stopped is not None
    length, kept = stopped
    assert kept == (INTRO + ROUND).rstrip()
    assert length <= len(INTRO) + 3 * len(ROUND) + 30


def test_two_equal_paragraphs_are_not_a_loop() -> None:
    assert stop(INTRO + ROUND + "\n\n" + ROUND) is None


def test_a_word_without_end_is_a_loop() -> None:
    stopped = stop("It was won by the legendary " + "quarterback, " * 100)
    assert stopped is not None
    assert stopped[1] == "It was won by the legendary quarterback,"


def test_a_loop_longer_than_what_is_looked_at_ends_before_its_first_repeat() -> None:
    assert end_before_repeat(INTRO + ROUND * 300) == len(INTRO + ROUND) - 1


@pytest.mark.parametrize(
    "text",
    [
        VERSE * 3,
        "- apple\n" * 10,
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 30,
        "```python\n" + "0, 0, 0, 0,\n" * 100 + "```\nThat is the matrix.",
        "-" * 500,
        "Location, location, location. " * 3,
        "\n".join(f"{n}. Walk for 30 minutes." for n in range(1, 40)),
    ],
)
def test_verse_lists_tables_and_code_with_equal_lines_continue(text: str) -> None:
    assert stop(text) is None


@pytest.mark.parametrize("text", ["- apple\n" * 400, "```\n" + "x = 1\n" * 2000])
def test_even_lines_and_code_do_not_continue_for_ever(text: str) -> None:
    assert stop(text) is not None


def test_repetition_that_was_asked_for_is_none() -> None:
    lines = "I will not talk in class. " * 50
    assert stop(lines, "Write 'I will not talk in class.' 50 times.") is None
    assert stop(lines, "Write me a letter.") is not None


SENTENCES = st.lists(
    st.text("abcdefghij klmnop", min_size=20, max_size=80), min_size=1, max_size=40, unique=True
)


@given(SENTENCES)
def test_a_text_of_different_sentences_is_never_stopped(sentences: list[str]) -> None:
    text = ". ".join(re.sub(r"\s+", " ", f"{n} {s}") for n, s in enumerate(sentences))
    assert stop(text, piece=7) is None


@given(st.text("abcdefgh ij", min_size=50, max_size=300), st.integers(1, 9))
def test_what_stays_is_a_beginning_that_has_the_piece_once(unit: str, piece: int) -> None:
    text = f"Begin. {(unit + '. ') * 8}"
    stopped = stop(text, piece=piece)
    assert stopped is not None
    length, kept = stopped
    assert text.startswith(kept)
    assert len(kept) <= len("Begin. ") + 2 * len(unit) + 4
    assert length > len(kept)


EVERYDAY = Path(__file__).parents[3] / "scripts/training/router/everyday.jsonl"


def test_none_of_300_good_answers_to_everyday_prompts_is_stopped() -> None:
    rows = [json.loads(line) for line in EVERYDAY.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 300
    assert [row["id"] for row in rows if stop(row["good"], row["prompt"]) is not None] == []
