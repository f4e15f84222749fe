"""Who does which step: the search against brute force, and the rules that nothing outweighs."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from baton.core.errors import PlanError
from baton.core.labels import Label
from baton.core.messages import Attachment, Card, Role, Turn, TurnStatus
from baton.core.money import FREE, Price, Rates
from baton.core.plan_types import DIRECT_SUBTASK, Material, Need, Plan, Step
from baton.core.planning.assignment import (
    SELF_CHECK_COST,
    WAITING_COST,
    Option,
    Seat,
    assign_workers,
    choose_workers,
    substitute_worker,
    success_chance,
)
from baton.core.planning.skill_estimates import skill

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
        if draw(st.booleans()) and seats:
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
        total -= SELF_CHECK_COST if option.worker in others else 0
    placed = [*zip((seat.level for seat in seats), chosen, strict=True), *taken]
    for level in {level for level, _ in placed}:
        here = Counter(o.resource for at, o in placed if at == level and o.resource)
        slots = {o.resource: o.slots for _, o in placed}
        rounds = max((math.ceil(n / slots[name]) for name, n in here.items()), default=1)
        total -= WAITING_COST * (rounds - 1)
    return total


@given(seatings())
@settings(max_examples=50)
def test_no_seating_is_better_than_the_one_that_is_found(
    case: tuple[list[Seat], int | None, list[tuple[int, Option]]],
) -> None:
    seats, money, taken = case
    every = [
        chosen
        for chosen in itertools.product(*(seat.options for seat in seats))
        if money is None or sum(o.most for o in chosen) <= money
    ]
    found = choose_workers(seats, money, taken)
    if not every:
        assert found is None
        return
    assert found is not None
    by_name = [{o.worker: o for o in seat.options} for seat in seats]
    mine = tuple(options[name] for options, name in zip(by_name, found, strict=True))
    assert money is None or sum(o.most for o in mine) <= money
    best = max(value_of(seats, chosen, taken) for chosen in every)
    assert value_of(seats, mine, taken) == pytest.approx(best)


def test_many_steps_that_are_alike_end_at_a_seating_that_keeps_to_the_money() -> None:
    options = tuple(Option(f"w{n}", 0.9 - n / 100, 12 - n, f"w{n}", 1 + n % 4) for n in range(12))
    found = choose_workers([Seat(1, options)] * 32, 200)
    assert found is not None
    prices = {option.worker: option.most for option in options}
    assert sum(prices[name] for name in found) <= 200
    assert len(set(found)) > 3  # side by side, not one after the other


# Who is good at what


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        (SMALL, Card("a", "local", "Qwen2.5 0.5B")),
        (Card("a", "local", "Qwen2.5 0.5B"), Card("b", "local", "x", size=2_000_000_000)),
        (Card("b", "local", "x", size=2_000_000_000), GOOD),
        (Card("a", "server", "Mistral 7B"), Card("b", "server", "x", model="mixtral:8x7b")),
        (Card("b", "server", "x", model="mixtral:8x7b"), Card("a", "server", "Qwen2.5 72B")),
        (GOOD, LAN),
        (LAN, cloud(dollars=10)),
        (cloud(dollars=2), cloud(dollars=10)),
    ],
)
def test_larger_and_dearer_models_are_taken_to_be_better(weaker: Card, stronger: Card) -> None:
    for kind in ("math", "code", "translation"):
        assert 1 <= skill(weaker, kind) < skill(stronger, kind) <= 5
        need = Need(kind, 3)
        assert 0 < success_chance(weaker, need) < success_chance(stronger, need) < 1


def test_a_declared_skill_overrules_the_guess() -> None:
    card = Card("x", "local", "x", parameters=135_000_000, skills={"code": 4.5})
    assert skill(card, "code") == 4.5
    assert skill(card, "math") == 1.0


def test_harder_tasks_are_less_likely_to_go_well() -> None:
    chances = [success_chance(GOOD, Need("math", difficulty)) for difficulty in range(1, 6)]
    assert chances == sorted(chances, reverse=True)


# Plans


def test_an_easy_task_stays_here_and_a_hard_one_goes_where_it_pays() -> None:
    easy, hard = step("chat", 1), step("math", 4)
    found = assign_workers(plan(easy, hard), [GOOD, cloud()], left=None)
    assert workers(found) == ["good", "gpt"]


def test_a_named_worker_stays_and_an_unknown_one_is_replaced() -> None:
    roster = [SMALL, GOOD, cloud()]
    drawn = plan(step(worker="small", difficulty=5), step("chat", 1, worker="gpt-99"))
    assert workers(assign_workers(drawn, roster, left=None)) == ["small", "good"]


def test_steps_that_were_executed_stay_as_they_are() -> None:
    drawn = plan(step(worker="gone"), step(worker="gone"))
    assert workers(assign_workers(drawn, [GOOD], left=None, after=1)) == ["gone", "good"]


def test_what_the_steps_may_cost_together_stays_within_what_is_left() -> None:
    drawn = plan(*[step("math", 5)] * 4)
    rich = workers(assign_workers(drawn, [SMALL, cloud()], left=None))
    assert rich == ["gpt"] * 4
    # A step may cost some 3,000 tokens at $2 a million.
    some = workers(assign_workers(drawn, [SMALL, cloud()], left=15_000_000))
    assert 0 < some.count("gpt") < 4
    assert workers(assign_workers(drawn, [SMALL, cloud()], left=0)) == ["small"] * 4


def test_named_workers_are_paid_first() -> None:
    drawn = plan(step("math", 5, worker="gpt"), step("math", 5))
    assert workers(assign_workers(drawn, [SMALL, cloud()], left=8_000_000)) == ["gpt", "small"]


def test_without_anybody_who_can_or_any_money_it_is_an_error() -> None:
    with pytest.raises(PlanError, match="money"):
        assign_workers(plan(step()), [cloud()], left=0)
    with pytest.raises(PlanError, match="read"):
        assign_workers(plan(step()), [], left=None)
    with pytest.raises(PlanError, match="read"):
        assign_workers(plan(step()), [tool("calculator"), cloud(price=None)], left=None)


def test_what_does_not_fit_goes_to_a_worker_that_can_hold_it() -> None:
    material = Material(
        (
            Turn(
                "t", "c", None, Role.USER, "Sum it up.", TurnStatus.DONE, Label.CLOUD, 0.0,
                files=(Attachment("long.txt", "word " * 20_000, 100_000),),
            ),
        )
    )  # fmt: skip
    roster = [GOOD, LAN]
    whole = step("summary", 1, access=("prompt", "file:long.txt"))
    piece = step("summary", 1, access=("prompt", "file:long.txt#1/8"))
    found = assign_workers(plan(whole, piece), roster, left=None, material=material)
    assert workers(found) == ["lab", "good"]
    assert substitute_worker(whole, roster, (), None, material) == "lab"
    assert substitute_worker(whole, roster, {"lab"}, None, material) == ""


def test_a_tool_is_given_its_own_sums_and_nothing_else() -> None:
    roster = [GOOD, tool("calculator"), tool("units"), tool("clock"), tool("python")]
    drawn = plan(
        step("calculation", 1, subtask="17.5 * (12 + 3)"),
        step("calculation", 1, subtask="42 km in miles"),
        step("calculation", 1, subtask="What time is it?"),
        step("calculation", 1, subtask="What day of the week was 2024-02-29?"),
        step("calculation", 1, subtask="Add up what the invoices in result 1 come to."),
        step("calculation", 1, subtask=DIRECT_SUBTASK),
        step("math", 1, subtask="2 + 3"),
        step("code", 1, subtask="print(1)"),
    )
    expected = ["calculator", "units", "clock", *["good"] * 5]
    assert workers(assign_workers(drawn, roster, left=None)) == expected


def test_a_check_is_given_to_another_worker_where_there_is_one() -> None:
    drawn = plan(step(), step(access=("prompt", "1"), check=True))
    two = workers(assign_workers(drawn, [SMALL, GOOD], left=None))
    assert len(set(two)) == 2
    assert workers(assign_workers(drawn, [GOOD], left=None)) == ["good", "good"]
    named = plan(step(worker="good"), step(access=("1",), check=True))
    assert workers(assign_workers(named, [GOOD, SMALL], left=0)) == ["good", "small"]
    after = assign_workers(named, [GOOD, SMALL], left=0, after=1)
    assert workers(after) == ["good", "small"]


def test_steps_side_by_side_are_spread_where_that_costs_little() -> None:
    twin = Card("twin", "server", "Twin", context=8192, parameters=8_000_000_000)
    side = plan(step(difficulty=1), step(difficulty=1))
    assert set(workers(assign_workers(side, [GOOD, twin], left=None))) == {"good", "twin"}
    # Two local models share one processor, so nothing is won by taking both.
    other = Card("other", "local", "Other", context=8192, parameters=8_000_000_000)
    assert workers(assign_workers(side, [GOOD, other], left=None)) == ["good", "good"]
    in_turn = plan(step(difficulty=1), step(difficulty=1, access=("1",)))
    assert workers(assign_workers(in_turn, [GOOD, twin], left=None)) == ["good", "good"]


def test_between_equals_the_nearer_is_taken_then_the_cheaper_then_the_first() -> None:
    skills = dict.fromkeys(("reasoning",), 5.0)
    near = Card("near", "local", "x", skills=skills)
    lan = Card("lan", "server", "x", privacy=Label.LAN, remote=True, skills=skills, price=FREE)
    far = cloud("far", 0, skills=skills)
    one = plan(step(difficulty=1))
    assert workers(assign_workers(one, [far, lan, near], left=None)) == ["near"]
    assert workers(assign_workers(one, [far, lan], left=None)) == ["lan"]
    cheap, dear = cloud("cheap", 1, skills=skills), cloud("dear", 2, skills=skills)
    assert workers(assign_workers(one, [dear, cheap], left=None)) == ["cheap"]
    again = Card("again", "local", "x", skills=skills)
    assert workers(assign_workers(one, [near, again], left=None)) == ["near"]


def test_the_next_best_takes_over_for_a_failed_worker() -> None:
    roster = [SMALL, GOOD, cloud()]
    hard = step("math", 4, worker="gpt")
    assert substitute_worker(hard, roster, {"gpt"}, None) == "good"
    assert substitute_worker(hard, roster, {"gpt", "good"}, None) == "small"
    assert substitute_worker(hard, roster, {"good"}, 0) == "small"
    assert substitute_worker(hard, roster, {"gpt", "good", "small"}, None) == ""


def test_the_scarcer_money_is_the_more_a_step_must_gain_by_what_costs() -> None:
    small = Card("small", "local", "Small", skills={"math": 3.0})
    price = Price(Rates(10**8, 10**8, 0, 0))
    gpt = Card("gpt", "cloud", "GPT", Label.CLOUD, price=price, skills={"math": 4.5}, remote=True)
    chosen = []
    for gain in (0.0, 0.3, 0.55):
        row = [
            assign_workers(
                Plan((Step("", "Solve it.", ("prompt",), Need("math", difficulty)),), (1,)),
                (small, gpt),
                left=10**9,
                gain=gain,
            )
            .steps[0]
            .worker
            for difficulty in range(1, 6)
        ]
        chosen.append(row.count("gpt"))
    assert chosen[0] > chosen[1] >= chosen[2]
