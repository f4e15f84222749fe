"""What is to be expected: of money by what was charged, of help by what was weighed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from hypothesis import given, strategies as st

from baton.core.history_types import Weighing
from baton.core.ledger_types import Scope, ScopeBalance, SpendingStyle, Standing
from baton.core.money import NANO
from baton.core.spending.forecast import Forecast, make_forecast

NOON = time.mktime((2026, 11, 10, 12, 0, 0, 0, 0, -1))
TODAY = date(2026, 11, 10)
CALL = NANO // 250


def money(day: int | None, month: int | None, used: int = 0, so_far: int = 0) -> Standing:
    rooms = (ScopeBalance(Scope.DAY, day, used), ScopeBalance(Scope.MONTH, month, so_far))
    return Standing((ScopeBalance(Scope.SESSION, None), *rooms))


def past_weighings(days: int, each: int = 10) -> list[Weighing]:
    """Return prompts of so many days before today, with gains from .02 to .40."""
    first = NOON - days * 86400
    return [
        Weighing(first + n * 86400 / each, f"c{n // 5}", 0.02 * (1 + n % 20), CALL, False)
        for n in range(days * each)
    ]


def daily_charges(*amounts: int) -> dict[date, int]:
    """Return what was charged on the days before today, the newest first."""
    return {TODAY - timedelta(days=ago): amount for ago, amount in enumerate(amounts, 1) if amount}


def forecast(
    standing: Standing, past: Sequence[Weighing] = (), daily: dict[date, int] | None = None
) -> Forecast:
    return make_forecast(past, daily or {}, standing, NOON)


def test_too_little_is_said_to_be_too_little() -> None:
    for past in ([], past_weighings(1, 15), past_weighings(2, 30)[:15]):
        found = forecast(money(NANO, NANO), past, daily_charges(CALL, CALL))
        assert found.prospects == ()
        assert found.weighed == len(past)
        assert [course.expected for course in found.courses] == [None, None]


def test_a_month_goes_on_as_the_last_days_went() -> None:
    found = forecast(money(None, None, 0, 9 * NANO), daily=daily_charges(NANO, 0, NANO, NANO))
    day, month = found.courses
    assert day.expected == round(0.375 * NANO)
    assert month.expected == round((9 + 0.75 * 20.5) * NANO)
    assert (day.reached, month.reached) == (None, None)


def test_when_a_ceiling_would_be_reached() -> None:
    daily = daily_charges(NANO, NANO, NANO, NANO)
    loose = forecast(money(None, 40 * NANO, 0, 9 * NANO), daily=daily).courses[1]
    assert loose.reached is None
    tight = forecast(money(None, 14 * NANO, 0, 9 * NANO), daily=daily).courses[1]
    assert tight.expected == 14 * NANO
    assert tight.reached == NOON + 5 * 86400
    used = forecast(money(None, 8 * NANO, 0, 9 * NANO), daily=daily).courses[1]
    assert (used.expected, used.reached) == (9 * NANO, NOON)


def test_each_pace_has_its_price() -> None:
    frugal, balanced, best = forecast(money(NANO, 20 * NANO), past_weighings(10)).prospects
    assert [p.thrift for p in (frugal, balanced, best)] == list(SpendingStyle)
    assert frugal.bar > balanced.bar > best.bar
    rests = [p.rests[Scope.MONTH] for p in (frugal, balanced, best)]
    assert [rest.cost for rest in rests] == sorted(rest.cost for rest in rests)
    assert rests[0].helped < rests[1].helped < rests[2].helped <= rests[2].prompts
    assert 150 <= rests[0].prompts <= 300, "ten on each of 20 days, if a few more at first"
    assert best.rests[Scope.DAY].prompts <= 10


def test_scarce_money_is_not_exceeded() -> None:
    left = 30 * CALL
    for prospect in forecast(money(None, left), past_weighings(10)).prospects:
        assert prospect.rests[Scope.MONTH].cost <= left
        assert prospect.rests[Scope.DAY].cost <= left
        assert prospect.bar > 0.2
    for prospect in forecast(money(2 * CALL, None), past_weighings(10)).prospects:
        assert prospect.rests[Scope.DAY].cost <= 2 * CALL
        assert prospect.rests[Scope.MONTH].cost <= 22 * 2 * CALL
    for prospect in forecast(money(NANO, 0), past_weighings(10)).prospects:
        assert prospect.rests[Scope.MONTH].helped == prospect.rests[Scope.DAY].helped == 0


def test_gains_that_are_all_alike_are_bought_in_part() -> None:
    past = [replace(one, gain=0.3) for one in past_weighings(10)]
    best = forecast(money(None, 50 * CALL), past).prospects[2]
    assert 40 <= best.rests[Scope.MONTH].helped <= 50


@given(
    st.lists(
        st.builds(
            Weighing,
            st.floats(NOON - 30 * 86400, NOON + 1000),
            st.sampled_from("abc"),
            st.floats(),
            st.integers(-5, NANO),
            st.booleans(),
        ),
        max_size=60,
    ),
    st.dictionaries(
        st.dates(TODAY - timedelta(days=40), TODAY + timedelta(days=3)), st.integers(0, NANO)
    ),
    st.one_of(st.none(), st.integers(0, NANO)),
    st.integers(0, 2 * NANO),
)
def test_with_any_history_the_rest_is_within_the_ceilings(
    past: list[Weighing], daily: dict[date, int], ceiling: int | None, used: int
) -> None:
    found = make_forecast(past, daily, money(None, ceiling, used, used), NOON)
    for course in found.courses:
        assert course.expected is None or course.expected >= used
    for prospect in found.prospects:
        for rest in prospect.rests.values():
            assert 0 <= rest.helped <= rest.prompts
            assert ceiling is None or rest.cost <= max(0, ceiling - used)
