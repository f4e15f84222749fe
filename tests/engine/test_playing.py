"""A plan is played: what runs when, who does it, what is kept, and how it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Literal

import pytest

from baton.domain import events as ev
from baton.domain.chat import Chunk, Prompt, Purpose, Request, Text, TurnStatus
from baton.domain.errors import (
    ConfigError,
    ContextTooLong,
    PlanError,
    WorkerError,
    WorkerUnavailable,
)
from baton.domain.history import RunRecord
from baton.domain.labels import Label
from baton.domain.ledger import Policy, Scope, Status
from baton.domain.money import NANO
from baton.domain.plan import DIRECT, Outcome, Plan, Step, direct, single
from baton.domain.prices import FREE
from baton.domain.view import RunView
from baton.engine import part as parts
from baton.engine.policy import Limits
from baton.engine.ports import Desk, Place, Proposal, Question
from support.acting import (
    Act,
    Actor,
    House,
    Person,
    cloud,
    echoes,
    fails,
    house,
    local,
    says,
    sees,
    view_of,
)

DOWN = WorkerUnavailable("It is down.", "Wait.")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "AGAIN_SECONDS", 0.0)


def step(worker: str, text: str, *access: str, optional: bool = False) -> Step:
    return Step(worker, text, access or ("prompt",), optional=optional)


def side_by_side(count: int, worker: str) -> Plan:
    """Return a plan of so many steps that don't see each other, all of them the answer."""
    steps = tuple(step(worker, f"Part {n}.") for n in range(1, count + 1))
    return Plan(steps, tuple(range(1, count + 1)))


async def record(here: House) -> RunRecord:
    kept = await here.store.last_run()
    assert kept is not None
    return kept


async def answer(here: House) -> tuple[str, TurnStatus]:
    kept = await record(here)
    last = (await here.store.thread(kept.conversation, kept.answer))[-1]
    return last.text, last.status


def statuses(view: RunView) -> list[str]:
    return [step.status for step in view.steps]


# What runs when


async def test_steps_that_need_nothing_of_each_other_run_side_by_side() -> None:
    together = asyncio.Barrier(4)

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        await together.wait()  # nobody passes unless all four are there
        yield Text(request.messages[-1].text.splitlines()[-1])

    async with house(Actor(local(slots=4), act)) as here:
        view = await here.play(side_by_side(4, "small"))
    assert view.status == "finished"
    assert view.answer == "Part 1.\n\nPart 2.\n\nPart 3.\n\nPart 4."


async def test_a_worker_is_never_given_more_at_once_than_its_slots() -> None:
    pairs = asyncio.Barrier(2)

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        await pairs.wait()
        await asyncio.sleep(0)
        yield Text("x")

    async with house(Actor(local(slots=2), act)) as here:
        view = await here.play(side_by_side(6, "small"))
        assert (view.status, here.actors["small"].most_at_once) == ("finished", 2)


async def test_slots_are_shared_by_all_runs() -> None:
    async def act(request: Request) -> AsyncGenerator[Chunk]:
        for _ in range(20):
            await asyncio.sleep(0)
        yield Text("x")

    async def play(here: House) -> str:
        async with here.begin(side_by_side(3, "small")) as run:
            return view_of([event async for event in run]).status

    async with house(Actor(local(slots=1), act)) as here:
        ends = await asyncio.gather(*(play(here) for _ in range(3)))
        assert ends == ["finished"] * 3
        assert len(here.actors["small"].requests) == 9
        assert here.actors["small"].most_at_once == 1


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
    async with house(Actor(local(slots=4))) as here:
        view = await here.play(plan)
        assert view.answer == "Fourth."
        told = [
            (type(e).__name__, e.step)
            for e in here.events
            if isinstance(e, ev.StepStarted | ev.StepFinished)
        ]
        for number, item in enumerate(plan.steps, start=1):
            for seen in item.inputs:
                assert told.index(("StepFinished", seen)) < told.index(("StepStarted", number))
        fourth = sees(here.actors["small"].requests[-1])
        assert "Result 2:\n```\nSecond.\n```" in fourth
        assert "Result 3:\n```\nThird.\n```" in fourth
        assert "First." not in fourth
        assert "The prompt" not in fourth


async def test_purposes_tell_answers_steps_and_checks_apart() -> None:
    plan = Plan(
        (step("small", "Draft."), replace(step("small", "Check.", "1"), check=True),
         step("small", "Write.", "1", "2")),
        (3,),
    )  # fmt: skip
    async with house(Actor(local())) as here:
        await here.play(plan)
        purposes = [request.purpose for request in here.actors["small"].requests]
    assert purposes == [Purpose.STEP, Purpose.VERIFY, Purpose.ANSWER]


async def test_an_answer_of_several_steps_keeps_their_order_whoever_is_first() -> None:
    second_done = asyncio.Event()

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        if "One." in sees(request):
            yield Text("on")
            await second_done.wait()
            yield Text("e")
        else:
            yield Text("two")

    async with house(Actor(local(slots=2), act)) as here:
        seen = [""]
        async with here.begin(Plan((step("small", "One."), step("small", "Two.")), (1, 2))) as run:
            view = RunView()
            async for event in run:
                view = view.apply(event)
                assert view.final.startswith(seen[-1])  # what was printed is never taken back
                seen.append(view.final)
                if isinstance(event, ev.StepFinished) and event.step == 2:
                    assert view.final == "on"
                    second_done.set()
        assert view.answer == view.final == "one\n\ntwo"
        assert await answer(here) == ("one\n\ntwo", TurnStatus.DONE)


# What fails


async def test_a_step_that_fails_leaves_the_rest_out_and_its_error_is_the_runs() -> None:
    plan = Plan(
        (step("small", "One."), step("big", "Two."), step("small", "Three.", "1", "2")), (3,)
    )
    broken = fails(WorkerError("It can't.", "Choose another."), "half")
    async with house(Actor(local(slots=2), broken), Actor(local("big"), broken)) as here:
        view = await here.play(plan)
        assert view.failure is not None
        assert (view.failure.error, view.failure.message, view.failure.hint) == (
            "WorkerError", "It can't.", "Choose another.",
        )  # fmt: skip
        assert statuses(view) == ["failed", "failed", "skipped"]
        assert view.steps[2].why == "Step 1 failed."
        assert (await record(here)).status == "failed"
        assert (await answer(here))[1] is TurnStatus.FAILED


async def test_what_runs_beside_a_step_that_fails_is_kept() -> None:
    failed = asyncio.Event()

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        if "One." in sees(request):
            failed.set()
            raise WorkerError("It can't.")
        await failed.wait()
        yield Text("whole")

    plan = Plan(
        (step("small", "One."), step("small", "Two."), step("small", "Three.", "1", "2")), (3,)
    )
    async with house(Actor(local(slots=2), act)) as here:
        view = await here.play(plan)
        assert statuses(view) == ["failed", "done", "skipped"]
        assert view.steps[1].text == "whole"


async def test_an_optional_step_may_fail_without_those_that_build_on_it() -> None:
    async def act(request: Request) -> AsyncGenerator[Chunk]:
        if "One." in sees(request):
            yield Text("half a text")
            raise WorkerError("It can't.")
        yield Text("fine")

    plan = Plan((step("small", "One.", optional=True), step("small", "Two.", "1", "prompt")), (2,))
    async with house(Actor(local(), act)) as here:
        view = await here.play(plan)
        assert (view.status, view.answer) == ("finished", "fine")
        assert statuses(view) == ["failed", "done"]
        shown = sees(here.actors["small"].requests[-1])
        assert "Result 1:\n```\n(nothing)\n```" in shown
        assert "half a text" not in shown


async def test_a_worker_elsewhere_that_is_down_is_asked_twice_then_another_one() -> None:
    async with house(Actor(local()), Actor(cloud(), fails(DOWN)), policy=Policy.BUDGET) as here:
        view = await here.play(Plan((step("far", "One."), step("small", "Two.", "1")), (2,)))
        assert view.status == "finished"
        assert len(here.actors["far"].requests) == 2
        told = [
            e.worker if isinstance(e, ev.StepStarted) else "again"
            for e in here.events
            if isinstance(e, ev.StepStarted | ev.StepRetried) and e.step == 1
        ]
        assert told == ["far", "again", "far", "again", "small"]
        assert view.steps[0].worker == "small"
        assert view.steps[0].text == "One."
        assert await here.held() == 0


async def test_a_worker_here_that_is_down_gives_way_at_once() -> None:
    """Its supervisor has started it anew several times by then."""
    async with house(Actor(local(), fails(DOWN)), Actor(local("big"))) as here:
        view = await here.play(Plan((step("small", "One."), step("big", "Two.", "1")), (2,)))
        assert (view.status, len(here.actors["small"].requests)) == ("finished", 1)
        assert view.steps[0].worker == "big"


async def test_the_first_error_is_told_when_nobody_is_left() -> None:
    second = fails(WorkerError("The second one's."))
    async with house(
        Actor(local(), fails(WorkerError("The first one's."))), Actor(local("big"), second)
    ) as here:
        view = await here.play(Plan((step("small", "One."), step("small", "Two.", "1")), (2,)))
        assert view.failure is not None
        assert view.failure.message == "The first one's."
        assert len(here.actors["big"].requests) == 1


async def test_what_was_shown_of_the_answer_is_not_taken_back_by_another_worker() -> None:
    broken = fails(DOWN, "Half of it")
    async with house(Actor(local(), broken), Actor(local("big"))) as here:
        view = await here.play(Plan((step("big", "One."), step("small", "Two.", "1")), (2,)))
        assert (view.status, view.answer) == ("failed", "Half of it")
        assert await answer(here) == ("Half of it", TurnStatus.FAILED)
        assert len(here.actors["big"].requests) == 1


async def test_a_step_in_between_begins_anew_with_another_worker() -> None:
    broken = fails(DOWN, "Half of it")
    async with house(Actor(local(), broken), Actor(local("big"))) as here:
        view = await here.play(Plan((step("small", "One."), step("big", "Two.", "1")), (2,)))
        assert view.status == "finished"
        assert view.steps[0].text == "One."
        assert "Half" not in sees(here.actors["big"].requests[-1])


async def test_what_is_too_long_for_one_is_given_to_one_that_holds_more() -> None:
    narrow = fails(ContextTooLong(9000, 4096))
    async with house(
        Actor(local(context=4096), narrow),
        Actor(local("narrower", context=2048), says("never")),
        Actor(local("wide", context=16384)),
    ) as here:
        view = await here.play(Plan((step("small", "One."), step("wide", "Two.", "1")), (2,)))
        assert view.steps[0].worker == "wide"
        assert here.actors["narrower"].requests == []


# Who may be used


@pytest.mark.parametrize("what", ["private", "offline", "no price", "mode", "nobody"])
async def test_a_worker_that_may_not_be_used_is_replaced_and_never_called(what: str) -> None:
    far = cloud(price=None) if what == "no price" else cloud()
    terms = {"offline": {"offline": True}, "mode": {"mode": "local"}}.get(what, {})
    limits = Limits(Label.LOCAL, budget=NANO) if what == "private" else Limits(budget=NANO)
    worker = "nobody" if what == "nobody" else "far"
    plan = Plan((step(worker, "One."), step("small", "Two.", "1")), (2,))
    async with house(Actor(local()), Actor(far), **terms) as here:  # type: ignore[arg-type]
        if what == "nobody":
            here.actors["far"].card = replace(far, price=None)
        view = await here.play(plan, limits=limits)
        assert view.status == "finished"
        assert view.plan is not None
        assert [item.worker for item in view.plan.steps] == ["small", "small"]
        assert here.actors["far"].requests == []
        assert (view.offers, view.sent, here.person.asked) == ((), (), [])


@pytest.mark.parametrize("what", ["private", "offline", "no price", "mode"])
async def test_nor_does_it_stand_in_for_one_that_fails(what: str) -> None:
    far = cloud(price=None) if what == "no price" else cloud()
    terms = {"offline": {"offline": True}, "mode": {"mode": "local"}}.get(what, {})
    limits = Limits(Label.LOCAL, budget=NANO) if what == "private" else Limits(budget=NANO)
    async with house(Actor(local(), fails(DOWN)), Actor(far), **terms) as here:  # type: ignore[arg-type]
        view = await here.play(side_by_side(2, "small"), limits=limits)
        assert view.status == "failed"
        assert (here.actors["far"].requests, view.offers) == ([], ())


async def test_whoever_goes_offline_or_private_later_is_obeyed_by_the_next_run() -> None:
    plan = Plan((step("far", "One."), step("small", "Two.", "1")), (2,))
    async with house(Actor(local()), Actor(cloud()), policy=Policy.BUDGET) as here:
        await here.play(plan)
        assert len(here.actors["far"].requests) == 1
        here.orchestra.go_offline(True)
        await here.play(plan)
        assert len(here.actors["far"].requests) == 1


# Money


CLOUD_FIRST = Plan((step("far", "One."), step("small", "Two.", "1")), (2,))


@pytest.mark.parametrize(
    ("ceiling", "decision"), [(NANO, ev.Decision.KEPT), (1000, ev.Decision.CEILING)]
)
async def test_a_step_that_may_not_be_paid_for_is_done_here(
    ceiling: int, decision: ev.Decision
) -> None:
    async with house(Actor(local()), Actor(cloud()), ceiling=ceiling) as here:
        view = await here.play(CLOUD_FIRST)
        assert (view.status, view.answer) == ("finished", "Two.")
        assert view.steps[0].worker == "small"
        assert [offer.decision for offer in view.offers] == [decision]
        assert (here.actors["far"].requests, await here.spent()) == ([], 0)


@pytest.mark.parametrize(
    ("ceiling", "decision"), [(NANO, ev.Decision.KEPT), (1000, ev.Decision.CEILING)]
)
async def test_an_optional_one_is_left_out_with_what_it_would_have_cost(
    ceiling: int, decision: ev.Decision
) -> None:
    plan = Plan((step("far", "One.", optional=True), step("small", "Two.", "1")), (2,))
    async with house(Actor(local()), Actor(cloud()), ceiling=ceiling) as here:
        view = await here.play(plan)
        assert (view.status, statuses(view)) == ("finished", ["skipped", "done"])
        assert view.offers[0].decision is decision
        assert view.steps[0].most == view.offers[0].most > 1000
        assert view.steps[0].why
        assert (here.actors["far"].requests, await here.spent()) == ([], 0)


async def test_a_plan_of_one_step_elsewhere_is_done_here_where_the_person_keeps_it() -> None:
    """Only who asked for that very worker takes the prompt back with it."""
    async with house(Actor(local()), Actor(cloud())) as here:
        view = await here.play(single("far"))
        assert (view.status, view.steps[0].worker) == ("finished", "small")
        assert view.offers[0].why == "Step 1 of the plan is for it: chat."
        here.orchestra.default = "far"
        view = await here.play(single("far"))
        assert (view.status, view.offers[0].why) == ("cancelled", "You asked for it.")
        assert here.actors["far"].requests == []


async def test_an_offer_to_stand_in_for_a_worker_that_is_down_says_so() -> None:
    async with house(Actor(local(), fails(DOWN)), Actor(cloud()), choice="once") as here:
        view = await here.play(single("small"))
        assert (view.status, view.offers[0].why) == ("finished", "It would stand in for small.")


async def test_leave_for_the_conversation_holds_for_the_next_step_and_the_next_prompt() -> None:
    plan = Plan((step("far", "One."), step("far", "Two.", "1"), step("far", "Three.", "2")), (3,))
    async with house(Actor(local()), Actor(cloud()), choice=["conversation", "keep"]) as here:
        view = await here.play(plan)
        assert (len(here.person.asked), len(here.actors["far"].requests)) == (1, 3)
        assert [offer.decision for offer in view.offers] == [ev.Decision.SENT] * 3
        assert view.started is not None
        await here.play(plan, place=Place(view.started.conversation))
        assert (len(here.person.asked), len(here.actors["far"].requests)) == (1, 6)


async def test_sending_once_is_for_one_step_only() -> None:
    plan = Plan((step("far", "One."), step("far", "Two.", "1")), (2,))
    async with house(Actor(local()), Actor(cloud()), choice=["once", "keep"]) as here:
        view = await here.play(plan)
        assert (len(here.person.asked), len(here.actors["far"].requests)) == (2, 1)
        assert [s.worker for s in view.steps] == ["far", "small"]


async def test_steps_side_by_side_are_offered_one_after_the_other() -> None:
    """The person's first choice is known before the second card is made."""
    async with house(
        Actor(local(slots=4)), Actor(cloud()), choice=["conversation", "keep"]
    ) as here:
        view = await here.play(side_by_side(4, "far"))
        assert len(here.person.asked) == 1
        assert len(view.sent) == 4


async def test_who_wants_to_edit_takes_the_prompt_back() -> None:
    async with house(Actor(local(slots=4)), Actor(cloud()), choice="edit") as here:
        view = await here.play(side_by_side(4, "far"))
        assert (view.status, view.withdrawn) == ("cancelled", True)
        assert (len(here.person.asked), here.actors["far"].requests) == (1, [])


@pytest.mark.parametrize("choice", ["keep", "once"])
async def test_steps_side_by_side_share_what_is_left(choice: str) -> None:
    """Four steps whose answers might each take everything that is left get a part of it."""
    ceiling = 40_000_000
    running = asyncio.Barrier(4)
    holds: list[int] = []

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        await running.wait()
        standing = await here.ledger.standing(here.orchestra.terms.ceilings)
        holds.append(next(r.held for r in standing.rooms if r.scope is Scope.DAY))
        assert request.max_tokens is not None
        assert request.max_tokens >= 256
        yield Text("x")
        await running.wait()

    far = replace(cloud(), max_output=20_000)
    policy = Policy.BUDGET if choice == "keep" else Policy.ASK
    async with house(
        Actor(local()), Actor(far, act), choice=choice, ceiling=ceiling, policy=policy
    ) as here:
        view = await here.play(side_by_side(4, "far"))
        assert view.status == "finished"
        assert len(view.sent) == 4
        assert 0 < max(holds) <= ceiling
        assert max(call.held for call in view.calls) < ceiling // 2
        assert await here.held() == 0


async def test_a_step_that_is_done_here_after_all_leaves_its_share_to_the_others() -> None:
    """What a person kept here holds no money, so the next one is offered all that is left."""
    far = replace(cloud(), max_output=10**6)
    async with house(
        Actor(local()), Actor(far), choice=["keep", "once"], ceiling=NANO // 10
    ) as here:
        view = await here.play(side_by_side(2, "far"))
        first, second = view.offers
        assert (first.decision, second.decision) == (ev.Decision.KEPT, ev.Decision.SENT)
        assert second.most > first.most * 1.5


async def test_a_worker_elsewhere_that_is_free_is_asked_about_too_unless_the_person_named_it() -> (
    None
):
    """A plan's author may not decide that something leaves this machine: the person does."""
    lab = replace(cloud("lab", price=FREE), kind="server", privacy=Label.LAN)
    async with house(Actor(local()), Actor(lab)) as here:
        plan = Plan((step("lab", "One."), step("small", "Two.", "1")), (2,))
        view = await here.play(plan)
        assert (here.actors["lab"].requests, len(here.person.asked)) == ([], 1)
        assert view.status == "finished"
        here.actors["small"].act = fails(DOWN)
        await here.play(side_by_side(2, "small"))  # nor when another one is down
        assert here.actors["lab"].requests == []
        here.orchestra.default = "lab"
        asked = len(here.person.asked)
        assert (await here.play(side_by_side(2, "lab"))).status == "finished"
        assert (len(here.actors["lab"].requests), len(here.person.asked)) == (2, asked)


# Seeing the plan first


@pytest.mark.parametrize(("choice", "calls"), [("go", 2), ("stop", 0), ("edit", 0)])
async def test_a_plan_that_is_shown_first_is_played_only_at_a_word(choice: str, calls: int) -> None:
    plan = Plan((step("small", "One."), step("small", "Two.", "1")), (2,))
    async with house(Actor(local()), choice=choice) as here:
        view = await here.play(plan, limits=Limits(preview=True))
        (question,) = here.person.asked
        assert (question.plan, question.default) == (plan, "stop")
        assert [c.id for c in question.choices] == ["go", "stop", "edit"]
        assert len(here.actors["small"].requests) == calls
        assert view.status == ("finished" if calls else "cancelled")
        assert view.plan == plan
        assert not any(isinstance(e, ev.StepStarted) for e in here.events) or calls


async def test_a_plan_that_was_stopped_can_be_gone_on_with_or_played_edited() -> None:
    plan = Plan((step("small", "One."), step("small", "Two.", "1")), (2,))
    async with house(Actor(local()), choice="stop") as here:
        view = await here.play(plan, limits=Limits(preview=True))
        resumed = await here.watch(here.orchestra.resume(await record(here), ask=here.person))
        assert (resumed.status, resumed.answer, resumed.plan) == ("finished", "Two.", plan)
        assert view.started is not None
        edited = Plan((plan.steps[0], replace(plan.steps[1], subtask="Otherwise.")), (2,))
        place = Place(again=view.started.prompt)
        assert (await here.play(edited, place=place)).answer == "Otherwise."


async def test_nobody_there_means_that_nothing_is_played() -> None:
    async with house(Actor(local())) as here:
        limits = Limits(preview=True, attended=False)
        run = here.orchestra.play(Prompt("x"), limits=limits, plan=side_by_side(2, "small"))
        assert (await here.watch(run)).status == "cancelled"
        assert here.actors["small"].requests == []


async def test_a_given_plan_is_played_with_the_conversation_behind_it() -> None:
    async with house(Actor(local())) as here:
        first = await here.play(single("small"), "Before")
        assert first.started is not None
        view = await here.play(
            Plan((Step("small", DIRECT, ("prompt", "history")),), (1,)),
            "After",
            place=Place(first.started.conversation),
        )
        assert view.routed is not None
        assert view.routed.where == "plan"
        texts = [m.text for m in here.actors["small"].requests[-1].messages][1:]
        assert texts == ["Before", "Before", "After"]


# Going on with what was interrupted

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


def stops_at(word: str) -> Act:
    async def act(request: Request) -> AsyncGenerator[Chunk]:
        if word in sees(request):
            await asyncio.Event().wait()
        async for chunk in echoes(request):
            yield chunk

    return act


async def test_a_run_that_was_stopped_goes_on_where_it_was() -> None:
    async with house(Actor(local(), stops_at("Three."))) as here:
        before = await here.watch(here.begin(FOUR), third_step_begins)
        assert statuses(before)[:2] == ["done", "done"]
        assert before.status == "cancelled"
        small = here.actors["small"]
        small.act, small.requests = echoes, []
        old = await record(here)
        view = await here.watch(here.orchestra.resume(old))
        assert (view.status, view.answer, statuses(view)) == ("finished", "Four.", ["done"] * 4)
        assert len(small.requests) == 2
        assert "Two." in sees(small.requests[0])
        assert "Result 1:\n```\nOne.\n```" in sees(small.requests[1])
        new = await record(here)
        assert (new.prompt, new.conversation) == (old.prompt, old.conversation)
        assert set(await here.store.siblings(new.answer)) == {old.answer, new.answer}
        assert view_of(list(new.events)).steps[0].text == "One."
        again = await here.watch(here.orchestra.resume(old))  # and once more, just the same
        assert (again.status, again.answer) == ("finished", "Four.")


async def test_a_run_that_failed_goes_on_once_its_worker_is_back() -> None:
    async def act(request: Request) -> AsyncGenerator[Chunk]:
        if "Three." in sees(request):
            raise DOWN
        async for chunk in echoes(request):
            yield chunk

    async with house(Actor(local(), act)) as here:
        view = await here.play(FOUR)
        assert statuses(view) == ["done", "done", "failed", "skipped"]
        small = here.actors["small"]
        small.act, small.requests = echoes, []
        resumed = await here.watch(here.orchestra.resume(await record(here)))
        assert (resumed.answer, len(small.requests)) == ("Four.", 2)


async def test_a_run_that_stopped_twice_keeps_what_both_wrote() -> None:
    async with house(Actor(local(), stops_at("Three."))) as here:
        await here.watch(here.begin(FOUR), third_step_begins)
        here.actors["small"].act = stops_at("Four.")
        await here.watch(
            here.orchestra.resume(await record(here)),
            lambda e: isinstance(e, ev.StepStarted) and e.step == 4,
        )
        small = here.actors["small"]
        small.act, small.requests = echoes, []
        view = await here.watch(here.orchestra.resume(await record(here)))
        assert (view.answer, len(small.requests)) == ("Four.", 1)


async def test_a_resumed_private_run_stays_private() -> None:
    plan = Plan((step("far", "One."), step("small", "Two.", "1")), (2,))
    async with house(
        Actor(local(), stops_at("Two.")), Actor(cloud()), policy=Policy.BUDGET
    ) as here:
        limits = Limits(Label.LOCAL, budget=NANO)
        await here.watch(
            here.begin(plan, limits=limits),
            lambda e: isinstance(e, ev.StepStarted) and e.step == 2,
        )
        stopped = await record(here)
        forged: tuple[ev.Event, ...] = tuple(
            e for e in stopped.events if not isinstance(e, ev.StepFinished | ev.Planned)
        )
        forged = (*forged[:2], ev.Planned(0, plan), *forged[2:])
        here.actors["small"].act = echoes
        view = await here.watch(here.orchestra.resume(replace(stopped, events=forged)))
        assert view.status == "finished"
        assert here.actors["far"].requests == []


async def test_what_can_not_be_gone_on_with_says_so() -> None:
    async with house(Actor(local())) as here:
        await here.play(FOUR)
        finished = await record(here)
        with pytest.raises(ConfigError, match="is finished"):
            here.orchestra.resume(finished)
        with pytest.raises(ConfigError, match="still going on"):
            here.orchestra.resume(replace(finished, status="running"))
        empty = replace(finished, status="lost", events=finished.events[:1])
        with pytest.raises(ConfigError, match="never had a plan"):
            here.orchestra.resume(empty)


async def test_a_kept_plan_that_nobody_can_play_any_more_ends_cleanly() -> None:
    """The parts of one plan are never taken for those of another."""
    wide, long = local("wide", context=0), "word " * 3000
    plan = Plan((step("wide", "One."), step("wide", "Two.", "1", "prompt")), (2,))
    async with house(Actor(local(context=1024)), Actor(wide, stops_at("Two."))) as here:
        await here.watch(
            here.begin(plan, long), lambda e: isinstance(e, ev.StepStarted) and e.step == 2
        )
        kept = await record(here)
        store = here.store
        smaller = type(here.orchestra)(
            {"small": Actor(local(context=1024), says("from the small one"))}, store, "small"
        )
        view = await here.watch(smaller.resume(kept))
        assert view.status in ("finished", "failed")
        assert "One." not in view.answer


async def test_what_somebody_wrote_who_is_gone_now_is_kept_all_the_same() -> None:
    plan = Plan((step("wide", "One."), step("wide", "Two.", "1")), (2,))
    async with house(Actor(local(context=1024)), Actor(local("wide"), stops_at("Two."))) as here:
        await here.watch(
            here.begin(plan, "word " * 3000),
            lambda e: isinstance(e, ev.StepStarted) and e.step == 2,
        )
        small = Actor(local(context=1024))
        alone = type(here.orchestra)({"small": small}, here.store, "small")
        view = await here.watch(alone.resume(await record(here)))
        assert (view.status, view.answer, len(small.requests)) == ("finished", "Two.", 1)
        assert [item.worker for item in view.steps] == ["wide", "small"]


async def test_a_resumed_run_may_still_be_grown_by_its_strategy() -> None:
    class Growing:
        async def first(self, desk: Desk) -> Proposal:
            return Proposal(Plan((step("small", "One."),), (1,)), final=False)

        async def next(self, desk: Desk, outcome: Outcome) -> Proposal | None:
            if len(outcome.plan.steps) == 1:
                return Proposal(outcome.plan.grown((step("small", "Two.", "1"),), (2,)))
            return None

    async with house(Actor(local(), stops_at("Two.")), strategy=Growing()) as here:
        await here.watch(here.begin(None), lambda e: isinstance(e, ev.StepStarted) and e.step == 2)
        small = here.actors["small"]
        small.act, small.requests = echoes, []
        view = await here.watch(here.orchestra.resume(await record(here)))
        assert (view.answer, len(small.requests)) == ("Two.", 1)


# Stopping


async def test_stopping_ends_every_step_and_leaves_no_money_on_its_way() -> None:
    running = asyncio.Barrier(5)

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        yield Text("begun")
        await running.wait()
        await asyncio.Event().wait()

    async with house(Actor(local(), act), Actor(cloud(), act), policy=Policy.BUDGET) as here:
        plan = side_by_side(4, "far")
        plan = plan.grown((step("small", "Five."), step("far", "Six.", "1")), (1, 2, 3, 4, 6))
        before = asyncio.all_tasks()
        async with here.begin(plan) as run:
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
        assert [here.actors[name].running for name in ("small", "far")] == [0, 0]
        assert len(here.actors["far"].requests) == 4
        assert await here.held() == 0
        charges = await here.ledger.charges()
        assert Counter(c.status for c in charges) == {Status.UNCONFIRMED: 4}
        assert await answer(here) == ("\n\n".join(["begun"] * 4), TurnStatus.CANCELLED)


async def test_stopping_while_the_person_is_asked_sends_nothing() -> None:
    asked = asyncio.Event()

    class Slow(Person):
        async def __call__(self, question: object) -> str:
            asked.set()
            await asyncio.Event().wait()
            return "once"

    async with house(Actor(local(slots=4)), Actor(cloud())) as here:
        here.person = Slow()
        before = asyncio.all_tasks()
        async with here.begin(side_by_side(3, "far")):
            await asked.wait()
        assert asyncio.all_tasks() == before
        assert (here.actors["far"].requests, await here.held()) == ([], 0)
        assert (await record(here)).status == "cancelled"


async def test_a_bug_in_one_step_stops_the_others_and_reaches_the_consumer() -> None:
    beside = asyncio.Event()

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        if "Part 1." in sees(request):
            await beside.wait()
            raise ZeroDivisionError("a bug")
        beside.set()
        await asyncio.Event().wait()
        yield Text("never")

    async with house(Actor(local(slots=2), act)) as here:
        before = asyncio.all_tasks()
        with pytest.raises(ZeroDivisionError):
            await here.play(side_by_side(2, "small"))
        assert asyncio.all_tasks() == before
        assert here.actors["small"].running == 0


async def test_a_run_that_is_stopped_before_it_began_still_ends() -> None:
    async with house(Actor(local())) as here:
        async with here.begin(FOUR) as run:
            run.cancel()
            events = [event async for event in run]
        assert [type(e) for e in events if isinstance(e, ev.TERMINAL)] == [ev.Cancelled]


# What is kept


async def test_every_finished_steps_text_is_in_the_store_and_tells_the_same_story() -> None:
    async def act(request: Request) -> AsyncGenerator[Chunk]:
        if "Two." in sees(request):
            raise WorkerError("It can't.")
        async for chunk in echoes(request):
            yield chunk

    # The second one's error is told: the person lets another try, which can't do it either.
    plan = Plan(
        (
            step("far", "One."),
            step("small", "Two.", optional=True),
            step("far", "Three.", "1", optional=True),
            step("small", "Four.", "1", "2", "3"),
        ),
        (1, 4),
    )
    async with house(
        Actor(local(slots=2), act), Actor(cloud(), act), choice=["once", "once", "keep"]
    ) as here:
        live = await here.play(plan)
        told = view_of(list((await record(here)).events))
        assert statuses(live) == ["done", "failed", "skipped", "done"]
        assert told.steps == live.steps
        assert told.answer == live.answer == "One.\n\nFour."
        assert (told.status, told.calls, told.offers) == (live.status, live.calls, live.offers)


async def test_two_steps_that_are_too_long_do_not_ask_two_questions_at_once() -> None:
    """A person is asked one thing at a time, and once for all steps that it is about."""

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        if "long ago" in sees(request):
            raise ContextTooLong(5000, 4096)
        yield Text("fits")

    async with house(Actor(local(slots=3), says("ok")), choice="trim") as here:
        first = await here.play(single("small"), "long ago " * 200)
        assert first.started is not None
        place = Place(first.started.conversation)
        await here.play(single("small"), "not so long", place=place)
        here.actors["small"].act = act
        votes = Plan((direct("small"), direct("small"), direct("small")), (1,))
        view = await here.play(votes, "now", place=place)
        assert view.status == "finished"
        assert len(here.person.asked) == 1


async def test_a_question_about_the_conversation_waits_for_one_about_money() -> None:
    class Slow(Person):
        async def __call__(self, question: Question) -> str:
            async with thinking:
                await asyncio.sleep(0.05)  # long enough for the other question to be ready
                return await super().__call__(question)

    class Impatient(asyncio.Lock):
        async def acquire(self) -> Literal[True]:
            assert not self.locked(), "two questions at once"
            return await super().acquire()

    async def act(request: Request) -> AsyncGenerator[Chunk]:
        if "long ago" in sees(request):
            raise ContextTooLong(5000, 4096)
        yield Text("fits")

    thinking = Impatient()
    async with house(Actor(local(), says("ok")), Actor(cloud())) as here:
        first = await here.play(single("small"), "long ago " * 200)
        assert first.started is not None
        place = Place(first.started.conversation)
        await here.play(single("small"), "not so long", place=place)
        here.actors["small"].act = act
        here.person = Slow(["keep"])
        view = await here.play(Plan((direct("small"), step("far", "Two.")), (2,)), place=place)
        assert {question.offer is None for question in here.person.asked} == {True, False}
        assert statuses(view) == ["failed", "done"]


async def test_a_strategy_that_can_draw_no_more_leaves_what_there_is() -> None:
    class Stuck:
        async def first(self, desk: Desk) -> Proposal:
            return Proposal(Plan((step("small", "One."),), (1,)), final=False)

        async def next(self, desk: Desk, outcome: Outcome) -> Proposal | None:
            raise PlanError("There is no other plan.")

    async with house(Actor(local()), strategy=Stuck()) as here:
        view = await here.play(None)
        assert (view.status, view.answer) == ("finished", "One.")


async def test_a_strategy_can_not_change_what_was_played() -> None:
    class Forging:
        async def first(self, desk: Desk) -> Proposal:
            return Proposal(Plan((step("small", "One."),), (1,)), final=False)

        async def next(self, desk: Desk, outcome: Outcome) -> Proposal | None:
            forged = step("small", "Forged.", "prompt", "history")
            return Proposal(Plan((forged, step("small", "Two.", "1")), (2,)))

    async with house(Actor(local()), strategy=Forging()) as here:
        view = await here.play(None)
        assert (view.status, view.answer, len(view.steps)) == ("finished", "One.", 1)
        assert len(here.actors["small"].requests) == 1
