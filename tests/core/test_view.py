"""Every front end sees a run as the same fold over its events."""

import pytest

from baton.core import events as ev
from baton.core.events import Event, Phase
from baton.core.messages import Finish, Purpose
from baton.core.plan_types import Plan, single_step_plan
from baton.core.view import RunView, activity_text


def fold(*events: Event) -> RunView:
    view = RunView()
    for event in events:
        view = view.apply(event)
    return view


BEGINNING: tuple[Event, ...] = (
    ev.Started("r", "c", "p", "a"),
    ev.Routed("local", "why"),
    ev.Planned(single_step_plan("small")),
    ev.StepStarted(1, "small", at=0.1),
)


def test_what_is_happening_is_said_in_a_few_words() -> None:
    assert activity_text(fold()) == "starting"
    assert activity_text(fold(*BEGINNING)) == "loading small"
    loading = ev.Progress(1, Phase.LOADING, 0.6, at=0.2)
    assert activity_text(fold(*BEGINNING, loading)) == "loading small 60 %"
    reading = ev.Progress(1, Phase.READING, 0.4, at=0.3)
    assert activity_text(fold(*BEGINNING, loading, reading)) == "reading prompt 40 %"
    thinking = ev.Progress(1, ev.Phase.THINKING, None, 11.6, at=2.5)
    assert activity_text(fold(*BEGINNING, loading, reading, thinking)) == "thinking 12 tokens/s"
    text = ev.StepText(1, "Par", at=0.4)
    speed = ev.Progress(1, Phase.WRITING, None, 31.2, at=0.5)
    assert activity_text(fold(*BEGINNING, reading, text)) == "writing"
    assert activity_text(fold(*BEGINNING, text, speed)) == "writing 31 tokens/s"
    done = (ev.StepFinished(1, Finish.STOP, at=7.1), ev.Finished(at=7.2))
    assert activity_text(fold(*BEGINNING, text, *done)) == "finished in 7.2 s"
    assert activity_text(fold(*BEGINNING, ev.Cancelled(at=2.0))) == "stopped after 2.0 s"


def offer_event(decision: ev.Decision) -> ev.Offered:
    return ev.Offered("gpt", "why", 10, 100, "", decision, at=5.0)


def test_what_a_remote_worker_does_is_shown_too() -> None:
    steps = (*single_step_plan("small").steps, *single_step_plan("gpt").steps)
    again = (
        offer_event(ev.Decision.SENT),
        ev.Planned(Plan(steps, (2,)), at=5.0),
        ev.StepStarted(2, "gpt", at=5.1),
    )
    done = ev.StepFinished(1, Finish.STOP, at=1.0)
    assert activity_text(fold(*BEGINNING, done, *again)) == "step 2 of 2: asking gpt"
    text = ev.StepText(2, "Lis", at=5.2)
    assert activity_text(fold(*BEGINNING, done, *again, text)) == "step 2 of 2: writing"
    assert (
        activity_text(fold(*BEGINNING, offer_event(ev.Decision.KEPT), ev.Cancelled(at=9.0)))
        == "not sent"
    )


def test_the_time_in_which_a_user_decides_is_not_counted() -> None:
    call = ev.Called(
        1, "small", Purpose.ANSWER, 9, 2, 0, 4096, 0, True, 1.5, 0.1, 0.0, Finish.STOP, at=1.0
    )
    view = fold(*BEGINNING, call, offer_event(ev.Decision.KEPT), ev.Finished(at=60.0))
    assert activity_text(view) == "finished in 1.5 s"


def test_the_answer_grows_and_calls_add_up() -> None:
    call = ev.Called(
        1, "small", Purpose.ANSWER, 9, 2, 0, 4096, 5, True, 1.0, 0.1, 0.0, Finish.STOP, at=1.0
    )
    view = fold(*BEGINNING, ev.StepText(1, "Par", at=0.4), ev.StepText(1, "is", at=0.5), call)
    assert view.answer == "Paris"
    assert view.cost == 5
    assert view.status == "running"


def test_a_failure_keeps_the_text_and_says_why() -> None:
    view = fold(
        *BEGINNING,
        ev.StepText(1, "Par", at=0.4),
        ev.StepFailed(1, "WorkerUnavailable", "It died.", at=0.5),
        ev.Failed("WorkerUnavailable", "It died.", "Try again.", at=0.5),
    )
    assert view.status == "failed"
    assert view.answer == "Par"
    assert view.failure is not None
    assert view.failure.hint == "Try again."


@pytest.mark.parametrize(("text", "shown"), [("", True), (" \n", True), ("Seven.", False)])
def test_no_answer_says_who_was_not_asked_for_one(text: str, shown: bool) -> None:
    view = fold(
        *BEGINNING,
        ev.StepText(1, text, at=0.2),
        ev.StepFinished(1, Finish.STOP, at=0.3),
        ev.Weighed("gpt", 0.9, 1.0, 9, False, "Today more was spent than planned.", at=0.4),
        ev.Finished(at=0.5),
    )
    assert (view.notice == "gpt was not asked: Today more was spent than planned.") is shown


def test_the_outcome_of_an_offer_says_more_than_why_help_was_not_worth_it() -> None:
    refused = ev.Decision.CEILING
    view = fold(
        *BEGINNING,
        ev.StepFinished(1, Finish.STOP, at=0.3),
        ev.Weighed("gpt", 0.9, 1.0, 9, False, "More than is left.", at=0.4),
        ev.Offered("gpt", "It is empty.", 9, 9, "", refused, "The ceiling is reached.", at=0.4),
        ev.Finished(at=0.5),
    )
    assert view.notice == "The ceiling is reached."
