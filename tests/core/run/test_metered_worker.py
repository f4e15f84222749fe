"""The gate in front of a worker: what it lets through, and what becomes of the money held there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from baton.core.errors import ConfigError, WorkerUnavailable
from baton.core.labels import Label
from baton.core.ledger_types import Hold, HoldRequest, Scope, Status
from baton.core.messages import (
    AnswerFormat,
    Card,
    Chunk,
    Declined,
    Finish,
    Message,
    Request,
    RequestSent,
    Retrying,
    Role,
    Text,
    Usage,
)
from baton.core.money import NANO, BilledTokens
from baton.core.permissions import PromptLimits, RunTerms
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.money import Ledger
from baton.workers.cloud.redaction import Redaction
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


async def far_answer(
    ledger: Ledger, request: Request, *pieces: str
) -> tuple[Request, list[Chunk], list[CallUsage]]:
    """Return what a redacted worker was sent, what came of its answer, and what that used."""
    ending = Usage(10, len(pieces), Finish.STOP)
    worker = ScriptedWorker(lambda _: [*map(Text, pieces), ending], cloud())
    usages = list[CallUsage]()

    async def record(tally: CallUsage) -> None:
        usages.append(tally)

    budget = RunBudget(ledger, Redaction([PLAN]), RunTerms({Scope.DAY: NANO}), PromptLimits())
    metered = MeteredWorker(worker, budget, record)
    chunks = [chunk async for chunk in metered.stream(request)]
    return worker.requests[0], chunks, usages


ANN, BOB = "ann@example.org", "bob@example.org"
WRITE = Message(Role.USER, f"Write to {ANN}.")


@pytest.mark.parametrize(
    ("stop", "sent", "pieces"),
    [
        (ANN, "[mail address 1]", ["Dear [mail addr", "ess 1], hello"]),
        (BOB, "[mail address 2]", ["Dear [mail address 2]", ", hello"]),
        (BOB, "[mail address 2]", ["Dear bob@exam", "ple.org, hello"]),
        ("example", "example", ["Dear example", ".org"]),
        ("ann@", "ann@", ["Dear [mail", " address 1]", " END", "ED"]),
    ],
)
async def test_a_stop_text_is_hidden_where_it_is_sent_and_ends_what_is_shown(
    ledger: SlowLedger, stop: str, sent: str, pieces: list[str]
) -> None:
    """The paid answer ends: what it used is known, and less than all its hold."""
    request = replace(REQUEST, messages=(WRITE,), stop=("NEVER", stop))
    seen, chunks, [tally] = await far_answer(ledger, request, *pieces)
    assert seen.stop == ("NEVER", sent)
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, Text)) == "Dear "
    assert isinstance(chunks[-1], Usage)
    assert chunks[-1].stop == stop
    [charge] = await ledger.charges()
    assert (charge.status, tally.tokens_out) == (Status.SETTLED, len(pieces))
    assert charge.charged < charge.held


PLAN = 'the "blue" plan'
SCHEMA = {
    "type": "object",
    "properties": {ANN: {"description": f"Ask\n{ANN}, or\n“{BOB}” \\ about {PLAN}."}},
    "required": [ANN],
    "maxProperties": 1,
    "password": {"type": "string"},
}


async def test_a_schema_is_redacted_and_stays_json(ledger: SlowLedger) -> None:
    request = replace(REQUEST, messages=(WRITE,), shape=AnswerFormat("", json.dumps(SCHEMA)))
    answer = '{"[mail address 1]": "[mail address 2]: [hidden word 1]"}'
    seen, chunks, _ = await far_answer(ledger, request, answer)
    assert seen.shape is not None
    shown = "".join(chunk.text for chunk in chunks if isinstance(chunk, Text))
    assert json.loads(shown) == {ANN: f"{BOB}: {PLAN}"}
    hidden = json.dumps(SCHEMA)
    for original, name in (
        (ANN, "mail address 1"),
        (BOB, "mail address 2"),
        (PLAN, "hidden word 1"),
    ):
        hidden = hidden.replace(json.dumps(original)[1:-1], f"[{name}]")
    assert json.loads(seen.shape.schema) == json.loads(hidden)


async def test_a_schema_in_which_nothing_is_hidden_is_sent_as_it_is(ledger: SlowLedger) -> None:
    shape = AnswerFormat("", '{ "type":"string" }')
    seen, _, _ = await far_answer(ledger, replace(REQUEST, shape=shape), "x")
    assert seen.shape == shape
