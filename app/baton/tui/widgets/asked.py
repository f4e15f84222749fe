"""The line that shows the question that waits in the conversation, on whatever lies over it."""

from __future__ import annotations

from textual.widgets import Static

from baton.domain.sanitise import one_line
from baton.tui import keys


class AskedLine(Static):
    """Shows the open question and the key that leads to it; hidden while there is none."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.display = False

    def on_mount(self) -> None:
        """Show a question that waits already."""
        self.show(getattr(self.app.screen_stack[0], "question", ""))

    def show(self, question: str) -> None:
        """Show another question ("": none waits)."""
        key = keys.shown(keys.BY_ID["app.answer"], self.app._keymap)
        self.update(f"{one_line(question)} {key} answers." if question else "")
        self.display = bool(question)
        self.screen.refresh_bindings()
