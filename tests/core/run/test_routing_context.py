"""A router that sends everything to remote workers, or makes no sense: what must hold all the same.

Random runs with it are in test_random_plans.py and test_private_labels.py.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from baton.core import events as ev
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Finish, Request, Text, Usage
from baton.core.money import NANO, Price, Rates
from baton.core.permissions import PromptLimits
from baton.core.routing_types import Estimate
from baton.core.run.routing_context import sound_estimate
from support.adversarial_router import Adversary
from support.scripted_plans import (
    OrchestraSession,
    Responder,
    StubWorker,
    answer_with,
    cloud,
    local,
    open_orchestra,
)

WAYS = ("hybrid", "route", "knn", "smoothie", "cascade", "")
SUM = "How many apples are 3 and 4 apples?"
DEAR = Price(Rates(NANO, 2 * NANO, NANO, NANO))
SOLO = PromptLimits(attended=False)


def writes(text: str, tokens: int) -> Responder:
    async def respond(request: Request):  # type: ignore[no-untyped-def]
        yield Text(text)
        yield Usage(10, min(tokens, request.max_tokens or tokens), Finish.STOP)

    return respond


def send(session: OrchestraSession) -> list[ev.Sent]:
    return [event for event in session.events if isinstance(event, ev.Sent)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("closed", ["label", "mode", "offline", "never"])
async def test_a_greedy_router_sends_nothing_that_may_not_leave(way: str, closed: str) -> None:
    terms: dict[str, Any] = {"policy": Policy.NEVER if closed == "never" else Policy.BUDGET}
    terms |= {"mode": "local"} if closed == "mode" else {"offline": closed == "offline"}
    limits = replace(SOLO, strategy=way, label=Label.LOCAL if closed == "label" else Label.CLOUD)
    far = StubWorker(cloud(), answer_with("8"))
    here_too = StubWorker(local("other"), answer_with("9"))
    async with open_orchestra(
        StubWorker(local(), answer_with("7")), here_too, far, **terms
    ) as session:
        session.orchestra.configure(router=Adversary(Random(1), greedy=True))
        view = await session.execute(None, SUM, limits)
        assert view.status == "finished"
        assert far.requests == []
        assert send(session) == []
        assert (await session.spent(), await session.held()) == (0, 0)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ceiling", [0, 1, 2_000_000, 5_000_000])
async def test_a_greedy_router_never_passes_the_ceiling(way: str, ceiling: int) -> None:
    far = StubWorker(cloud(price=DEAR), writes("8", 700))
    near = StubWorker(local(), answer_with("7"))
    async with open_orchestra(near, far, ceiling=ceiling, policy=Policy.BUDGET) as session:
        session.orchestra.configure(router=Adversary(Random(1), greedy=True))
        for _ in range(6):
            view = await session.execute(None, SUM, replace(SOLO, strategy=way))
            assert view.status == "finished"
            assert sum(isinstance(event, ev.TERMINAL) for event in session.events) == 1
            assert await session.spent() <= ceiling
            assert await session.held() == 0
        assert ceiling or far.requests == []


async def test_a_user_who_is_asked_first_may_still_keep_it_here() -> None:
    far = StubWorker(cloud(), answer_with("8"))
    async with open_orchestra(StubWorker(local(), answer_with("7")), far, choice="keep") as session:
        session.orchestra.configure(router=Adversary(Random(1), greedy=True))
        view = await session.execute(None, SUM, PromptLimits(strategy="hybrid"))
        assert (view.status, view.answer, far.requests) == ("finished", "7", [])
        assert session.person.asked


async def test_figures_that_are_none_leave_it_to_the_rule() -> None:
    answers = set()
    for seed in range(60):
        workers = (
            StubWorker(local(), answer_with("It is 7.")),
            StubWorker(local("other"), answer_with("It is 7.")),
        )
        async with open_orchestra(
            *workers, StubWorker(cloud(), answer_with("8")), policy=Policy.BUDGET
        ) as session:
            wild = Adversary(Random(seed))
            session.orchestra.configure(router=wild)
            view = await session.execute(None, SUM, replace(SOLO, strategy="hybrid"))
            assert view.status == "finished"
            answers.add(view.answer)
            for event in session.events:
                if isinstance(event, ev.Weighed):
                    assert -1 <= event.gain <= 1
    assert answers == {"It is 7.", "8"}


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["quality", "gain", "nearby", "novelty"])
def test_an_estimate_that_is_not_a_number_is_left_out(odd: float, where: str) -> None:
    roster = (local(), cloud())
    fine = Estimate({"chat": 1.0}, {"small": 0.4}, {"small": 0.0}, {"small": 0.4}, 100, 0.1)
    assert sound_estimate(fine, roster) == fine
    spoiled: dict[str, Any] = {where: odd if where == "novelty" else {"small": odd}}
    assert sound_estimate(replace(fine, **spoiled), roster) is None


async def test_the_second_look_sees_who_wrote_what_and_how_it_ended() -> None:
    """The drafts reach the router with the worker that wrote each, its confidence and its cut."""

    async def sure(request: Request):  # type: ignore[no-untyped-def]
        yield Text("It is 7.")
        yield Usage(10, 4, Finish.STOP, confidence=-0.25, least=-0.75, first=-0.5)

    async def cut(request: Request):  # type: ignore[no-untyped-def]
        yield Text("It is perhaps")
        yield Usage(10, 4, Finish.LENGTH)

    class RecordingRouter(Adversary):
        async def judge(self, material, route, roster, drafts):  # type: ignore[no-untyped-def]
            self.shown = list(drafts)
            return await super().judge(material, route, roster, drafts)

    workers = (
        StubWorker(local(), sure),
        StubWorker(local("other"), cut),
        StubWorker(cloud(), answer_with("8")),
    )
    async with open_orchestra(*workers, policy=Policy.BUDGET, ceiling=1000 * NANO) as session:
        for seed in range(40):
            wild = RecordingRouter(Random(seed))
            session.orchestra.configure(router=wild)
            await session.execute(None, SUM, replace(SOLO, strategy="hybrid"))
            if wild.judge_calls and [draft.worker for draft in wild.shown] == ["small", "other"]:
                break
        first, second = wild.shown
        assert (first.least, first.first) == (-0.75, -0.5)
        assert (second.least, second.first) == (None, None)
        assert (first.worker, first.answer, first.confidence, first.cut) == (
            "small",
            "7",
            -0.25,
            False,
        )
        assert (second.worker, second.answer, second.confidence, second.cut) == (
            "other",
            "",
            None,
            True,
        )
