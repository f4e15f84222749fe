"""Breaks that a review found: whole runs in which something unforeseen went wrong."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from baton.core import events as ev
from baton.core.errors import ContextTooLong, ModelFileError, WorkerError, WorkerUnavailable
from baton.core.events import Verdict
from baton.core.judging.checks import check_text
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import (
    Attachment,
    Card,
    Chunk,
    Finish,
    Prompt,
    Request,
    Text,
    Usage,
    max_input_tokens,
)
from baton.core.money import FREE, NANO
from baton.core.permissions import PromptLimits
from baton.core.planning.plan_schema import PlanSchema
from baton.core.ports import NEW, CallOffer, Question
from baton.core.run import step_executor as parts
from baton.core.run.approval import written_parts
from baton.core.strategies import STRATEGIES
from baton.core.view import RunView
from baton.workers.template_files import read_templates
from baton.workers.tools import build_tools
from baton.workers.tools.computation.written_expression import judge_line
from support.scripted_plans import (
    OrchestraSession,
    Person,
    Responder,
    StubWorker,
    answer_with,
    cloud,
    fail_with,
    local,
    open_orchestra,
    request_text,
    view_of,
)

DOWN = WorkerUnavailable("It is down.", "Wait.")
SUM = "How many apples are 2 apples and 3 apples?"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "RETRY_SECONDS", 0.0)


def at_last(text: str) -> Responder:
    """Hang at the first request, answer each later one."""
    asked = 0

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        yield Text(text)

    return respond


async def resume_run(session: OrchestraSession) -> tuple[RunView, list[str]]:
    """Continue the last run; return how it ended, and each answer that was said to stay."""
    record = await session.store.runs.last()
    assert record is not None
    view, finals = RunView(), [""]
    async with session.orchestra.resume(record, ask=session.person) as run:
        async for event in run:
            view = view.apply(event)
            finals += [view.stable_answer] if view.stable_answer != finals[-1] else []
    return view, finals


# Continuing a run


async def test_a_resumed_run_never_takes_back_what_it_said_would_stay() -> None:
    first, second = (
        StubWorker(local("a"), answer_with("The answer is 5")),
        StubWorker(local("b"), at_last("6")),
    )
    async with open_orchestra(
        first, second, StubWorker(cloud(), answer_with("The answer is 7")), choice="once"
    ) as session:
        run = session.begin(None, SUM, PromptLimits(strategy="cascade"))
        await session.watch(run, until=lambda event: isinstance(event, ev.StepFinished))
        view, finals = await resume_run(session)
    assert (view.status, view.answer) == ("finished", "The answer is 7")
    assert all(view.stable_answer.startswith(text) for text in finals), finals


async def test_a_draft_of_a_resumed_run_is_kept_though_another_answer_came() -> None:
    sorry = StubWorker(local("a"), at_last("I'm sorry, I cannot help with that."))
    async with open_orchestra(
        sorry, StubWorker(cloud(), answer_with("Tea is a drink.")), choice="once"
    ) as session:
        run = session.begin(None, "Tell me of tea")
        await session.watch(run, until=lambda event: isinstance(event, ev.StepStarted))
        view, _ = await resume_run(session)
        record = await session.store.runs.last()
    assert record is not None
    assert (
        [step.text for step in view_of(list(record.events)).steps]
        == [
            "I'm sorry, I cannot help with that.",
            "Tea is a drink.",
        ]
        == [step.text for step in view.steps]
    )


async def test_a_private_run_continues_although_the_default_worker_may_not_see_it() -> None:
    async with open_orchestra(
        StubWorker(cloud()), StubWorker(local("a"), at_last("Hello"))
    ) as session:
        limits = PromptLimits(label=Label.LOCAL)
        run = session.orchestra.run(Prompt("Hi"), NEW, limits, session.person, worker="a")
        await session.watch(run, until=lambda event: isinstance(event, ev.StepStarted))
        view, _ = await resume_run(session)
        assert (view.status, view.answer) == ("finished", "Hello")
        assert not session.workers["far"].requests


@pytest.mark.parametrize("bound", ["alone", "mode"])
async def test_a_resumed_run_stays_within_what_its_person_typed(bound: str) -> None:
    """Also where the settings would let the prompt leave without a question."""
    broken = StubWorker(local("a"), at_last(""))
    far = StubWorker(cloud("far", price=FREE), answer_with("Here it is."))
    async with open_orchestra(far, broken, choice="once", policy=Policy.BUDGET) as session:
        usual = session.orchestra.terms
        if bound == "mode":
            session.orchestra.change_terms(mode="local")
        limits = PromptLimits(alone=bound == "alone", strategy="reflect")
        run = session.orchestra.run(Prompt("Hi"), NEW, limits, session.person, worker="a")
        await session.watch(run, until=lambda event: isinstance(event, ev.StepStarted))
        session.orchestra.change_terms(mode=usual.mode)
        broken.respond = fail_with(WorkerError("It is broken."))
        view, _ = await resume_run(session)
        assert (view.status, far.requests) == ("failed", [])


# Answers that are compared


async def test_no_worker_stands_in_for_one_whose_answer_was_to_be_compared_with_its_own() -> None:
    async with open_orchestra(
        StubWorker(local("a"), answer_with("The answer is 5")),
        StubWorker(local("b"), fail_with(DOWN)),
        StubWorker(local("c"), answer_with("The answer is 9")),
    ) as session:
        view = await session.execute(None, SUM, PromptLimits(strategy="majority"))
        assert [step.status for step in view.steps] == ["done", "failed", "done"]
        assert "agree" not in view.revisions[-1] or "No two" in view.revisions[-1]
        assert len(session.workers["a"].requests) == 1


async def test_no_remote_worker_is_paid_for_a_draft_in_place_of_a_local_worker_that_crashed() -> (
    None
):
    drafts = (
        StubWorker(local("a"), answer_with("The answer is 5")),
        StubWorker(local("b"), fail_with(DOWN)),
    )
    async with open_orchestra(
        *drafts, StubWorker(cloud(), answer_with("The answer is 9")), choice="once"
    ) as session:
        view = await session.execute(None, SUM, PromptLimits(strategy="cascade"))
        assert (view.status, view.answer) == ("finished", "The answer is 5")
        assert not session.person.asked
        assert not view.sent


async def test_what_has_no_result_is_answered_by_the_calculator_and_no_model() -> None:
    mine, far = (
        StubWorker(local("a"), answer_with("That has no value.")),
        StubWorker(cloud(), answer_with("42")),
    )
    calculator = build_tools()["calculator"]
    async with open_orchestra(mine, calculator, far, choice="once") as session:  # type: ignore[arg-type]
        view = await session.execute(None, "What is 1/0?")
        assert [step.worker for step in view.steps] == ["calculator"]
        assert view.answer == "1 ÷ 0 has no result: nothing can be divided by zero."
        assert session.person.asked == []


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
    async def judge(claims: Sequence[str]) -> Sequence[str]:
        return [judge_line(claim) for claim in claims]

    found = await check_text(text, "", None, judge)
    assert all(finding.verdict is not Verdict.WRONG for finding in found), found


# Whatever happens

ACCEPTED = '{"accept":true,"steps":[],"answer":[]}'
DRAWN = (
    '{"steps":[{"kind":"math","difficulty":3,"sees":["prompt"],"uses":[],"worker":1,'
    '"check":false,"task":"Do it."},{"kind":"math","difficulty":5,"sees":["prompt"],"uses":[1],'
    '"worker":2,"check":true,"task":"Check it."}],"answer":[1]}'
)
CORRECTED = (
    '{"accept":false,"steps":[{"kind":"chat","difficulty":1,"sees":[],"uses":[1],"worker":1,'
    '"check":false,"task":"Fix it."}],"answer":[3]}'
)
SORRY = "I'm sorry, I cannot help with that."
TEXTS = ("The answer is 5", SORRY, "", "ACCEPT", "It is wrong.", "2 + 2 = 5", "garbage {{{")
PROMPTS = (
    SUM,
    "Hi",
    "Write a thorough proof that 2 is prime",
    "1. Who is A?\n2. Who is B?\n3. Or C?",
)
WAYS = (*STRATEGIES, "", "draft-verify-revise", "split-merge", "plan-code-test")


def erratic(chance: random.Random, card: Card) -> StubWorker:
    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        for _ in range(chance.randint(0, 3)):
            await asyncio.sleep(0)
        if request.shape is not None and chance.random() < 0.8:
            yield Text(chance.choice((DRAWN, ACCEPTED, CORRECTED, "garbage {{{")))
            return
        fate = chance.random()
        if fate < 0.25:
            raise chance.choice((DOWN, WorkerError("It is broken."), ContextTooLong(100, 50)))
        if text := chance.choice(TEXTS):
            yield Text(text)
        if fate > 0.9:
            raise DOWN
        if fate > 0.75:
            yield Usage(10, 5, Finish.LENGTH)

    return StubWorker(card, respond)


class RandomPerson(Person):
    """Decides by chance, and keeps what was allowed."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.allowed: list[CallOffer] = []

    async def __call__(self, question: Question) -> str:
        await asyncio.sleep(0)
        if question.offer is None:
            return self.chance.choice([choice.id for choice in question.choices])
        choice = self.chance.choice(("once", "once", "once", "keep", "edit"))
        self.allowed += [question.offer] if choice == "once" else []
        return choice

    def check(self, workers: Iterable[StubWorker]) -> None:
        """Find for each request that left an offer of its own, of just that, for that money."""
        for worker in (worker for worker in workers if worker.card.uses_gateway):
            assert worker.card.price is not None
            for request in worker.requests:
                assert request.max_tokens is not None
                sent = worker.card.id, *written_parts(request.messages)
                bound = max_input_tokens(request.messages, request.shape)
                most = worker.card.price.max_cost(bound, request.max_tokens)
                fit = [
                    offer
                    for offer in self.allowed
                    if (offer.card.id, offer.text, offer.instructions) == sent
                    and offer.most >= most
                ]
                offer = min(fit, key=lambda offer: offer.most)  # the same may be offered twice
                self.allowed.remove(offer)
            worker.requests.clear()


def _check_reported(events: list[ev.Event]) -> RunView:
    """Return the end of a run that ended once, and took nothing back that was to stay."""
    view, final = RunView(), ""
    for event in events:
        view = view.apply(event)
        assert not view.stable_answer or view.stable_answer.startswith(final)
        final = view.stable_answer or final
    assert view.status != "finished" or view.answer.startswith(final)
    assert sum(isinstance(event, ev.Finished | ev.Failed | ev.Cancelled) for event in events) == 1
    return view


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(0, 40, 10))
async def test_all_that_leaves_was_offered_just_so_and_nothing_is_taken_back(first: int) -> None:
    for seed in range(first, first + 10):
        await _execute_by_chance(random.Random(seed))


@pytest.mark.long
async def test_all_that_leaves_in_many_runs_was_offered_just_so() -> None:
    for seed in range(40, 2000):
        await _execute_by_chance(random.Random(seed))


async def _execute_by_chance(chance: random.Random) -> None:
    size = 8 * 10**9
    others = [
        replace(local("b"), parameters=size),
        cloud("far", chance.choice((1, 4))),
        cloud("off"),
    ]
    cards = [
        replace(local("a"), parameters=size),
        *(card for card in others if chance.random() < 0.8),
    ]
    chance.shuffle(cards)
    ceiling = NANO // chance.choice((1, 20, 100))
    person = RandomPerson(chance)
    async with open_orchestra(
        *(erratic(chance, card) for card in cards), ceiling=ceiling
    ) as session:
        session.person = person
        session.orchestra.configure(conductor=chance.choice(["", *session.workers]))
        session.orchestra.configure(templates=partial(read_templates, Path("none")))
        limits, last = PromptLimits(strategy=chance.choice(WAYS)), chance.choice((1000, 5, 15, 40))
        run = session.begin(None, chance.choice(PROMPTS), limits)
        view = await session.watch(run, lambda event: len(session.events) == last)
        for again in (True, False):
            person.check(session.workers.values())
            assert _check_reported(session.events) == view
            assert (await session.held(), await session.spent() <= ceiling) == (0, True)
            record = await session.store.runs.last()
            assert record is not None
            kept = (await session.store.thread(record.conversation, record.answer))[-1].text
            assert view.status != "finished" or kept == view.answer
            if again and view.plan is not None and view.status != "finished":
                view = await session.watch(session.orchestra.resume(record, ask=person))


async def test_the_way_out_of_a_failed_plan_may_still_be_helped_so_it_is_not_final() -> None:
    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if request.shape is None and "Do it." in request_text(request):
            raise WorkerError("It is broken.")
        yield Text(DRAWN if request.shape is not None else SORRY)

    card = replace(local("a"), parameters=8 * 10**9)
    far = StubWorker(cloud(price=FREE), answer_with("Here it is."))
    async with open_orchestra(StubWorker(card, respond), far, choice=["keep", "once"]) as session:
        session.orchestra.configure(conductor="a")
        view = await session.execute(
            None, "Prove rigorously that there are infinitely many primes."
        )
    assert _check_reported(session.events).answer == "Here it is." == view.answer
    assert any(step.text == SORRY for step in view.steps)


def test_half_a_character_in_a_plan_becomes_a_whole_one() -> None:
    drawn = DRAWN.replace("Do it.", "Do \\ud800 it.")
    read = PlanSchema(workers=("a", "b")).parse(drawn)
    assert read is not None
    assert read[0][0].subtask == "Do ? it."


# Workers that are gone


async def test_a_vote_whose_worker_is_gone_is_answered_by_another() -> None:
    gone = StubWorker(local("a"), fail_with(ModelFileError("It is gone.", "Pull it.")))
    async with open_orchestra(gone, StubWorker(local("b"), answer_with("Hello"))) as session:
        view = await session.execute(None, limits=PromptLimits(strategy="vote"))
        assert (view.status, view.answer) == ("finished", "Hello")


# Files


async def test_two_files_of_one_name_are_both_seen_by_the_steps_of_a_plan() -> None:
    files = Attachment("report.md", "First year: 10", 14), Attachment("report.md", "Next: 20", 8)
    async with open_orchestra(StubWorker(local("a"), answer_with("Ten more."))) as session:
        prompt = Prompt("Compare these.", files)
        await session.execute(None, limits=PromptLimits(strategy="reflect"), prompt=prompt)
        draft, revision = map(request_text, session.workers["a"].requests)
    for text in ("First year: 10", "Next: 20"):
        assert text in draft
        assert text in revision
