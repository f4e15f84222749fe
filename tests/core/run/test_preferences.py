"""Whom the user prefers for a kind of task: taken where that may be, and never beyond."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from baton.core.errors import PlanError
from baton.core.events import Routed, Sent
from baton.core.labels import Label
from baton.core.messages import Card, Prompt
from baton.core.money import Price, Rates
from baton.core.permissions import PromptLimits
from baton.core.plan_types import Material, Need, Plan, Step
from baton.core.planning.assignment import assign_workers, without_unfit_workers
from baton.core.ports import Route
from baton.core.routing_types import Estimate
from baton.core.run.rule_router import RuleRouter, routed
from support.scripted_plans import (
    OrchestraSession,
    StubWorker,
    answer_with,
    cloud,
    local,
    open_orchestra,
)

CODE = "Write a Python function that reverses a list."
TALK = "Hello there, how are you?"
SMALL, CODER, FAR = local("small"), local("coder"), cloud("far")
LAN = Card("lan", "server", "Lan", privacy=Label.LAN, remote=True)

# Steps of a plan

KINDS = ("code", "math", "chat")


@st.composite
def rosters(draw: st.DrawFn) -> list[Card]:
    """Local and remote workers; some cost something, some have no price, some hold little."""
    cards = []
    for name in draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True)):
        rate = draw(st.sampled_from([0, 10**9, 10**10]))
        price = draw(st.sampled_from([None, Price(Rates(rate, rate, rate, rate))]))
        far = draw(st.booleans())
        cards.append(
            Card(
                name,
                "cloud" if far else "local",
                name,
                privacy=Label.CLOUD if far else Label.LOCAL,
                price=price if far else Price(Rates(0, 0, 0, 0)),
                context=draw(st.sampled_from([0, 100, 8192])),
                parameters=draw(st.sampled_from([10**8, 8 * 10**9])),
                remote=far,
            )
        )
    return cards


needs = st.builds(Need, st.sampled_from(KINDS), st.integers(1, 5))


@settings(max_examples=40, deadline=None)
@given(
    roster=rosters(),
    needs=st.lists(needs, min_size=1, max_size=4),
    prefer=st.dictionaries(st.sampled_from(KINDS), st.sampled_from("abcdefx")),
    left=st.sampled_from([None, 0, 10**7, 10**8]),
    gain=st.sampled_from([0.0, 0.3]),
)
def test_a_preference_breaks_no_rule(
    roster: list[Card], needs: list[Need], prefer: dict[str, str], left: int | None, gain: float
) -> None:
    plan = Plan(tuple(Step("", "Do it.", ("prompt",), need) for need in needs), (len(needs),))
    try:
        assign_workers(plan, roster, left=left, gain=gain)
    except PlanError:
        with pytest.raises(PlanError):
            assign_workers(plan, roster, left=left, gain=gain, prefer=prefer)
        return
    found = assign_workers(plan, roster, left=left, gain=gain, prefer=prefer)
    # A worker that may not do a step, or costs more than is left, would be taken off it.
    assert without_unfit_workers(found, roster, left=left) == found
    able = {c.id for c in roster if c.price and c.price.is_free and c.context != 100}
    for step in found.steps:
        wanted = prefer.get(step.need.kind)
        assert step.worker == wanted or wanted not in able


def test_a_preferred_worker_that_costs_something_is_weighed_where_money_has_to_last() -> None:
    plan = Plan((Step("", "Do it.", ("prompt",), Need("chat", 1)),), (1,))
    prefer = {"chat": "far"}
    taken = [
        assign_workers(plan, [SMALL, FAR], left=left, gain=gain, prefer=prefer).steps[0].worker
        for left, gain in ((None, 0.0), (10**9, 0.0), (10**9, 0.3), (0, 0.0))
    ]
    assert taken == ["far", "far", "small", "small"]


# A prompt


async def routed_event(
    session: OrchestraSession, text: str, limits: PromptLimits, worker: str | None = None
) -> Routed:
    run = session.orchestra.run(Prompt(text), limits=limits, ask=session.person, worker=worker)
    await session.watch(run)
    return next(event for event in session.events if isinstance(event, Routed))


async def routed_choice(
    prefer: dict[str, str],
    text: str = CODE,
    limits: PromptLimits | None = None,
    worker: str | None = None,
    *cards: Card,
) -> Routed:
    """Return how a prompt was routed among those here, and check that nothing else was called."""
    workers = [
        StubWorker(card, answer_with("Sure.")) for card in (cards or (SMALL, CODER, FAR, LAN))
    ]
    async with open_orchestra(*workers) as session:
        session.orchestra.configure(prefer=prefer)
        event = await routed_event(session, text, limits or PromptLimits(attended=True), worker)
        called = {name for name, worker in session.workers.items() if worker.requests}
        assert called == {event.worker}
        assert not [e for e in session.events if isinstance(e, Sent)]
        return event


async def test_it_answers_prompts_of_that_kind_and_the_route_says_why() -> None:
    event = await routed_choice({"code": "coder"})
    assert event.worker == "coder"
    assert event.why.startswith("Coder is your choice for code.")
    event = await routed_choice({"code": "coder"}, TALK)
    assert event.worker == "small"
    assert "your choice" not in event.why


async def test_whom_the_user_names_comes_before() -> None:
    assert (await routed_choice({"code": "coder"}, worker="small")).worker == "small"
    assert (
        await routed_choice({"code": "coder"}, limits=PromptLimits(alone=True))
    ).worker == "small"


@pytest.mark.parametrize("name", ["nobody", "far", "lan", "small"])
async def test_who_is_not_here_is_not_preferred(name: str) -> None:
    assert (await routed_choice({"code": name})).worker == "small"


async def test_a_private_prompt_may_be_preferred_here_as_well() -> None:
    private = PromptLimits(label=Label.LOCAL, attended=True)
    assert (await routed_choice({"code": "coder"}, limits=private)).worker == "coder"


async def test_one_that_cannot_hold_the_conversation_is_not_preferred() -> None:
    narrow = local("coder", context=512)
    text = f"{CODE}\n{'word ' * 3000}"
    assert (
        await routed_choice({"code": "coder"}, text, None, None, SMALL, narrow)
    ).worker == "small"
    assert (
        await routed_choice({"code": "coder"}, CODE, None, None, SMALL, narrow)
    ).worker == "coder"


async def test_the_router_is_asked_once_and_its_estimate_compares_with_who_answers() -> None:
    class CountingRouter(RuleRouter):
        asked = 0

        async def route(self, material: Material, roster: Sequence[Card]) -> Route:
            self.asked += 1
            quality = {"small": 0.3, "coder": 0.5, "far": 0.9}
            gain = {"small": 0.0, "coder": 0.2, "far": 0.6}
            estimate = Estimate({"code": 1.0}, quality, gain, novelty=0.1)
            return routed(material, roster, estimate)

    router = CountingRouter()
    async with open_orchestra(
        *(StubWorker(card, answer_with("Sure.")) for card in (SMALL, CODER, FAR))
    ) as session:
        session.orchestra.configure(router=router, prefer={"code": "coder"})
        event = await routed_event(session, CODE, PromptLimits(attended=True))
        assert (router.asked, event.worker) == (1, "coder")
        assert event.scores["quality"] == pytest.approx(0.5)
        assert event.scores["gain"] == pytest.approx(0.4)
