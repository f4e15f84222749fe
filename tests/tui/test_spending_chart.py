"""The days' spending, drawn: nothing is too wide, nothing that cost is left out."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given, strategies as st

from baton.core.feedback import GradedAnswer
from baton.core.ledger_types import DayCharge
from baton.core.messages import Card
from baton.core.money import NANO
from baton.tui.screens.money_screen import DAYS, ROWS, SIGNS, draw_spending, gain_text

TODAY = date(2026, 11, 26)
ROSTER = {
    "here": Card("here", "local", "Here"),
    "far": Card("far", "cloud", "Far away", remote=True),
}


def ago(days: int) -> str:
    return (TODAY - timedelta(days=days)).isoformat()


def drawn(charges: list[DayCharge], ceiling: int | None = None, columns: int = 80) -> list[str]:
    return [line.plain for line in draw_spending(charges, ROSTER, TODAY, ceiling, columns)]


def columns_of(lines: list[str]) -> list[str]:
    """Return each day's cells from below, at one column a day."""
    rows = [line.split("▕")[1].ljust(DAYS) for line in lines[:ROWS]]
    return ["".join(row[day] for row in reversed(rows)).rstrip(" ╌") for day in range(DAYS)]


def test_nothing_is_drawn_where_nothing_was_spent() -> None:
    assert drawn([]) == []
    assert drawn([DayCharge(ago(3), "far", 0), DayCharge(ago(DAYS), "far", NANO)]) == []


def test_bars_are_stacked_by_worker_under_the_ceiling() -> None:
    charges = [
        DayCharge(ago(0), "far", NANO // 4),
        DayCharge(ago(0), "gone", NANO // 4),
        DayCharge(ago(2), "far", NANO // 1000),
    ]
    lines = drawn(charges, NANO, columns=44)
    bars = columns_of(lines)
    assert bars[-1] == "██▓" or bars[-1] == "█▓▓" or bars[-1] == "██▓▓"[:3]
    assert bars[-3] == "█", "a little shows, too"
    assert not any(bars[:-3])
    assert lines[0].startswith(" $1.00 ▕╌")
    assert lines[ROWS].split() == ["28", "Oct", "26", "Nov"]
    assert "█ Far away $0.25" in " ".join(lines)
    assert "▓ gone $0.25" in " ".join(lines)
    assert "╌ $1.00 a day" in " ".join(lines)


@given(
    st.lists(
        st.builds(
            DayCharge,
            st.integers(0, DAYS - 1).map(ago),
            st.sampled_from(["far", "here", "a", "b", "c", "d\x1b[31m", "界" * 30]),
            st.integers(1, 10**11),
        ),
        min_size=1,
        max_size=40,
    ),
    st.none() | st.integers(0, 10**12),
    st.integers(46, 160),
)
def test_every_day_with_a_cost_shows_and_no_line_is_too_wide(
    charges: list[DayCharge], ceiling: int | None, columns: int
) -> None:
    lines = draw_spending(charges, ROSTER, TODAY, ceiling, columns)
    assert all(line.cell_length <= columns for line in lines)
    assert not any("\x1b" in line.plain for line in lines)
    bars = columns_of(drawn(charges, ceiling, columns=46))
    spent = {charge.day for charge in charges}
    assert {ago(DAYS - 1 - n) for n, bar in enumerate(bars) if bar} == spent
    assert all(set(bar) <= set(SIGNS) for bar in bars)
    assert max(map(len, bars)) <= ROWS
    if not ceiling:
        assert max(map(len, bars)) == ROWS, "the dearest day is as high as there is room"


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ([], ""),
        ([("far", 1.0), ("far", 0.0), ("here", 1.0)], "1 of 2 with the cloud, 1 of 1 without it."),
        ([("here", 0.2)], "none marked with the cloud, 0 of 1 without it."),
    ],
)
def test_what_the_cloud_gained(marks: list[tuple[str, float]], said: str) -> None:
    graded = [GradedAnswer(worker, "chat", good, 1.0, 0.0) for worker, good in marks]
    text = gain_text(graded, ROSTER)
    assert text == (f"Good, of the answers that you marked: {said}" if said else "")
