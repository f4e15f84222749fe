"""`baton trace`: what was offered, what left, what it cost, and how to see the bytes."""

from __future__ import annotations

import asyncio
import json

from baton.adapters.ledger import Ledger
from baton.adapters.store import Store
from baton.cli.trace import trace_text
from baton.domain import events as ev
from baton.domain.chat import Finish, Prompt, Purpose
from baton.domain.history import RunRecord
from baton.domain.labels import Label
from baton.domain.money import NANO
from baton.domain.plan import single
from baton.engine.ports import NEW
from baton.settings import find_paths
from cli.calling import Call
from cli.spent import BODY, bill


def told(*events: ev.Event) -> str:
    return trace_text(RunRecord("beef", "c0ffee", "p", "a", "finished", 0.0, events))


def called(cost: int, held: int, confirmed: bool = True) -> ev.Called:
    return ev.Called(
        at=1.0,
        step=1,
        worker="gpt",
        purpose=Purpose.STEP,
        tokens_in=10,
        tokens_out=2,
        cached=0,
        context=0,
        cost=cost,
        confirmed=confirmed,
        seconds=0.5,
        first_token=0.1,
        loading=0.0,
        finish=Finish.STOP if confirmed else None,
        held=held,
        call="abc123",
    )


def test_an_offer_says_what_would_leave_and_what_was_decided() -> None:
    offer = ev.Offered(
        0.1, "gpt", "you chose it", NANO // 100, 1834, "2 mail addresses", ev.Decision.SENT
    )
    assert (
        "offered to gpt (you chose it): 1,834 bytes of text, 2 mail addresses hidden,"
        " at most $0.01; allowed" in told(offer)
    )
    refused = ev.Offered(
        0.1, "gpt", "it was cut", 2 * NANO, 5, "", ev.Decision.CEILING, "The ceiling is used up."
    )
    assert "at most $2.00; not sent (The ceiling is used up.)" in told(refused)
    kept = ev.Offered(0.1, "lab", "it was cut", 0, 5, "", ev.Decision.KEPT)
    assert "free; you kept what there was" in told(kept)


def test_what_was_sent_and_drafted_is_told() -> None:
    text = told(
        ev.Planned(0.0, single("gpt")),
        ev.Sent(0.2, 2, "gpt", "api.openai.com", 1834),
        ev.Drafted(0.3, 1, "x" * 1200),
    )
    assert "step 2 sent 1,834 bytes to api.openai.com" in text
    assert "step 1's text is kept as a draft (1,200 characters)" in text


def test_what_a_call_cost_is_told_and_how_sure_that_is() -> None:
    assert "$0.11 held and $0.01 charged" in told(called(NANO // 100, 11 * NANO // 100))
    cut = told(called(11 * NANO // 100, 11 * NANO // 100, confirmed=False))
    assert "ended early, $0.11 unconfirmed (`baton budget release abc123`)" in cut
    assert "nothing charged" in told(called(0, NANO, confirmed=False))
    local = told(called(0, 0))
    assert "$" not in local
    assert "charged" not in local


def test_what_left_can_be_looked_at(call: Call) -> None:
    async def play() -> str:
        store = Store.open(find_paths().database)
        ledger = Ledger.open(find_paths().ledger)
        begun = await store.begin(Prompt("Hello"), NEW, Label.CLOUD)
        for run in ("another", begun.run):
            held = await ledger.hold(bill(run))
            await ledger.sent(held.call, "api.openai.com", BODY)
            await ledger.leave(held.call)
        await store.append(begun.run, ev.Sent(0.1, 1, "gpt", "api.openai.com", len(BODY)))
        await store.append(begun.run, ev.Cancelled(0.2))
        await ledger.aclose()
        await store.aclose()
        return begun.run

    run = asyncio.run(play())
    shown = call("trace", run).out
    assert f"step 1 sent {len(BODY)} bytes to api.openai.com" in shown
    assert "`baton egress show N` with N = 2" in shown
    assert json.loads(call("trace", run, "--json").out)["egress"] == [2]
    assert json.loads(call("egress", "show", "2", "--json").out)["run_id"] == run
