"""Conductors compared on requests whose parts are known: only plans are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from baton.bench.conductor_bench import (
    ConductorBench,
    ConductorRow,
    DrawnPlan,
    DrawPlan,
    plan_drawer,
)
from baton.bench.conductor_score import Episode, ExpectedPart, PlanScore
from baton.core.errors import BatonError, WorkerError, WorkerUnavailable
from baton.core.labels import Label
from baton.core.messages import Chunk, Purpose, Request, Text
from baton.core.planning.request_parts import TrainedConductor
from baton.core.planning.skill_table import SkillTable
from baton.core.run.rule_router import RuleRouter
from baton.workers.scripted_worker import Script, ScriptedWorker
from support.scripted_conductors import PlainTools, plan_text
from support.strategy_context import CLOUD, LLAMA, TINY, TOOL

SUM = ExpectedPart("17 * 23", ("17", "23"), tool="calculator")
WISH = ExpectedPart("write a wish for Dana", ("wish",), ("dana",))
TWO = Episode("two", "en", "What's 17 times 23, and write a wish for Dana?", (SUM, WISH))
ONE = Episode("one", "en", "Write a wish for Dana and Tom.", (WISH,))
COMPUTED = Episode("sum", "en", "What's 17 times 23?", (SUM,))
EPISODES = (TWO, COMPUTED, ONE)


def says(*texts: str | BaseException) -> Script:
    """Say one text after the other, call by call."""
    left = list(texts)

    def script(request: Request) -> Iterable[Chunk | BaseException | float]:
        text = left.pop(0)
        yield text if isinstance(text, BaseException) else Text(text)

    return script


def computes(request: Request) -> Iterable[Chunk]:
    """Compute a product."""
    assert request.purpose is Purpose.VERIFY
    left, _, right = request.messages[-1].text.partition(" * ")
    yield Text(f"{left} * {right} = {int(left) * int(right)}")


def bench(*workers: ScriptedWorker) -> ConductorBench:
    tool = ScriptedWorker(computes, TOOL)
    everyone = {worker.card.id: worker for worker in (*workers, tool)}
    return ConductorBench(everyone, RuleRouter(), SkillTable())


async def drawn_plans(
    found: ConductorBench, draw: DrawPlan, episodes: Sequence[Episode] = EPISODES
) -> list[DrawnPlan]:
    return [one async for one in found.play(draw, episodes)]


def scripted_conductor(*texts: str | BaseException) -> tuple[TrainedConductor, ScriptedWorker]:
    worker = ScriptedWorker(says(*texts), replace(TINY, id="conductor"))
    return TrainedConductor(worker, PlainTools()), worker


async def test_the_trained_conductor_plans_and_no_step_is_played() -> None:
    conductor, writer = scripted_conductor(
        "calc: 17 * 23\nwriting1: write a wish for Dana", "calc: 17 * 23", "writing1: *"
    )
    small = ScriptedWorker(card=TINY)
    rows = await drawn_plans(bench(small), plan_drawer(conductor))
    assert [one.score.points for one in rows] == [1.0, 1.0, 1.0]
    assert [one.plan is None for one in rows] == [False, False, True]
    assert small.requests == [], "only the plan is drawn"
    assert [request.label for request in writer.requests] == [Label.LOCAL] * 3
    row = ConductorRow("", rows)
    assert (row.score, row.valid, row.kept_whole, row.split_right) == (1.0, 1.0, 1.0, 1.0)
    assert [len(one.calls) for one in rows] == [1, 1, 1]
    assert row.tokens[0] > 0


async def test_a_language_model_plans_with_the_same_workers() -> None:
    large = ScriptedWorker(
        says(
            plan_text(("calculation", "17 * 23", ()), ("writing", "Write a wish for Dana.", ())),
            plan_text(("math", "Compute 17 times 23.", ())),
            plan_text(("writing", "Answer the prompt.", ())),
        ),
        LLAMA,
    )
    rows = await drawn_plans(bench(ScriptedWorker(card=TINY), large), plan_drawer("llama"))
    assert [one.score for one in rows] == [
        PlanScore(1.0, True), PlanScore(0.5, True), PlanScore(1.0, True),
    ]  # fmt: skip
    assert rows[0].plan is not None
    assert {request.purpose for request in large.requests} == {Purpose.PLAN}


async def test_a_wrong_operation_is_no_right_plan() -> None:
    conductor, _ = scripted_conductor("calc: 17 * 24", "calc: 23 * 17")
    rows = await drawn_plans(
        bench(ScriptedWorker(card=TINY)), plan_drawer(conductor), [COMPUTED] * 2
    )
    assert [one.score.points for one in rows] == [0.0, 1.0]


async def test_a_plan_that_can_not_be_used_scores_nothing_and_the_next_is_drawn() -> None:
    conductor, _ = scripted_conductor(
        "no plan at all", WorkerError("It is too long."), "writing1: *"
    )
    rows = await drawn_plans(
        bench(ScriptedWorker(card=TINY)), plan_drawer(conductor), [ONE, ONE, ONE]
    )
    assert [one.score.points for one in rows] == [0.0, 0.0, 1.0]
    assert rows[1].problem == "It is too long."
    assert ConductorRow("", rows).valid == pytest.approx(1 / 3)
    large = ScriptedWorker(says("invalid", "invalid"), LLAMA)
    (row,) = await drawn_plans(bench(large), plan_drawer("llama"), [ONE])
    assert row.score.points == 0.0
    assert "drew no plan" in row.problem
    assert len(row.calls) == 2


@pytest.mark.parametrize("error", [WorkerUnavailable("It is gone.")])
async def test_a_worker_that_is_gone_ends_the_row(error: BatonError) -> None:
    large = ScriptedWorker(says(error), LLAMA)
    with pytest.raises(WorkerUnavailable):
        await drawn_plans(bench(large), plan_drawer("llama"))


async def test_nothing_remote_is_ever_asked() -> None:
    far = ScriptedWorker(card=CLOUD)
    rows = await drawn_plans(bench(ScriptedWorker(card=TINY), far), plan_drawer("gpt"), [ONE])
    assert far.requests == []
    assert "local" in rows[0].problem or "offline" in rows[0].problem


async def test_shares_of_sorts_that_are_not_there_are_unknown() -> None:
    conductor, _ = scripted_conductor("calc: 17 * 23")
    rows = await drawn_plans(bench(ScriptedWorker(card=TINY)), plan_drawer(conductor), [COMPUTED])
    row = ConductorRow("", rows)
    assert (row.kept_whole, row.split_right) == (None, None)
    assert row.interval == (1.0, 1.0)
    assert row.seconds >= 0.0
