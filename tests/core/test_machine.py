"""Bytes in words, counted in one way wherever they are shown."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as some

from baton.core.machine import Hardware, show_memory, show_part, show_size, show_speed
from baton.gguf.memory_fit import ModelLoad, judge_fit
from baton.models.recommendation import recommend
from baton.tui.chat.onboarding import machine_text

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


@pytest.mark.parametrize(
    ("speed", "shown"),
    [
        (0, "0 B/s"),
        (1_230_000, "1.2 MB/s"),
        (9_940_000, "9.9 MB/s"),
        (9_960_000, "10 MB/s"),
        (12_000_000.5, "12 MB/s"),
        (999_400_000, "999 MB/s"),
        (10**10, "10 GB/s"),
    ],
)
def test_speeds_have_as_many_digits_as_matter(speed: float, shown: str) -> None:
    assert show_speed(speed) == shown


@pytest.mark.parametrize(
    ("reported", "sold"),
    [
        (25_282_412_544, 24),  # a virtual machine with 24 GiB
        (16_481_804_288, 16),  # laptops, as their systems report their memory
        (33_512_878_080, 32),
        (67_310_723_072, 64),
        (134_968_901_632, 128),
        (8_201_658_368, 8),
        (3_977_216_000, 4),
        (512 * 2**20, 1),
        (25_757_220_864, 24),  # an RTX 4090
        (8_585_740_288, 8),
        (16 * 2**30, 16),
        (18 * 2**30, 18),
        (96 * 2**30, 96),
        (1, 1),
        (0, 0),
    ],
)
def test_memory_is_shown_as_it_is_sold(reported: int, sold: int) -> None:
    assert show_memory(reported) == f"{sold} GB"


@given(some.integers(2**30, 2**42))
def test_memory_as_sold_is_never_less_and_at_most_an_eighth_more(size: int) -> None:
    sold = int(show_memory(size).removesuffix(" GB")) * 2**30
    assert size <= sold < size + max(size / 8, 2**30)


def test_the_same_machine_has_the_same_memory_everywhere() -> None:
    machine = Hardware(25_282_412_544, 20 * 10**9, 2, 2, disk=50 * 10**9)
    shown = show_memory(machine.memory)
    assert shown == "24 GB"
    assert shown in machine_text(machine)
    assert shown in recommend((), machine).why
    assert shown in judge_fit([ModelLoad("m", 10**9, 0, 0, 0)], machine).why
    assert shown in judge_fit([ModelLoad("m", 10**11, 0, 0, 0)], machine).why
