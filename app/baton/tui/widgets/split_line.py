"""One line with a left and a right end: the shape of header, footer and message heads."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget


class SplitLine(Widget):
    """Shows `left` and `right` on one line; where both don't fit, the left one is cut."""

    DEFAULT_CSS = "SplitLine { height: 1; width: 1fr; }"
    GAP = 2

    left: reactive[Content] = reactive(Content(""))
    right: reactive[Content] = reactive(Content(""))

    def render(self) -> Content:
        """Put both ends onto the width there is."""
        width = self.content_size.width
        room = max(0, width - self.right.cell_length - (self.GAP if self.right.plain else 0))
        gap = " " * max(0, width - room - self.right.cell_length)
        return Content.assemble(self.left.truncate(room, ellipsis=True, pad=True), gap, self.right)
