"""Bytes in words, counted in one way wherever they are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from baton.domain.fit import Load, judge
from baton.domain.machine import Machine
from baton.domain.sizes import show_part, show_size
from baton.engine.recommend import recommend
from baton.tui.advice import told_machine

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (12_345, "12.3 kB"),
        (98 * 10**6, "98.0 MB"),
        (999_949_999, "999.9 MB"),
        (999_950_001, "1.0 GB"),
        (24 * 2**30, "25.8 GB"),
        (10**13, "10.0 TB"),
        (2 * 10**15, "2000.0 TB"),
        (12_000_000.5, "12.0 MB"),
    ],
)
def test_sizes_are_for_people(size: float, shown: str) -> None:
    assert show_size(size) == shown


@given(some.integers(0, 10**15 - 10**11))
def test_a_size_is_right_to_its_last_digit_and_short(size: int) -> None:
    figure, unit = show_size(size).split()
    assert abs(float(figure) * UNITS[unit] - size) <= UNITS[unit] * 0.0501
    assert float(figure) < 1000
    assert float(figure) >= 1 or unit == "B"


def test_a_part_has_the_unit_of_the_whole() -> None:
    assert show_part(600_000_000, 1_300_000_000) == "0.6 of 1.3 GB"
    assert show_part(0, 41_000) == "0.0 of 41.0 kB"
    assert show_part(5, 312) == "5 of 312 B"
    assert show_part(2_000_000, 0) == "2.0 of 0.0 MB", "the whole isn't known"


def test_the_same_machine_has_the_same_memory_everywhere() -> None:
    machine = Machine(25_282_412_544, 20 * 10**9, 2, 2, disk=50 * 10**9)
    told = show_size(machine.memory)
    assert told == "25.3 GB"
    assert told in told_machine(machine)
    assert told in recommend((), machine).why
    assert told in judge([Load("m", 10**9, 0, 0, 0)], machine).why
    assert told in judge([Load("m", 10**11, 0, 0, 0)], machine).why
