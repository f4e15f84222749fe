"""What scripts get to read keeps its shape."""

from __future__ import annotations

import json
from functools import reduce

from baton.cli.json_output import event_object, failure_line, run_object
from baton.core import events as ev
from baton.core.errors import ConfigError
from baton.core.messages import Finish, Purpose
from baton.core.plan_types import single_step_plan
from baton.core.view import RunView
from support.stored_runs import BEGUN, EVENTS as RUN_EVENTS

CALL = ev.Called(
    at=0.9,
    step=1,
    worker="small",
    purpose=Purpose.ANSWER,
    tokens_in=40,
    tokens_out=2,
    cached=0,
    context=8192,
    cost=4_000_000,
    confirmed=False,
    seconds=0.8,
    first_token=0.5,
    loading=0.3,
    finish=None,
    held=4_000_000,
)

EVENTS: list[ev.Event] = [
    ev.Started("r1", "c1", "p1", "a1"),
    ev.Routed("local", "It is simple.", {"simple": 0.9}, "hybrid"),
    ev.Planned(single_step_plan("small", ("a.txt",)), at=0.1),
    ev.StepStarted(1, "small", at=0.1),
    ev.StepText(1, "Par", at=0.6),
    ev.StepText(1, "is", at=0.7),
    CALL,
    ev.StepFinished(1, Finish.LENGTH, at=0.9),
    ev.Finished(at=1.0),
]


def view(*events: ev.Event) -> RunView:
    return reduce(RunView.apply, events, RunView())


def test_the_object_has_the_fixed_shape() -> None:
    assert run_object(view(*EVENTS)) == {
        "schema": 1,
        "status": "finished",
        "error": None,
        "warnings": [],
        "answer": "Paris",
        "run_id": "r1",
        "conversation_id": "c1",
        "route": {
            "where": "local",
            "why": "It is simple.",
            "scores": {"simple": 0.9},
            "strategy": "hybrid",
            "decided_by": "",
        },
        "plan": [
            {
                "step": 1,
                "worker": "small",
                "need": {"kind": "chat", "difficulty": 1},
                "subtask": "Answer the prompt.",
                "access": ["prompt", "history", "file:a.txt"],
                "status": "cut",
                "text": "Paris",
            }
        ],
        "answer_steps": [1],
        "calls": [
            {
                "step": 1,
                "worker": "small",
                "purpose": "answer",
                "tokens_in": 40,
                "tokens_out": 2,
                "cost_usd": "0.004",
                "confirmed": False,
                "seconds": 0.8,
                "first_token_s": 0.5,
            }
        ],
        "offers": [],
        "cost_usd": "0.004",
        "held_usd": "0",
        "unconfirmed_usd": "0.004",
    }


def test_a_failure_has_the_same_keys_and_keeps_the_partial_text() -> None:
    failed = ev.Failed("WorkerUnavailable", "small died.", "Try again.", at=1.0)
    shown = run_object(view(*EVENTS[:6], failed))
    assert shown.keys() == run_object(view(*EVENTS)).keys()
    assert (shown["status"], shown["answer"]) == ("failed", "Paris")
    assert shown["error"] == {
        "type": "WorkerUnavailable",
        "message": "small died.",
        "hint": "Try again.",
    }


def test_a_failure_before_the_run_has_the_same_keys_too() -> None:
    shown = json.loads(failure_line(ConfigError("No.", "Yes."), ["ask", "--json"]))
    assert shown.keys() == run_object(view(*EVENTS)).keys()
    assert shown["status"] == "failed"
    assert shown["error"]["type"] == "ConfigError"
    assert shown["answer"] == ""


def test_every_event_is_one_line_of_json_with_money_as_text() -> None:
    shown = [json.loads(json.dumps(event_object(event))) for event in EVENTS]
    assert [line["event"] for line in shown] == [type(event).__name__ for event in EVENTS]
    assert shown[6]["cost_usd"] == "0.004"
    assert "cost" not in shown[6]


def test_a_plan_says_who_really_did_each_step_and_how_that_ended() -> None:
    shown = run_object(view(*RUN_EVENTS))
    steps = [(step["step"], step["worker"], step["status"]) for step in shown["plan"]]
    assert steps == [
        (1, "small", "done"),
        (2, "large", "cut"),
        (3, "gpt", "done"),
        (4, "large", "failed"),
    ]
    assert shown["plan"][1]["need"] == {"kind": "math", "difficulty": 4}
    assert shown["plan"][2]["access"] == ["1", "2"]
    assert shown["answer_steps"] == [3]
    assert [call["step"] for call in shown["calls"]] == [0, 1, 2, 3]
    assert (shown["answer"], shown["cost_usd"]) == ("It is well.", "0.002")


def test_only_a_plan_of_which_nothing_was_run_is_planned() -> None:
    drawn = view(*BEGUN[:5], ev.Cancelled(at=0.8))
    assert run_object(drawn, preview=True)["status"] == "planned"
    assert run_object(drawn)["status"] == "cancelled"
    begun = view(*BEGUN, ev.Cancelled(at=2.1))
    assert run_object(begun, preview=True)["status"] == "cancelled"
