"""`baton why`: who answered, and what made it so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from baton.cli.why import why_object
from baton.core import events as ev
from baton.core.history_types import RunRecord
from baton.core.messages import Finish
from baton.core.money import NANO
from baton.core.plan_types import single_step_plan
from baton.presentation.explanation import run_reasons
from support.command_line import Call
from support.stored_runs import BEGUN, EVENTS, call_event, record, store_run


def test_a_plan_is_described_in_a_few_lines() -> None:
    assert run_reasons(record(*EVENTS)) == [
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
    assert run_reasons(record(*done, call_event(1, "small", 0.5), ev.Finished(at=0.6))) == [
        "It stayed on this machine (strategy hybrid): It is short.",
        "small (local) answered.",
    ]


def test_the_length_that_bounded_what_was_held_is_shown() -> None:
    call = replace(call_event(3, "gpt", 3.0, NANO // 500, NANO // 100), expected_tokens=1640)
    lines = run_reasons(record(*(call if event == EVENTS[-5] else event for event in EVENTS)))
    line = "gpt (cloud (api.openai.com)) did step 3, for $0.002."
    assert f"{line} Its text was expected to have at most 1,640 tokens." in lines
    free = replace(call_event(1, "small", 1.2), expected_tokens=1640)
    lines = run_reasons(record(*(free if event == BEGUN[7] else event for event in EVENTS)))
    assert "small (local) did step 1." in lines, "nothing is held for it"


GOES_ON = "Interrupted after step 2 of 4; `baton resume beef` continues it."


@pytest.mark.parametrize(
    ("events", "status", "reason"),
    [
        (
            (ev.Failed("WorkerError", "small died.", "", at=0.3),),
            "failed",
            "It failed: small died.",
        ),
        ((ev.Cancelled(at=0.3),), "cancelled", GOES_ON),
        ((), "lost", GOES_ON),
        (
            (
                ev.Offered("gpt", "It was cut.", NANO, 9, "", ev.Decision.NEVER, "No.", 3, at=0.2),
                ev.Finished(at=0.3),
            ),
            "finished",
            "gpt was not asked. No. The reason to ask it: It was cut.",
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
    assert reason in run_reasons(record(*BEGUN, *events, status=status))


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("cancelled", "It was stopped before it was done."),
        ("lost", "Baton was ended before it was done."),
        ("running", "It is still running."),
    ],
)
def test_one_step_that_was_stopped_is_shown(status: str, reason: str) -> None:
    begun = (ev.Planned(single_step_plan("small")), ev.StepStarted(1, "small", at=0.1))
    assert run_reasons(record(*begun, status=status))[-1] == reason


def test_what_was_declined_is_shown_once() -> None:
    offer = ev.Offered("gpt", "It was cut.", 9, 9, "", ev.Decision.KEPT, at=2.2)
    skipped = ev.StepSkipped(3, "gpt was not asked, as you decided.", at=2.3)
    reasons = run_reasons(record(*BEGUN, offer, skipped, ev.Finished(at=3.0)))
    assert [line for line in reasons if "gpt" in line] == [
        "Step 3 was left out: gpt was not asked, as you decided."
    ]


def test_events_that_name_steps_which_are_not_there_are_nothing() -> None:
    imported = record(*BEGUN, ev.StepFinished(99, Finish.STOP, at=1.0), ev.Finished(at=3.0))
    assert run_reasons(imported)
    assert why_object(imported)["steps"] == []


def test_what_help_was_worth_is_shown() -> None:
    why = "Likely 34 % better for $0.004; today you spend on gains above 20 %."
    weighed = ev.Weighed("gpt", 0.34, 0.2, NANO // 250, True, why, at=0.5)
    dear = ev.Weighed("o1", 0.1, 0.2, NANO // 50, False, "It\nis dear.", at=0.6)
    events = (*BEGUN, weighed, dear, ev.Finished(at=3.0))
    reasons = run_reasons(record(*events))
    assert f"gpt is worth asking: {why}" in reasons
    assert "o1 is not asked: It is dear." in reasons
    assert why_object(record(*events))["weighed"][0] == {
        "worker": "gpt",
        "gain": 0.34,
        "bar": 0.2,
        "cost_usd": "0.004",
        "ok": True,
        "why": why,
    }


def test_what_cost_money_was_a_cloud_wherever_its_door_is() -> None:
    def place(host: str, held: int) -> str:
        begun = (ev.Planned(single_step_plan("lab")), ev.StepStarted(1, "lab", at=0.1))
        sent = ev.Sent(1, "lab", host, 9, at=0.2)
        return run_reasons(
            record(*begun, sent, call_event(1, "lab", 0.5, 0, held), ev.Finished(at=0.6))
        )[1]

    assert place("127.0.0.1:8000", 0) == "lab (local (127.0.0.1:8000)) answered."
    assert place("10.0.0.9:8000", 0) == "lab (lan (10.0.0.9:8000)) answered."
    assert place("127.0.0.1:8000", NANO) == "lab (cloud (127.0.0.1:8000)) answered."


def test_outside_text_stays_on_its_line() -> None:
    routed = ev.Routed("local", "a\nb\x1b[31m", {}, "x\ny")
    reasons = run_reasons(RunRecord("r", "c", "p", "a", "finished", 0.0, (routed,)))
    assert not any("\n" in line or "\x1b" in line for line in reasons)


def test_the_last_run_is_meant_unless_one_is_named(call: Call) -> None:
    assert call("why").code == 2
    first = store_run(*EVENTS)
    store_run(ev.Routed("local", "It is short.", {}, "hybrid"), ev.Finished(at=0.1))
    assert "It is short." in call("why").out
    assert "three things" in call("why", first[:8]).out
    shown = json.loads(call("why", first, "--json").out)
    assert shown["route"]["strategy"] == "conductor"
    assert shown["steps"][2] == {
        "step": 3,
        "worker": "gpt",
        "destination": "api.openai.com",
        "status": "done",
    }
    assert shown["reasons"] == call("why", first).out.splitlines()
