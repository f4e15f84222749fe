"""The pace of spending: never above what is planned, where it gains most, and lasting."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st
from share_decider import share_decider

from baton.core.errors import StoreError
from baton.core.history_types import Weighing
from baton.core.ledger_types import Scope, ScopeBalance, SpendingStyle, Standing
from baton.core.money import NANO
from baton.core.spending.pace_controller import (
    STYLE_RULES,
    BarController,
    PaceDecision,
    Pacing,
    ReadWeighings,
    SpendingRate,
    UsageRate,
)

EXAMPLES = 40
DAWN = time.mktime((2026, 11, 10, 0, 5, 0, 0, 0, -1))
CENT = NANO // 100
CALL = NANO // 250

numbers = st.floats(width=32)  # nan and infinities among them
gains = st.one_of(st.floats(-1, 1), st.sampled_from([0.3, math.nan, math.inf, -math.inf]))
costs = st.integers(1, 20 * CENT)


def sent_decisions(share: float, scores: Sequence[float]) -> list[bool]:
    decide = share_decider(share)
    return [decide(score) for score in scores]


# A share of a stream


@settings(max_examples=EXAMPLES)
@given(st.floats(0, 1), st.lists(st.one_of(numbers, st.just(0.5)), max_size=300))
def test_never_more_than_the_share_is_sent(share: float, scores: list[float]) -> None:
    for seen, total in enumerate(itertools.accumulate(sent_decisions(share, scores)), start=1):
        assert total <= share * seen + 1e-9


@pytest.mark.sampled(3)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_nearly_all_of_the_share_is_used_for_the_best(share: float, scale: float) -> None:
    rng = random.Random(7)
    scores = [rng.gauss(0, 1) * scale for _ in range(1500)]
    taken = [score for score, ok in zip(scores, sent_decisions(share, scores), strict=True) if ok]
    assert 0.93 * share <= len(taken) / len(scores) <= share
    best = sum(sorted(scores, reverse=True)[: int(share * len(scores))])
    assert sum(taken) > 0.9 * best


def test_scores_that_are_all_alike_are_sent_evenly() -> None:
    taken = sent_decisions(0.3, [0.25] * 600)
    assert 0.28 <= sum(taken) / 600 <= 0.3
    assert all(sum(taken[at : at + 20]) <= 7 for at in range(0, 600, 20))
    assert all(sum(taken[at : at + 20]) >= 5 for at in range(40, 600, 20))


@pytest.mark.parametrize(("before", "after"), [(1.0, 0.01), (0.01, 1.0), (1.0, -1.0)])
def test_another_domain_is_learned_within_tens(before: float, after: float) -> None:
    rng = random.Random(3)
    scores = [rng.random() * before for _ in range(300)]
    scores += [rng.random() * after for _ in range(300)]
    taken = sent_decisions(0.3, scores)
    assert 0.25 <= sum(taken[300:400]) / 100 <= 0.36
    assert 0.27 <= sum(taken[400:]) / 200 <= 0.33


@settings(max_examples=EXAMPLES)
@given(st.lists(st.tuples(numbers, costs), max_size=60), st.floats(0, 1e9), st.floats(-2, 9))
def test_a_fuller_bucket_never_raises_the_bar(
    seen: list[tuple[float, int]], rate: float, fill: float
) -> None:
    controller = BarController()
    for worth, cost in seen:
        controller.add(-math.inf if math.isnan(worth) else worth, cost)
    bar = controller.bar(SpendingRate(rate, fill))
    assert controller.bar(SpendingRate(rate, fill + 1)) <= bar
    assert controller.bar(SpendingRate(2 * rate, fill)) <= bar


# A user's money


def make_standing(
    day: int | None, used: int = 0, month: int | None = None, more: int = 0
) -> Standing:
    rooms = (ScopeBalance(Scope.SESSION, None), ScopeBalance(Scope.DAY, day, used))
    return Standing((*rooms, ScopeBalance(Scope.MONTH, month, used + more)))


PLENTY = make_standing(NANO)


def weighing_reader(past: Sequence[Weighing]) -> ReadWeighings:
    async def memory() -> Sequence[Weighing]:
        return past

    return memory


def weigh(
    gain: float,
    cost: int = CALL,
    money: Standing = PLENTY,
    thrift: SpendingStyle = SpendingStyle.BALANCED,
    past: Sequence[Weighing] = (),
    now: float = DAWN,
) -> PaceDecision:
    pacing = Pacing(thrift, weighing_reader(past), clock=lambda: now)
    return asyncio.run(pacing.weigh(gain, cost, money, "here"))


def days(count: int, gain: float = 0.3, each: int = 20, until: float = DAWN) -> list[Weighing]:
    """Return what was weighed on so many days before, all alike, and nothing was bought."""
    step = 86400 / each
    first = until - count * 86400
    return [
        Weighing(first + n * step, f"c{n // 9}", gain * (0.5 + n % 11 / 10), CALL, False)
        for n in range(count * each)
    ]


pasts = st.lists(
    st.builds(
        Weighing,
        st.floats(DAWN - 40 * 86400, DAWN + 86400),
        st.sampled_from(["here", "there"]),
        gains,
        st.integers(-5, 20 * CENT),
        st.booleans(),
    ),
    max_size=80,
)
moneys = st.builds(
    make_standing,
    st.one_of(st.none(), st.integers(0, 3 * NANO)),
    st.integers(0, 2 * NANO),
    st.one_of(st.none(), st.integers(0, 9 * NANO)),
    st.integers(0, NANO),
)


@settings(max_examples=EXAMPLES)
@given(gains, gains, costs, moneys, pasts)
def test_a_higher_gain_is_never_refused_where_a_lower_one_is_bought(
    one: float, other: float, cost: int, money: Standing, past: list[Weighing]
) -> None:
    low, high = sorted(0.0 if math.isnan(gain) else gain for gain in (one, other))
    assert weigh(high, cost, money, past=past).ok >= weigh(low, cost, money, past=past).ok


@settings(max_examples=EXAMPLES)
@given(gains, costs, moneys, pasts)
def test_a_freer_pace_buys_all_that_a_thriftier_one_would(
    gain: float, cost: int, money: Standing, past: list[Weighing]
) -> None:
    bought = [weigh(gain, cost, money, thrift, past).ok for thrift in SpendingStyle]
    assert bought == sorted(bought)


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(SpendingStyle),
    st.integers(0, NANO),
    st.one_of(st.none(), st.integers(0, NANO)),
    st.lists(st.tuples(gains, costs, st.floats(-90_000, 90_000)), max_size=60),
)
def test_no_stream_gets_more_than_the_ceilings(
    thrift: SpendingStyle, day: int, month: int | None, stream: list[tuple[float, int, float]]
) -> None:
    now, used = DAWN, 0

    async def execute() -> None:
        nonlocal now, used
        pacing = Pacing(thrift, clock=lambda: now)
        for gain, cost, later in stream:
            now += later  # clocks go backwards, too
            pace = await pacing.weigh(gain, cost, make_standing(day, used, month), "here")
            assert pace.ok == (not math.isnan(gain) and min(1.0, gain) > pace.bar)
            assert 0 <= pace.bar <= 1
            used += cost if pace.ok else 0
            assert used <= (day if month is None else min(day, month))

    asyncio.run(execute())


@pytest.mark.parametrize(
    ("money", "says"),
    [
        (Standing(()), "nothing may be spent"),
        (make_standing(None), "nothing may be spent"),
        (
            Standing((ScopeBalance(Scope.DAY, NANO),), frozen="It charged more."),
            "nothing may be spent",
        ),
        (make_standing(NANO, NANO), "more than is left today"),
        (make_standing(NANO, 0, NANO, NANO), "more than is left this month"),
        (make_standing(0, 0, NANO), "more than is left today"),
    ],
)
def test_where_nothing_is_left_nothing_is_worth_it(money: Standing, says: str) -> None:
    pace = weigh(1.0, money=money, thrift=SpendingStyle.BEST)
    assert (pace.ok, pace.bar) == (False, 1.0)
    assert says in pace.why


def test_plenty_is_spent_on_what_is_worth_its_price_and_scarce_money_on_the_best() -> None:
    past = days(10)
    least = {thrift: weigh(0.5, thrift=thrift, past=past).bar for thrift in SpendingStyle}
    assert least[SpendingStyle.FRUGAL] > least[SpendingStyle.BALANCED] > least[SpendingStyle.BEST]
    assert least[SpendingStyle.BALANCED] == STYLE_RULES[SpendingStyle.BALANCED].floor(CALL)
    scarce = [
        weigh(0.5, money=make_standing(5 * CALL), thrift=thrift, past=past)
        for thrift in SpendingStyle
    ]
    assert all(0.2 < pace.bar < 0.5 for pace in scarce)
    assert "today you spend on gains above" in scarce[1].why
    assert weigh(0.5, 40 * CALL, past=past).bar > least[SpendingStyle.BALANCED], "it is dear"


def test_the_tightest_scope_decides() -> None:
    past = days(10)
    loose = weigh(0.4, money=make_standing(20 * CALL, 0, NANO), past=past)
    tight = weigh(0.4, money=make_standing(20 * CALL, 0, 12 * CALL), past=past)
    assert tight.bar > loose.bar
    assert "this month you spend" in tight.why
    rooms = (
        ScopeBalance(Scope.SESSION, 2 * CALL),
        ScopeBalance(Scope.DAY, NANO),
        ScopeBalance(Scope.MONTH, NANO),
    )
    talk = weigh(0.1, money=Standing(rooms), past=past)
    assert "in this conversation you spend" in talk.why


def test_what_a_prompt_may_cost_by_itself_is_spent_on_it() -> None:
    typed = ScopeBalance(Scope.RUN, NANO)
    rooms = (*make_standing(2 * CALL, CALL).rooms, typed)
    assert weigh(0.1, money=Standing(rooms), past=days(10)).ok
    assert weigh(0.1, money=Standing((typed,))).ok
    assert not weigh(0.1, money=Standing((ScopeBalance(Scope.RUN, NANO, NANO),))).ok


def test_spending_ahead_of_the_plan_needs_more_gain_until_the_day_catches_up() -> None:
    past = days(10)
    morning = DAWN + 7 * 3600
    bought = [Weighing(morning - n, "here", 0.4, CALL, True) for n in range(12)]
    early = weigh(
        0.4, money=make_standing(20 * CALL, 12 * CALL), past=[*past, *bought], now=morning
    )
    later = [Weighing(morning + n * 1800, "here", 0.1, CALL, False) for n in range(1, 30)]
    late = weigh(
        0.4,
        money=make_standing(20 * CALL, 12 * CALL),
        past=[*past, *bought, *later],
        now=morning + 15 * 3600,
    )
    assert early.bar > 0.4 > late.bar


def test_what_was_spent_another_way_shrinks_the_plan_but_does_not_stop_it() -> None:
    money = make_standing(20 * CALL, 10 * CALL)  # none of it by weighing
    pace = weigh(0.55, money=money, past=days(10))
    assert pace.ok
    assert pace.bar > weigh(0.55, money=make_standing(20 * CALL), past=days(10)).bar


def test_plan_steps_share_the_bar() -> None:
    async def extra(money: Standing) -> float:
        pacing = Pacing(memory=weighing_reader(days(10)), clock=lambda: DAWN)
        return await pacing.extra(money)

    rich, scarce, none = (
        asyncio.run(extra(money))
        for money in (make_standing(NANO), make_standing(4 * CALL), make_standing(0))
    )
    assert rich == 0.0
    assert 0.1 < scarce < none <= 1.0


def test_a_history_that_can_not_be_read_is_done_without() -> None:
    async def broken() -> Sequence[Weighing]:
        raise StoreError("The disk is gone.", "")

    pacing = Pacing(memory=broken, clock=lambda: DAWN)
    assert asyncio.run(pacing.weigh(0.5, CALL, make_standing(NANO))).ok


# Months


def month(seed: int, kind: str) -> list[tuple[float, float, int]]:
    """Return when prompts come, what help would gain and cost: (time, gain, cost)."""
    rng = random.Random(seed)
    first = time.mktime((2026, 9, 1, 0, 0, 0, 0, 0, -1))
    prompts: list[tuple[float, float, int]] = []
    domain = (2.0, 5.0)
    for day in range(30):
        count = 0 if rng.random() < 0.3 else rng.randint(6, 20)
        count *= 8 if kind == "bursts" and rng.random() < 0.15 else 1
        hour = rng.choice([9, 13, 19])
        for at in sorted(rng.gauss(hour, 1.5) for _ in range(count)):
            if rng.random() < 0.03:
                domain = rng.choice([(1.5, 12.0), (2.0, 3.0), (2.0, 5.0), (4.0, 3.0)])
            gain = 0.3 if kind == "alike" else rng.betavariate(*domain) - 0.05
            cost = CALL if kind == "alike" else int(rng.lognormvariate(0, 0.6) * CALL) + 1
            prompts.append((first + day * 86400 + min(23.9, max(0.1, at)) * 3600, gain, cost))
    return prompts


def test_a_prompt_that_is_stopped_while_the_past_is_read_leaves_it_to_the_next() -> None:
    async def run() -> tuple[float, float]:
        asked = asyncio.Event()

        async def past() -> Sequence[Weighing]:
            first = not asked.is_set()
            asked.set()
            if first:
                await asyncio.Event().wait()
            return [Weighing(DAWN, "c", 0.9, CALL, True)] * 40

        pacing = Pacing(SpendingStyle.BEST, past, clock=lambda: DAWN)
        money = make_standing(None, 0, 100 * CALL, 40 * CALL)
        stopped = asyncio.create_task(pacing.weigh(0.5, CALL, money))
        await asked.wait()
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
        fresh = Pacing(SpendingStyle.BEST, past, clock=lambda: DAWN)
        return await pacing.extra(money), await fresh.extra(money)

    remembered, fresh = asyncio.run(run())
    assert remembered == fresh > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["domains", "bursts", "alike"])
@pytest.mark.parametrize("thrift", [SpendingStyle.BALANCED, SpendingStyle.BEST])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_months_money_lasts_and_is_used(seed: int, kind: str, thrift: SpendingStyle) -> None:
    prompts = month(seed, kind)
    floor = STYLE_RULES[thrift].floor
    worthwhile = [(gain / cost, gain, cost) for _, gain, cost in prompts if gain > floor(cost)]
    ceiling = sum(cost for _, _, cost in worthwhile) // 3
    used, gained, dry, now = 0, 0.0, 1.0, 0.0

    async def execute() -> None:
        nonlocal used, gained, dry, now
        pacing = Pacing(thrift, clock=lambda: now)
        for place, (at, gain, cost) in enumerate(prompts):
            now = at
            pace = await pacing.weigh(
                gain, cost, make_standing(None, 0, ceiling, used), str(place // 9)
            )
            if pace.ok:
                used, gained = used + cost, gained + gain
            if ceiling - used < CALL and gain > floor(cost):
                dry = min(dry, (at - prompts[0][0]) / (30 * 86400))

    asyncio.run(execute())
    assert used <= ceiling
    assert used >= 0.88 * STYLE_RULES[thrift].use * ceiling, "hoarded"
    assert dry >= 0.95, "dry too early"
    possible, left = 0.0, ceiling
    for _, gain, cost in sorted(worthwhile, reverse=True):
        if cost <= left:
            possible, left = possible + gain, left - cost
    assert gained >= 0.7 * STYLE_RULES[thrift].use * possible


def test_a_known_number_of_prompts_uses_the_money_evenly() -> None:
    done = 0
    used = 0

    async def execute() -> list[bool]:
        nonlocal done, used
        pacing = Pacing(
            SpendingStyle.BEST, rhythm=UsageRate(lambda: (done + 1) / 400), clock=lambda: DAWN
        )
        bought = []
        rng = random.Random(5)
        for place in range(400):
            done = place
            pace = await pacing.weigh(
                rng.betavariate(2, 3), CALL, make_standing(None, 0, 120 * CALL, used)
            )
            used += CALL if pace.ok else 0
            bought.append(pace.ok)
        return bought

    bought = asyncio.run(execute())
    assert 112 <= sum(bought) <= 120
    assert 40 <= sum(bought[:200]) <= 80


@settings(max_examples=EXAMPLES)
@given(st.lists(st.floats(-1e6, 1e6), max_size=40), st.floats(-1e6, 1e6), st.sampled_from(Scope))
def test_the_rhythm_of_any_times_is_a_share_between_nothing_and_all(
    times: list[float], now: float, scope: Scope
) -> None:
    rhythm = UsageRate()
    for at in times:
        rhythm.add(DAWN + at, "here")
    outlook = rhythm.outlook(scope, DAWN + now, "here")
    assert outlook.done >= 1
    assert outlook.ahead >= 1
    assert 0 < outlook.done_share < 1
