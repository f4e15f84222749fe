"""How long answers get by kind."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from baton.core.plan_types import KINDS
from baton.core.planning.token_estimates import (
    COPIED_SHARE,
    TOKENS_P99,
    copied_tokens,
    requested_tokens,
    usual_tokens_p99,
)

KIND = st.sampled_from(KINDS) | st.text(max_size=12)
READ = st.integers(-(10**6), 10**9)


def test_every_kind_has_a_length() -> None:
    assert set(TOKENS_P99) == set(KINDS)
    assert set(COPIED_SHARE) <= set(KINDS)
    assert min(TOKENS_P99.values()) >= 256


@given(KIND, READ, READ)
def test_a_longer_text_never_makes_a_shorter_answer(kind: str, one: int, two: int) -> None:
    shorter, longer = (usual_tokens_p99(kind, read) for read in sorted((one, two)))
    assert usual_tokens_p99(kind) <= shorter <= longer


@given(st.text(max_size=12).filter(lambda kind: kind not in KINDS))
def test_an_unknown_kind_gets_the_most(kind: str) -> None:
    assert usual_tokens_p99(kind) == max(TOKENS_P99.values())


@pytest.mark.parametrize("kind", ["rewriting", "translation", "extraction"])
def test_what_reworks_a_text_may_be_as_long_as_that(kind: str) -> None:
    assert copied_tokens(kind, 100_000) >= 100_000
    assert usual_tokens_p99(kind, 100_000) == copied_tokens(kind, 100_000)
    assert usual_tokens_p99("knowledge", 100_000) == TOKENS_P99["knowledge"]


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("Write a story of 3000 words.", 3000),
        ("A 5,000-word essay, or 2,500 words?", 5000),
        ("Schreib 1.200 Wörter über Ulm", 1200),
        ("What are 5 wordings of 7 things, in other words?", 0),
        ("", 0),
    ],
)
def test_a_number_of_words_is_understood(prompt: str, words: int) -> None:
    assert requested_tokens(prompt) == 2 * words


@given(st.text(max_size=300))
@example("1" + ",000" * 9000 + " words")
@example("9" * 9000 + " words")
def test_any_prompt_asks_for_a_bounded_number(prompt: str) -> None:
    assert 0 <= requested_tokens(prompt) <= 2 * 10**9
