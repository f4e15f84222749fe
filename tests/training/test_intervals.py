"""The interval of a mean, by drawing its values again."""

from __future__ import annotations

from hypothesis import given, strategies as st
from intervals import bootstrap_interval


@given(st.lists(st.floats(0, 1), max_size=60))
def test_the_interval_is_around_the_mean_and_always_the_same(points: list[float]) -> None:
    low, high = bootstrap_interval(points)
    assert (low, high) == bootstrap_interval(points)
    mean = sum(points) / max(1, len(points))
    assert 0.0 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1.0 + 1e-9


def test_more_points_make_a_narrower_interval() -> None:
    low, high = bootstrap_interval([0.0, 1.0] * 4)
    narrow_low, narrow_high = bootstrap_interval([0.0, 1.0] * 30)
    assert narrow_high - narrow_low < high - low
    assert narrow_low < 0.5 < narrow_high
