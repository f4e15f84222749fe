"""Runs as the store keeps them, made by hand: for the commands that show them."""

from __future__ import annotations

import asyncio
import sqlite3

from baton.core import events as ev
from baton.core.history_types import RunRecord
from baton.core.labels import Label
from baton.core.messages import Finish, Prompt, Purpose, TurnStatus
from baton.core.money import NANO
from baton.core.plan_types import Need, Plan, Step
from baton.core.ports import NEW
from baton.history import Store
from baton.platform.paths import find_paths

PLAN = Plan(
    (
        Step("small", "List the facts.", ("prompt", "file:a.txt"), Need("extraction", 2)),
        Step("small", "Add the sums.", ("prompt",), Need("math", 4), optional=True),
        Step("gpt", 'Write it "well" <b>&</b>.', ("1", "2"), Need("writing", 3)),
        Step("large", "Look for mistakes.", ("prompt", "3"), Need("reasoning", 3), check=True),
    ),
    (3,),
)


def call_event(step: int, worker: str, at: float, cost: int = 0, held: int = 0) -> ev.Called:
    return ev.Called(
        at=at,
        step=step,
        worker=worker,
        purpose=Purpose.STEP if step else Purpose.PLAN,
        tokens_in=100,
        tokens_out=20,
        cached=0,
        context=4096,
        cost=cost,
        confirmed=True,
        seconds=0.5,
        first_token=0.1,
        loading=0.0,
        finish=Finish.STOP,
        held=held,
        call="c1" if held else "",
    )


BEGUN: tuple[ev.Event, ...] = (
    ev.Started("r", "c", "p", "a"),
    ev.Planning("large", at=0.1),
    call_event(0, "large", 0.6),
    ev.Routed("plan", "It asks for three things.", {"plan": 0.9}, "conductor", at=0.6),
    ev.Planned(PLAN, at=0.7),
    ev.StepStarted(1, "small", at=0.7),
    ev.StepStarted(2, "small", at=0.8),
    call_event(1, "small", 1.2),
    ev.StepFinished(1, Finish.STOP, "Facts: one.", at=1.2),
    ev.StepRetried(2, "small crashed.", 0.0, at=1.3),
    ev.StepStarted(2, "large", at=1.3),
    call_event(2, "large", 2.0),
    ev.StepFinished(2, Finish.LENGTH, "2 + 2 = 5", at=2.0),
)
"""Two of four steps are done; the second one by another worker than was planned."""

REST: tuple[ev.Event, ...] = (
    ev.Checked(2, "sums", ev.Verdict.WRONG, "2 + 2 is 4", at=2.1),
    ev.Offered("gpt", "Step 3 is for it.", NANO // 100, 500, "1 name", ev.Decision.SENT, at=2.2),
    ev.StepStarted(3, "gpt", at=2.3),
    ev.Sent(3, "gpt", "api.openai.com", 900, at=2.4),
    call_event(3, "gpt", 3.0, NANO // 500, NANO // 100),
    ev.StepFinished(3, Finish.STOP, "It is well.", at=3.0),
    ev.StepStarted(4, "large", at=3.1),
    ev.StepFailed(4, "WorkerUnavailable", "large died.", at=3.2),
    ev.Finished(at=3.3),
)

EVENTS = BEGUN + REST


def record(*events: ev.Event, status: str = "finished") -> RunRecord:
    return RunRecord("beef", "c0ffee", "p", "a", status, 1_700_000_000.25, events)


def store_run(*events: ev.Event, prompt: str = "Compare them") -> str:
    """Put a run into the history and return its id; one without a terminal event was lost."""

    async def put() -> str:
        store = Store(find_paths().database)
        begun = await store.begin(Prompt(prompt), NEW, Label.CLOUD)
        for event in events:
            await store.append(begun.run, event)
        last = events[-1]
        ended = {
            ev.Cancelled: TurnStatus.CANCELLED,
            ev.Failed: TurnStatus.FAILED,
            ev.Finished: TurnStatus.DONE,
        }
        if type(last) in ended:
            await store.write(begun.answer, "It is", ended[type(last)], "small")
        await store.aclose()
        return begun.run

    run = asyncio.run(put())
    with sqlite3.connect(find_paths().database) as connection:
        connection.execute(
            "UPDATE runs SET owner = NULL WHERE id = ?", [run]
        )  # no process owns it any more
    connection.close()
    return run
