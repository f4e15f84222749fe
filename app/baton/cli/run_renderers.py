"""What stdout gets of a run: the answer as text, one JSON object, or a line for each event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from baton.cli.json_output import event_object, run_object
from baton.cli.output import Output, to_json
from baton.cli.terminal_questions import TerminalAsker
from baton.core.events import (
    Event,
    Planned,
    StepFailed,
    StepFinished,
    StepRetried,
    StepSkipped,
    StepText,
)
from baton.core.view import RunView, activity_text


class RunRenderer(Protocol):
    """Turns events into what stdout gets."""

    def show_event(self, event: Event, view: RunView) -> None:
        """Show one event; `view` is the run with it applied."""
        ...

    def finish(self, view: RunView) -> None:
        """Show what is only known at the end."""
        ...


RendererFactory = Callable[[Output, TerminalAsker], RunRenderer]
"""Makes a form that is not one of OutputOptions; it may look at what was asked."""


class TextRenderer:
    """The answer and nothing else, as it is written (or `whole`, at the end).

    A pipe gets what no second look can change; a terminal is shown drafts as well. A long answer is
    never copied as a whole for each of its pieces.
    """

    def __init__(self, output: Output, whole: bool = False) -> None:
        self._output = output
        self._whole = whole
        self._answer: tuple[int, ...] = ()
        self._shown_parts: tuple[int, ...] = ()
        self._shown = 0
        self._is_broken = False

    def show_event(self, event: Event, view: RunView) -> None:
        """Show the next piece, and in between what is happening."""
        if not self._whole and view.plan is not None:
            self._show(event, view)
        if not (self._shown and self._output.is_terminal_shared and not self._finish_part(view)):
            self._output.show_status(activity_text(view))

    def _show(self, event: Event, view: RunView) -> None:
        if isinstance(event, Planned):
            self._answer = event.plan.answer
        if view.draft and not self._output.to_terminal:
            return
        if isinstance(event, StepText) and event.text:
            self._add_piece(event, view)
        elif isinstance(event, StepRetried) and not self._is_replaced:
            self._restart_part(_settled_answer(view))
        elif isinstance(event, Planned | StepFinished | StepFailed | StepSkipped):
            self._catch_up(_settled_answer(view), view)

    @property
    def _is_replaced(self) -> bool:
        """Whether what stands there is no part of the answer any more."""
        return self._shown > 0 and self._answer[: len(self._shown_parts)] != self._shown_parts

    def _restart(self, told: str) -> None:
        self._output.end_line()
        self._output.warn(f"baton: That was a draft; {told}.")
        self._shown, self._is_broken = 0, False

    def _restart_part(self, rest: str) -> None:
        """Show what is left of the answer anew, if some of what stands there was taken back."""
        if self._shown > len(rest):
            self._restart("a part of it is written anew")
            self._write(rest)

    def _add_piece(self, event: StepText, view: RunView) -> None:
        """Show a piece of the first part of the answer that isn't over; the others wait."""
        if self._is_replaced:
            self._catch_up(_settled_answer(view), view)
        elif event.step == self._next_part(view):
            is_first = len(view.steps[event.step - 1].text) == len(event.text)
            self._write("\n\n" * (is_first and self._shown > 0) + event.text)

    def _next_part(self, view: RunView) -> int:
        """Return the first part of the answer that isn't over, or 0."""
        return next((n for n in self._answer if not view.steps[n - 1].is_over), 0)

    def _catch_up(self, text: str, view: RunView) -> None:
        """Show the rest of a text; a draft gives way once what replaces it has a word."""
        if self._is_replaced and text:
            self._restart(self._replacement_text(view))
        if not self._is_replaced:
            self._write(text[self._shown :])

    def _replacement_text(self, view: RunView) -> str:
        """Say who answers now, or does a part of the answer again."""
        new = [n for n in self._answer if n not in self._shown_parts] or self._answer[-1:]
        names = list(dict.fromkeys(view.steps[n - 1].worker for n in new))
        if len(self._answer) == 1:
            return f"{names[0]} answers"
        return f"{' and '.join(names)} {'do' if len(names) > 1 else 'does'} a part of it again"

    def _write(self, text: str) -> None:
        self._shown += len(text)
        self._shown_parts = self._answer
        if self._is_broken and text:
            text, self._is_broken = text.removeprefix("\n"), False
        self._output.write(text)

    def _finish_part(self, view: RunView) -> bool:
        """Tell whether what stands there is whole, while more is being done behind it."""
        if view.current_step is None and not view.planning:
            return False
        if (number := self._next_part(view)) and view.steps[number - 1].text:
            return False
        self._is_broken = self._output.end_line() or self._is_broken
        return True

    def finish(self, view: RunView) -> None:
        """Show the rest, and end the line."""
        if view.plan is not None:
            self._answer = view.plan.answer
        self._catch_up(view.answer, view)
        self._output.end_line()


def _settled_answer(view: RunView) -> str:
    """Return the answer up to the first part that isn't over, be it a draft or not."""
    return replace(view, draft=False).stable_answer


class JsonRenderer:
    """One object at the end."""

    def __init__(self, output: Output, preview: bool = False) -> None:
        self._output = output
        self._preview = preview

    def show_event(self, event: Event, view: RunView) -> None:
        """Show what is happening."""
        self._output.show_status(activity_text(view))

    def finish(self, view: RunView) -> None:
        """Show the object."""
        self._output.write(to_json(run_object(view, preview=self._preview)) + "\n")


class EventRenderer:
    """One line of JSON for each event, as it happens."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def show_event(self, event: Event, view: RunView) -> None:
        """Show the event."""
        self._output.write(to_json(event_object(event)) + "\n")

    def finish(self, view: RunView) -> None:
        """All was shown."""
