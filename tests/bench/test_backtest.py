"""What another pace or ceiling would have cost: counted as far as known, else expected."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from baton.bench.backtest import PastPrompt, actual_row, backtest_pace
from baton.core.ledger_types import Scope, SpendingStyle
from baton.core.money import NANO

CENT = NANO // 100
NOON = time.mktime((2026, 11, 2, 12, 0, 0, 0, 0, -1))
DAY = 86_400.0
AMPLE = {Scope.DAY: 10 * NANO}

chances = st.floats(0.01, 0.99)


@st.composite
def histories(draw: st.DrawFn) -> list[PastPrompt]:
    count = draw(st.integers(1, 25))
    return [
        PastPrompt(
            NOON + draw(st.floats(0, 5 * DAY)),
            draw(st.sampled_from("abc")),
            draw(chances),
            draw(st.floats(-0.5, 0.9)),
            draw(st.integers(0, 3 * CENT)),
            asked := draw(st.booleans()),
            draw(st.integers(0, 3 * CENT)) if asked else 0,
            draw(st.none() | st.floats(0, 1)),
            draw(st.booleans()),
        )
        for _ in range(count)
    ]


def prompts(gains: Sequence[float], cost: int = CENT, quality: float = 0.4) -> list[PastPrompt]:
    return [
        PastPrompt(NOON + 600.0 * n, f"c{n}", quality, gain, cost) for n, gain in enumerate(gains)
    ]


@settings(max_examples=15)
@given(histories())
def test_what_happened_is_what_was_charged_and_judged(cases: list[PastPrompt]) -> None:
    row = actual_row(cases)
    assert row.asked == sum(case.asked for case in cases)
    assert row.cost == sum(case.charged for case in cases)
    rated = [replace(case, good=0.5) for case in cases]
    assert actual_row(rated).good == pytest.approx(len(cases) / 2)


@settings(max_examples=10)
@given(histories(), st.sampled_from(SpendingStyle), st.integers(0, 10 * CENT))
async def test_no_policy_passes_a_ceiling_or_sends_what_is_closed(
    cases: list[PastPrompt], thrift: SpendingStyle, ceiling: int
) -> None:
    row = await backtest_pace(cases, thrift, {Scope.DAY: ceiling})
    free = sum(case.open and case.gain > 0 and not case.cost for case in cases)
    days = len({time.localtime(case.at)[:3] for case in cases})
    assert row.cost <= days * ceiling + sum(case.charged for case in cases if not case.cost)
    assert row.asked <= sum(case.open and case.gain > 0 for case in cases)
    if not ceiling:
        assert row.asked == free, "only what costs nothing"
    assert 0 <= row.good <= row.prompts


async def test_the_more_freely_the_more_is_asked_and_gained() -> None:
    cases = prompts([0.02, 0.1, 0.2, 0.3, 0.5] * 8)
    frugal, balanced, best = [
        await backtest_pace(cases, one, {Scope.DAY: 15 * CENT}) for one in SpendingStyle
    ]
    assert frugal.asked < best.asked
    assert frugal.cost <= balanced.cost <= best.cost <= 15 * CENT
    assert frugal.good < best.good
    assert frugal.good > actual_row(cases).good, "nothing was asked then"


async def test_little_money_goes_where_it_gains_most() -> None:
    cases = prompts([0.1, 0.6] * 20)
    row = await backtest_pace(cases, SpendingStyle.BALANCED, {Scope.DAY: 10 * CENT})
    assert 0 < row.asked <= 10
    per_call = (row.good - actual_row(cases).good) / row.asked
    assert per_call > 0.38, "mean gain of all is .35"


async def test_a_new_day_has_its_own_money_and_a_month_has_not() -> None:
    cases = [replace(case, at=NOON + DAY * n) for n, case in enumerate(prompts([0.9] * 6))]
    assert (await backtest_pace(cases, SpendingStyle.BEST, {Scope.DAY: CENT})).asked == 6
    assert (await backtest_pace(cases, SpendingStyle.BEST, {Scope.MONTH: CENT})).asked <= 1


async def test_what_costs_nothing_is_asked_whenever_it_gains() -> None:
    cases = prompts([0.2, -0.1, 0.01], cost=0)
    assert (await backtest_pace(cases, SpendingStyle.FRUGAL, AMPLE)).asked == 2


async def test_what_was_asked_costs_what_it_did() -> None:
    [case] = prompts([0.9])
    row = await backtest_pace(
        [replace(case, asked=True, charged=3 * CENT)], SpendingStyle.BEST, AMPLE
    )
    assert (row.asked, row.cost) == (1, 3 * CENT)


async def test_a_rating_counts_where_a_policy_would_have_done_the_same() -> None:
    [hopeful] = prompts([0.6], quality=0.3)
    bad = replace(hopeful, good=0.0)
    helped = await backtest_pace([bad], SpendingStyle.BEST, AMPLE)
    assert helped.asked == 1
    assert helped.good == pytest.approx(0.9)
    stayed = await backtest_pace([replace(bad, gain=-0.1)], SpendingStyle.BEST, AMPLE)
    assert (stayed.asked, stayed.good) == (0, 0.0)
    assert actual_row([bad]).good == 0.0


async def test_the_order_of_the_rows_does_not_matter() -> None:
    cases = prompts([0.1, 0.5, 0.3, 0.7] * 5)
    ordered = await backtest_pace(cases, SpendingStyle.BALANCED, {Scope.DAY: 5 * CENT})
    assert (
        await backtest_pace(cases[::-1], SpendingStyle.BALANCED, {Scope.DAY: 5 * CENT}) == ordered
    )


async def test_nothing_costs_nothing() -> None:
    row = await backtest_pace([], SpendingStyle.BEST, AMPLE)
    assert (row.prompts, row.asked, row.cost, row.good) == (0, 0, 0, 0)
