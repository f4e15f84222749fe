"""`baton resume`: an interrupted run continues, with what its finished steps wrote."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import Any

import pytest

from baton.core import events as ev
from baton.core.errors import WorkerError
from baton.core.messages import Finish, Text
from baton.core.plan_types import Plan, Step, single_step_plan
from baton.platform.paths import find_paths
from baton.presentation.run_story import record_view, resume_hint, run_progress
from support.command_line import Call
from support.fake_cloud import FAR_SETTINGS, Cloud, Reply
from support.scripted_baton import Scripted, scripted
from support.stored_runs import BEGUN, EVENTS, record, store_run
from support.terminal import Terminal

__all__ = ["scripted"]

INTERRUPTED = [
    replace(event, strategy="plan") if isinstance(event, ev.Routed) else event for event in BEGUN
]
"""No further decision is made: what is there is run."""


def test_what_is_done_is_kept_and_the_rest_is_done(call: Call, scripted: Scripted) -> None:
    workers = scripted(small=lambda _: [Text("It is "), Text("well.")], large=None)
    run = store_run(*INTERRUPTED)
    done = call("resume")
    assert (done.code, done.out) == (0, "It is well.\n")
    assert done.err == (
        f"Run {run} (Compare them) was interrupted after step 2 of 4; continuing.\n"
    )
    asked = [r for worker in workers.values() for r in worker.requests]
    assert len(asked) == 2  # the two steps that were left
    [writing] = [r.messages[-1].text for r in asked if "Write it" in r.messages[-1].text]
    assert "Facts: one." in writing
    assert "2 + 2 = 5" in writing

    events = json.loads(call("trace", "--json").out)
    assert events["run_id"] != run
    assert (
        events["conversation_id"] == json.loads(call("trace", run, "--json").out)["conversation_id"]
    )
    assert "1 small, done before" in call("trace").out
    assert "What steps 1 and 2 wrote was there already, from an earlier run." in call("why").out
    again = call("resume")
    assert again.code == 2
    assert "No run was interrupted" in again.err


@pytest.mark.parametrize(
    ("typed", "bounds", "said"),
    [
        ([], {"offline": True}, "This run began offline, so it continues offline."),
        (["--offline"], {"offline": True}, "This run began offline, so it continues offline."),
        ([], {"budget": 10**7}, "This run began with a ceiling of $0.01, which still holds"),
        (["--budget", "0.02"], {"budget": 10**7}, "with a ceiling of $0.01, which still holds"),
        (["--budget", "0.005"], {"budget": 10**7}, ""),
        ([], {}, ""),
    ],
)
def test_a_run_continues_within_its_bounds(
    call: Call, scripted: Scripted, typed: list[str], bounds: dict[str, Any], said: str
) -> None:
    scripted(small=lambda _: [Text("It is "), Text("well.")], large=None)
    store_run(*(replace(e, **bounds) if isinstance(e, ev.Routed) else e for e in INTERRUPTED))
    done = call("resume", *typed)
    assert (done.code, done.out) == (0, "It is well.\n")
    assert (said in done.err) if said else "This run began" not in done.err
    kept = [e for e in json.loads(call("trace", "--json").out)["events"] if e["event"] == "Routed"]
    assert kept[0].get("offline", False) is bounds.get("offline", False)


def test_a_run_that_fails_again_can_be_resumed_again(call: Call, scripted: Scripted) -> None:
    scripted(small=lambda _: [WorkerError("small died.")], large=lambda _: [WorkerError("So?")])
    store_run(*INTERRUPTED)
    failed = call("resume", "--json")
    shown = json.loads(failed.out)
    assert (failed.code, shown["status"]) == (6, "failed")
    assert [step["status"] for step in shown["plan"]][:2] == ["done", "cut"]
    scripted(small=lambda _: [Text("Now.")], large=None)
    assert call("resume").out == "Now.\n"


def test_the_latest_is_meant_unless_one_is_named(call: Call, scripted: Scripted) -> None:
    workers = scripted(small=None)
    first = store_run(ev.Planned(single_step_plan("small")), ev.Cancelled(at=0.1), prompt="one")
    store_run(ev.Planned(single_step_plan("small")), ev.Cancelled(at=0.1), prompt="two")
    store_run(ev.Cancelled(at=0.1), prompt="three")  # without a plan there is nothing to continue
    failed = ev.Failed("WorkerError", "small died.", "", at=0.1)
    store_run(ev.Planned(single_step_plan("small")), failed, prompt="four")  # it would fail again
    kept = ev.Offered("gpt", "It was cut.", 9, 9, "", ev.Decision.KEPT, at=0.1)
    store_run(
        ev.Planned(single_step_plan("gpt")), kept, ev.Cancelled(at=0.1), prompt="five"
    )  # as decided
    assert call("resume", first[:8]).out == "one \n"
    second = store_run(ev.Planned(single_step_plan("small")), ev.Cancelled(at=0.1), prompt="two")
    done = call("resume")
    assert (done.out, done.err) == ("two \n", f"Running the plan of run {second} (two).\n")
    assert call("resume", "-q").err == ""
    assert call("resume").code == 2
    assert len(workers["small"].requests) == 3


@pytest.mark.parametrize("form", ["--json", "--events", "--no-stream"])
def test_it_prints_what_ask_prints(call: Call, scripted: Scripted, form: str) -> None:
    scripted(small=None)
    store_run(ev.Planned(single_step_plan("small")), ev.Cancelled(at=0.1), prompt="one")
    out = call("resume", form).out
    if form == "--no-stream":
        assert out == "one \n"
        return
    shown = [json.loads(line) for line in out.splitlines()]
    assert shown[-1].get("answer", "one ") == "one "
    assert shown[-1].get("event", "Finished") == "Finished"


def test_what_can_not_be_resumed_is_reported(call: Call, scripted: Scripted) -> None:
    scripted(small=None)
    finished = store_run(*EVENTS)
    for args, message in (
        ((finished,), "is finished"),
        (("beef",), "no run 'beef'"),
        (("--json", "--events"), "exclude each other"),
        (("--budget", "lots"), "not an amount"),
    ):
        done = call("resume", *args)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert message in done.err


PLAN = Plan(tuple(Step("x", "Do.") for _ in range(4)), (4,))


def resume_state(*done: int, status: str = "lost") -> str:
    events = [ev.StepFinished(n, Finish.STOP, "x", at=0.2) for n in done]
    begun = [ev.StepStarted(1, "x", at=0.1)] if not done else []
    view = record_view(record(ev.Planned(PLAN), *begun, *events))
    return run_progress(replace(view, status=status))


def hint(*events: ev.Event, status: str = "cancelled") -> str:
    return resume_hint("beef", replace(record_view(record(*events)), status=status))


def test_how_far_a_run_came_is_shown() -> None:
    assert resume_state(1, 2) == "interrupted after step 2 of 4"
    assert resume_state(1, 3) == "interrupted with steps 1 and 3 of 4 done"
    assert resume_state() == "interrupted before any of its 4 steps was done"
    for status in ("finished", "running"):
        assert resume_state(1, status=status) == ""
    drawn = hint(ev.Planned(PLAN))
    assert drawn == "Plan of 4 steps kept, not run; `baton resume beef` runs it."
    assert hint(status="lost") == ""
    one = (ev.Planned(single_step_plan("x")), ev.StepStarted(1, "x", at=0.1))
    assert hint(*one) == ""


@pytest.mark.sampled(0.5)
def test_a_resumed_run_asks_before_it_spends_only_where_a_user_is_there(call: Call) -> None:
    with Cloud() as cloud:
        file = find_paths().config_file
        file.parent.mkdir(parents=True)
        file.write_text(FAR_SETTINGS.format(url=cloud.base("server")))
        run = store_run(ev.Planned(single_step_plan("far")), ev.Cancelled(at=0.1))
        piped = call("resume", run)
        assert ("Number, then Enter" in piped.err, cloud.posts) == (False, 0)
        command = [sys.executable, "-P", "-m", "baton", "resume", run]
        screen = Terminal(command, os.environ)
        screen.wait_for("Number, then Enter (1):")
        assert cloud.posts == 0
        screen.answer("2\r")
        screen.wait_for(Reply().text.split(",")[0])
        assert screen.wait_end() == 0
        assert cloud.posts == 1
