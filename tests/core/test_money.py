"""Amounts and prices: exact, rounded up, and never below what a provider counted."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from baton.core.errors import ConfigError
from baton.core.money import (
    FREE,
    NANO,
    TOKENS_PER_RATE,
    BilledTokens,
    Price,
    Rates,
    Tier,
    format_usd,
    parse_usd,
    show_usd,
)


@given(st.integers(0, 10**6 * NANO))
def test_machine_amounts_round_trip(nanos: int) -> None:
    assert parse_usd(format_usd(nanos)) == nanos


@pytest.mark.parametrize(
    ("text", "nanos"), [("0", 0), ("$1", NANO), ("0.0000000001", 1), (" 2.50 ", 2_500_000_000)]
)
def test_amounts_are_read_and_rounded_up(text: str, nanos: int) -> None:
    assert parse_usd(text) == nanos


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "1e9", "1,5"])
def test_what_is_not_an_amount_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not an amount"):
        parse_usd(text)


def test_people_see_the_digits_that_matter() -> None:
    shown = [show_usd(parse_usd(text)) for text in ("0", "0.004", "1.2", "0.00000001")]
    assert shown == ["$0.00", "$0.004", "$1.20", "under $0.0001"]


tokens = st.integers(0, 10**7)
rate = st.integers(0, 10**12) | st.sampled_from([0, 37_500_000, 250_000_000, 15_000_000_000])
rates = st.builds(Rates, rate, rate, rate, rate)
tiers = st.lists(st.builds(Tier, st.integers(1, 10**6), rates), max_size=3).map(tuple)
prices = st.builds(Price, rates, tiers)
amounts = st.integers(0, 10**15)


@st.composite
def uses(draw: st.DrawFn, most_in: int = 10**7, most_out: int = 10**7) -> BilledTokens:
    """What an honest provider counts."""
    tokens_in = draw(st.integers(0, most_in))
    cached = draw(st.integers(0, tokens_in))
    written = draw(st.integers(0, tokens_in - cached))
    return BilledTokens(tokens_in, draw(st.integers(0, most_out)), cached, written)


def test_published_prices_are_exact() -> None:
    price = Price(Rates(250_000_000, 2_000_000_000, 25_000_000, 312_500_000))
    assert price.cost(BilledTokens(1_000_000, 0)) == 250_000_000
    assert price.cost(BilledTokens(0, 1_000_000)) == 2_000_000_000
    assert price.cost(BilledTokens(1_000_000, 0, cached=400_000, cache_written=100_000)) == (
        500_000 * 250 + 400_000 * 25 + 100_000 * 312 + 50_000
    )
    assert price.cost(BilledTokens(1, 1)) == 2250
    assert price.max_cost(1000, 256) == 1000 * 312 + 500 + 256 * 2000


def test_a_part_of_a_nano_dollar_is_charged_as_one() -> None:
    price = Price(Rates(1, 0, 0, 0))
    assert price.cost(BilledTokens(0, 0)) == 0
    assert price.cost(BilledTokens(1, 0)) == 1
    assert price.cost(BilledTokens(TOKENS_PER_RATE, 0)) == 1
    assert price.cost(BilledTokens(TOKENS_PER_RATE + 1, 0)) == 2


def test_a_tier_charges_the_whole_request() -> None:
    cheap, dear = Rates(1_000_000, 2_000_000, 0, 0), Rates(3_000_000, 4_000_000, 0, 0)
    price = Price(cheap, (Tier(500, Rates(9_000_000, 9_000_000, 0, 0)), Tier(200, dear)))
    assert price.cost(BilledTokens(200, 10)) == 200 + 20
    assert price.cost(BilledTokens(201, 10)) == 603 + 40
    assert price.cost(BilledTokens(501, 10)) == 511 * 9


def test_what_the_provider_names_counts_if_it_is_more() -> None:
    price = Price(Rates(1_000_000, 1_000_000, 0, 0))
    assert price.cost(BilledTokens(10, 10, reported=19)) == 20
    assert price.cost(BilledTokens(10, 10, reported=21)) == 21
    assert FREE.cost(BilledTokens(10, 10, reported=5)) == 5


def test_only_what_never_costs_anything_is_free() -> None:
    assert FREE.is_free
    for place in ("input", "output", "cache_read", "cache_write"):
        dear = replace(FREE.rates, **{place: 1})
        assert not Price(dear).is_free
        assert not Price(FREE.rates, (Tier(1000, dear),)).is_free


@given(prices, st.data(), tokens, tokens)
def test_a_call_within_its_bounds_never_costs_more_than_was_held(
    price: Price, data: st.DataObject, bound: int, cap: int
) -> None:
    most = price.max_cost(bound, cap)
    used = data.draw(uses(bound, cap))
    assert price.cost(used) <= most
    reported = data.draw(st.integers(0, most))
    assert price.cost(replace(used, reported=reported)) <= most


@given(prices, uses())
def test_a_cost_is_exact_and_rounded_up(price: Price, used: BilledTokens) -> None:
    rates = price.rates
    for tier in sorted(price.tiers, key=lambda tier: tier.above):
        rates = tier.rates if used.tokens_in > tier.above else rates
    exact = Fraction(
        (used.tokens_in - used.cached - used.cache_written) * rates.input
        + used.cached * rates.cache_read
        + used.cache_written * rates.cache_write
        + used.tokens_out * rates.output,
        TOKENS_PER_RATE,
    )
    assert exact <= price.cost(used) < exact + 1


@given(prices, amounts, tokens)
def test_a_cap_is_the_most_that_an_amount_allows(price: Price, amount: int, bound: int) -> None:
    cap = price.affordable_tokens(amount, bound)
    if cap is None:
        assert price.max_cost(bound, 10**9) <= amount
    elif price.max_cost(bound, 0) > amount:
        assert cap == 0
    else:
        assert price.max_cost(bound, cap) <= amount < price.max_cost(bound, cap + 1)


@given(prices, amounts, amounts, tokens, tokens)
def test_more_money_never_allows_less_and_a_longer_prompt_never_more(
    price: Price, amount: int, more: int, bound: int, longer: int
) -> None:
    def cap(money: int, prompt: int) -> int:
        found = price.affordable_tokens(money, prompt)
        return 10**30 if found is None else found

    assert cap(amount + more, bound) >= cap(amount, bound)
    assert cap(amount, bound + longer) <= cap(amount, bound)


any_count = st.integers(-(10**20), 10**20)


@given(rates, any_count, any_count, any_count, any_count, st.none() | any_count)
def test_invalid_rates_never_cost_less_than_the_valid_ones_among_them(
    rates: Rates, tokens_in: int, tokens_out: int, cached: int, written: int, reported: int | None
) -> None:
    price = Price(rates)
    cost = price.cost(BilledTokens(tokens_in, tokens_out, cached, written, reported))
    assert cost >= max(0, reported or 0)
    assert cost >= price.cost(BilledTokens(0, max(0, tokens_out)))
    assert cost >= price.cost(BilledTokens(max(0, cached), 0, cached=max(0, cached)))
    if cached <= 0 and written <= 0:
        assert cost >= price.cost(BilledTokens(max(0, tokens_in), 0))
