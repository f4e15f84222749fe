"""The gate in front of a worker: what it lets through, and what becomes of the money held there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from baton.core.errors import ConfigError, WorkerUnavailable
from baton.core.labels import Label
from baton.core.ledger_types import Hold, HoldRequest, Scope, Status
from baton.core.messages import (
    Card,
    Chunk,
    Declined,
    Message,
    Request,
    RequestSent,
    Retrying,
    Role,
    Text,
)
from baton.core.money import NANO, BilledTokens
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.core.run.policy import PromptLimits, RunTerms
from baton.money import Ledger
from baton.workers.scripted_worker import ScriptedWorker
from support.scripted_plans import StubWorker, cloud, local

REQUEST = Request((Message(Role.USER, "Hello"),), label=Label.CLOUD)


class SlowLedger(Ledger):
    """A ledger whose disk takes as long over one kind of write as the test wants."""

    slow = ""

    def __init__(self) -> None:
        super().__init__(None)
        self.writing, self.go = asyncio.Event(), asyncio.Event()

    async def hold_in_turn(self, bill: HoldRequest, ticket: int = 0) -> Hold | int:
        await self._wait("hold")
        return await super().hold_in_turn(bill, ticket)

    async def settle(self, call: str, used: BilledTokens) -> int:
        await self._wait("settle")
        return await super().settle(call, used)

    async def leave(self, call: str, most: BilledTokens | None = None) -> int:
        await self._wait("leave")
        return await super().leave(call, most)

    async def _wait(self, kind: str) -> None:
        if kind == self.slow:
            self.writing.set()
            await self.go.wait()


@pytest.fixture
async def ledger() -> AsyncIterator[SlowLedger]:
    opened = SlowLedger()
    yield opened
    await opened.aclose()


def gate(
    ledger: Ledger, card: Card | None = None
) -> tuple[StubWorker, MeteredWorker, list[CallUsage]]:
    """Return a paid worker, the gate in front of it, and what the gate reports."""
    worker, usages = StubWorker(card or cloud()), list[CallUsage]()

    async def record(tally: CallUsage) -> None:
        usages.append(tally)

    purse = RunBudget(ledger, None, RunTerms({Scope.DAY: NANO}, patience=30.0), PromptLimits())
    return worker, MeteredWorker(worker, purse, record), usages


@pytest.mark.parametrize("label", [Label.LOCAL, Label.LAN])
async def test_nothing_stricter_than_a_worker_may_see_passes_the_gate(
    ledger: SlowLedger, label: Label
) -> None:
    """The gate is the last to look, for every caller."""
    worker, metered, usages = gate(ledger)
    with pytest.raises(ConfigError):
        await anext(metered.stream(replace(REQUEST, label=label)))
    assert (worker.requests, usages, await ledger.charges()) == ([], [], [])


@pytest.mark.parametrize(("model", "billed"), [("openai/far-1", "openai/far-1"), ("", "far")])
async def test_a_charge_names_the_model_that_the_bill_will_name(
    ledger: SlowLedger, model: str, billed: str
) -> None:
    _, metered, usages = gate(ledger, replace(cloud(), model=model))
    assert [chunk async for chunk in metered.stream(REQUEST)]
    assert usages[0].first_token is not None
    assert 0 <= usages[0].first_token <= usages[0].seconds
    [charge] = await ledger.charges()
    assert (charge.model, charge.worker, charge.status) == (billed, "far", Status.SETTLED)


@pytest.mark.parametrize(
    ("slow", "status"),
    [("hold", Status.VOID), ("settle", Status.SETTLED), ("leave", Status.UNCONFIRMED)],
)
async def test_a_cancelled_call_leaves_no_money_held(
    ledger: SlowLedger, slow: str, status: Status
) -> None:
    """Cancelled, twice, while the ledger writes: the write and what must follow it still come."""
    ledger.slow = slow
    _, metered, usages = gate(ledger)

    async def call() -> None:
        stream = metered.stream(REQUEST)
        async for chunk in stream:
            if slow == "leave" and isinstance(chunk, Text):
                await stream.aclose()

    calling = asyncio.create_task(call())
    async with asyncio.timeout(60):
        await ledger.writing.wait()
    for _ in range(2):
        calling.cancel()
        await asyncio.sleep(0)
    ledger.go.set()
    with pytest.raises(asyncio.CancelledError):
        await calling
    [charge] = await ledger.charges()
    assert charge.status is status
    assert [tally.cost for tally in usages] == ([] if slow == "hold" else [charge.charged])


@pytest.mark.parametrize(
    ("last", "status"),
    [(RequestSent("10.0.0.3:8000", 9), Status.UNCONFIRMED), (Declined(), Status.VOID)],
)
async def test_that_a_first_address_declined_says_nothing_of_the_next(
    ledger: SlowLedger, last: Chunk, status: Status
) -> None:
    first = RequestSent("10.0.0.2:8000", 9), Declined(unsent=True), Retrying("It is down.", 0.0)
    script = [*first, RequestSent("10.0.0.3:8000", 9), last, WorkerUnavailable("Cut.")]
    worker = ScriptedWorker(lambda _: script, cloud())
    usages: list[CallUsage] = []

    async def record(tally: CallUsage) -> None:
        usages.append(tally)

    purse = RunBudget(ledger, None, RunTerms({Scope.DAY: NANO}), PromptLimits())
    with pytest.raises(WorkerUnavailable):
        async for _ in MeteredWorker(worker, purse, record).stream(REQUEST):
            pass
    [charge] = await ledger.charges()
    assert charge.status is status
    assert charge.charged == (charge.held if status is Status.UNCONFIRMED else 0)


async def test_a_call_that_was_prepared_for_another_worker_does_not_pass_the_gate(
    ledger: SlowLedger,
) -> None:
    """Else what was prepared for a local worker would leave without money being held."""
    worker, metered, usages = gate(ledger)
    budget = RunBudget(ledger, None, RunTerms({Scope.DAY: NANO}), PromptLimits())
    call = await budget.prepare(local(), REQUEST)
    assert call.bill is None
    with pytest.raises(ValueError, match="was handed to 'far'"):
        await anext(metered.stream(call))
    assert (worker.requests, usages, await ledger.charges()) == ([], [], [])
