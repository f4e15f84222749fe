"""The picture of a workflow, at every width and for every shape of a plan."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

from baton.core import events as ev
from baton.core.labels import Label
from baton.core.messages import Card, Finish, Purpose
from baton.core.plan_types import MAX_STEPS, Plan, Step
from baton.core.ports import StepPrice
from baton.core.view import RunView, fold_events
from baton.tui.workflow_picture import (
    number_ranges,
    picture_rows,
    planned_run,
    progress_text,
    timeline_summary,
    total_price_text,
)

GPT = Card("gpt", "cloud", "gpt-5-mini", Label.CLOUD, remote=True)
ROSTER = {
    card.id: card
    for card in (Card("small", "local", "SmolLM2 135M"), Card("large", "local", "Qwen 4B"), GPT)
}
PLAN = Plan(
    (
        Step("small", "Draft three days.", ("prompt",)),
        Step("large", "Find restaurants.", ("prompt",)),
        Step("large", "Check hours.", ("1",)),
        Step("gpt", "Put it into a table.", ("1", "2", "3")),
    ),
    (4,),
)
RUNNING = (
    ev.Planned(PLAN, at=0.1),
    ev.StepStarted(1, "small", at=0.5),
    ev.StepStarted(2, "large", at=0.5),
    ev.StepText(1, "Slow mornings.\nTake the", at=1.0),
    ev.Progress(1, ev.Phase.WRITING, tokens_per_second=31.0, at=1.5),
    ev.StepFinished(2, Finish.STOP, "Ramiro.", at=2.5),
)
RUNNING_LINES = [
    "┬─ 1 draft three days               SmolLM2 135M  ███░░░░░░░  writing 31 tok/s       2.0 s",
    "│  │ │ Take the▌",
    "│  └─ 3 check hours                 Qwen 4B       ░░░░░░░░░░  waits for 1",
    "├─ 2 find restaurants               Qwen 4B       ██████████  done                   2.0 s",
    "└─────── 4 put it into a ta… ←1-3  ▎gpt-5-mini    ░░░░░░░░░░  waits for 1, 3",
]
CALL = ev.Called(
    step=4,
    worker="gpt",
    purpose=Purpose.ANSWER,
    tokens_in=9,
    tokens_out=9,
    cached=0,
    context=0,
    cost=4_000_000,
    confirmed=True,
    seconds=0.1,
    first_token=0.1,
    loading=0,
    finish=Finish.STOP,
    at=8.0,
)
PRICES = [StepPrice(0, 0)] * 3 + [StepPrice(3_000_000, 20_000_000)]


def drawn(run: RunView, width: int, prices: Sequence[StepPrice] = ()) -> list[str]:
    texts = {step.number: step.text for step in run.steps}
    rows = picture_rows(run, ROSTER, width, prices=prices, texts_of=texts)
    return [line for row in rows for line in row.content.plain.split("\n")]


def test_a_running_run_shows_what_each_step_does() -> None:
    run = fold_events(RUNNING)
    assert drawn(run, 90) == RUNNING_LINES
    assert progress_text(run) == "4 steps · 1 running · 1 done · 2.5 s"


def test_bars_stand_where_their_time_was_once_the_run_is_over() -> None:
    run = fold_events(
        (
            *RUNNING,
            ev.StepFinished(1, Finish.LENGTH, "Slow mornings.", at=5.0),
            ev.StepStarted(3, "large", at=5.0),
            ev.StepFailed(3, "WorkerError", "It died.", at=7.5),
            CALL,
            ev.StepSkipped(4, "Only $0.001 is left.", 12_000_000, at=10.0),
            ev.Failed("WorkerError", "It died.", "", at=10.0),
        )
    )
    assert drawn(run, 80) == [
        "┬─ 1 draft three days               SmolLM2 13… ███··· done, cut    4.5 s",
        "│  └─ 3 check hours                 Qwen 4B     ··▒▒·· failed       2.5 s",
        "├─ 2 find restaurants               Qwen 4B     █····· done         2.0 s",
        "└─────── 4 put it into a tab… ←1-3 ▎gpt-5-mini  ······ skipped            $0.004",
    ]
    assert timeline_summary(run, ROSTER, 200).plain == (
        "1 SmolLM2 135M 4.5 s · 2 Qwen 4B 2.0 s · 3 Qwen 4B 2.5 s · 4 ▎gpt-5-mini skipped"
    )


def test_a_plan_before_it_runs_shows_prices() -> None:
    lines = drawn(planned_run(PLAN), 93, PRICES)
    assert lines[0].endswith("at once                           free")
    assert lines[3].endswith("▎gpt-5-mini    ░░░░░░  after 1-3  about $0.003, at most $0.02")
    assert total_price_text(PRICES) == "about $0.003, at most $0.02"
    assert drawn(planned_run(PLAN), 74, PRICES)[3].endswith("after 1-3 at most $0.02")
    assert total_price_text(PRICES[:2]) == "costs nothing"
    assert total_price_text([StepPrice(None, None)]) == "1 step without a price"


def test_a_remote_step_is_marked_also_where_its_worker_has_no_room() -> None:
    run = fold_events(RUNNING)
    for width in range(20, 200):
        marked = [line for line in drawn(run, width) if "▎" in line]
        assert len(marked) == 1
        assert "4 p" in marked[0]


def test_numbers_are_written_shortly() -> None:
    assert number_ranges([3, 1]) == "1, 3"
    assert number_ranges([1, 2]) == "1, 2"
    assert number_ranges([*range(1, 31), 32]) == "1-30, 32"


PIECES = ("Draft ", "日本語", "é", "👩\u200d💻", "\x1b[31m", "\n", "\t", "a" * 70)


def any_run(seed: int) -> RunView:
    """Return a run of any plan, with steps in every state."""
    pick = random.Random(seed)
    count = pick.randint(1, MAX_STEPS)
    words = ["x" + "".join(pick.choices(PIECES, k=pick.randint(0, 6))) for _ in range(count)]
    steps = []
    for number in range(1, count + 1):
        seen = pick.sample(range(1, number), min(number - 1, pick.choice([0, 1, 1, 2, 9])))
        access = (*map(str, sorted(seen)), *pick.choice([(), ("prompt",)]))
        steps.append(Step(pick.choice(["small", "gpt", "gone", ""]), words[number - 1], access))
    events: list[ev.Event] = [ev.Planned(Plan(tuple(steps), (count,)))]
    for number, text in enumerate(words, start=1):
        begins, at = pick.uniform(0, 5000), pick.uniform(0, 5000)
        state = pick.choice(["waiting", "begun", "writing", "done", "kept", "failed", "skipped"])
        if state in ("begun", "writing", "done", "failed"):
            events.append(ev.StepStarted(number, steps[number - 1].worker, at=begins))
        if state == "writing":
            phase = pick.choice(list(ev.Phase))
            events.append(ev.Progress(number, phase, pick.random(), 1e4, at=at))
        if state in ("writing", "begun"):
            events.append(ev.StepText(number, text, at=at))
        if state in ("done", "kept"):
            events.append(ev.StepFinished(number, Finish.STOP, text, at=at))
        if state == "failed":
            events.append(ev.StepFailed(number, "WorkerError", "It died.", at=at))
        if state == "skipped":
            events.append(ev.StepSkipped(number, "No money.", 5, at=at))
    events += pick.choice([[], [ev.Finished(at=9.0)], [ev.Cancelled(at=0.0)]])
    return fold_events(events)


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 200), st.booleans())
def test_no_line_is_too_wide_and_every_step_is_there_once(
    seed: int, width: int, is_planned: bool
) -> None:
    run = any_run(seed)
    prices = [StepPrice(10**7, 10**9)] * len(run.steps) if is_planned else ()
    texts = {step.number: step.text for step in run.steps}
    rows = picture_rows(run, ROSTER, width, prices=prices, texts_of=texts)
    assert sorted(row.number for row in rows) == [step.number for step in run.steps]
    for row in rows:
        lines = row.content.split("\n", allow_blank=True)
        assert all(line.cell_length <= width for line in lines)
        assert all(character >= " " for line in lines for character in line.plain)
        if width >= 40:
            assert re.search(rf"\b{row.number}\b", lines[0].plain)
    assert timeline_summary(run, ROSTER, width).cell_length <= width
