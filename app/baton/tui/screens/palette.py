"""The command palette, which shows a question that waits, too."""

from __future__ import annotations

from collections.abc import Iterator

from textual.command import CommandPalette
from textual.widget import Widget

from baton.tui import keys
from baton.tui.widgets.asked import AskedLine


class Palette(CommandPalette):
    """Textual's palette under the question that waits."""

    BINDINGS = keys.PALETTE

    def compose(self) -> Iterator[Widget]:
        """Lay out the question over the palette."""
        yield AskedLine()
        yield from super().compose()
