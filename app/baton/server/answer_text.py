"""The answer of a run as a client gets it: only what stays, each piece once."""

from __future__ import annotations

from baton.core.events import (
    Cancelled,
    Event,
    Failed,
    Finished,
    Planned,
    StepFailed,
    StepFinished,
    StepSkipped,
    StepText,
)
from baton.core.view import RunView


class AnswerText:
    """Turns events into pieces of the answer. What was given is never taken back.

    Of a draft nothing is given, since it may be replaced. A long answer is not copied as a whole
    for each of its pieces.
    """

    def __init__(self) -> None:
        self._given = 0

    def feed(self, event: Event, view: RunView) -> str:
        """Return what an event adds; `view` is the run with it applied."""
        match event:
            case StepText(step=step, text=text) if not view.draft and step == _next_part(view):
                is_first = len(view.steps[step - 1].text) == len(text)
                piece = ("\n\n" if is_first and text and self._given else "") + text
                self._given += len(piece)
                return piece
            case Planned() | StepFinished() | StepFailed() | StepSkipped():
                return self._rest(view.stable_answer)
            case Finished() | Failed() | Cancelled():
                return self._rest(view.answer if view.status == "finished" else "")
        return ""

    def _rest(self, text: str) -> str:
        rest = text[self._given :]
        self._given += len(rest)
        return rest


def _next_part(view: RunView) -> int:
    """Return the first part of the answer that isn't over, or 0."""
    answer = view.plan.answer if view.plan is not None else ()
    return next((n for n in answer if not view.steps[n - 1].is_over), 0)
