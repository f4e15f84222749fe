"""Who does which step: the search against brute force, and the rules that nothing outweighs."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.domain.chat import Card
from baton.domain.labels import Label
from baton.domain.plan import Need, Plan, Step
from baton.domain.prices import Price, Rates
from baton.engine.search import SAME, WAIT, Option, Seat, choose

SMALL = Card("small", "local", "Small", context=8192, parameters=135_000_000)
GOOD = Card("good", "local", "Good", context=8192, parameters=8_000_000_000)
LAN = Card("lab", "server", "Lab", privacy=Label.LAN, context=32768, parameters=30_000_000_000)


def cloud(name: str = "gpt", dollars: int = 2, **more: object) -> Card:
    """Return a cloud worker whose every token costs that many dollars per million."""
    rate = dollars * 10**9
    price = Price(Rates(rate, rate, rate, rate))
    facts = {"privacy": Label.CLOUD, "price": price, "slots": 4, "context": 128_000} | more
    return Card(name, "cloud", name, **facts)  # type: ignore[arg-type]


def tool(name: str) -> Card:
    return Card(name, "tool", name)


def step(
    kind: str = "reasoning",
    difficulty: int = 3,
    *,
    access: tuple[str, ...] = ("prompt",),
    **more: object,
) -> Step:
    facts = {"worker": "", "subtask": "Do it."} | more
    return Step(access=access, need=Need(kind, difficulty), **facts)  # type: ignore[arg-type]


def plan(*steps: Step) -> Plan:
    return Plan(steps, (len(steps),))


def workers(plan: Plan) -> list[str]:
    return [step.worker for step in plan.steps]


# The search


@st.composite
def seatings(draw: st.DrawFn) -> tuple[list[Seat], int | None, list[tuple[int, Option]]]:
    """Few seats and options, with prices that collide with the money, and odd checks."""
    options = st.builds(
        Option,
        worker=st.sampled_from("abcdef"),
        value=st.integers(0, 40).map(lambda n: n / 40),
        most=st.integers(0, 5),
        resource=st.sampled_from(["", "cpu", "x", "y"]),
        slots=st.integers(1, 2),
    )
    # A resource has one number of slots, a worker one resource.
    slots = {"": 1, "cpu": 1, "x": draw(st.integers(1, 2)), "y": draw(st.integers(1, 3))}
    home = {w: draw(st.sampled_from(["", "cpu", "x", "y"])) for w in "abcdef"}

    def settle(option: Option) -> Option:
        resource = home[option.worker]
        return Option(option.worker, option.value, option.most, resource, slots[resource])

    seats: list[Seat] = []
    for position in range(draw(st.integers(1, 4))):
        here = {o.worker: settle(o) for o in draw(st.lists(options, min_size=1, max_size=4))}
        level = draw(st.integers(seats[-1].level if seats else 1, 3))
        earlier = st.integers(0, position - 1) if position else st.nothing()
        unlike = draw(st.lists(earlier | st.sampled_from("abc"), max_size=2, unique=True))
        ordered = tuple(sorted(here.values(), key=lambda o: -o.value))
        if seats and draw(st.booleans()):
            seats.append(seats[-1])
        else:
            seats.append(Seat(level, ordered, tuple(unlike)))
    taken = draw(st.lists(st.tuples(st.integers(1, 3), options.map(settle)), max_size=2))
    return seats, draw(st.none() | st.integers(0, 12)), taken


def value_of(
    seats: list[Seat], chosen: tuple[Option, ...], taken: list[tuple[int, Option]]
) -> float:
    """Say what a seating is worth, as plainly as it can be said."""
    total = sum(option.value for option in chosen)
    for seat, option in zip(seats, chosen, strict=True):
        others = {chosen[n].worker if isinstance(n, int) else n for n in seat.unlike}
        total -= SAME if option.worker in others else 0
    placed = [*zip((seat.level for seat in seats), chosen, strict=True), *taken]
    for level in {level for level, _ in placed}:
        here = Counter(o.resource for at, o in placed if at == level and o.resource)
        slots = {o.resource: o.slots for _, o in placed}
        rounds = max((math.ceil(n / slots[name]) for name, n in here.items()), default=1)
        total -= WAIT * (rounds - 1)
    return total


@given(seatings())
@settings(max_examples=150, deadline=None)
def test_no_seating_is_better_than_the_one_that_is_found(
    case: tuple[list[Seat], int | None, list[tuple[int, Option]]],
) -> None:
    seats, money, taken = case
    every = [
        chosen
        for chosen in itertools.product(*(seat.options for seat in seats))
        if money is None or sum(o.most for o in chosen) <= money
    ]
    found = choose(seats, money, taken)
    if not every:
        assert found is None
        return
    assert found is not None
    by_name = [{o.worker: o for o in seat.options} for seat in seats]
    mine = tuple(options[name] for options, name in zip(by_name, found, strict=True))
    assert money is None or sum(o.most for o in mine) <= money
    best = max(value_of(seats, chosen, taken) for chosen in every)
    assert value_of(seats, mine, taken) == pytest.approx(best)
