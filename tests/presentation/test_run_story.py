"""The story of a run: each sentence, and 300 random runs that are compared with their events."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import pytest

from baton.cli.trace import trace_text
from baton.core import events as ev
from baton.core.errors import SecretMissing, WorkerError, WorkerUnavailable
from baton.core.history_types import RunRecord
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Card, Chunk, Declined, Finish, Purpose, Request, Text, Usage
from baton.core.money import NANO
from baton.core.permissions import PromptLimits
from baton.core.plan_types import Plan, direct_step, single_step_plan
from baton.core.run import step_executor
from baton.core.strategies import STRATEGIES
from baton.core.view import RunView, fold_events
from baton.presentation.run_story import record_view, run_story, step_place
from support.scripted_plans import (
    StubWorker,
    answer_with,
    cloud,
    fail_with,
    local,
    open_orchestra,
    step,
)
from support.stored_runs import BEGUN, EVENTS, call_event, record

GPT = Card("gpt", "cloud", "GPT", Label.CLOUD, remote=True)
ROSTER = {card.id: card for card in (Card("small", "local", "Small"), GPT)}

RUNS = 300
SEEDS = 10


def reasons_of(record: RunRecord) -> list[str]:
    return [line.text for line in run_story(record_view(record), record.id)]


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


async def execute_random(dice: random.Random) -> RunRecord:
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
        await session.execute(plan, dice.choice(texts), limits)
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
    lines = reasons_of(record)
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


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_sentence_agrees_with_the_events(seed: int) -> None:
    dice = random.Random(seed)
    branches: set[str] = set()
    for _ in range(RUNS // SEEDS):
        record = await execute_random(dice)
        check_sentences(record)
        branches |= {type(event).__name__ for event in record.events}
        branches |= {e.decision.value for e in record.events if isinstance(e, ev.Offered)}
    assert {"Sent", "StepFinished", "StepFailed"} <= branches


def test_a_plan_is_described_in_a_few_lines() -> None:
    assert reasons_of(record(*EVENTS)) == [
        "It went by a plan, parts of which left this machine (strategy conductor):"
        " It asks for three things.",
        "large planned.",
        "small (local) did step 1.",
        "large (local) did step 2.",
        "gpt (cloud (api.openai.com)) did step 3, for $0.002.",
        "small failed at step 2: small crashed.",
        "Step 4, given to large, failed: large died.",
        "Step 2 was checked, sums: wrong (2 + 2 is 4).",
    ]


def test_an_ordinary_answer_is_two_lines() -> None:
    routed = ev.Routed("local", "It is short.", {}, "hybrid")
    done = (routed, ev.Planned(single_step_plan("small")), ev.StepStarted(1, "small", at=0.1))
    assert reasons_of(record(*done, call_event(1, "small", 0.5), ev.Finished(at=0.6))) == [
        "It stayed on this machine (strategy hybrid): It is short.",
        "small (local) answered.",
    ]


def test_the_length_that_bounded_what_was_held_is_shown() -> None:
    call = replace(call_event(3, "gpt", 3.0, NANO // 500, NANO // 100), expected_tokens=1640)
    lines = reasons_of(record(*(call if event == EVENTS[-5] else event for event in EVENTS)))
    line = "gpt (cloud (api.openai.com)) did step 3, for $0.002."
    assert f"{line} Its text was expected to have at most 1,640 tokens." in lines
    free = replace(call_event(1, "small", 1.2), expected_tokens=1640)
    lines = reasons_of(record(*(free if event == BEGUN[7] else event for event in EVENTS)))
    assert "small (local) did step 1." in lines, "nothing is held for it"


RESUME_HINT = "Interrupted after step 2 of 4; `baton resume beef` continues it."


@pytest.mark.parametrize(
    ("events", "status", "reason"),
    [
        (
            (ev.Failed("WorkerError", "small died.", "", at=0.3),),
            "failed",
            "It failed: small died.",
        ),
        ((ev.Cancelled(at=0.3),), "cancelled", RESUME_HINT),
        ((), "lost", RESUME_HINT),
        (
            (
                ev.Offered("gpt", "It was cut.", NANO, 9, "", ev.Decision.NEVER, "No.", 3, at=0.2),
                ev.Finished(at=0.3),
            ),
            "finished",
            "gpt was not asked: no; it could have cost $1.00."
            " The reason to ask it: It was cut. 9 bytes of text.",
        ),
        (
            (ev.StepSkipped(2, "It was too dear.", at=0.2), ev.Finished(at=0.3)),
            "finished",
            "Step 2 was left out: It was too dear.",
        ),
        (
            (ev.Planned(EVENTS[4].plan, why="A sum was wrong.", at=0.2), ev.Finished(at=0.3)),  # type: ignore[union-attr]
            "finished",
            "Then: A sum was wrong.",
        ),
    ],
)
def test_what_went_otherwise_is_shown(
    events: tuple[ev.Event, ...], status: str, reason: str
) -> None:
    assert reason in reasons_of(record(*BEGUN, *events, status=status))


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("cancelled", "It was stopped before it was done."),
        ("lost", "Baton was ended before it was done."),
        ("running", "It is still running."),
    ],
)
def test_one_step_that_was_stopped_is_shown(status: str, reason: str) -> None:
    begun: tuple[ev.Event, ...] = (
        ev.Planned(single_step_plan("small")),
        ev.StepStarted(1, "small", at=0.1),
    )
    ending = (ev.Cancelled(at=0.2),) if status == "cancelled" else ()
    assert reasons_of(record(*begun, *ending, status=status))[-1] == reason


def test_what_was_declined_is_shown_once() -> None:
    offer = ev.Offered("gpt", "It was cut.", 9, 9, "", ev.Decision.KEPT, at=2.2)
    skipped = ev.StepSkipped(3, "gpt was not asked, as you decided.", at=2.3)
    reasons = reasons_of(record(*BEGUN, offer, skipped, ev.Finished(at=3.0)))
    assert [line for line in reasons if "gpt" in line] == [
        "Step 3 was left out: gpt was not asked, as you decided."
    ]


def test_events_that_name_steps_which_are_not_there_are_nothing() -> None:
    imported = record(*BEGUN, ev.StepFinished(99, Finish.STOP, at=1.0), ev.Finished(at=3.0))
    assert reasons_of(imported)


def test_what_help_was_worth_is_shown() -> None:
    why = "Likely 34 % better for $0.004; today you spend on gains above 20 %."
    weighed = ev.Weighed("gpt", 0.34, 0.2, NANO // 250, True, why, at=0.5)
    dear = ev.Weighed("o1", 0.1, 0.2, NANO // 50, False, "It\nis dear.", at=0.6)
    events = (*BEGUN, weighed, dear, ev.Finished(at=3.0))
    reasons = reasons_of(record(*events))
    assert f"gpt is worth asking: {why}" in reasons
    assert "o1 is not asked: It is dear." in reasons


def test_what_cost_money_was_a_cloud_wherever_its_door_is() -> None:
    def place(host: str, held: int) -> str:
        begun = (ev.Planned(single_step_plan("lab")), ev.StepStarted(1, "lab", at=0.1))
        sent = ev.Sent(1, "lab", host, 9, at=0.2)
        return reasons_of(
            record(*begun, sent, call_event(1, "lab", 0.5, 0, held), ev.Finished(at=0.6))
        )[1]

    assert place("127.0.0.1:8000", 0) == "lab (local (127.0.0.1:8000)) answered."
    assert place("10.0.0.9:8000", 0) == "lab (network (10.0.0.9:8000)) answered."
    assert place("127.0.0.1:8000", NANO) == "lab (cloud (127.0.0.1:8000)) answered."


def test_outside_text_stays_on_its_line() -> None:
    routed = ev.Routed("local", "a\nb\x1b[31m", {}, "x\ny")
    reasons = reasons_of(RunRecord("r", "c", "p", "a", "finished", 0.0, (routed,)))
    assert not any("\n" in line or "\x1b" in line for line in reasons)


def test_workers_are_named_as_they_are_known() -> None:
    called = call_event(0, "small", 0.4)
    plan = Plan((direct_step("gpt"),), (1,))
    events: list[ev.Event] = [ev.Planned(plan), called, ev.StepStarted(1, "gpt")]
    lines = [line.text for line in run_story(fold_events(events), "", ROSTER)]
    assert lines[1:3] == ["Small planned.", "GPT (local) began."]


def test_a_tool_that_checked_did_not_plan() -> None:
    checked = replace(call_event(0, "small", 0.4), purpose=Purpose.VERIFY)
    assert "small checked." in reasons_of(record(checked))
