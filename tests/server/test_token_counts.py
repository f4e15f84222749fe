"""What an answer says that it used: its own tokens as a client's context, all others as shares."""

from __future__ import annotations

from pathlib import Path

from baton.core.events import Called
from baton.core.ledger_types import Scope
from baton.core.messages import Finish, Purpose
from baton.core.money import NANO
from baton.core.plan_types import Need, Plan, Step
from baton.core.view import RunView
from baton.server.access import Grant
from baton.server.served_run import count_tokens
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import GPT, SMALL, cut_answer, remote_answer, served_baton

CARDS = {"small": SMALL, "gpt": GPT}


async def test_a_draft_that_was_replaced_is_not_context_of_the_client(tmp_path: Path) -> None:
    workers = [ScriptedWorker(cut_answer, SMALL), ScriptedWorker(remote_answer, GPT)]
    async with (
        served_baton(tmp_path, workers, ceilings={Scope.DAY: NANO}) as served,
        served.client(Grant.SPEND) as client,
    ):
        body = {"model": "baton/auto", "messages": [{"role": "user", "content": "Hello there"}]}
        usage = (await client.post("/chat/completions", json=body)).json()["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (40, 5)
    assert (usage["local_tokens"], usage["cloud_tokens"]) == (14, 45)


def call(step: int, purpose: Purpose, read: int, written: int, worker: str = "small") -> Called:
    return Called(step, worker, purpose, read, written, 0, 0, 0, True, 1.0, 0.1, 0.0, Finish.STOP)


def test_planning_and_checking_are_shares_and_nothing_is_above_the_cap() -> None:
    steps = tuple(Step("small", f"Part {n}", (), Need("chat", 1)) for n in range(3))
    calls = (
        call(0, Purpose.PLAN, 900, 25),
        call(1, Purpose.STEP, 10, 3),
        call(2, Purpose.ANSWER, 30, 1, "gpt"),  # broken off, and tried again
        call(2, Purpose.ANSWER, 30, 15),
        call(3, Purpose.ANSWER, 31, 15),
        call(0, Purpose.VERIFY, 500, 1),
    )
    view = RunView(plan=Plan(steps, (2, 3)), calls=calls)
    usage = count_tokens(view, CARDS, 20)
    assert (usage.read, usage.written) == (61, 20)
    assert (usage.local, usage.cloud) == (925 + 13 + 45 + 46 + 501, 31)
    assert count_tokens(view, CARDS).written == 30
    assert count_tokens(RunView(calls=calls[:1]), CARDS).read == 0
