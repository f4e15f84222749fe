"""How long an answer may get, from the router's estimate to the body that a provider receives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from baton.core.ledger_types import Policy
from baton.core.messages import Prompt
from baton.core.permissions import PromptLimits as Allowed, RunTerms
from baton.core.ports import NEW, Question
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.core.view import RunView
from baton.history import Store
from baton.money import Ledger
from baton.routing import LearnedRouter, ScorerLimits
from baton.workers.cloud import CloudWorker, Gateway
from support.fake_cloud import Cloud
from support.metered_calls import PRICES, ROOM, MeteredGateway
from support.received_requests import CAPS
from support.scripted_plans import view_of

PATIENT = ScorerLimits(warm=60, cold=60, idle=60)

CHOICE = "Which enzyme unwinds DNA?\nA. Ligase\nB. Helicase\nC. Primase\nD. Polymerase"
SUM = "Tom has 3 apples and buys 2 more. How many apples does he have?"


class DirectPrompts:
    """Prompts that go straight to a worker of the kit's cloud, by the trained router."""

    def __init__(
        self, cloud: Cloud, metered: MeteredGateway, store: Store, router: LearnedRouter
    ) -> None:
        self.cloud, self._metered, self._store, self._router = cloud, metered, store, router

    async def ask(self, worker: str, text: str) -> RunView:
        services = Services(
            self._metered.workers, self._store, self._metered.ledger, None, self._router
        )
        orchestra = Orchestra(services, worker, RunTerms(ROOM, policy=Policy.BUDGET))
        limits = Allowed(attended=False, alone=True)
        async with orchestra.run(Prompt(text), NEW, limits, _refuse) as run:
            return view_of([event async for event in run])

    def worker(self, name: str) -> CloudWorker:
        return self._metered.workers[name]

    def cap(self) -> int:
        """Return the cap in the newest body."""
        body = self.cloud.calls[-1].json
        body = {**body, **body.get("generationConfig", {})}
        [cap] = [body[name] for name in CAPS if name in body]
        return int(cap)


async def _refuse(_: Question) -> str:
    return "keep"


@pytest.fixture(scope="module")
def router() -> Iterator[LearnedRouter]:
    router = LearnedRouter(limits=PATIENT)
    yield router
    asyncio.run(router.aclose())


@pytest.fixture
async def asking(
    gateway: Gateway, router: LearnedRouter, tmp_path: Path
) -> AsyncIterator[DirectPrompts]:
    store = Store(None)
    with Cloud(prices=PRICES) as cloud:
        async with MeteredGateway(cloud, tmp_path, ledger=Ledger(None), gateway=gateway) as metered:
            yield DirectPrompts(cloud, metered, store, router)
    await store.aclose()


@pytest.mark.sampled(0.34)
async def test_a_body_allows_the_p99_that_the_router_expects(asking: DirectPrompts) -> None:
    for text, worker in product((CHOICE, SUM), ("openai", "mistral", "server")):
        view = await asking.ask(worker, text)
        assert view.status == "finished", view.failure
        assert view.routed is not None
        expected = int(view.routed.scores["tokens_p99"])
        assert 256 < expected < 1000, "else nothing is shown by this"
        [call] = view.calls
        assert call.expected_tokens == expected
        assert asking.cap() >= expected, worker


THOUGHTS = 3000


@pytest.mark.sampled(1)
@pytest.mark.parametrize("worker", ["openai", "responses", "anthropic", "gemini"])
async def test_a_body_has_room_for_thoughts_besides_the_answer(
    asking: DirectPrompts, worker: str
) -> None:
    """Else a call could be paid for that returns nothing: one test for each dialect."""
    talker = asking.worker(worker)
    talker.card = replace(talker.card, thinking=THOUGHTS)
    view = await asking.ask(worker, CHOICE)
    assert view.status == "finished", view.failure
    [call] = view.calls
    assert 256 < call.expected_tokens < 1000
    assert asking.cap() == call.expected_tokens + THOUGHTS
