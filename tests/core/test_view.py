"""Every front end sees a run as the same fold over its events."""

import pytest

from baton.core import events as ev
from baton.core.events import Event, Phase
from baton.core.messages import Finish, Purpose
from baton.core.plan.plan import Plan, single_step_plan
from baton.core.view import RunView, activity_text


def fold(*events: Event) -> RunView:
    view = RunView()
    for event in events:
        view = view.apply(event)
    return view


BEGINNING: tuple[Event, ...] = (
    ev.Started(0.0, "r", "c", "p", "a"),
    ev.Routed(0.0, "local", "why"),
    ev.Planned(0.0, single_step_plan("small")),
    ev.StepStarted(0.1, 1, "small"),
)


def test_what_is_happening_is_said_in_a_few_words() -> None:
    assert activity_text(fold()) == "starting"
    assert activity_text(fold(*BEGINNING)) == "loading small"
    loading = ev.Progress(0.2, 1, Phase.LOADING, 0.6)
    assert activity_text(fold(*BEGINNING, loading)) == "loading small 60 %"
    reading = ev.Progress(0.3, 1, Phase.READING, 0.4)
    assert activity_text(fold(*BEGINNING, loading, reading)) == "reading prompt 40 %"
    thinking = ev.Progress(2.5, 1, ev.Phase.THINKING, None, 11.6)
    assert activity_text(fold(*BEGINNING, loading, reading, thinking)) == "thinking 12 tokens/s"
    text = ev.StepText(0.4, 1, "Par")
    speed = ev.Progress(0.5, 1, Phase.WRITING, None, 31.2)
    assert activity_text(fold(*BEGINNING, reading, text)) == "writing"
    assert activity_text(fold(*BEGINNING, text, speed)) == "writing 31 tokens/s"
    done = (ev.StepFinished(7.1, 1, Finish.STOP), ev.Finished(7.2))
    assert activity_text(fold(*BEGINNING, text, *done)) == "finished in 7.2 s"
    assert activity_text(fold(*BEGINNING, ev.Cancelled(2.0))) == "stopped after 2.0 s"


def offered(decision: ev.Decision) -> ev.Offered:
    return ev.Offered(5.0, "gpt", "why", 10, 100, "", decision)


def test_what_is_happening_elsewhere_is_said_too() -> None:
    steps = (*single_step_plan("small").steps, *single_step_plan("gpt").steps)
    again = (
        offered(ev.Decision.SENT),
        ev.Planned(5.0, Plan(steps, (2,))),
        ev.StepStarted(5.1, 2, "gpt"),
    )
    done = ev.StepFinished(1.0, 1, Finish.STOP)
    assert activity_text(fold(*BEGINNING, done, *again)) == "step 2 of 2: asking gpt"
    text = ev.StepText(5.2, 2, "Lis")
    assert activity_text(fold(*BEGINNING, done, *again, text)) == "step 2 of 2: writing"
    assert (
        activity_text(fold(*BEGINNING, offered(ev.Decision.KEPT), ev.Cancelled(9.0))) == "not sent"
    )


def test_the_time_in_which_a_person_decides_is_not_counted() -> None:
    call = ev.Called(
        1.0, 1, "small", Purpose.ANSWER, 9, 2, 0, 4096, 0, True, 1.5, 0.1, 0.0, Finish.STOP
    )
    view = fold(*BEGINNING, call, offered(ev.Decision.KEPT), ev.Finished(60.0))
    assert activity_text(view) == "finished in 1.5 s"


def test_the_answer_grows_and_calls_add_up() -> None:
    call = ev.Called(
        1.0, 1, "small", Purpose.ANSWER, 9, 2, 0, 4096, 5, True, 1.0, 0.1, 0.0, Finish.STOP
    )
    view = fold(*BEGINNING, ev.StepText(0.4, 1, "Par"), ev.StepText(0.5, 1, "is"), call)
    assert view.answer == "Paris"
    assert view.cost == 5
    assert view.status == "running"


def test_a_failure_keeps_the_text_and_says_why() -> None:
    view = fold(
        *BEGINNING,
        ev.StepText(0.4, 1, "Par"),
        ev.StepFailed(0.5, 1, "WorkerUnavailable", "It died."),
        ev.Failed(0.5, "WorkerUnavailable", "It died.", "Try again."),
    )
    assert view.status == "failed"
    assert view.answer == "Par"
    assert view.failure is not None
    assert view.failure.hint == "Try again."


@pytest.mark.parametrize(("text", "told"), [("", True), (" \n", True), ("Seven.", False)])
def test_no_answer_says_who_was_not_asked_for_one(text: str, told: bool) -> None:
    view = fold(
        *BEGINNING,
        ev.StepText(0.2, 1, text),
        ev.StepFinished(0.3, 1, Finish.STOP),
        ev.Weighed(0.4, "gpt", 0.9, 1.0, 9, False, "Today more was spent than planned."),
        ev.Finished(0.5),
    )
    assert (view.notice == "gpt was not asked: Today more was spent than planned.") is told


def test_what_an_offer_came_to_says_more_than_why_help_was_not_worth_it() -> None:
    refused = ev.Decision.CEILING
    view = fold(
        *BEGINNING,
        ev.StepFinished(0.3, 1, Finish.STOP),
        ev.Weighed(0.4, "gpt", 0.9, 1.0, 9, False, "More than is left."),
        ev.Offered(0.4, "gpt", "It is empty.", 9, 9, "", refused, "The ceiling is reached."),
        ev.Finished(0.5),
    )
    assert view.notice == "The ceiling is reached."
