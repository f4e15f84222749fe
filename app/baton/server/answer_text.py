"""The answer of a run as a client gets it: only what stays, each piece once."""

from __future__ import annotations

from collections.abc import Callable

from baton.core.events import (
    Cancelled,
    Event,
    Failed,
    Finished,
    Planned,
    StepFailed,
    StepFinished,
    StepRetried,
    StepSkipped,
    StepText,
)
from baton.core.view import RunView


class AnswerText:
    """Turns events into pieces of the answer. What was given is never taken back.

    Of a draft nothing is given, since it may be replaced. A long answer is not copied as a whole
    for each of its pieces: `_part` is the step whose texts are given as they come (0: none).
    """

    def __init__(self) -> None:
        self._given = 0
        self._part = 0
        self._is_part_empty = True

    def feed(self, event: Event, view: Callable[[], RunView]) -> str:
        """Return what an event adds; `view` returns the run with it applied."""
        match event:
            case StepText(step=self._part, text=text) if text:
                piece = ("\n\n" if self._is_part_empty and self._given else "") + text
                self._is_part_empty = False
                self._given += len(piece)
                return piece
            case StepRetried(step=self._part):
                self._is_part_empty = True
            case Planned() | StepFinished() | StepFailed() | StepSkipped():
                now = view()
                self._part = 0 if now.draft else _next_part(now)
                self._is_part_empty = not (self._part and now.steps[self._part - 1].text)
                return self._rest(now.stable_answer)
            case Finished() | Failed() | Cancelled():
                now = view()
                return self._rest(now.answer if now.status == "finished" else "")
        return ""

    def _rest(self, text: str) -> str:
        rest = text[self._given :]
        self._given += len(rest)
        return rest


def _next_part(view: RunView) -> int:
    """Return the first part of the answer that isn't over, or 0."""
    answer = view.plan.answer if view.plan is not None else ()
    return next((n for n in answer if not view.steps[n - 1].is_over), 0)
