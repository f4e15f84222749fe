"""Asking once more before something that can't be undone."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from baton.core.ports import Choice
from baton.core.sanitiser import sanitise
from baton.tui.screens.overlay import Overlay
from baton.tui.widgets.question_view import ChoiceView

DECLINE = Choice("no", "Leave it")


class ConfirmScreen(Overlay[bool]):
    """Returns whether the person wants it; the cursor is on leaving it."""

    AUTO_FOCUS = "ChoiceView"

    def __init__(self, heading: str, text: str, yes: str) -> None:
        super().__init__()
        self.HEADING = heading
        self._text = text
        self._yes = Choice("yes", yes)

    def body(self) -> ComposeResult:
        """Lay out what is at stake over the two choices."""
        yield Static(sanitise(self._text), markup=False, classes="text")
        with Horizontal(classes="choices"):
            yield ChoiceView(DECLINE)
            yield ChoiceView(self._yes)

    def on_choice_view_chosen(self, event: ChoiceView.Chosen) -> None:
        """Hand the decision back."""
        event.stop()
        self.dismiss(event.choice is not DECLINE)
