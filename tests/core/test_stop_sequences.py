"""A text ends before the first of the texts that it would hold, however it arrives in pieces."""

from __future__ import annotations

from hypothesis import given, strategies as st

from baton.core.stream_filters import StopFilter, held_back

FEW = st.text("ab\n", min_size=1, max_size=4)


@given(st.lists(st.text("ab\n", max_size=4), max_size=8), st.lists(FEW, max_size=3))
def test_it_ends_before_the_first_stop_and_loses_nothing(
    pieces: list[str], stops: list[str]
) -> None:
    whole = "".join(pieces)
    filtered = StopFilter(stops)
    shown = "".join(map(filtered.feed, pieces)) + filtered.flush()
    ends = [whole.find(stop) for stop in stops if stop in whole]
    assert filtered.is_over == bool(ends)
    if ends:
        assert whole.startswith(shown)
        assert not any(stop in shown for stop in stops)
        assert len(shown) >= min(ends)
    else:
        assert shown == whole


def test_what_may_be_the_beginning_is_kept_back() -> None:
    filtered = StopFilter(["\n\n", "END"])
    assert [filtered.feed(piece) for piece in ("one\n", "two EN", "DURE", "\n", "\nx")] == [
        "one",
        "\ntwo ",
        "",
        "",
        "",
    ]
    assert filtered.is_over
    assert held_back("abc<too", ["<tool>"]) == 4
