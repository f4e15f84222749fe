"""What another pace or ceiling would have come to: counted as far as known, else expected."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from baton.bench.backtest import PastPrompt, actual_row, other_answer_quality, replay_policy
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
    assert row.rated_good == pytest.approx(sum(case.good or 0.0 for case in cases))
    assert row.known == row.rated


@settings(max_examples=10)
@given(histories(), st.sampled_from(SpendingStyle), st.integers(0, 10 * CENT))
async def test_no_policy_passes_a_ceiling_or_sends_what_is_closed(
    cases: list[PastPrompt], thrift: SpendingStyle, ceiling: int
) -> None:
    row = await replay_policy(cases, thrift, {Scope.DAY: ceiling})
    free = sum(case.open and case.gain > 0 and not case.cost for case in cases)
    days = len({time.localtime(case.at)[:3] for case in cases})
    assert row.cost <= days * ceiling + sum(case.charged for case in cases if not case.cost)
    assert row.asked <= sum(case.open and case.gain > 0 for case in cases)
    if not ceiling:
        assert row.asked == free, "only what costs nothing"
    assert 0 <= row.good <= row.prompts
    assert 0 <= row.rated_good <= row.rated + 1e-9


async def test_the_more_freely_the_more_is_asked_and_gained() -> None:
    cases = prompts([0.02, 0.1, 0.2, 0.3, 0.5] * 8)
    frugal, balanced, best = [
        await replay_policy(cases, one, {Scope.DAY: 15 * CENT}) for one in SpendingStyle
    ]
    assert frugal.asked < best.asked
    assert frugal.cost <= balanced.cost <= best.cost <= 15 * CENT
    assert frugal.good < best.good
    assert frugal.good > actual_row(cases).good, "nothing was asked then"


async def test_little_money_goes_where_it_gains_most() -> None:
    cases = prompts([0.1, 0.6] * 20)
    row = await replay_policy(cases, SpendingStyle.BALANCED, {Scope.DAY: 10 * CENT})
    assert 0 < row.asked <= 10
    per_call = (row.good - actual_row(cases).good) / row.asked
    assert per_call > 0.38, "mean gain of all is .35"


async def test_a_new_day_has_its_own_money_and_a_month_has_not() -> None:
    cases = [replace(case, at=NOON + DAY * n) for n, case in enumerate(prompts([0.9] * 6))]
    assert (await replay_policy(cases, SpendingStyle.BEST, {Scope.DAY: CENT})).asked == 6
    assert (await replay_policy(cases, SpendingStyle.BEST, {Scope.MONTH: CENT})).asked <= 1


async def test_what_costs_nothing_is_asked_whenever_it_gains() -> None:
    cases = prompts([0.2, -0.1, 0.01], cost=0)
    assert (await replay_policy(cases, SpendingStyle.FRUGAL, AMPLE)).asked == 2


async def test_what_was_asked_costs_what_it_did() -> None:
    [case] = prompts([0.9])
    row = await replay_policy(
        [replace(case, asked=True, charged=3 * CENT)], SpendingStyle.BEST, AMPLE
    )
    assert (row.asked, row.cost) == (1, 3 * CENT)


async def test_a_judgement_counts_where_a_policy_would_have_done_the_same() -> None:
    [hopeful] = prompts([0.6], quality=0.3)
    bad = replace(hopeful, good=0.0)
    then = await replay_policy([bad], SpendingStyle.BEST, AMPLE)
    assert (then.rated, then.known, then.asked) == (1, 0, 1)
    assert then.rated_good == pytest.approx(0.6 / 0.7), "the answer here was bad, so help is needed"
    stayed = await replay_policy([replace(bad, gain=-0.1)], SpendingStyle.BEST, AMPLE)
    assert (stayed.known, stayed.rated_good) == (1, 0.0)


@given(chances, chances)
def test_what_is_expected_in_a_judged_answers_place_adds_up(own: float, other: float) -> None:
    """Over good and bad first answers, the other one is good as often as it always was."""
    both = own * other_answer_quality(1.0, own, other) + (1 - own) * other_answer_quality(
        0.0, own, other
    )
    assert both == pytest.approx(other)
    assert (
        other_answer_quality(0.0, own, other)
        <= other + 1e-9
        <= other_answer_quality(1.0, own, other) + 2e-9
    )


@given(chances, chances, st.floats(0, 1), st.floats(0, 1))
def test_the_better_the_first_answer_the_better_the_other(
    own: float, other: float, one: float, two: float
) -> None:
    low, high = sorted((one, two))
    assert other_answer_quality(low, own, other) <= other_answer_quality(high, own, other) + 1e-9


async def test_the_order_of_the_rows_does_not_matter() -> None:
    cases = prompts([0.1, 0.5, 0.3, 0.7] * 5)
    ordered = await replay_policy(cases, SpendingStyle.BALANCED, {Scope.DAY: 5 * CENT})
    assert (
        await replay_policy(cases[::-1], SpendingStyle.BALANCED, {Scope.DAY: 5 * CENT}) == ordered
    )


async def test_nothing_comes_to_nothing() -> None:
    row = await replay_policy([], SpendingStyle.BEST, AMPLE)
    assert (row.prompts, row.asked, row.cost, row.good) == (0, 0, 0, 0)
