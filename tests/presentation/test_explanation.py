"""Why and trace say what happened: 300 random runs are compared with their events."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, Callable

import pytest

from baton.cli.trace import trace_text
from baton.core import events as ev
from baton.core.errors import SecretMissing, WorkerError, WorkerUnavailable
from baton.core.history_types import RunRecord
from baton.core.ledger_types import Policy
from baton.core.messages import Chunk, Declined, Finish, Request, Text, Usage
from baton.core.money import NANO
from baton.core.permissions import PromptLimits
from baton.core.plan_types import Plan
from baton.core.run import step_executor
from baton.core.strategies import STRATEGIES
from baton.core.view import RunView, fold_events
from baton.presentation.explanation import run_reasons
from baton.presentation.plans import step_place
from support.scripted_plans import (
    StubWorker,
    answer_with,
    cloud,
    fail_with,
    local,
    open_orchestra,
    step,
)

RUNS = 300
SEEDS = 10


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_executor, "RETRY_SECONDS", 0.0)


def refused_connection(request: Request) -> AsyncGenerator[Chunk]:
    async def respond() -> AsyncGenerator[Chunk]:
        yield Declined(unsent=True)
        raise WorkerUnavailable("It can't be reached.", "Nothing was sent.")

    return respond()


def charged(request: Request) -> AsyncGenerator[Chunk]:
    async def respond() -> AsyncGenerator[Chunk]:
        yield Text("The answer of the cloud is 42.")
        yield Usage(10, 7, Finish.STOP)

    return respond()


REMOTE_WAYS: dict[str, Callable[[Request], AsyncGenerator[Chunk]]] = {
    "well": charged,
    "no connection": refused_connection,
    "cut": fail_with(WorkerUnavailable("It was cut.", "Try again."), "Half an"),
    "error": fail_with(WorkerError("It refused.", "")),
}
LOCAL_WAYS: dict[str, Callable[[Request], AsyncGenerator[Chunk]]] = {
    "well": answer_with("The answer is 41."),
    "dead": fail_with(WorkerUnavailable("It died.", "Try again.")),
    "refuses": answer_with("I'm sorry, I can't help with that."),
    "empty": answer_with(""),
}


class KeylessWorker(StubWorker):
    """A worker whose key is missing: it fails before anything is announced."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        if request.messages:
            raise SecretMissing("There is no key.", "`baton keys set`.")
        yield Text("")


def random_plan(dice: random.Random) -> Plan:
    names = ["small", "big", "far"]
    steps = [
        step(dice.choice(names), f"Do part {n}.", *(("prompt", str(n - 1)) if n > 1 else ()))
        for n in range(1, dice.randint(2, 4))
    ]
    return Plan(tuple(steps), (len(steps),))


async def play_random(dice: random.Random) -> RunRecord:
    far: StubWorker = StubWorker(cloud(), REMOTE_WAYS[dice.choice([*REMOTE_WAYS, "well"])])
    if dice.random() < 0.15:
        far = KeylessWorker(cloud())
    near = [
        StubWorker(local(name), LOCAL_WAYS[dice.choice([*LOCAL_WAYS, "well"])])
        for name in ("small", "big")
    ]
    order = [*near, far] if dice.random() < 0.7 else [far, *near]
    choices = [dice.choice(["keep", "once", "conversation", "edit"]) for _ in range(4)]
    ceiling = dice.choice([0, NANO // 10**6, 5 * NANO])
    policy = dice.choice(list(Policy))
    async with open_orchestra(*order, choice=choices, ceiling=ceiling, policy=policy) as session:
        session.orchestra.change_terms(
            offline=dice.random() < 0.1, mode=dice.choice(["auto", "auto", "local", "mini"])
        )
        names = [name for name in STRATEGIES if name != "plan"]
        limits = PromptLimits(
            attended=dice.random() < 0.8,
            strategy=dice.choice(["", "", *names]),
            alone=dice.random() < 0.1,
        )
        plan = random_plan(dice) if dice.random() < 0.3 else None
        if plan is not None:
            limits = PromptLimits(attended=limits.attended)
        texts = ["Why is the sky blue?", "How many are 3 and 4?", "Write a poem, then explain it."]
        await session.play(plan, dice.choice(texts), limits)
        return await session.record()


def left(record: RunRecord) -> set[tuple[int, str]]:
    """Return the steps and workers of which something left, read from the events alone."""
    gone: list[tuple[int, str]] = []
    for event in record.events:
        if isinstance(event, ev.Sent):
            gone.append((event.step, event.worker))
        elif isinstance(event, ev.Unsent):
            gone.remove((event.step, event.worker))
    return set(gone)


def writers(record: RunRecord) -> dict[int, str]:
    """Return who wrote each step that was finished, read from the events alone."""
    started: dict[int, str] = {}
    wrote: dict[int, str] = {}
    for event in record.events:
        match event:
            case ev.StepStarted(step=number, worker=worker):
                started[number] = worker
            case ev.StepFinished(step=number) if number in started:
                wrote[number] = started[number]
    return wrote


def check_sentences(record: RunRecord) -> None:
    """Compare all that is said of a run with its events."""
    view = fold_events(record.events)
    lines = run_reasons(record)
    gone = left(record)
    check_route(lines, view, bool(gone))
    check_workers(lines, record, gone)
    for line in lines:
        check_line(line, view, {worker for _, worker in gone})
    for event in record.events:
        if isinstance(event, ev.StepRetried):
            is_failed = view.steps[event.step - 1].status == "failed"
            assert is_failed or any(event.reason in line for line in lines), lines
    for each in view.steps:
        is_away = not step_place(each, view).startswith("local")
        assert is_away == ((each.number, each.worker) in gone), each
    unsent_lines = trace_text(record).count("did not leave")
    assert unsent_lines == sum(isinstance(event, ev.Unsent) for event in record.events)


def check_route(lines: list[str], view: RunView, has_left: bool) -> None:
    """The first sentence says whether anything left."""
    first = lines[0]
    if has_left:
        assert "left this machine" in first or first.startswith("It began"), lines
        assert "stayed" not in first, lines
        assert "Nothing left" not in first, lines
    elif view.routed is not None:
        assert "left this machine" not in first, lines
        assert not first.startswith("It began"), lines
        assert view.routed.where != "cloud" or first.endswith("Nothing left it."), lines


def check_workers(lines: list[str], record: RunRecord, gone: set[tuple[int, str]]) -> None:
    """Who wrote a step is named, with the place where it was done."""
    for number, worker in writers(record).items():
        whose = [line for line in lines if re.match(rf"{worker} \(.*\) (did|answered|began)", line)]
        place = "cloud" if (number, worker) in gone else "local"
        assert any(f"({place}" in line for line in whose), lines


def check_line(line: str, view: RunView, gone: set[str]) -> None:
    """What a sentence says of a worker is what the events say of it."""
    if match := re.match(r"(\w+) \(cloud.*\) (did|answered|began)", line):
        assert match[1] in gone, line
    if match := re.match(r"(\w+) planned", line):
        plans = [c for c in view.calls if c.worker == match[1] and c.step == 0]
        assert any(call.finish or call.tokens_out for call in plans), line
    if match := re.match(r"(\w+) was not asked", line):
        refused = {o.worker for o in view.offers if o.decision is not ev.Decision.SENT}
        assert match[1] in refused, line


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_sentence_agrees_with_the_events(seed: int) -> None:
    dice = random.Random(seed)
    branches: set[str] = set()
    for _ in range(RUNS // SEEDS):
        record = await play_random(dice)
        check_sentences(record)
        branches |= {type(event).__name__ for event in record.events}
        branches |= {e.decision.value for e in record.events if isinstance(e, ev.Offered)}
    assert {"Sent", "StepFinished", "StepFailed"} <= branches
