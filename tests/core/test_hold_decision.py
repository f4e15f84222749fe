"""Whether a call may have its money: never above a ceiling, and a refusal is always true."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import example, given, strategies as st

from baton.core.errors import BudgetExceeded
from baton.core.hold_decision import (
    MAX_AMOUNT_NANOS,
    decide_hold,
    shown_rounded_down,
    shown_rounded_up,
)
from baton.core.ledger_types import MIN_USEFUL_TOKENS, HoldRequest, Scope, ScopeBalance
from baton.core.messages import Purpose
from baton.core.money import FREE, NANO, Price, Rates, Tier

CENT = NANO // 100
MINI = Price(Rates(250_000_000, 2_000_000_000, 25_000_000, 250_000_000))


def bill(
    price: Price = MINI, bound: int = 1000, wanted: int = 4096, client: str = "", share: int = 1
) -> HoldRequest:
    return HoldRequest(
        "r", "s", "gpt", "openai", "gpt", Purpose.ANSWER, price, bound, wanted, {}, client, share
    )


def rooms(**ceilings: int | ScopeBalance | None) -> list[ScopeBalance]:
    found = []
    for scope in Scope:
        ceiling = ceilings.get(scope.value)
        found.append(ceiling if isinstance(ceiling, ScopeBalance) else ScopeBalance(scope, ceiling))
    return found


def refusal(bill: HoldRequest, rooms: list[ScopeBalance], frozen: str = "") -> str:
    with pytest.raises(BudgetExceeded) as caught:
        decide_hold(bill, rooms, frozen)
    assert "nothing was sent" in caught.value.message
    assert caught.value.hint
    return f"{caught.value}"


# What is granted

amount = st.integers(0, 10**13)
price = st.builds(
    Price,
    st.builds(Rates, *[st.integers(0, 10**11)] * 4),
    st.lists(
        st.builds(Tier, st.integers(1, 10**6), st.builds(Rates, *[st.integers(0, 10**11)] * 4)),
        max_size=2,
    ).map(tuple),
)


@st.composite
def any_rooms(draw: st.DrawFn) -> list[ScopeBalance]:
    return [
        ScopeBalance(scope, draw(st.none() | amount), draw(amount), draw(amount), draw(amount))
        if draw(st.booleans())
        else ScopeBalance(scope, draw(st.none() | amount))
        for scope in Scope
    ]


bills = st.builds(
    bill,
    price,
    st.integers(0, 10**6),
    st.integers(1, 10**6),
    st.sampled_from(("", "token")),
    st.integers(1, 8),
)


@given(bills, any_rooms())
def test_nothing_is_ever_granted_above_a_ceiling(
    bill: HoldRequest, rooms: list[ScopeBalance]
) -> None:
    try:
        hold = decide_hold(bill, rooms)
    except BudgetExceeded:
        return
    assert min(MIN_USEFUL_TOKENS, bill.wanted) <= hold.cap <= bill.wanted
    assert hold.amount == bill.price.max_cost(bill.input_bound, hold.cap) or bill.price.is_free
    for room in rooms:
        if room.ceiling is not None and hold.amount:
            assert room.used + hold.amount * bill.share <= room.ceiling


@given(bills, any_rooms())
def test_what_is_refused_would_have_gone_above_a_ceiling(
    bill: HoldRequest, rooms: list[ScopeBalance]
) -> None:
    try:
        decide_hold(bill, rooms)
    except BudgetExceeded:
        least = bill.price.max_cost(bill.input_bound, min(MIN_USEFUL_TOKENS, bill.wanted))
        chosen = (Scope.RUN, Scope.SESSION) if bill.client else ()
        on = any(room.ceiling and room.scope not in chosen for room in rooms)
        lefts = [room.left for room in rooms if room.left is not None]
        assert not on or least * bill.share > min(lefts) - bill.share


@given(st.integers(0, 10**16), st.integers(1, 10**16))
def test_too_much_never_looks_like_enough(left: int, more: int) -> None:
    """What is left is shown rounded down, and what is needed rounded up."""
    assert shown_rounded_down(left) != shown_rounded_up(left + more)
    for shown, exact in (
        (shown_rounded_down(left), left),
        (shown_rounded_up(left + more), left + more),
    ):
        if number := re.fullmatch(r"\$([0-9.]+)", shown):
            nanos = round(float(number[1]) * NANO)
            assert nanos <= exact if exact == left else nanos >= exact


def test_the_smallest_room_rules_the_cap() -> None:
    roomy = rooms(run=NANO, session=NANO, day=NANO, month=NANO)
    assert decide_hold(bill(), roomy).cap == 4096
    for scope in Scope:
        tight = rooms(**{room.scope.value: NANO for room in roomy} | {scope.value: CENT // 4})
        hold = decide_hold(bill(), tight)
        assert hold.cap == (CENT // 4 - 250_000) // 2000
        assert hold.amount <= CENT // 4


def test_calls_that_are_ready_share_what_is_left() -> None:
    three = decide_hold(bill(share=3), rooms(day=CENT))
    assert three.cap == (CENT // 3 - 250_000) // 2000
    assert three.amount * 3 <= CENT


def test_exactly_enough_is_enough_and_a_nano_dollar_less_is_not() -> None:
    least = MINI.max_cost(1000, MIN_USEFUL_TOKENS)
    hold = decide_hold(bill(), rooms(day=least))
    assert (hold.cap, hold.amount) == (MIN_USEFUL_TOKENS, least)
    refusal(bill(), rooms(day=least - 1))
    refusal(bill(), rooms(day=ScopeBalance(Scope.DAY, least, settled=1)))
    refusal(bill(), rooms(day=ScopeBalance(Scope.DAY, least, held=1)))
    refusal(bill(), rooms(day=ScopeBalance(Scope.DAY, least, unconfirmed=1)))
    refusal(bill(share=2), rooms(day=2 * least - 1))


def test_less_than_is_useful_is_granted_only_if_no_more_was_asked() -> None:
    tight = rooms(day=250_000 + 100 * 2000)
    assert decide_hold(bill(wanted=100), tight).cap == 100
    refusal(bill(wanted=101), tight)


def test_what_costs_nothing_needs_no_ceiling() -> None:
    for standing in (rooms(), rooms(day=0), rooms(day=ScopeBalance(Scope.DAY, 5, settled=9))):
        hold = decide_hold(bill(FREE), standing)
        assert (hold.cap, hold.amount) == (4096, 0)


def test_a_typed_budget_allows_spending_but_never_above_what_is_set() -> None:
    assert decide_hold(bill(), rooms(run=NANO)).cap == 4096
    refusal(bill(client="token"), rooms(run=NANO))
    refusal(bill(), rooms(run=NANO, day=0))
    refusal(bill(), rooms(run=0))
    assert decide_hold(bill(), rooms(run=NANO, day=CENT // 4)).amount <= CENT // 4


def test_no_single_call_holds_more_than_a_ceiling_may_be() -> None:
    dear = Price(Rates(10**24, 10**24, 0, 0))
    assert "Ask a cheaper worker" in refusal(bill(dear), rooms(day=MAX_AMOUNT_NANOS))


# What a refusal says

USED = ScopeBalance(Scope.DAY, 2 * NANO, settled=199 * CENT)


@pytest.mark.parametrize(
    ("call", "standing", "sentence"),
    [
        (
            bill(),
            rooms(),
            "The cloud is off, so nothing was sent: no ceiling is set. Allow spending with "
            "`baton budget set day 2` or /budget, or for one prompt with `--budget 0.10`.",
        ),
        (
            bill(),
            rooms(session=0, day=0),
            "The cloud is off, so nothing was sent: the ceiling is $0 for this conversation and "
            "today. Allow spending with `baton budget set day 2` or /budget, or for one prompt "
            "with `--budget 0.10`.",
        ),
        (
            bill(bound=100_000),
            rooms(day=USED),
            "The ceiling of $2.00 for today has $0.01 left, and this call to gpt needs at least "
            "$0.03; nothing was sent. Raise it with `baton budget set day 2.02` or /budget.",
        ),
        (
            bill(),
            rooms(month=ScopeBalance(Scope.MONTH, NANO, settled=NANO // 2, unconfirmed=NANO // 2)),
            "The ceiling of $1.00 for this month is used up, and this call to gpt needs at least "
            "$0.0008; nothing was sent. Raise it with `baton budget set month 1.01` or /budget. "
            "$0.50 of it is unconfirmed: `baton budget release` gives back what you weren't "
            "charged.",
        ),
        (
            bill(),
            rooms(run=CENT // 20, session=NANO),
            "The ceiling of $0.0005 for this prompt has $0.0005 left, and this call to gpt needs "
            "at least $0.0008; nothing was sent. Allow this prompt more with `--budget 0.01`.",
        ),
        (
            bill(share=3),
            rooms(session=CENT // 5, month=NANO),
            "The ceiling of $0.002 for this conversation has $0.002 left for 3 calls at once, and "
            "this call to gpt needs at least $0.0008; nothing was sent. Raise it with "
            "`baton budget set session 0.01` or /budget.",
        ),
        (
            bill(),
            rooms(day=0, month=NANO),
            "The ceiling of $0.00 for today lets nothing through, and this call to gpt needs at "
            "least $0.0008; nothing was sent. Raise it with `baton budget set day 0.01` or "
            "/budget.",
        ),
    ],
)
def test_a_refusal_is_a_sentence_that_says_what_to_do(
    call: HoldRequest, standing: list[ScopeBalance], sentence: str
) -> None:
    assert refusal(call, standing) == sentence


def test_a_ceiling_is_named_to_the_last_digit() -> None:
    said = refusal(
        bill(bound=100_000), rooms(day=ScopeBalance(Scope.DAY, 12_345_678, unconfirmed=1_234))
    )
    assert "The ceiling of $0.012345678 for today has $0.012344444 left" in said
    assert "$0.000001234 of it is unconfirmed" in said
    even = ScopeBalance(Scope.DAY, NANO, settled=NANO // 2 - 1_234, unconfirmed=NANO // 4 + 1_234)
    assert "$0.25 of it is unconfirmed" in refusal(bill(bound=10**9), rooms(day=even))


def test_a_frozen_cloud_says_why_and_how_to_lift_it() -> None:
    said = refusal(bill(), rooms(day=NANO), "gpt charged too much.")
    assert said == (
        "The cloud is frozen, so nothing was sent: gpt charged too much. See `baton usage` and "
        "`baton egress ls`, then lift it with `baton budget release --freeze` or /budget."
    )


# How long a paid answer may get


def test_a_cap_is_the_expected_length_and_room_for_thoughts() -> None:
    roomy = rooms(day=NANO)
    plain = bill()
    for expected, thinking, cap in (
        (None, 0, 4096), (700, 0, 700), (20, 0, 256), (700, 1000, 1700), (20, 1000, 1256),
        (9000, 0, 4096), (3500, 1000, 4096),
    ):  # fmt: skip
        asked = replace(plain, expected=expected, thinking=thinking)
        assert decide_hold(asked, roomy).cap == cap
        assert decide_hold(replace(asked, wanted=100), roomy).cap == 100
        assert decide_hold(replace(asked, price=FREE), roomy).cap == 4096


def test_room_for_thoughts_alone_is_refused() -> None:
    """Else a call would be paid for that can return nothing."""
    thinks = replace(bill(), expected=700, thinking=1000)
    least = MINI.max_cost(1000, 1256)
    assert decide_hold(thinks, rooms(day=least)).cap == 1256
    refusal(thinks, rooms(day=least - 1))
    assert decide_hold(replace(thinks, thinking=0), rooms(day=least)).cap == 700


# What a refusal says adds up


@given(
    st.integers(1, 10**10).map(lambda n: n - n % 10_000 or 10_000),
    st.integers(0, 10**10),
    st.integers(1, 10**6),
    st.integers(1, 4),
)
@example(177_930_000, 170_000_000, 20_000, 1)
@example(200_000_000, 185_000_000, 80_000, 1)
@example(CENT, CENT, 1000, 1)
def test_the_figures_of_a_refusal_add_up_as_printed(
    ceiling: int, used: int, bound: int, share: int
) -> None:
    asked = bill(bound=bound, share=share)
    room = ScopeBalance(Scope.DAY, ceiling, settled=used)
    try:
        decide_hold(asked, rooms(day=room))
        return
    except BudgetExceeded as caught:
        message, said = caught.message, f"{caught}"
    shown = [Decimal(found) for found in re.findall(r"\$([0-9]+\.[0-9]+)", message)]
    assert shown[0] * NANO == ceiling
    is_exact = "under $" not in said and room.left
    left, need = shown[1] if is_exact else 0, shown[-1]
    raised = Decimal(re.search(r"budget set day ([0-9.]+)", said)[1])  # type: ignore[index]
    spent = max(used, ceiling) - ceiling
    assert shown[0] + Decimal(spent) / NANO - left + need * share <= raised
    if is_exact:
        assert need * share > left
    enough = ScopeBalance(Scope.DAY, int(raised * NANO), settled=used)
    assert decide_hold(asked, rooms(day=enough)).cap >= MIN_USEFUL_TOKENS
