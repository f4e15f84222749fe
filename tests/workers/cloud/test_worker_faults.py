"""Every fault at every provider: the ledger never knows less than the provider's bill.

Real gateway child, real gate, real ledger; the providers are the kit's cloud, which bills.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.errors import (
    BudgetExceeded,
    ContextTooLong,
    SecretMissing,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.ledger_types import Scope, Status
from baton.core.messages import Finish, Message, Request, Role
from baton.core.money import Rates, Tier
from baton.platform.secrets import PROVIDERS
from baton.workers.cloud import Gateway
from baton.workers.cloud.gateway import CallTimeouts
from support.cloud_answer import tokens_of
from support.cloud_faults import FREE, HARMLESS, UNCOUNTED
from support.fake_cloud import Bill, Cloud, CloudBehaviour, Fault, ReceivedRequest, Reply
from support.metered_calls import (
    KEYS,
    MODELS,
    PRICE,
    PRICES,
    ROOM,
    FinishedCall,
    GatewayNetwork,
    MeteredGateway,
    asked_fault,
    gateway_of,
)
from support.secret_search import parts_of

AT_ONCE = 6
REPLY = Reply(reasoning=3, cached=5, written=2)
PIECES = tokens_of(REPLY)
HALF = "".join(PIECES[: len(PIECES) // 2])
WHOLE = "".join(PIECES)

FREEZING = (Fault.ABOVE_CAP,)
SLOW = (Fault.SLOW_START, Fault.STALL)
FLOODING = (Fault.ENDLESS,)
APART = {*FREEZING, *FLOODING}
"""Faults that others would suffer from, so that they have tests of their own."""

KEPT = {
    Fault.ERROR_IN_STREAM: HALF,
    Fault.ECHO_IN_STREAM: HALF,
    Fault.CUT_MIDWAY: HALF,
    Fault.CUT_POLITELY: HALF,
    Fault.CUT_BEFORE_LAST: "".join(PIECES[:-1]),
    Fault.CUT_BEFORE_END: WHOLE,
    Fault.CUT_BEFORE_MARKER: WHOLE,
    **dict.fromkeys(UNCOUNTED, WHOLE),
}
"""How much text must have come through: all that the provider wrote."""

Pair = tuple[str, Fault | None]


def pairs(kinds: Sequence[str], faults: Sequence[Fault | None], each: int) -> list[Pair]:
    """Return every fault with so many of the providers, which take turns."""
    turns = itertools.cycle(kinds)
    return [(next(turns), fault) for fault in faults for _ in range(each)]


async def make(metered: MeteredGateway, wanted: Iterable[Pair]) -> list[FinishedCall]:
    """Make these calls, some at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(kind: str, fault: Fault | None) -> FinishedCall:
        async with gate:
            return await metered.call(kind, fault)

    return await asyncio.gather(*(one(*pair) for pair in wanted))


def run_of(received: ReceivedRequest) -> bytes:
    """Return the run that a request was made for."""
    return received.body.split(b"question of ")[1].split(b":")[0]


def bills_by_run(cloud: Cloud) -> dict[str, list[Bill]]:
    """Return the bills of each run."""
    found: dict[str, list[Bill]] = {}
    bills = {bill.number: bill for bill in cloud.bills}
    for received in cloud.calls:
        found.setdefault(run_of(received).decode(), []).append(bills[received.number])
    return found


def wrong(done: FinishedCall, bills: Sequence[Bill]) -> list[str]:
    """Return what is wrong about a call, in a few words each."""
    charge, fault = done.charge, done.fault
    if charge is None or len(bills) != 1 or len(done.sent) != 1 or len(done.egress) != 1:
        return [f"{len(bills)} posts, {len(done.sent)} sent, {len(done.egress)} in the log"]
    owed = bills[0].nanos
    whole = fault is None or fault in HARMLESS or fault in SLOW
    said = str(done.error)
    found = [
        (charge.charged < owed, f"charged {charge.charged}, billed {owed}"),
        (charge.status is not status_of(fault), f"{charge.status}"),
        (whole and charge.charged != owed, f"charged {charge.charged} instead of {owed}"),
        (not whole and not _is_bounded(done), f"charged {charge.charged}, held {charge.held}"),
        ((done.error is None) != (whole or fault in UNCOUNTED), f"error: {done.error}"),
        (not isinstance(done.error, WorkerError | SecretMissing | None), "an odd error"),
        (not WHOLE.startswith(done.text), f"said {done.text!r}"),
        (whole and done.text != WHOLE, f"said only {done.text!r}"),
        (fault in KEPT and done.text != KEPT[fault], f"kept only {done.text!r}"),
        (any(parts_of(key[-16:]) & parts_of(said) for key in KEYS.values()), "shows the key"),
    ]
    return [why for is_wrong, why in found if is_wrong]


def status_of(fault: Fault | None) -> Status:
    """Return how a call with that fault stands in the ledger."""
    if fault is None or fault in HARMLESS or fault in SLOW:
        return Status.SETTLED
    return Status.VOID if fault in FREE else Status.UNCONFIRMED


def _is_bounded(done: FinishedCall) -> bool:
    """Return whether a call that isn't settled is charged as it must be: nothing, or at most."""
    assert done.charge is not None
    charged, held = done.charge.charged, done.charge.held
    if done.fault is Fault.NO_USAGE:
        return 0 < charged <= held
    return charged == (0 if done.charge.status is Status.VOID else held)


async def check(
    gateway: Gateway, home: Path, wanted: Sequence[Pair], manner: CloudBehaviour
) -> None:
    cloud = Cloud(prices=PRICES, reply=REPLY, choose=asked_fault, manner=manner)
    async with cloud, MeteredGateway(cloud, home, gateway=gateway) as metered:
        dones = await make(metered, wanted)
        await metered.quiet()
        assert cloud.posts == len(wanted)
        assert not cloud.trapped
        bills = bills_by_run(cloud)
        problems = {
            f"{done.kind}, {done.fault}": why
            for done in dones
            if (why := wrong(done, bills.get(done.run, [])))
        }
        assert not problems
        (day,) = [room for room in (await metered.ledger.standing(ROOM)).rooms if room.ceiling]
        assert cloud.billed <= day.used
        assert not day.held


async def test_no_fault_is_settled_below_its_bill(gateway: Gateway, tmp_path: Path) -> None:
    faults = [None, *(fault for fault in Fault if fault not in APART)]
    wanted = pairs(list(MODELS), faults, 2)
    wanted.append(("gemini", Fault.CUT_BEFORE_MARKER))  # it has none but the connection's end
    await check(gateway, tmp_path, wanted, CloudBehaviour(pause=0.3))


@pytest.mark.long
@pytest.mark.parametrize("whole_cap", [False, True])
@pytest.mark.parametrize("kind", MODELS)
async def test_no_fault_at_any_provider_is_settled_below_its_bill(
    gateway: Gateway, tmp_path: Path, kind: str, whole_cap: bool
) -> None:
    faults = [None, *(fault for fault in Fault if fault not in APART)]
    await check(
        gateway, tmp_path, pairs([kind], faults, 3), CloudBehaviour(pause=0.3, whole_cap=whole_cap)
    )


@pytest.mark.parametrize("kind", ["openai", "xai"])
async def test_an_answer_without_a_count_is_charged_by_our_own_bound(
    gateway: Gateway, tmp_path: Path, kind: str
) -> None:
    """A token has a byte at least; a model that thinks may have written all that its cap allows."""
    cloud = Cloud(prices=PRICES, choose=asked_fault)
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway) as metered:
        done = await metered.call(kind, Fault.NO_USAGE, cap=2000)
        await metered.quiet()
        (day,) = [room for room in (await metered.ledger.standing(ROOM)).rooms if room.ceiling]
    assert (done.error, done.text) == (None, WHOLE)
    assert done.charge is not None
    assert done.charge.status is Status.UNCONFIRMED
    assert cloud.billed <= done.charge.charged == day.unconfirmed
    written = len(WHOLE.encode()) + 32 if kind == "openai" else 2000
    assert done.charge.tokens_out == written
    assert done.charge.held - done.charge.charged == (2000 - written) * 4000


async def test_how_an_answer_ended_is_kept(gateway: Gateway, tmp_path: Path) -> None:
    ends = {None: Finish.STOP, Fault.FILTERED: Finish.FILTER, Fault.CALLS_TOOL: Finish.TOOL}
    cloud = Cloud(prices=PRICES, reply=REPLY, choose=asked_fault)
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway) as metered:
        dones = await make(metered, itertools.product(MODELS, ends))
        await metered.quiet()
    found = {
        (done.kind, done.fault): done.tally.usage.finish
        for done in dones
        if done.tally is not None and done.tally.usage is not None
    }
    assert found == {(kind, fault): ends[fault] for kind in MODELS for fault in ends}
    assert all(done.charge and done.charge.status is Status.SETTLED for done in dones)


async def test_more_than_was_held_is_all_recorded_and_freezes_the_cloud(
    gateway: Gateway, tmp_path: Path
) -> None:
    cloud = Cloud(prices=PRICES, reply=REPLY, choose=asked_fault)
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway) as metered:
        for kind in MODELS:
            above = await metered.call(kind, Fault.ABOVE_CAP)
            posts = cloud.posts
            after = await metered.call(kind)
            await metered.quiet()
            assert above.charge is not None
            assert above.charge.status is Status.SETTLED
            assert above.charge.charged == cloud.bills[-1].nanos > above.charge.held
            assert isinstance(after.error, BudgetExceeded)
            assert cloud.posts == posts
            assert await metered.ledger.lift_freeze()
    assert cloud.posts == len(MODELS)


TIERED = replace(PRICE, tiers=(Tier(100, Rates(2 * 10**9, 6 * 10**9, 10**9, 3 * 10**9)),))


async def test_the_dearest_way_to_count_fits_what_was_held(
    gateway: Gateway, tmp_path: Path
) -> None:
    # A token for each byte, a price that doubles above 100 of them, all of the prompt put into the
    # cache, an answer up to its cap: nothing dearer can be billed.
    reply = Reply(tokens=500, bytes_per_token=1, overhead=30, written=10**6)
    cloud = Cloud(prices={"": TIERED}, reply=reply, choose=asked_fault)
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway, price=TIERED) as metered:
        dones = await make(
            metered, pairs(list(MODELS), [None, Fault.CUT_BEFORE_MARKER], len(MODELS))
        )
        await metered.quiet()
        assert (await metered.ledger.standing(ROOM)).frozen == ""
    bills = bills_by_run(cloud)
    for done in dones:
        assert done.charge is not None
        (bill,) = bills[done.run]
        assert bill.tokens_out == 300
        assert bill.nanos <= done.charge.charged <= done.charge.held
        if done.fault is None:
            assert done.charge.charged == bill.nanos


async def test_many_at_once_stay_below_the_ceiling(gateway: Gateway, tmp_path: Path) -> None:
    room = {Scope.DAY: 3 * 10**7}
    reply, manner = Reply(tokens=400), CloudBehaviour(whole_cap=True)
    cloud = Cloud(prices=PRICES, reply=reply, choose=asked_fault, manner=manner)
    faults = [None, Fault.CUT_MIDWAY, Fault.CUT_BEFORE_FIRST, Fault.NO_USAGE]
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway, room=room) as metered:
        wanted = pairs(list(MODELS), faults, 10)
        dones = await asyncio.gather(*(metered.call(*pair) for pair in wanted))
        await metered.quiet()
        (day,) = [r for r in (await metered.ledger.standing(room)).rooms if r.scope is Scope.DAY]
    assert cloud.billed <= day.used <= room[Scope.DAY]
    refused = [done for done in dones if isinstance(done.error, BudgetExceeded)]
    assert refused
    assert len(dones) - len(refused) == cloud.posts >= 5
    for done in refused:
        assert not done.sent
        assert not done.egress


async def test_an_answer_past_its_cap_is_cut_and_freezes_the_cloud(
    gateway: Gateway, tmp_path: Path
) -> None:
    cloud = Cloud(prices=PRICES, choose=asked_fault)
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway) as metered:
        for kind in MODELS:
            past = await metered.call(kind, Fault.ENDLESS)
            posts = cloud.posts
            after = await metered.call(kind)
            await metered.quiet()
            assert (past.error, past.text[: len(WHOLE)]) == (None, WHOLE)
            assert past.tally is not None
            assert past.tally.usage is not None
            assert past.tally.usage.finish is Finish.LENGTH
            assert past.charge is not None
            assert past.charge.status is Status.UNCONFIRMED
            assert past.charge.charged == past.tally.cost > past.charge.held
            assert past.charge.tokens_out > 300
            assert isinstance(after.error, BudgetExceeded)
            assert cloud.posts == posts
            assert await metered.ledger.lift_freeze()


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    "kinds", [["server"], pytest.param(list(MODELS), marks=pytest.mark.long)], ids=["one", "all"]
)
async def test_who_stops_answering_is_given_up(tmp_path: Path, kinds: Sequence[str]) -> None:
    cloud = Cloud(prices=PRICES, choose=asked_fault)
    patience = CallTimeouts(connect=10, first=4, first_of_slow=4, stall=3)
    gateway = gateway_of(tmp_path, patience)
    async with (
        aclosing(gateway),
        cloud,
        MeteredGateway(cloud, tmp_path, gateway=gateway) as metered,
    ):
        for kind in kinds:
            assert (await metered.call(kind)).error is None  # the library is loaded
        wanted = pairs(kinds, SLOW, len(kinds))
        dones = await make(metered, wanted)
        await metered.quiet()
    bills = bills_by_run(cloud)
    assert len(dones) == len(SLOW) * len(kinds)
    for done in dones:
        assert isinstance(done.error, WorkerUnavailable)
        assert done.charge is not None
        assert done.charge.status is Status.UNCONFIRMED
        (bill,) = bills[done.run]
        assert done.charge.charged >= bill.nanos > 0
        assert done.text == (HALF if done.fault is Fault.STALL else "")


async def test_only_who_may_think_may_be_silent_for_long(tmp_path: Path) -> None:
    cloud = Cloud(prices=PRICES, choose=asked_fault, manner=CloudBehaviour(pause=1))
    patience = CallTimeouts(connect=10, first=30, first_of_slow=60, stall=0.3)
    gateway = gateway_of(tmp_path, patience)
    async with (
        aclosing(gateway),
        cloud,
        MeteredGateway(cloud, tmp_path, gateway=gateway) as metered,
    ):
        worker = metered.workers["openai"]
        texts = []
        for thinking in (0, 3000):
            worker.card = replace(worker.card, thinking=thinking)
            texts.append((await metered.call("openai", Fault.STALL)).text)
    assert texts == [HALF, WHOLE]


@pytest.mark.parametrize("whole_cap", [False, True])
async def test_who_stops_listening_pays_at_least_the_bill(
    gateway: Gateway, tmp_path: Path, whole_cap: bool
) -> None:
    manner = CloudBehaviour(whole_cap=whole_cap)
    cloud = Cloud(prices=PRICES, reply=Reply(tokens=5000, rate=200), manner=manner)
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway) as metered:
        kinds = list(MODELS)
        dones = await asyncio.gather(*(metered.call(kind, after=2) for kind in kinds))
        await metered.quiet()
    bills = bills_by_run(cloud)
    for done in dones:
        assert done.charge is not None
        assert done.charge.status is Status.UNCONFIRMED
        (bill,) = bills[done.run]
        assert done.charge.charged >= bill.nanos > 0
    assert cloud.posts == len(MODELS)


@pytest.mark.sampled(0.5)
async def test_a_call_that_is_stopped_before_it_began_harms_no_other(tmp_path: Path) -> None:
    cloud = Cloud(prices=PRICES, reply=Reply(tokens=40, rate=20))
    async with cloud, MeteredGateway(cloud, tmp_path) as metered:
        first = asyncio.create_task(metered.call("server"))  # the gateway begins to start
        request = Request((Message(Role.USER, "Never mind."),), max_tokens=300)
        second = asyncio.create_task(anext(metered.workers["server"].stream(request)))
        await asyncio.sleep(0.02)  # asked, but not yet heard
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        done = await first
    assert done.error is None
    assert cloud.posts == 1


async def test_refusals_are_distinguished(gateway: Gateway, tmp_path: Path) -> None:
    cloud = Cloud(prices=PRICES, choose=asked_fault)
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway) as metered:
        wanted = [(kind, fault) for fault in (Fault.ECHO_KEY, Fault.TOO_LONG) for kind in MODELS]
        wanted += [(kind, Fault.RATE_LIMITED) for kind in ("server", "gemini")]
        dones = await make(metered, wanted)
    kinds = {
        Fault.ECHO_KEY: SecretMissing,
        Fault.TOO_LONG: ContextTooLong,
        Fault.RATE_LIMITED: WorkerUnavailable,
    }
    for done in dones:
        assert done.fault is not None
        assert isinstance(done.error, kinds[done.fault])
        assert "canary" not in str(done.error)
        assert ("7 seconds" in str(done.error)) == (done.fault is Fault.RATE_LIMITED)


ODD = [
    "é",
    "🙂",
    '"',
    "\\",
    "\n",
    "\t",
    "\x00",
    "\x7f",
    "\u2028",
    "\ud800",
    "</s>",
    "fault",
    "日本",
]


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.long)])
async def test_the_log_of_what_left_is_what_arrived(
    gateway: Gateway, tmp_path: Path, count: int
) -> None:
    dice = random.Random(count)
    bad = [Fault.CUT_MIDWAY, Fault.SERVER_ERROR, Fault.UNAUTHORISED, Fault.REDIRECT]
    faults = [None, None, *bad]
    cloud = Cloud(prices=PRICES, choose=asked_fault)
    gate = asyncio.Semaphore(AT_ONCE)
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway) as metered:

        async def one() -> FinishedCall:
            text = "".join(dice.choice([*ODD, "words "]) for _ in range(dice.randint(0, 200)))
            async with gate:
                return await metered.call(
                    dice.choice(list(MODELS)),
                    dice.choice(faults),
                    cap=dice.randint(1, 500),
                    after=dice.choice([None, None, None, 1]),
                    text=text,
                )

        dones = await asyncio.gather(*(one() for _ in range(count)))
        await metered.quiet()
        logged = [row async for row in metered.ledger.every_egress()]
    arrived = {run_of(received).decode(): received for received in cloud.calls}
    assert len(arrived) == cloud.posts == len(logged) == count
    for row in logged:
        received = arrived[row.run]
        assert row.body == received.body
        assert row.size == len(received.body)
        assert f"http://{row.destination}" == cloud.url
        assert all(key.encode() not in row.body for key in KEYS.values())
    asked = {done.run: done.kind for done in dones}
    for run, received in arrived.items():
        provider = asked[run].replace("responses", "openai")
        assert received.provider == provider
        variable = PROVIDERS[provider].variable if provider in PROVIDERS else "LAB_API_KEY"
        assert received.key == KEYS[variable]


COUNTED_IN_OTHER_FIELDS = {
    "groq": "groq/llama-3.1-8b-instant",
    "huggingface": "huggingface/novita/deepseek-ai/DeepSeek-V3.1",
    "openrouter": "openrouter/meta-llama/llama-2-70b-chat",
    "mistral": "mistral/command-r-plus",
}
"""Models whose tokens litellm would count with files that it fetches, or whose name at another."""


async def test_the_gateway_reaches_nothing_but_the_provider(
    gateway: Gateway, network: GatewayNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, model in COUNTED_IN_OTHER_FIELDS.items():
        monkeypatch.setitem(MODELS, kind, model)
    cloud = Cloud(prices=PRICES)
    async with cloud, MeteredGateway(cloud, tmp_path, gateway=gateway) as metered:
        dones = await make(metered, [(kind, None) for kind in MODELS])
        assert [done.error for done in dones] == [None] * len(MODELS)
        assert network.hostile.received == []
    reached = network.connections
    assert sum(str(cloud.port) in line for line in reached) >= 1
    assert [line for line in reached if "127.0.0.1" not in line] == []
