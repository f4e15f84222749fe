"""How long answers get by kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.domain.kind_lengths import COPIED, TOKENS_P99, copied_tokens, usual_tokens_p99
from baton.domain.plan import KINDS

KIND = st.sampled_from(KINDS) | st.text(max_size=12)
READ = st.integers(-(10**6), 10**9)


def test_every_kind_has_a_length() -> None:
    assert set(TOKENS_P99) == set(KINDS)
    assert set(COPIED) <= set(KINDS)
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
