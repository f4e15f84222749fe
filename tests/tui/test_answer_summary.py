"""What is said of a run, and which of its texts stands there."""

from __future__ import annotations

import pytest

from baton.core import events as ev
from baton.core.history_types import RunRecord
from baton.core.labels import Label
from baton.core.messages import Card, Finish
from baton.core.plan_types import Plan, direct_step
from baton.core.view import RunView, fold_events
from baton.presentation import answers
from baton.presentation.run_story import record_view

GPT = Card("gpt", "cloud", "GPT", Label.CLOUD, remote=True)
ROSTER = {
    card.id: card for card in (Card("small", "local", "Small"), Card("mate", "local", "Mate"), GPT)
}
TWO = (direct_step("small"), direct_step("mate"))


def run_of_two(*more: ev.Event) -> RunView:
    """Return a run in which two draft side by side, the second with the first word."""
    return fold_events(
        [
            ev.Routed("local", "Two workers here answer.", strategy="hybrid"),
            ev.Planned(Plan(TWO, (1,)), final=False),
            ev.StepStarted(1, "small"),
            ev.StepStarted(2, "mate"),
            ev.StepText(2, "408", at=0.1),
            *more,
        ]
    )


def run_of_three(*more: ev.Event) -> RunView:
    """Return the same run when a third was asked for, as the two disagree."""
    grown = Plan((*TWO, direct_step("gpt")), (3,))
    return run_of_two(
        ev.StepText(1, "345", at=0.2),
        ev.StepFinished(1, Finish.STOP, "", at=0.3),
        ev.StepFinished(2, Finish.STOP, "408", at=0.3),
        ev.Planned(grown, why="The two local answers disagree.", at=0.4),
        *more,
    )


def shown_texts(run: RunView) -> list[str]:
    return [part.text for part in answers.answer_parts(run, ROSTER)]


def test_the_first_draft_stands_there_until_its_successor_has_a_word() -> None:
    assert shown_texts(run_of_two()) == []
    assert shown_texts(run_of_two(ev.StepText(1, "345", at=0.2))) == ["345"]
    assert shown_texts(run_of_three()) == ["345"]
    assert shown_texts(
        run_of_three(ev.StepStarted(3, "gpt", at=0.5), ev.StepText(3, "391", at=0.6))
    ) == ["391"]


@pytest.mark.parametrize("status", ["finished", "lost", "running"])
def test_only_what_continues_is_shown_as_running(status: str) -> None:
    broken = ev.StepFinished(99, Finish.STOP, at=0.2)  # an import may name any step
    for events in ((ev.Planned(Plan(TWO, (1,))),), (ev.Planned(Plan(TWO, (1,))), broken)):
        shown = record_view(RunRecord("r", "c", "p", "a", status, 0.0, events))
        assert (shown.status == "running") is (status == "running")
