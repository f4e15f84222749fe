"""What a plan may spend and send, and what a user is asked about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Literal

import pytest

from baton.core import events as ev
from baton.core.errors import ContextTooLong
from baton.core.labels import Label
from baton.core.ledger_types import Hold, HoldRequest, Policy, Scope
from baton.core.messages import Chunk, Purpose, Request, Text
from baton.core.money import FREE, NANO
from baton.core.permissions import ANYTHING, PromptLimits
from baton.core.plan_types import Plan, direct_step, single_step_plan
from baton.core.ports import ConversationPosition, Question
from baton.core.run import step_executor as parts
from baton.core.strategies._steps import Delegation
from baton.core.view import RunView, activity_text
from support.scripted_plans import (
    DOWN,
    PATIENCE,
    PRICE,
    OrchestraSession,
    Person,
    StubWorker,
    answer_with,
    cloud,
    fail_with,
    local,
    open_orchestra,
    request_text,
    side_by_side,
    statuses,
    step,
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "RETRY_SECONDS", 0.0)


CLOUD_FIRST = Plan((step("far", "One."), step("small", "Two.", "1")), (2,))


@pytest.mark.parametrize(
    ("ceiling", "decision"), [(NANO, ev.Decision.KEPT), (1000, ev.Decision.CEILING)]
)
async def test_a_step_that_may_not_be_paid_for_is_done_here(
    ceiling: int, decision: ev.Decision
) -> None:
    async with open_orchestra(StubWorker(local()), StubWorker(cloud()), ceiling=ceiling) as session:
        view = await session.execute(CLOUD_FIRST)
        assert (view.status, view.answer) == ("finished", "Two.")
        assert view.steps[0].worker == "small"
        assert [offer.decision for offer in view.offers] == [decision]
        assert (session.workers["far"].requests, await session.spent()) == ([], 0)


@pytest.mark.parametrize(
    ("ceiling", "decision"), [(NANO, ev.Decision.KEPT), (1000, ev.Decision.CEILING)]
)
async def test_an_optional_one_is_left_out_with_what_it_would_have_cost(
    ceiling: int, decision: ev.Decision
) -> None:
    plan = Plan((step("far", "One.", optional=True), step("small", "Two.", "1")), (2,))
    async with open_orchestra(StubWorker(local()), StubWorker(cloud()), ceiling=ceiling) as session:
        view = await session.execute(plan)
        assert (view.status, statuses(view)) == ("finished", ["skipped", "done"])
        assert view.offers[0].decision is decision
        assert view.steps[0].most == view.offers[0].most > 1000
        assert view.steps[0].why
        assert (session.workers["far"].requests, await session.spent()) == ([], 0)


async def test_where_a_paid_worker_is_not_to_be_asked_no_other_is_offered() -> None:
    paid = StubWorker(cloud()), StubWorker(cloud("further"))
    async with open_orchestra(StubWorker(local(), fail_with(DOWN)), *paid) as session:
        view = await session.execute(single_step_plan("small"))
        assert (view.status, len(session.person.asked)) == ("failed", 1)
        assert [offer.decision for offer in view.offers] == [ev.Decision.KEPT]
        assert [worker.requests for worker in paid] == [[], []]


async def test_a_plan_of_one_remote_step_is_done_here_where_the_user_keeps_it() -> None:
    """Only who asked for that very worker takes the prompt back with it."""
    async with open_orchestra(StubWorker(local()), StubWorker(cloud())) as session:
        view = await session.execute(single_step_plan("far"))
        assert (view.status, view.steps[0].worker) == ("finished", "small")
        assert view.offers[0].why == "Step 1 of the plan is for it: chat."
        session.orchestra.configure(default="far")
        view = await session.execute(single_step_plan("far"))
        assert (view.status, view.offers[0].why) == ("cancelled", "You asked for it.")
        assert session.workers["far"].requests == []


async def test_who_is_asked_before_anybody_is_offered_for_what_sends_the_prompt_there() -> None:
    strategy = Delegation("far", "Questions like this go wrong here.")
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), strategy=strategy
    ) as session:
        view = await session.execute(None)
        assert view.offers[0].why == "Questions like this go wrong here."
        assert session.person.asked[-1].choices[0].label == "Answer here"
        assert (view.status, view.revisions) == ("finished", ("Small answers.",))
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), strategy=strategy, choice="edit"
    ) as session:
        view = await session.execute(None)
        assert (view.is_withdrawn, session.workers["small"].requests) == (True, [])


async def test_not_sending_is_called_what_it_is() -> None:
    """Where a local worker does it instead, and only there, the choice says so."""

    async def called(session: OrchestraSession, limits: PromptLimits = ANYTHING) -> tuple[str, str]:
        view = await session.execute(CLOUD_FIRST, limits=limits)
        return session.person.asked[-1].choices[0].label, view.status

    async with open_orchestra(StubWorker(local()), StubWorker(cloud())) as session:
        assert await called(session) == ("Do it here", "finished")
        assert await called(session, PromptLimits(alone=True)) == ("Don't send", "cancelled")
        session.orchestra.configure(default="far")
        assert await called(session) == ("Don't send", "failed")
    async with open_orchestra(StubWorker(cloud()), StubWorker(cloud("further"))) as session:
        label, status = await called(session)
        assert (label, status) == ("Don't send", "failed")


async def test_an_offer_to_stand_in_for_a_worker_that_is_down_says_so() -> None:
    async with open_orchestra(
        StubWorker(local(), fail_with(DOWN)), StubWorker(cloud()), choice="once"
    ) as session:
        view = await session.execute(single_step_plan("small"))
        assert (view.status, view.offers[0].why) == ("finished", "It would stand in for small.")


async def test_leave_for_the_conversation_holds_for_the_next_step_and_the_next_prompt() -> None:
    plan = Plan((step("far", "One."), step("far", "Two.", "1"), step("far", "Three.", "2")), (3,))
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), choice=["conversation", "keep"]
    ) as session:
        view = await session.execute(plan)
        assert (len(session.person.asked), len(session.workers["far"].requests)) == (1, 3)
        assert [offer.decision for offer in view.offers] == [ev.Decision.SENT] * 3
        assert view.started is not None
        await session.execute(plan, place=ConversationPosition(view.started.conversation))
        assert (len(session.person.asked), len(session.workers["far"].requests)) == (1, 6)


async def test_sending_once_is_for_one_step_only() -> None:
    plan = Plan((step("far", "One."), step("far", "Two.", "1")), (2,))
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), choice=["once", "keep"]
    ) as session:
        view = await session.execute(plan)
        assert (len(session.person.asked), len(session.workers["far"].requests)) == (2, 1)
        assert [s.worker for s in view.steps] == ["far", "small"]


async def test_steps_side_by_side_are_offered_one_after_the_other() -> None:
    """The user's first choice is known before the second card is made."""
    async with open_orchestra(
        StubWorker(local(slots=4)), StubWorker(cloud()), choice=["conversation", "keep"]
    ) as session:
        view = await session.execute(side_by_side(4, "far"))
        assert len(session.person.asked) == 1
        assert len(view.sent) == 4


async def test_who_wants_to_edit_takes_the_prompt_back() -> None:
    async with open_orchestra(
        StubWorker(local(slots=4)), StubWorker(cloud()), choice="edit"
    ) as session:
        view = await session.execute(side_by_side(4, "far"))
        assert (view.status, view.is_withdrawn) == ("cancelled", True)
        assert (len(session.person.asked), session.workers["far"].requests) == (1, [])


@pytest.mark.parametrize("choice", ["keep", "once"])
async def test_steps_side_by_side_share_what_is_left(choice: str) -> None:
    """Four steps whose answers might each take everything that is left get a part of it."""
    ceiling = 40_000_000
    running = asyncio.Barrier(4)
    holds: list[int] = []

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        await running.wait()
        standing = await session.ledger.standing(session.orchestra.terms.ceilings)
        holds.append(next(r.held for r in standing.rooms if r.scope is Scope.DAY))
        assert request.max_tokens is not None
        assert request.max_tokens >= 256
        yield Text("x")
        await running.wait()

    far = replace(cloud(), max_output=20_000)
    policy = Policy.BUDGET if choice == "keep" else Policy.ASK
    async with open_orchestra(
        StubWorker(local()), StubWorker(far, respond), choice=choice, ceiling=ceiling, policy=policy
    ) as session:
        view = await session.execute(side_by_side(4, "far"))
        assert view.status == "finished"
        assert len(view.sent) == 4
        assert 0 < max(holds) <= ceiling
        assert max(call.held for call in view.calls) < ceiling // 2
        assert await session.held() == 0


async def test_the_last_of_steps_side_by_side_may_have_all_that_is_left() -> None:
    """A step that holds its money waits no more, so it is none of those that share the rest."""
    both = asyncio.Barrier(2)
    ceiling = 8_000_000

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        yield Text("x")
        await both.wait()

    far = replace(cloud(), max_output=10**6)
    async with open_orchestra(
        StubWorker(far, respond), ceiling=ceiling, policy=Policy.BUDGET
    ) as session:
        view = await session.execute(side_by_side(2, "far"))
        first, second = (call.held for call in view.calls)
        assert first + second == pytest.approx(ceiling, rel=0.01)
        assert min(first, second) == pytest.approx(ceiling / 2, rel=0.01)


async def test_a_step_that_is_done_here_after_all_leaves_its_share_to_the_others() -> None:
    """What a user kept here holds no money, so the next one is offered all that is left."""
    far = replace(cloud(), max_output=10**6)
    async with open_orchestra(
        StubWorker(local()), StubWorker(far), choice=["keep", "once"], ceiling=6_000_000
    ) as session:
        view = await session.execute(side_by_side(2, "far"))
        first, second = view.offers
        assert (first.decision, second.decision) == (ev.Decision.KEPT, ev.Decision.SENT)
        assert second.most > first.most * 1.5


async def test_a_free_remote_worker_is_asked_about_too_unless_the_user_named_it() -> None:
    """A plan's author may not decide that something leaves this machine: the user does."""
    lab = replace(cloud("lab", price=FREE), kind="server", privacy=Label.LAN)
    async with open_orchestra(StubWorker(local()), StubWorker(lab)) as session:
        plan = Plan((step("lab", "One."), step("small", "Two.", "1")), (2,))
        view = await session.execute(plan)
        assert (session.workers["lab"].requests, len(session.person.asked)) == ([], 1)
        assert view.status == "finished"
        session.workers["small"].respond = fail_with(DOWN)
        await session.execute(side_by_side(2, "small"))  # nor when another one is down
        assert session.workers["lab"].requests == []
        session.orchestra.configure(default="lab")
        asked = len(session.person.asked)
        assert (await session.execute(side_by_side(2, "lab"))).status == "finished"
        assert (len(session.workers["lab"].requests), len(session.person.asked)) == (2, asked)


async def test_two_steps_that_are_too_long_do_not_ask_two_questions_at_once() -> None:
    """A user is asked one thing at a time, and once for all steps that it is about."""

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if "long ago" in request_text(request):
            raise ContextTooLong(5000, 4096)
        yield Text("fits")

    async with open_orchestra(
        StubWorker(local(slots=3), answer_with("ok")), choice="trim"
    ) as session:
        first = await session.execute(single_step_plan("small"), "long ago " * 200)
        assert first.started is not None
        place = ConversationPosition(first.started.conversation)
        await session.execute(single_step_plan("small"), "not so long", place=place)
        session.workers["small"].respond = respond
        votes = Plan((direct_step("small"), direct_step("small"), direct_step("small")), (1,))
        view = await session.execute(votes, "now", place=place)
        assert view.status == "finished"
        assert len(session.person.asked) == 1


async def test_a_question_about_the_conversation_waits_for_one_about_money() -> None:
    class SlowPerson(Person):
        async def __call__(self, question: Question) -> str:
            async with thinking:
                await asyncio.sleep(0.05)  # long enough for the other question to be ready
                return await super().__call__(question)

    class StrictLock(asyncio.Lock):
        async def acquire(self) -> Literal[True]:
            assert not self.locked(), "two questions at once"
            return await super().acquire()

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if "long ago" in request_text(request):
            raise ContextTooLong(5000, 4096)
        yield Text("fits")

    thinking = StrictLock()
    async with open_orchestra(
        StubWorker(local(), answer_with("ok")), StubWorker(cloud())
    ) as session:
        first = await session.execute(single_step_plan("small"), "long ago " * 200)
        assert first.started is not None
        place = ConversationPosition(first.started.conversation)
        await session.execute(single_step_plan("small"), "not so long", place=place)
        session.workers["small"].respond = respond
        session.person = SlowPerson(["keep"])
        view = await session.execute(
            Plan((direct_step("small"), step("far", "Two.")), (2,)), place=place
        )
        assert {question.offer is None for question in session.person.asked} == {True, False}
        assert statuses(view) == ["failed", "done"]


async def held_by_another(session: OrchestraSession) -> Hold:
    """Hold nearly all there is for another run."""
    ceilings = session.orchestra.terms.ceilings
    return await session.ledger.hold(
        HoldRequest("b", "b", "far", "openai", "far", Purpose.ANSWER, PRICE, 1000, 2400, ceilings)
    )


async def test_a_prompt_waits_visibly_for_money_that_another_one_holds() -> None:
    async with open_orchestra(
        StubWorker(cloud()), ceiling=6_000_000, policy=Policy.BUDGET, patience=PATIENCE
    ) as session:
        other = await held_by_another(session)
        seen: list[str] = []
        view = RunView()
        async with asyncio.timeout(PATIENCE), session.begin(None) as run:
            async for event in run:
                view = view.apply(event)
                if isinstance(event, ev.Progress) and event.phase is ev.Phase.QUEUED:
                    seen.append(activity_text(view))
                    assert session.workers["far"].requests == []
                    await session.ledger.void(other.call)
        assert seen == ["waiting for money that other prompts hold"]
        assert view.status == "finished"
        assert len(session.workers["far"].requests) == 1


async def test_who_waits_for_money_can_stop_and_leaves_the_line() -> None:
    async with open_orchestra(
        StubWorker(cloud()), ceiling=6_000_000, policy=Policy.BUDGET, patience=PATIENCE
    ) as session:
        other = await held_by_another(session)
        run = session.begin(None)
        view = await session.watch(run, lambda e: isinstance(e, ev.Progress))
        assert (view.status, session.workers["far"].requests) == ("cancelled", [])
        await session.ledger.void(other.call)
        assert (await session.execute(None)).status == "finished"
        assert await session.held() == 0


async def test_a_shown_plan_counts_the_results_that_a_step_will_read() -> None:
    plan = Plan(
        (
            step("far", "Do it."),
            step("far", "Do it.", "1"),
            step("far", "Do it.", "1", "2"),
            step("small", "Do it.", "3"),
        ),
        (4,),
    )
    async with open_orchestra(StubWorker(local()), StubWorker(cloud())) as session:
        await session.execute(plan, limits=PromptLimits(preview=True))
        prices = session.person.asked[-1].prices
        one, two, three, free = (price.most for price in prices)
        for price in prices[:3]:
            assert price.expected
            assert price.most
            assert price.expected <= price.most
        assert one is not None
        assert two is not None
        assert three is not None
        assert 0 < one < two < three
        assert free == 0
        assert session.workers["far"].requests == []
