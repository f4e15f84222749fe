"""Plans that are seen before they are run, and runs that continue where they stopped."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baton.core import events as ev
from baton.core.errors import BudgetExceeded, ConfigError
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope
from baton.core.messages import Chunk, Prompt, Request
from baton.core.money import NANO
from baton.core.permissions import ANYTHING, PromptLimits
from baton.core.plan_types import DIRECT_SUBTASK, Outcome, Plan, Step, single_step_plan
from baton.core.ports import ConversationPosition, Proposal, StrategyContext
from baton.core.run.run_context import Services
from support.ledger_processes import bill
from support.scripted_plans import (
    DOWN,
    OrchestraSession,
    StubWorker,
    answer_with,
    cloud,
    echo_prompt,
    fail_with,
    hang_at,
    local,
    open_orchestra,
    request_text,
    side_by_side,
    statuses,
    step,
    view_of,
)

# Seeing the plan first


@pytest.mark.parametrize(("choice", "calls"), [("go", 2), ("stop", 0), ("edit", 0)])
async def test_a_plan_that_is_shown_first_is_executed_only_at_a_word(
    choice: str, calls: int
) -> None:
    plan = Plan((step("small", "One."), step("small", "Two.", "1")), (2,))
    async with open_orchestra(StubWorker(local()), choice=choice) as session:
        view = await session.execute(plan, limits=PromptLimits(preview=True))
        (question,) = session.person.asked
        assert (question.plan, question.default) == (plan, "stop")
        assert [c.id for c in question.choices] == ["go", "stop", "edit"]
        assert len(session.workers["small"].requests) == calls
        assert view.status == ("finished" if calls else "cancelled")
        assert view.plan == plan
        assert not any(isinstance(e, ev.StepStarted) for e in session.events) or calls


async def test_a_plan_that_was_stopped_can_be_continued_or_executed_edited() -> None:
    plan = Plan((step("small", "One."), step("small", "Two.", "1")), (2,))
    async with open_orchestra(StubWorker(local()), choice="stop") as session:
        view = await session.execute(plan, limits=PromptLimits(preview=True))
        resumed = await session.watch(
            session.orchestra.resume(await session.record(), ask=session.person)
        )
        assert (resumed.status, resumed.answer, resumed.plan) == ("finished", "Two.", plan)
        assert view.started is not None
        edited = Plan((plan.steps[0], replace(plan.steps[1], subtask="Otherwise.")), (2,))
        place = ConversationPosition(again=view.started.prompt)
        assert (await session.execute(edited, place=place)).answer == "Otherwise."


async def test_without_a_user_nothing_is_executed() -> None:
    async with open_orchestra(StubWorker(local())) as session:
        limits = PromptLimits(preview=True, attended=False)
        run = session.orchestra.run(Prompt("x"), limits=limits, plan=side_by_side(2, "small"))
        assert (await session.watch(run)).status == "cancelled"
        assert session.workers["small"].requests == []


async def test_a_given_plan_is_executed_with_the_conversation_behind_it() -> None:
    async with open_orchestra(StubWorker(local())) as session:
        first = await session.execute(single_step_plan("small"), "Before")
        assert first.started is not None
        view = await session.execute(
            Plan((Step("small", DIRECT_SUBTASK, ("prompt", "history")),), (1,)),
            "After",
            place=ConversationPosition(first.started.conversation),
        )
        assert view.routed is not None
        assert view.routed.where == "plan"
        texts = [m.text for m in session.workers["small"].requests[-1].messages][1:]
        assert texts == ["Before", "Before", "After"]


# Continuing what was interrupted

FOUR = Plan(
    (
        step("small", "One."),
        step("small", "Two.", "1"),
        step("small", "Three.", "2"),
        step("small", "Four.", "1", "3"),
    ),
    (4,),
)


def third_step_begins(event: ev.Event) -> bool:
    return isinstance(event, ev.StepStarted) and event.step == 3


async def test_a_run_that_was_stopped_continues_where_it_was() -> None:
    async with open_orchestra(StubWorker(local(), hang_at("Three."))) as session:
        before = await session.watch(session.begin(FOUR), third_step_begins)
        assert statuses(before)[:2] == ["done", "done"]
        assert before.status == "cancelled"
        small = session.workers["small"]
        small.respond, small.requests = echo_prompt, []
        old = await session.record()
        view = await session.watch(session.orchestra.resume(old))
        assert (view.status, view.answer, statuses(view)) == ("finished", "Four.", ["done"] * 4)
        assert len(small.requests) == 2
        assert "Two." in request_text(small.requests[0])
        assert "Result 1:\n```\nOne.\n```" in request_text(small.requests[1])
        new = await session.record()
        assert (new.prompt, new.conversation) == (old.prompt, old.conversation)
        assert set(await session.store.siblings(new.answer)) == {old.answer, new.answer}
        assert view_of(list(new.events)).steps[0].text == "One."
        again = await session.watch(session.orchestra.resume(old))  # and once more, just the same
        assert (again.status, again.answer) == ("finished", "Four.")


def kill_in_the_third_step(home: Path) -> None:
    arguments = [sys.executable, "-P", "-m", "support.stuck_run", str(home)]
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        arguments, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    ) as stuck:
        assert stuck.stdout is not None
        assert stuck.stdout.readline() == "there\n"
        stuck.kill()


@pytest.mark.sampled(0.5)
async def test_a_run_that_was_killed_continues_in_the_next_baton(tmp_path: Path) -> None:
    await asyncio.to_thread(kill_in_the_third_step, tmp_path)
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), home=tmp_path, policy=Policy.BUDGET
    ) as session:
        assert await session.held() == 0
        old = await session.record()
        assert old.status == "lost"
        assert statuses(view_of(list(old.events)))[:2] == ["done", "done"]
        view = await session.watch(session.orchestra.resume(old))
        assert (view.status, view.answer) == ("finished", "Four.")
        assert [len(session.workers[name].requests) for name in ("small", "far")] == [1, 1]
        assert "Two." in request_text(session.workers["far"].requests[0])


async def test_a_run_that_failed_continues_once_its_worker_is_back() -> None:
    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if "Three." in request_text(request):
            raise DOWN
        async for chunk in echo_prompt(request):
            yield chunk

    async with open_orchestra(StubWorker(local(), respond)) as session:
        view = await session.execute(FOUR)
        assert statuses(view) == ["done", "done", "failed", "skipped"]
        small = session.workers["small"]
        small.respond, small.requests = echo_prompt, []
        resumed = await session.watch(session.orchestra.resume(await session.record()))
        assert (resumed.answer, len(small.requests)) == ("Four.", 2)


async def test_a_run_that_stopped_twice_keeps_what_both_wrote() -> None:
    async with open_orchestra(StubWorker(local(), hang_at("Three."))) as session:
        await session.watch(session.begin(FOUR), third_step_begins)
        session.workers["small"].respond = hang_at("Four.")
        await session.watch(
            session.orchestra.resume(await session.record()),
            lambda e: isinstance(e, ev.StepStarted) and e.step == 4,
        )
        small = session.workers["small"]
        small.respond, small.requests = echo_prompt, []
        view = await session.watch(session.orchestra.resume(await session.record()))
        assert (view.answer, len(small.requests)) == ("Four.", 1)


async def test_a_resumed_private_run_stays_private() -> None:
    plan = Plan((step("far", "One."), step("small", "Two.", "1")), (2,))
    async with open_orchestra(
        StubWorker(local(), hang_at("Two.")), StubWorker(cloud()), policy=Policy.BUDGET
    ) as session:
        limits = PromptLimits(Label.LOCAL, budget=NANO)
        await session.watch(
            session.begin(plan, limits=limits),
            lambda e: isinstance(e, ev.StepStarted) and e.step == 2,
        )
        stopped = await session.record()
        forged: tuple[ev.Event, ...] = tuple(
            e for e in stopped.events if not isinstance(e, ev.StepFinished | ev.Planned)
        )
        forged = (*forged[:2], ev.Planned(plan), *forged[2:])
        session.workers["small"].respond = echo_prompt
        view = await session.watch(session.orchestra.resume(replace(stopped, events=forged)))
        assert view.status == "finished"
        assert session.workers["far"].requests == []


async def test_what_can_not_be_continued_says_so() -> None:
    async with open_orchestra(StubWorker(local())) as session:
        await session.execute(FOUR)
        finished = await session.record()
        with pytest.raises(ConfigError, match="is finished"):
            session.orchestra.resume(finished)
        with pytest.raises(ConfigError, match="still running"):
            session.orchestra.resume(replace(finished, status="running"))
        empty = replace(finished, status="lost", events=finished.events[:1])
        with pytest.raises(ConfigError, match="never had a plan"):
            session.orchestra.resume(empty)


async def test_a_kept_plan_that_can_not_be_executed_any_more_ends_cleanly() -> None:
    """The parts of one plan are never taken for those of another."""
    wide, long = local("wide", context=0), "word " * 3000
    plan = Plan((step("wide", "One."), step("wide", "Two.", "1", "prompt")), (2,))
    async with open_orchestra(
        StubWorker(local(context=1024)), StubWorker(wide, hang_at("Two."))
    ) as session:
        await session.watch(
            session.begin(plan, long), lambda e: isinstance(e, ev.StepStarted) and e.step == 2
        )
        kept = await session.record()
        store = session.store
        smaller = type(session.orchestra)(
            Services(
                {"small": StubWorker(local(context=1024), answer_with("from the small one"))}, store
            ),
            "small",
        )
        view = await session.watch(smaller.resume(kept))
        assert view.status in ("finished", "failed")
        assert "One." not in view.answer


async def test_what_a_removed_worker_wrote_is_kept_all_the_same() -> None:
    plan = Plan((step("wide", "One."), step("wide", "Two.", "1")), (2,))
    async with open_orchestra(
        StubWorker(local(context=1024)), StubWorker(local("wide"), hang_at("Two."))
    ) as session:
        await session.watch(
            session.begin(plan, "word " * 3000),
            lambda e: isinstance(e, ev.StepStarted) and e.step == 2,
        )
        small = StubWorker(local(context=1024))
        alone = type(session.orchestra)(Services({"small": small}, session.store), "small")
        view = await session.watch(alone.resume(await session.record()))
        assert (view.status, view.answer, len(small.requests)) == ("finished", "Two.", 1)
        assert [item.worker for item in view.steps] == ["wide", "small"]


async def test_a_resumed_run_may_still_be_grown_by_its_strategy() -> None:
    class GrowingStrategy:
        async def first(self, context: StrategyContext) -> Proposal:
            return Proposal(Plan((step("small", "One."),), (1,)), final=False)

        async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
            if len(outcome.plan.steps) == 1:
                return Proposal(outcome.plan.with_steps((step("small", "Two.", "1"),), (2,)))
            return None

    async with open_orchestra(
        StubWorker(local(), hang_at("Two.")), strategy=GrowingStrategy()
    ) as session:
        await session.watch(
            session.begin(None), lambda e: isinstance(e, ev.StepStarted) and e.step == 2
        )
        small = session.workers["small"]
        small.respond, small.requests = echo_prompt, []
        view = await session.watch(session.orchestra.resume(await session.record()))
        assert (view.answer, len(small.requests)) == ("Two.", 1)


# Within the bounds with which it began


async def interrupt_run(session: OrchestraSession, limits: PromptLimits = ANYTHING) -> None:
    """Stop a run in its second step; from then on only the remote worker can answer."""
    plan = Plan((step("small", "One."), step("small", "Two.", "1")), (2,))
    view = await session.watch(
        session.begin(plan, limits=limits), lambda e: isinstance(e, ev.StepStarted) and e.step == 2
    )
    assert statuses(view) == ["done", "loading"]
    session.workers["small"].respond = fail_with(DOWN)


@pytest.mark.parametrize(
    ("bound", "free"), [("mode", "auto"), ("offline", False), ("is_free", False)]
)
@pytest.mark.parametrize("bounded", [True, False])
async def test_a_run_that_began_here_alone_is_continued_here_alone(
    bound: str, free: object, bounded: bool
) -> None:
    terms: dict[str, Any] = {bound: "local" if bound == "mode" else True} if bounded else {}
    async with open_orchestra(
        StubWorker(local(), hang_at("Two.")), StubWorker(cloud()), policy=Policy.BUDGET, **terms
    ) as session:
        await interrupt_run(session)
        changes: dict[str, Any] = {bound: free}
        session.orchestra.change_terms(**changes)
        for _ in range(2):  # the second continues what the first left
            view = await session.watch(session.orchestra.resume(await session.record()))
            if bounded:
                assert (view.status, session.workers["far"].requests) == ("failed", [])
                assert not any(isinstance(e, ev.Offered) for e in session.events)
            else:
                assert len(session.workers["far"].requests) == 1
                break


async def test_a_resumed_run_keeps_the_ceiling_it_began_with() -> None:
    async with open_orchestra(StubWorker(cloud()), policy=Policy.BUDGET) as session:
        plan = Plan((step("far", "One."),), (1,))
        view = await session.execute(plan, limits=PromptLimits(budget=1000))
        assert (view.status, session.workers["far"].requests) == ("failed", [])
        for budget in (None, NANO):
            limits = PromptLimits(budget=budget)
            view = await session.watch(session.orchestra.resume(await session.record(), limits))
            assert (view.status, session.workers["far"].requests) == ("failed", [])
            assert "The ceiling of $0.000001 for this prompt" in str(session.events[-1])
            assert "Ask again, which begins a new run, with `--budget 0.01`." in str(
                session.events[-1]
            )


async def test_a_resumed_run_that_was_allowed_less_now_may_be_resumed_with_more() -> None:
    async with open_orchestra(
        StubWorker(cloud(), fail_with(DOWN)), policy=Policy.BUDGET
    ) as session:
        plan = Plan((step("far", "One."),), (1,))
        await session.execute(plan, limits=PromptLimits(budget=NANO))
        await session.watch(
            session.orchestra.resume(await session.record(), PromptLimits(budget=1000))
        )
        assert "Allow this prompt more with `--budget 0.0" in str(session.events[-1])


async def test_what_a_run_was_charged_counts_when_it_continues() -> None:
    plan = Plan((step("far", "One."),), (1,))
    async with open_orchestra(
        StubWorker(cloud(), fail_with(DOWN, "Half of it")), policy=Policy.BUDGET
    ) as session:
        far = session.workers["far"]
        await session.execute(plan, limits=PromptLimits(budget=NANO))
        [charge] = await session.ledger.charges()
        assert charge.charged == charge.held > 0
        far.respond, far.requests = echo_prompt, []
        first, enough = await session.record(), PromptLimits(budget=charge.held)
        for record in (first, first, await session.record()):
            view = await session.watch(session.orchestra.resume(record, enough))
            assert (view.status, far.requests) == ("failed", [])
            assert "for this prompt is used up" in str(session.events[-1])


async def test_runs_that_continue_one_share_its_ceiling() -> None:
    plan = Plan((step("far", "One."),), (1,))
    async with open_orchestra(
        StubWorker(cloud(), fail_with(DOWN, "Half of it")), policy=Policy.BUDGET
    ) as session:
        await session.execute(plan, limits=PromptLimits(budget=NANO))
        first = await session.record()
        for record in (first, first):
            await session.watch(session.orchestra.resume(record))
        await session.watch(session.orchestra.resume(await session.record()))
        charges = await session.ledger.charges()
        assert len({charge.run for charge in charges}) == 4
        ceilings = {Scope.RUN: sum(charge.charged for charge in charges)}
        asked = replace(bill(ceilings, run="another"), root=first.id)
        with pytest.raises(BudgetExceeded, match="this prompt is used up"):
            await session.ledger.hold(asked)


@pytest.mark.parametrize("bounds", [{"mode": "local"}, {"offline": True}])
async def test_help_that_would_leave_is_not_offered_to_a_run_that_began_here_alone(
    bounds: dict[str, Any],
) -> None:
    async with open_orchestra(
        StubWorker(local(), answer_with("")), StubWorker(cloud()), choice="cloud"
    ) as session:
        session.orchestra.change_terms(**bounds)
        await session.watch(session.begin(None, "Why?"), lambda e: isinstance(e, ev.StepStarted))
        session.orchestra.change_terms(mode="auto", offline=False)
        await session.watch(session.orchestra.resume(await session.record(), ask=session.person))
        assert (session.person.asked, session.workers["far"].requests) == ([], [])


@pytest.mark.parametrize(("budget", "sent"), [(None, 0), (NANO, 1)])
async def test_a_budget_that_a_program_set_allows_no_spending_to_who_resumes_its_run(
    budget: int | None, sent: int
) -> None:
    async with open_orchestra(StubWorker(cloud()), ceilings={}) as session:
        plan = Plan((step("far", "One."),), (1,))
        program = PromptLimits(budget=NANO, client="token", attended=False)
        await session.execute(plan, limits=program)
        assert session.workers["far"].requests == []
        limits = PromptLimits(budget=budget, attended=False)
        await session.watch(session.orchestra.resume(await session.record(), limits))
        assert len(session.workers["far"].requests) == sent
