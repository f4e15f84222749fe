"""Thinker, worker and verifier take turns as the head says, and always end."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

from baton.core.plan_types import KINDS, Need
from baton.core.planning.turn_roles import (
    MAX_TURNS,
    POSITION_FEATURES,
    WORKER_FEATURES,
    TurnPosition,
    TurnRole,
    WorkerFacts,
    best_move,
    is_allowed,
    position_after,
    position_features,
    worker_features,
)
from baton.core.ports import SpendingRoom
from baton.core.strategies.trinity import THINK, WORK
from baton.core.strategies.ultra import AUDIT, REPAIR
from support.strategy_context import (
    BIG,
    CLOUD,
    GEMMA,
    LLAMA,
    TINY,
    Say,
    ScriptedContext,
    execute,
    routing_context,
    says,
)

Table = Sequence[Sequence[float]]


def likes(thinker: int, worker: int, verifier: int) -> Table:
    """Return scores that want these workers of two in the roles, -1 for none."""
    rows = ((thinker, 3.0), (worker, 1.0), (verifier, 2.0))
    return [[score if place == wanted else -1.0 for place in (0, 1)] for wanted, score in rows]


def tasks(run_steps: Sequence[object]) -> list[str]:
    return [getattr(step, "subtask", "") for step in run_steps]


async def test_one_worker_answers_at_once_and_for_good() -> None:
    run = await execute("trinity", ScriptedContext(routing_context(TINY)), says("A tale."))
    assert run.workers == ["tiny"]
    assert run.proposals[0].final
    assert run.text == "A tale."


async def test_all_three_roles_are_executed_until_the_verifier_accepts() -> None:
    context = ScriptedContext(routing_context(LLAMA, GEMMA), scores=lambda *_: likes(1, 0, 1))
    said = says("Mind the dates.", "In 1812.", "The year is wrong.", "In 1815.")
    run = await execute("trinity", context, said)
    steps = run.outcome.plan.steps
    assert tasks(steps) == [THINK, WORK, AUDIT, REPAIR]
    assert run.workers == ["gemma", "llama", "gemma", "llama"]
    assert [step.inputs for step in steps] == [(), (1,), (2,), (2, 3)]
    assert run.answer == (4,)
    assert [proposal.final for proposal in run.proposals] == [False, False, True]


async def test_an_accepted_answer_stands() -> None:
    context = ScriptedContext(routing_context(LLAMA, GEMMA), scores=lambda *_: likes(-1, 0, 1))
    run = await execute("trinity", context, says("In 1815.", "ACCEPT"))
    assert tasks(run.outcome.plan.steps)[1:] == [AUDIT]
    assert run.text == "In 1815."


async def test_the_answer_before_comes_back_where_the_next_has_not_a_word() -> None:
    context = ScriptedContext(routing_context(LLAMA, GEMMA), scores=lambda *_: likes(-1, 0, 1))
    run = await execute("trinity", context, says("In 1815.", "Wrong.", ""))
    assert run.text == "In 1815."


async def test_no_remote_worker_answers_where_nothing_may_be_spent() -> None:
    context = ScriptedContext(routing_context(TINY, CLOUD), SpendingRoom(0, 0.0))
    context.scores = lambda _, workers: [[-1.0] * len(workers), list(range(len(workers))), [-1.0]]
    run = await execute("trinity", context, says("A tale."))
    assert run.workers == ["tiny"]


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(1, 4))
async def test_it_ends_after_five_turns_whatever_the_head_says(random: object, count: int) -> None:
    assert hasattr(random, "uniform")
    draw = random.uniform
    cards = (TINY, LLAMA, GEMMA, BIG)[:count]
    context = ScriptedContext(
        routing_context(*cards),
        scores=lambda _, workers: [[draw(-1, 1) for _ in workers] for _ in TurnRole],
    )
    said: Say = lambda number, step: "ACCEPT" if draw(0, 1) < 0.3 else f"Text {number}."  # noqa: E731
    run = await execute("trinity", context, said)
    steps = run.outcome.plan.steps
    assert 1 <= len(steps) <= MAX_TURNS
    assert run.text.startswith(("Text", "ACCEPT"))
    assert tasks(steps).count(THINK) <= 1
    for number, step in enumerate(steps, start=1):
        if step.subtask == AUDIT:
            (judged,) = step.inputs
            assert steps[judged - 1].worker != step.worker, number


@given(
    st.sampled_from(KINDS),
    st.integers(1, 5),
    st.lists(st.booleans(), min_size=1, max_size=6),
    st.lists(
        st.tuples(st.sampled_from(list(TurnRole)), st.integers(0, 5), st.booleans()), max_size=7
    ),
)
def test_the_rules_of_the_turns(
    kind: str, difficulty: int, tools: list[bool], moves: list[tuple[TurnRole, int, bool]]
) -> None:
    workers = [WorkerFacts(0.5, 2.0, 0.0, is_tool=is_tool) for is_tool in tools]
    position = TurnPosition()
    for role, place, is_accepted in moves:
        assert len(position_features(position, Need(kind, difficulty))) == POSITION_FEATURES
        figures = [worker_features(worker, n, position) for n, worker in enumerate(workers)]
        assert {len(row) for row in figures} == {WORKER_FEATURES}
        flat = [[0.0] * len(workers) for _ in TurnRole]
        move = best_move(flat, position, workers)
        is_over = position.turn >= MAX_TURNS
        is_standing = position.wrote is not None and not position.is_rejected
        assert (move is None) == (is_over or is_standing)
        place %= len(workers)
        if not is_allowed(role, place, position, workers):
            continue
        position = position_after(position, role, place, is_accepted)
