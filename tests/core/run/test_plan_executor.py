"""A plan is run: what runs when, who does it, what is kept, and how it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from baton.core import events as ev
from baton.core.errors import ContextTooLong, PlanError, WorkerError
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Status
from baton.core.messages import Chunk, Purpose, Request, Text, TurnStatus
from baton.core.money import NANO
from baton.core.permissions import PromptLimits
from baton.core.plan_types import Outcome, Plan
from baton.core.ports import Proposal, StrategyContext
from baton.core.run import step_executor as parts
from baton.core.view import RunView
from support.scripted_plans import (
    DOWN,
    OrchestraSession,
    Person,
    StubWorker,
    answer_with,
    cloud,
    echo_prompt,
    fail_with,
    local,
    open_orchestra,
    request_text,
    side_by_side,
    statuses,
    step,
    view_of,
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "RETRY_SECONDS", 0.0)


# What runs when


async def test_steps_that_need_nothing_of_each_other_run_side_by_side() -> None:
    together = asyncio.Barrier(4)

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        await together.wait()  # none passes unless all four are there
        yield Text(request.messages[-1].text.splitlines()[-1])

    async with open_orchestra(StubWorker(local(slots=4), respond)) as session:
        view = await session.execute(side_by_side(4, "small"))
    assert view.status == "finished"
    assert view.answer == "Part 1.\n\nPart 2.\n\nPart 3.\n\nPart 4."


async def test_a_worker_is_never_given_more_at_once_than_its_slots() -> None:
    pairs = asyncio.Barrier(2)

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        await pairs.wait()
        await asyncio.sleep(0)
        yield Text("x")

    async with open_orchestra(StubWorker(local(slots=2), respond)) as session:
        view = await session.execute(side_by_side(6, "small"))
        assert (view.status, session.workers["small"].most_at_once) == ("finished", 2)


async def test_slots_are_shared_by_all_runs() -> None:
    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        for _ in range(20):
            await asyncio.sleep(0)
        yield Text("x")

    async def execute(session: OrchestraSession) -> str:
        async with session.begin(side_by_side(3, "small")) as run:
            return view_of([event async for event in run]).status

    async with open_orchestra(StubWorker(local(slots=1), respond)) as session:
        ends = await asyncio.gather(*(execute(session) for _ in range(3)))
        assert ends == ["finished"] * 3
        assert len(session.workers["small"].requests) == 9
        assert session.workers["small"].most_at_once == 1


async def test_a_step_begins_once_what_it_sees_is_over_and_not_before() -> None:
    plan = Plan(
        (
            step("small", "First."),
            step("small", "Second."),
            step("small", "Third.", "1"),
            step("small", "Fourth.", "2", "3"),
        ),
        (4,),
    )
    async with open_orchestra(StubWorker(local(slots=4))) as session:
        view = await session.execute(plan)
        assert view.answer == "Fourth."
        order = [
            (type(e).__name__, e.step)
            for e in session.events
            if isinstance(e, ev.StepStarted | ev.StepFinished)
        ]
        for number, item in enumerate(plan.steps, start=1):
            for seen in item.inputs:
                assert order.index(("StepFinished", seen)) < order.index(("StepStarted", number))
        fourth = request_text(session.workers["small"].requests[-1])
        assert "Result 2:\n```\nSecond.\n```" in fourth
        assert "Result 3:\n```\nThird.\n```" in fourth
        assert "First." not in fourth
        assert "The prompt" not in fourth


async def test_purposes_distinguish_answers_steps_and_checks() -> None:
    plan = Plan(
        (step("small", "Draft."), replace(step("small", "Check.", "1"), check=True),
         step("small", "Write.", "1", "2")),
        (3,),
    )  # fmt: skip
    async with open_orchestra(StubWorker(local())) as session:
        await session.execute(plan)
        purposes = [request.purpose for request in session.workers["small"].requests]
    assert purposes == [Purpose.STEP, Purpose.VERIFY, Purpose.ANSWER]


async def test_an_answer_of_several_steps_keeps_their_order_whichever_is_first() -> None:
    second_done = asyncio.Event()

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if "One." in request_text(request):
            yield Text("on")
            await second_done.wait()
            yield Text("e")
        else:
            yield Text("two")

    async with open_orchestra(StubWorker(local(slots=2), respond)) as session:
        seen = [""]
        async with session.begin(
            Plan((step("small", "One."), step("small", "Two.")), (1, 2))
        ) as run:
            view = RunView()
            async for event in run:
                view = view.apply(event)
                assert view.stable_answer.startswith(
                    seen[-1]
                )  # what was printed is never taken back
                seen.append(view.stable_answer)
                if isinstance(event, ev.StepFinished) and event.step == 2:
                    assert view.stable_answer == "on"
                    second_done.set()
        assert view.answer == view.stable_answer == "one\n\ntwo"
        assert await session.answer() == ("one\n\ntwo", TurnStatus.DONE)


# What fails


async def test_a_step_that_fails_leaves_the_rest_out_and_its_error_is_the_runs() -> None:
    plan = Plan(
        (step("small", "One."), step("big", "Two."), step("small", "Three.", "1", "2")), (3,)
    )
    broken = fail_with(WorkerError("It can't.", "Choose another."), "half")
    async with open_orchestra(
        StubWorker(local(slots=2), broken), StubWorker(local("big"), broken)
    ) as session:
        view = await session.execute(plan)
        assert view.failure is not None
        assert (view.failure.error, view.failure.message, view.failure.hint) == (
            "WorkerError", "It can't.", "Choose another.",
        )  # fmt: skip
        assert statuses(view) == ["failed", "failed", "skipped"]
        assert view.steps[2].why == "Step 1 failed."
        assert (await session.record()).status == "failed"
        assert (await session.answer())[1] is TurnStatus.FAILED


async def test_what_runs_beside_a_step_that_fails_is_kept() -> None:
    failed = asyncio.Event()

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if "One." in request_text(request):
            failed.set()
            raise WorkerError("It can't.")
        await failed.wait()
        yield Text("whole")

    plan = Plan(
        (step("small", "One."), step("small", "Two."), step("small", "Three.", "1", "2")), (3,)
    )
    async with open_orchestra(StubWorker(local(slots=2), respond)) as session:
        view = await session.execute(plan)
        assert statuses(view) == ["failed", "done", "skipped"]
        assert view.steps[1].text == "whole"


async def test_an_optional_step_may_fail_without_those_that_build_on_it() -> None:
    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if "One." in request_text(request):
            yield Text("half a text")
            raise WorkerError("It can't.")
        yield Text("fine")

    plan = Plan((step("small", "One.", optional=True), step("small", "Two.", "1", "prompt")), (2,))
    async with open_orchestra(StubWorker(local(), respond)) as session:
        view = await session.execute(plan)
        assert (view.status, view.answer) == ("finished", "fine")
        assert statuses(view) == ["failed", "done"]
        shown = request_text(session.workers["small"].requests[-1])
        assert "Result 1:\n```\n(nothing)\n```" in shown
        assert "half a text" not in shown


async def test_a_remote_worker_that_is_down_is_asked_twice_then_another_one() -> None:
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud(), fail_with(DOWN)), policy=Policy.BUDGET
    ) as session:
        view = await session.execute(Plan((step("far", "One."), step("small", "Two.", "1")), (2,)))
        assert view.status == "finished"
        assert len(session.workers["far"].requests) == 2
        order = [
            e.worker if isinstance(e, ev.StepStarted) else "again"
            for e in session.events
            if isinstance(e, ev.StepStarted | ev.StepRetried) and e.step == 1
        ]
        assert order == ["far", "again", "far", "again", "small"]
        assert view.steps[0].worker == "small"
        assert view.steps[0].text == "One."
        assert await session.held() == 0


async def test_a_worker_here_that_is_down_gives_way_at_once() -> None:
    """Its supervisor has restarted it several times by then."""
    async with open_orchestra(
        StubWorker(local(), fail_with(DOWN)), StubWorker(local("big"))
    ) as session:
        view = await session.execute(Plan((step("small", "One."), step("big", "Two.", "1")), (2,)))
        assert (view.status, len(session.workers["small"].requests)) == ("finished", 1)
        assert view.steps[0].worker == "big"


async def test_the_first_error_is_reported_when_no_worker_is_left() -> None:
    second = fail_with(WorkerError("The second one's."))
    async with open_orchestra(
        StubWorker(local(), fail_with(WorkerError("The first one's."))),
        StubWorker(local("big"), second),
    ) as session:
        view = await session.execute(
            Plan((step("small", "One."), step("small", "Two.", "1")), (2,))
        )
        assert view.failure is not None
        assert view.failure.message == "The first one's."
        assert len(session.workers["big"].requests) == 1


async def test_what_was_shown_of_the_answer_is_not_taken_back_by_another_worker() -> None:
    broken = fail_with(DOWN, "Half of it")
    async with open_orchestra(StubWorker(local(), broken), StubWorker(local("big"))) as session:
        view = await session.execute(Plan((step("big", "One."), step("small", "Two.", "1")), (2,)))
        assert (view.status, view.answer) == ("failed", "Half of it")
        assert await session.answer() == ("Half of it", TurnStatus.FAILED)
        assert len(session.workers["big"].requests) == 1


async def test_a_step_in_between_begins_again_with_another_worker() -> None:
    broken = fail_with(DOWN, "Half of it")
    async with open_orchestra(StubWorker(local(), broken), StubWorker(local("big"))) as session:
        view = await session.execute(Plan((step("small", "One."), step("big", "Two.", "1")), (2,)))
        assert view.status == "finished"
        assert view.steps[0].text == "One."
        assert "Half" not in request_text(session.workers["big"].requests[-1])


async def test_what_is_too_long_for_one_is_given_to_one_that_holds_more() -> None:
    narrow = fail_with(ContextTooLong(9000, 4096))
    async with open_orchestra(
        StubWorker(local(context=4096), narrow),
        StubWorker(local("narrower", context=2048), answer_with("never")),
        StubWorker(local("wide", context=16384)),
    ) as session:
        view = await session.execute(Plan((step("small", "One."), step("wide", "Two.", "1")), (2,)))
        assert view.steps[0].worker == "wide"
        assert session.workers["narrower"].requests == []


# Who may be used


@pytest.mark.parametrize("what", ["private", "offline", "no price", "mode", "nobody"])
async def test_a_worker_that_may_not_be_used_is_replaced_and_never_called(what: str) -> None:
    far = cloud(price=None) if what == "no price" else cloud()
    terms = {"offline": {"offline": True}, "mode": {"mode": "local"}}.get(what, {})
    limits = (
        PromptLimits(Label.LOCAL, budget=NANO) if what == "private" else PromptLimits(budget=NANO)
    )
    worker = "nobody" if what == "nobody" else "far"
    plan = Plan((step(worker, "One."), step("small", "Two.", "1")), (2,))
    async with open_orchestra(StubWorker(local()), StubWorker(far), **terms) as session:  # type: ignore[arg-type]
        if what == "nobody":
            session.workers["far"].card = replace(far, price=None)
        view = await session.execute(plan, limits=limits)
        assert view.status == "finished"
        assert view.plan is not None
        assert [item.worker for item in view.plan.steps] == ["small", "small"]
        assert session.workers["far"].requests == []
        assert (view.offers, view.sent, session.person.asked) == ((), (), [])


@pytest.mark.parametrize("what", ["private", "offline", "no price", "mode"])
async def test_nor_does_it_stand_in_for_one_that_fails(what: str) -> None:
    far = cloud(price=None) if what == "no price" else cloud()
    terms = {"offline": {"offline": True}, "mode": {"mode": "local"}}.get(what, {})
    limits = (
        PromptLimits(Label.LOCAL, budget=NANO) if what == "private" else PromptLimits(budget=NANO)
    )
    async with open_orchestra(
        StubWorker(local(), fail_with(DOWN)), StubWorker(far), **terms
    ) as session:  # type: ignore[arg-type]
        view = await session.execute(side_by_side(2, "small"), limits=limits)
        assert view.status == "failed"
        assert (session.workers["far"].requests, view.offers) == ([], ())


async def test_going_offline_or_private_later_holds_for_the_next_run() -> None:
    plan = Plan((step("far", "One."), step("small", "Two.", "1")), (2,))
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), policy=Policy.BUDGET
    ) as session:
        await session.execute(plan)
        assert len(session.workers["far"].requests) == 1
        session.orchestra.go_offline(True)
        await session.execute(plan)
        assert len(session.workers["far"].requests) == 1


# Stopping


async def test_stopping_ends_every_step_and_leaves_no_money_on_its_way() -> None:
    running = asyncio.Barrier(5)

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        yield Text("begun")
        await running.wait()
        await asyncio.Event().wait()

    async with open_orchestra(
        StubWorker(local(), respond), StubWorker(cloud(), respond), policy=Policy.BUDGET
    ) as session:
        plan = side_by_side(4, "far")
        plan = plan.with_steps((step("small", "Five."), step("far", "Six.", "1")), (1, 2, 3, 4, 6))
        before = asyncio.all_tasks()
        async with session.begin(plan) as run:
            begun = 0
            view = RunView()
            async for event in run:
                view = view.apply(event)
                begun += isinstance(event, ev.StepText)
                if begun == 5:
                    run.cancel()
                    run.cancel()
                    begun = -10
        assert view.status == "cancelled"
        assert asyncio.all_tasks() == before
        assert [session.workers[name].running for name in ("small", "far")] == [0, 0]
        assert len(session.workers["far"].requests) == 4
        assert await session.held() == 0
        charges = await session.ledger.charges()
        assert Counter(c.status for c in charges) == {Status.UNCONFIRMED: 4}
        assert await session.answer() == ("\n\n".join(["begun"] * 4), TurnStatus.CANCELLED)


async def test_stopping_while_the_user_is_asked_sends_nothing() -> None:
    asked = asyncio.Event()

    class SlowPerson(Person):
        async def __call__(self, question: object) -> str:
            asked.set()
            await asyncio.Event().wait()
            return "once"

    async with open_orchestra(StubWorker(local(slots=4)), StubWorker(cloud())) as session:
        session.person = SlowPerson()
        before = asyncio.all_tasks()
        async with session.begin(side_by_side(3, "far")):
            await asked.wait()
        assert asyncio.all_tasks() == before
        assert (session.workers["far"].requests, await session.held()) == ([], 0)
        assert (await session.record()).status == "cancelled"


async def test_a_bug_in_one_step_stops_the_others_and_reaches_the_consumer() -> None:
    beside = asyncio.Event()

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if "Part 1." in request_text(request):
            await beside.wait()
            raise ZeroDivisionError("a bug")
        beside.set()
        await asyncio.Event().wait()
        yield Text("never")

    async with open_orchestra(StubWorker(local(slots=2), respond)) as session:
        before = asyncio.all_tasks()
        with pytest.raises(ZeroDivisionError):
            await session.execute(side_by_side(2, "small"))
        assert asyncio.all_tasks() == before
        assert session.workers["small"].running == 0


async def test_a_run_that_is_stopped_before_it_began_still_ends() -> None:
    async with open_orchestra(StubWorker(local())) as session:
        async with session.begin(side_by_side(2, "small")) as run:
            run.cancel()
            events = [event async for event in run]
        assert [type(e) for e in events if isinstance(e, ev.TERMINAL)] == [ev.Cancelled]


# What is kept


async def test_every_finished_steps_text_is_in_the_store_and_matches_the_events() -> None:
    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if "Two." in request_text(request):
            raise WorkerError("It can't.")
        async for chunk in echo_prompt(request):
            yield chunk

    # The second one's error is reported: the user lets another try, which can't do it either.
    plan = Plan(
        (
            step("far", "One."),
            step("small", "Two.", optional=True),
            step("far", "Three.", "1", optional=True),
            step("small", "Four.", "1", "2", "3"),
        ),
        (1, 4),
    )
    async with open_orchestra(
        StubWorker(local(slots=2), respond),
        StubWorker(cloud(), respond),
        choice=["once", "once", "keep"],
    ) as session:
        live = await session.execute(plan)
        stored = view_of(list((await session.record()).events))
        assert statuses(live) == ["done", "failed", "skipped", "done"]
        assert stored.steps == live.steps
        assert stored.answer == live.answer == "One.\n\nFour."
        assert (stored.status, stored.calls, stored.offers) == (
            live.status,
            live.calls,
            live.offers,
        )


async def test_a_strategy_that_can_draw_no_more_leaves_what_there_is() -> None:
    class StuckStrategy:
        async def first(self, context: StrategyContext) -> Proposal:
            return Proposal(Plan((step("small", "One."),), (1,)), final=False)

        async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
            raise PlanError("There is no other plan.")

    async with open_orchestra(StubWorker(local()), strategy=StuckStrategy()) as session:
        view = await session.execute(None)
        assert (view.status, view.answer) == ("finished", "One.")


async def test_a_strategy_can_not_change_what_was_executed() -> None:
    class ForgingStrategy:
        async def first(self, context: StrategyContext) -> Proposal:
            return Proposal(Plan((step("small", "One."),), (1,)), final=False)

        async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
            forged = step("small", "Forged.", "prompt", "history")
            return Proposal(Plan((forged, step("small", "Two.", "1")), (2,)))

    async with open_orchestra(StubWorker(local()), strategy=ForgingStrategy()) as session:
        view = await session.execute(None)
        assert (view.status, view.answer, len(view.steps)) == ("finished", "One.", 1)
        assert len(session.workers["small"].requests) == 1


async def test_a_part_of_the_answer_that_may_fail_does_not_sink_the_rest() -> None:
    broken = StubWorker(local("other"), fail_with(WorkerError("It broke.")))
    for optional in (True, False):
        two = step("other", "Two.", optional=optional)
        plan = Plan((step("small", "One."), two), (1, 2))
        async with open_orchestra(StubWorker(local(), answer_with("first")), broken) as session:
            view = await session.execute(plan, limits=PromptLimits(alone=True))
        assert view.steps[1].status == "failed"
        assert (view.status, view.answer) == ("finished" if optional else "failed", "first")


# When the time is up


@pytest.mark.parametrize("begun", ["", "Better"])
async def test_at_its_deadline_a_whole_draft_is_better_than_what_was_begun(begun: str) -> None:
    class ReplacingStrategy:
        async def first(self, context: StrategyContext) -> Proposal:
            return Proposal(Plan((step("small", "Draft."),), (1,)), final=False)

        async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
            if len(outcome.plan.steps) > 1:
                return None
            return Proposal(Plan((*outcome.plan.steps, step("small", "Again.")), (2,)))

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if "Draft." in request_text(request):
            yield Text("A whole draft.")
            return
        if begun:
            yield Text(begun)
        await asyncio.sleep(60)

    strategy = ReplacingStrategy()
    async with open_orchestra(StubWorker(local(), respond), strategy=strategy) as session:
        view = await session.execute(None, limits=PromptLimits(deadline=0.5))
        assert (view.status, view.answer, view.deadline) == ("finished", "A whole draft.", 0.5)
        assert await session.answer() == ("A whole draft.", TurnStatus.CUT)
