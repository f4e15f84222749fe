"""Giving a conversation another title."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Input

from baton.core.sanitiser import one_line
from baton.tui import key_bindings
from baton.tui.screens.overlay import Overlay


class RenameScreen(Overlay[str]):
    """Asks for a title and returns it."""

    BINDINGS = key_bindings.RENAME
    HEADING = "Rename the conversation"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = one_line(title)

    def body(self) -> ComposeResult:
        """Lay out the title to change."""
        yield Input(self._title, max_length=200)

    def action_rename(self) -> None:
        """Return the title, once the keys before this one are in it."""
        self.query_one(Input).call_later(self._give)

    def _give(self) -> None:
        self.dismiss(one_line(self.query_one(Input).value) or None)
