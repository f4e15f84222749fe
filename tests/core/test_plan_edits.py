"""A plan that a user changes stays one that can be run."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from baton.core.errors import PlanError
from baton.core.plan_types import MAX_STEPS, Plan, Step, with_subtask, with_worker, without_step

PLAN = Plan(
    (
        Step("small", "Draft it.", ("prompt",)),
        Step("small", "Check result 1.", ("1",), check=True),
        Step("gpt", "Improve result 1 by result 2.", ("history", "1", "2")),
        Step("gpt", "Translate result 3; step 2 checked it.", ("3",)),
    ),
    (3, 4),
)


def test_a_step_that_is_left_out_hands_on_what_it_saw() -> None:
    plan = without_step(PLAN, 2)
    assert [(step.subtask, step.access) for step in plan.steps] == [
        ("Draft it.", ("prompt",)),
        ("Improve result 1 by result 2.", ("history", "1")),
        ("Translate result 2; step 2 checked it.", ("2",)),
    ]
    assert plan.answer == (2, 3)


def test_an_answer_that_is_left_out_is_what_it_saw_or_the_last_step() -> None:
    assert without_step(PLAN, 4).answer == (3,)
    assert without_step(without_step(PLAN, 4), 3).answer == (1, 2)
    one = Plan((Step("small", "One.", ("prompt",)), Step("small", "Two.", ("prompt",))), (1,))
    assert without_step(one, 1).answer == (1,)
    with pytest.raises(PlanError, match="only step"):
        without_step(without_step(one, 1), 1)


def test_a_step_gets_another_worker_or_instruction_and_the_others_stay() -> None:
    plan = with_subtask(with_worker(PLAN, 3, "small"), 3, "  Shorten it. ")
    assert (plan.steps[2].worker, plan.steps[2].subtask) == ("small", "Shorten it.")
    assert plan.steps[2].access == PLAN.steps[2].access
    assert (*plan.steps[:2], plan.steps[3]) == (*PLAN.steps[:2], PLAN.steps[3])
    with pytest.raises(PlanError):
        with_subtask(PLAN, 1, " \n ")


@given(st.integers(0, 2**32))
def test_any_step_of_any_plan_can_be_left_out(seed: int) -> None:
    pick = random.Random(seed)
    count = pick.randint(2, MAX_STEPS)
    steps = []
    for number in range(1, count + 1):
        seen = pick.sample(range(1, number), min(number - 1, pick.randint(0, 3)))
        steps.append(Step("small", f"Do {number}.", ("prompt", *map(str, seen))))
    plan = Plan(tuple(steps), tuple(pick.sample(range(1, count + 1), pick.randint(1, count))))
    gone = pick.randint(1, count)
    left = without_step(plan, gone)
    assert [s.subtask for s in left.steps] == [s.subtask for s in steps if s is not steps[gone - 1]]
    subtasks = [step.subtask for step in steps]
    for step in left.steps:  # who sees another one still sees it
        before = steps[subtasks.index(step.subtask)].inputs
        seen_texts = {left.steps[n - 1].subtask for n in step.inputs}
        assert {subtasks[n - 1] for n in before if n != gone} <= seen_texts
