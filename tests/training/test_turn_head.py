"""The turns that the head is trained on: run as the product runs them."""

from __future__ import annotations

import random

import gym
import numpy as np
import pytest
import turn_head
from hypothesis import given, settings, strategies as st

from baton.core.plan_types import KINDS
from baton.core.planning.turn_roles import (
    MAX_TURNS,
    TurnPosition,
    TurnRole,
    WorkerFacts,
    is_allowed,
)
from baton.routing.child.router_model import TurnHead
from baton.routing.child.text_features import WIDTH

TASKS = st.builds(gym.Task, st.sampled_from(KINDS), st.integers(1, 5), computable=st.booleans())


def pool(seed: int = 1) -> turn_head.Pool:
    rng = random.Random(seed)
    texts = [("x", gym.Task(rng.choice(KINDS), rng.randint(1, 5))) for _ in range(50)]
    return turn_head.draw_pool(texts, np.zeros((50, WIDTH)), seed, gym.COST_WEIGHT)


@pytest.fixture(scope="module")
def drawn() -> turn_head.Pool:
    return pool()


def test_the_rule_has_the_worker_with_the_best_chance_for_its_price_work_once(
    drawn: turn_head.Pool,
) -> None:
    found = [
        turn_head.rewards(TurnHead.by_rule().weights, drawn, np.random.default_rng(n)).mean()
        for n in range(4)
    ]
    expected = turn_head.alone(drawn, "priced").mean()
    assert np.mean(found) == pytest.approx(expected, abs=0.01)
    assert expected < turn_head.alone(drawn, "best single").mean()
    assert expected > turn_head.alone(drawn, "random").mean()


def test_the_same_seed_draws_the_same_episodes(
    drawn: turn_head.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_head, "POOL", 500)
    assert np.array_equal(pool().figures, drawn.figures[:500])
    assert not np.array_equal(pool(2).figures, drawn.figures[:500])


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, MAX_TURNS - 1),
    st.integers(-1, 1),
    st.integers(-1, 1),
    st.booleans(),
    st.integers(0, 200),
)
def test_moves_are_allowed_as_in_the_product(
    drawn: turn_head.Pool, turn: int, thought: int, wrote: int, rejected: bool, row: int
) -> None:
    rejected = rejected and wrote >= 0
    one = drawn.some(np.array([row]))
    (found,) = turn_head._allowed_moves(
        one, turn, np.array([thought]), np.array([wrote]), np.array([rejected])
    )
    position = TurnPosition(
        turn, None if thought < 0 else thought, None if wrote < 0 else wrote, None, rejected
    )
    workers = [WorkerFacts(0.5, 2.0, 0.0, is_tool=bool(tool)) for tool in one.tools[0]]
    for role in TurnRole:
        for place, is_there in enumerate(one.there[0]):
            is_late = role is not TurnRole.WORKER and turn == MAX_TURNS - 1
            expected = is_there and is_allowed(role, place, position, workers) and not is_late
            assert found[role, place] == expected, (role, place)


@settings(max_examples=60, deadline=None)
@given(TASKS, st.integers(0, 10**6))
def test_what_is_misread_stays_a_task(task: gym.Task, seed: int) -> None:
    believed = turn_head.misread(task, random.Random(seed))
    assert believed.kind in KINDS
    assert 1 <= believed.difficulty <= 5
    assert abs(believed.difficulty - task.difficulty) <= 1


@settings(max_examples=25, deadline=None)
@given(st.lists(TASKS, min_size=1, max_size=4), st.integers(0, 10**6))
def test_the_head_gives_each_part_a_worker_and_checks_by_others(
    head: turn_head.Head, tasks: list[gym.Task], seed: int
) -> None:
    episode = gym.Episode(tuple(tasks), gym.Rosters(random.Random(seed)).draw())
    steps = head.steps(episode, [f"Part {n}." for n in range(len(tasks))])
    tools = {worker.id for worker in episode.workers if worker.is_tool}
    assert [step.parts for step in steps[: len(tasks)]] == [(n + 1,) for n in range(len(tasks))]
    for step in steps[len(tasks) :]:
        assert step.worker not in {steps[step.checks - 1].worker, *tools}
    gym.reward(episode, steps)


@pytest.fixture(scope="module")
def head() -> turn_head.Head:
    return turn_head.Head()
