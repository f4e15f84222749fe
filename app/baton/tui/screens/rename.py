"""Giving a conversation another title."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.widgets import Input

from baton.domain.sanitise import one_line
from baton.tui.screens.overlay import Overlay


class RenameScreen(Overlay[str]):
    """Asks for a title and returns it."""

    HEADING = "Rename the conversation"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = one_line(title)

    def body(self) -> ComposeResult:
        """Lay out the title to change."""
        yield Input(self._title, max_length=200)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self.dismiss(one_line(event.value) or None)
