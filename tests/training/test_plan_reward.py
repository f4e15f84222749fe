"""What a plan is worth for a drawn request: the true one most, a wrong sum less than none."""

from __future__ import annotations

import random
import statistics

import gym
import hypothesis
import plan_reward
import pytest
from hypothesis import given, settings, strategies as st
from plan_check import HEADS
from request_generator import COMPOUND, TOOL, Example, Generator

CAPITAL = "knowledge1: name the capital of Japan"
REQUEST = Example(
    COMPOUND,
    "en",
    "Name the capital of Japan, what 480 - 15% is, and the result divided by 12",
    (CAPITAL, "calc: 480 - 15%", "calc: #2 / 12 <- 2"),
)
WORKERS = (
    gym.Worker("small", "local", 0.0, 8, dict.fromkeys(gym.WRITTEN_TOKENS, 2.0)),
    gym.Worker("large", "cloud", 8.0, 200, dict.fromkeys(gym.WRITTEN_TOKENS, 4.5)),
)


class FixedRosters(gym.Rosters):
    """A roster that is always the same."""

    def draw(self) -> tuple[gym.Worker, ...]:
        return WORKERS


def draw_request(example: Example) -> plan_reward.SampledRequest:
    found = plan_reward.draw(example, FixedRosters())
    assert found is not None
    return found


DRAWN = draw_request(REQUEST)


def worth(*lines: str) -> float:
    return plan_reward.reward(DRAWN, "\n".join(lines))


def test_there_is_always_a_tool() -> None:
    assert [worker.id for worker in DRAWN.episode.workers] == ["small", "large", "calculator"]


def test_the_true_plan_is_worth_as_much_as_the_best() -> None:
    assert worth(*REQUEST.plan) == pytest.approx(gym.best_plan(DRAWN.episode)[1])


def test_two_sums_in_one_are_both_done_though_a_reader_sees_less() -> None:
    merged = worth(CAPITAL, "calc: (480 - 15%) / 12")
    assert worth(CAPITAL, "calc: 480 - 15%") < merged < worth(*REQUEST.plan)


def test_a_dropped_part_a_wrong_sum_and_invalid_text_are_worth_less() -> None:
    full = worth(*REQUEST.plan)
    dropped = worth(CAPITAL, "calc: 480 - 15%")
    left = worth(CAPITAL, "calculation2: what 480 - 15% is", "calc: #2 / 12 <- 2")
    wrong = worth(CAPITAL, "calc: 480 + 15%", "calc: #2 / 12 <- 2")
    assert full > dropped > wrong
    assert left > wrong
    assert worth("hello") == worth("calc: #2 + 1") == plan_reward.UNREADABLE
    assert worth(*[CAPITAL] * 5) == plan_reward.UNREADABLE


def test_a_sum_that_cant_be_computed_is_worth_more_than_a_wrong_one_and_less_than_none() -> None:
    written = (CAPITAL, "calc: 480 - 15%")
    dropped, broken, wrong = (
        worth(*written, *more) for more in ((), ("calc: lcm(1.5, 2)",), ("calc: 480 + 15%",))
    )
    assert dropped > broken > wrong
    assert broken - wrong == pytest.approx(plan_reward.WRONG + plan_reward.UNREADABLE)


def test_numbers_that_no_float_holds_are_compared() -> None:
    large = draw_request(Example(TOOL, "en", "what is 10 to the power 400", ("calc: 10 ^ 400",)))
    assert plan_reward.reward(large, "calc: 10 ^ 200 * 10 ^ 200") > 0.9
    assert plan_reward.reward(large, "calc: 10 ^ 401") < 0
    assert worth("calc: 3 ^ 993") < 0


def test_a_tool_for_what_wants_none_is_worth_less_than_any_answer() -> None:
    plain = draw_request(Example("none", "en", "Write a poem about 1984 and 42", ("writing2: *",)))
    assert plan_reward.reward(plain, "calc: 1984 + 42") < plan_reward.reward(plain, "chat5: *")


def test_equal_values_count_in_their_places() -> None:
    example = Example(TOOL, "en", "Add 3 and 4 and round it", ("calc: 3 + 4", "calc: round(#1)"))
    one = draw_request(example)
    assert plan_reward.reward(one, example.target) == pytest.approx(gym.best_plan(one.episode)[1])


@pytest.mark.sampled(0.34)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
@hypothesis.example(seed=854)
def test_no_mutilated_plan_is_worth_more_than_the_true_one(seed: int) -> None:
    rng = random.Random(seed)
    example = next(iter(Generator(seed)))
    one = plan_reward.draw(example, gym.Rosters(rng))
    if one is None:
        return
    lines = list(example.plan)
    place = rng.randrange(len(lines))
    if lines[place].partition(":")[0] in HEADS.values():
        lines[place] = "calc: 123456789 * 7"
    else:
        lines[place] = "chat1: something else"
    full = plan_reward.reward(one, example.target)
    assert plan_reward.reward(one, "\n".join(lines)) < full or len(lines) == 1


@pytest.mark.sampled(0.34)
def test_noisy_rewards_are_right_in_the_mean() -> None:
    text = "\n".join(REQUEST.plan)
    rng = random.Random(1)
    drawn_ones = [plan_reward.reward(DRAWN, text, rng=rng) for _ in range(500)]
    assert statistics.fmean(drawn_ones) == pytest.approx(worth(*REQUEST.plan), abs=0.02)


def test_a_dollar_weighs_what_is_said() -> None:
    text = "\n".join(["knowledge5: name the capital of Japan", *REQUEST.plan[1:]])
    free, dear = (plan_reward.reward(DRAWN, text, gym.Curve(cost_weight=w)) for w in (0.0, 20.0))
    assert free > dear + 0.02
