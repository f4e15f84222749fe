"""The gym: what plans are worth, and that nothing is worth more than the best one."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

import baselines
import gym
import pytest
from hypothesis import given, settings, strategies as st

from baton.core.plan_types import KINDS


def worker(name: str, price: float = 0.0, context_k: float = 32, **skills: float) -> gym.Worker:
    return gym.Worker(name, "cloud" if price else "local", price, context_k, skills)


CALCULATOR = gym.Worker("calculator", "tool", 0.0, 0.0, {"calculation": 5.0})
SMALL = worker("small", writing=2, math=1, calculation=1)
GOOD = worker("good", 3.0, writing=4.5, math=4.5, calculation=4)


@st.composite
def tasks(draw: st.DrawFn) -> tuple[gym.Task, ...]:
    found: list[gym.Task] = []
    for number in range(draw(st.integers(1, 4))):
        inputs = draw(st.sets(st.integers(1, number), max_size=1)) if number else ()
        found.append(
            gym.Task(
                draw(st.sampled_from(KINDS)),
                draw(st.integers(1, 5)),
                tuple(inputs),
                computable=draw(st.booleans()),
            )
        )
    return tuple(found)


@settings(max_examples=40, deadline=None)
@given(tasks(), st.integers(0, 10**6))
def test_nothing_is_worth_more_than_the_best_plan(drawn: tuple[gym.Task, ...], seed: int) -> None:
    rng = random.Random(seed)
    episode = gym.Episode(drawn, gym.Rosters(rng).draw())
    best, most = gym.best_plan(episode)
    assert gym.reward(episode, best) == pytest.approx(most)
    ways = [baselines.random_plan(episode, rng) for _ in range(20)]
    ways += [baselines.cheapest(episode), baselines.dearest(episode)]
    ways.append(baselines.best_single(episode))
    assert all(gym.reward(episode, way) <= most + gym.MIN_CHECK_GAIN for way in ways)


@settings(max_examples=20, deadline=None)
@given(tasks(), st.integers(0, 10**6))
def test_the_order_of_a_roster_says_nothing(drawn: tuple[gym.Task, ...], seed: int) -> None:
    roster = gym.Rosters(random.Random(seed)).draw()
    _, one = gym.best_plan(gym.Episode(drawn, roster))
    _, other = gym.best_plan(gym.Episode(drawn, roster[::-1]))
    assert one == pytest.approx(other)


def test_drawn_rewards_are_the_expected_one_on_average() -> None:
    episode = gym.Episode((gym.Task("writing", 2), gym.Task("math", 2, (1,))), (SMALL, GOOD))
    plan = [gym.Step("good", (1,)), gym.Step("small", (2,), (1,))]
    rng = random.Random(1)
    drawn = [gym.outcome(episode, plan, rng) for _ in range(4000)]
    assert statistics.fmean(drawn) == pytest.approx(gym.reward(episode, plan), abs=0.03)
    assert len(set(drawn)) > 1


def test_a_sum_goes_to_the_calculator_and_a_poem_does_not() -> None:
    parts = (gym.Task("calculation", 3, computable=True), gym.Task("writing", 1))
    best, _ = gym.best_plan(gym.Episode(parts, (CALCULATOR, SMALL)), checks=False)
    assert [step.worker for step in best] == ["calculator", "small"]


def test_skill_price_and_context_all_count() -> None:
    hard = gym.Episode((gym.Task("math", 4),), (SMALL, GOOD))

    def pick(episode: gym.Episode) -> str:
        return gym.best_plan(episode, checks=False)[0][0].worker

    assert pick(hard) == "good"
    unskilled = replace(GOOD, skills={"math": 0.0})
    assert pick(replace(hard, workers=(SMALL, unskilled))) == "small"
    assert pick(replace(hard, workers=(SMALL, replace(GOOD, price=300.0)))) == "small"
    assert pick(replace(hard, workers=(SMALL, replace(GOOD, context_k=0.2)))) == "small"
    assert pick(replace(hard, workers=(SMALL, replace(GOOD, skills={"writing": 0})))) == "small"


def test_what_is_needed_has_to_be_seen() -> None:
    episode = gym.Episode((gym.Task("writing", 1), gym.Task("writing", 1, (1,))), (GOOD,))
    sees = [gym.Step("good", (1,)), gym.Step("good", (2,), (1,))]
    blind = [gym.Step("good", (1,)), gym.Step("good", (2,))]
    assert gym.reward(episode, sees) > gym.reward(episode, blind)


def test_a_free_worker_checks_what_is_worth_a_check() -> None:
    other = worker("other", writing=3, math=2.5)
    best, _ = gym.best_plan(gym.Episode((gym.Task("math", 3),), (replace(other, id="b"), other)))
    assert [step.checks for step in best] == [0, 1]
    assert best[0].worker != best[1].worker


def test_what_is_believed_of_a_difficulty_is_averaged() -> None:
    spread = gym.Task("math", 3, spread=(0.5, 0, 0, 0, 0.5))
    ends = [gym.success(GOOD, gym.Task("math", d), 0) for d in (1, 5)]
    assert gym.success(GOOD, spread, 0) == pytest.approx(statistics.fmean(ends))


def test_rosters_are_redrawn_and_one_worker_is_always_free() -> None:
    rosters = gym.Rosters(random.Random(3))
    drawn = [rosters.draw() for _ in range(60)]
    assert {len([w for w in roster if not w.is_tool]) for roster in drawn} == set(range(2, 9))
    assert all(any(not w.price and not w.is_tool for w in roster) for roster in drawn)
    assert any(w.is_tool for roster in drawn for w in roster)
    dearest_is_best = [
        max(models, key=lambda w: w.price) == max(models, key=lambda w: sum(w.skills.values()))
        for roster in drawn
        if (models := [w for w in roster if not w.is_tool])
    ]
    assert 0.1 < statistics.fmean(dearest_is_best) < 0.9


def test_the_rule_cuts_at_joints() -> None:
    parts = baselines.by_rule("What is 17*23 and write a poem about it", has_tool=True)
    assert [(text, computed) for text, _, computed in parts] == [
        ("What is 17*23", True),
        ("write a poem about it", False),
    ]


def test_a_part_of_likely_kinds_goes_as_well_as_its_kinds_do() -> None:
    kinds = (("math", 0.75), ("writing", 0.25))
    part = gym.Task("math", 3, spread=(0.0, 0.5, 0.0, 0.5, 0.0), kinds=kinds)
    alone = [gym.success(SMALL, replace(part, kind=kind, kinds=()), 60) for kind, _ in kinds]
    assert gym.success(SMALL, part, 60) == pytest.approx(0.75 * alone[0] + 0.25 * alone[1])
    assert alone[0] < alone[1]
