"""Breaks that a review found: whole runs in which something went wrong that nobody thought of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from baton.adapters.tools import tools
from baton.children.calculator import calculate
from baton.domain import events as ev
from baton.domain.chat import Chunk, Prompt, Request, Text
from baton.domain.errors import WorkerError, WorkerUnavailable
from baton.domain.events import Verdict
from baton.domain.labels import Label
from baton.domain.view import RunView
from baton.engine import part as parts
from baton.engine.checks import check
from baton.engine.policy import Limits
from baton.engine.ports import NEW
from support.acting import Act, Actor, House, cloud, fails, house, local, says, view_of

DOWN = WorkerUnavailable("It is down.", "Wait.")
SUM = "How many apples are 2 apples and 3 apples?"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "AGAIN_SECONDS", 0.0)


def at_last(text: str) -> Act:
    """Hang at the first request, answer each later one."""
    asked = 0

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        yield Text(text)

    return act


async def resumed(here: House) -> tuple[RunView, list[str]]:
    """Go on with the last run; return how it ended, and each answer that was said to stay."""
    record = await here.store.last_run()
    assert record is not None
    view, finals = RunView(), [""]
    async with here.orchestra.resume(record, ask=here.person) as run:
        async for event in run:
            view = view.apply(event)
            finals += [view.final] if view.final != finals[-1] else []
    return view, finals


# Going on with a run


async def test_a_resumed_run_never_takes_back_what_it_said_would_stay() -> None:
    first, second = Actor(local("a"), says("The answer is 5")), Actor(local("b"), at_last("6"))
    async with house(first, second, Actor(cloud(), says("The answer is 7")), choice="once") as here:
        run = here.begin(None, SUM, Limits(strategy="cascade"))
        await here.watch(run, until=lambda event: isinstance(event, ev.StepFinished))
        view, finals = await resumed(here)
    assert (view.status, view.answer) == ("finished", "The answer is 7")
    assert all(view.final.startswith(text) for text in finals), finals


async def test_a_draft_of_a_resumed_run_is_kept_though_another_answer_came() -> None:
    sorry = Actor(local("a"), at_last("I'm sorry, I cannot help with that."))
    async with house(sorry, Actor(cloud(), says("Tea is a drink.")), choice="once") as here:
        run = here.begin(None, "Tell me of tea")
        await here.watch(run, until=lambda event: isinstance(event, ev.StepStarted))
        view, _ = await resumed(here)
        record = await here.store.last_run()
    assert record is not None
    assert (
        [step.text for step in view_of(list(record.events)).steps]
        == [
            "I'm sorry, I cannot help with that.",
            "Tea is a drink.",
        ]
        == [step.text for step in view.steps]
    )


async def test_a_private_run_goes_on_although_the_default_worker_may_not_see_it() -> None:
    async with house(Actor(cloud()), Actor(local("a"), at_last("Hello"))) as here:
        limits = Limits(label=Label.LOCAL)
        run = here.orchestra.play(Prompt("Hi"), NEW, limits, here.person, worker="a")
        await here.watch(run, until=lambda event: isinstance(event, ev.StepStarted))
        view, _ = await resumed(here)
        assert (view.status, view.answer) == ("finished", "Hello")
        assert not here.actors["far"].requests


# Answers that are compared


async def test_no_worker_stands_in_for_one_whose_answer_was_to_be_compared_with_its_own() -> None:
    async with house(
        Actor(local("a"), says("The answer is 5")),
        Actor(local("b"), fails(DOWN)),
        Actor(local("c"), says("The answer is 9")),
    ) as here:
        view = await here.play(None, SUM, Limits(strategy="majority"))
        assert [step.status for step in view.steps] == ["done", "failed", "done"]
        assert "agree" not in view.revisions[-1] or "No two" in view.revisions[-1]
        assert len(here.actors["a"].requests) == 1


async def test_nobody_is_paid_for_a_draft_in_place_of_a_local_worker_that_fell_over() -> None:
    drafts = Actor(local("a"), says("The answer is 5")), Actor(local("b"), fails(DOWN))
    async with house(*drafts, Actor(cloud(), says("The answer is 9")), choice="once") as here:
        view = await here.play(None, SUM, Limits(strategy="cascade"))
        assert (view.status, view.answer) == ("finished", "The answer is 5")
        assert not here.person.asked
        assert not view.sent


async def test_what_the_calculator_cannot_do_is_answered_here_not_elsewhere() -> None:
    mine, far = Actor(local("a"), says("That has no value.")), Actor(cloud(), says("42"))
    calculator = tools()["calculator"]
    async with house(mine, calculator, far, choice="once") as here:  # type: ignore[arg-type]
        view = await here.play(None, "What is 1/0?")
        assert [step.worker for step in view.steps] == ["calculator", "a"]
        assert (view.answer, here.person.asked) == ("That has no value.", [])


# Sums


@pytest.mark.parametrize(
    "text",
    [
        "47 + 38 = 85 (7 + 8 = 15, so 5 is written down)",
        "In Python, 0.1 + 0.2 = 0.30000000000000004.",
        "Some say 2 + 2 = 5.",
        "1+2=3,3+3=6",
        "7 + 8 = 5, carry 1",
        "About 5 + 3 = 8.1",
    ],
)
async def test_what_may_be_right_is_not_called_wrong(text: str) -> None:
    async def compute(tool: str, asked: str) -> str:
        if tool != "calculator":
            raise WorkerError("There is no such tool.")
        return calculate(asked)

    found = await check(text, "", compute)
    assert all(finding.verdict is not Verdict.WRONG for finding in found), found
