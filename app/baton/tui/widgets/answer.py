"""An answer's text: one widget that draws Markdown itself, however long the answer is.

With a widget for each paragraph and table cell, as in Textual's own Markdown, every keystroke would
wait for the layout of hundreds of widgets while an answer streams in.
"""

from __future__ import annotations

from rich.style import Style
from textual.content import Content
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from baton.tui import markdown_text
from baton.tui.markdown_text import Block


class AnswerView(Widget):
    """Shows a Markdown text. While it grows, only its last block is parsed and drawn anew."""

    def __init__(self, text: str = "") -> None:
        super().__init__(markup=False)
        self._text = text
        self._whole: list[Block] = []  # nothing that is appended changes these any more
        self._tail = ""  # the source of the block after them
        self._lines: list[Strip] = []  # all blocks, drawn `_width` columns wide
        self._whole_lines = 0  # how many lines those are that won't change
        self._width = 0
        self._base = Style()
        self._take(text)

    def show(self, text: str) -> None:
        """Show this text, of which the beginning may be there already."""
        if self._text and text.startswith(self._text):
            self.append(text[len(self._text) :])
        else:
            self.update(text)

    def show_author(self, author: str) -> None:
        """Say over the text who wrote it elsewhere, and mark it ("": it is not marked)."""
        self.border_title = Content(author)
        self.set_class(bool(author), "-signed")

    def append(self, text: str) -> None:
        """Add to the text."""
        if not text:
            return
        self._text += text
        height = len(self._lines)
        self._take(self._tail + text)
        self.refresh(layout=len(self._lines) != height)

    def update(self, text: str) -> None:
        """Replace the text."""
        if text == self._text:
            return
        self._text = text
        self._whole, self._width = [], 0
        self._take(text)
        self.refresh(layout=True)

    def _take(self, text: str) -> None:
        blocks = markdown_text.parse_blocks(text)
        last = blocks[-1:]
        if len(blocks) > 1:
            text = "\n".join(text.split("\n")[markdown_text.first_line(blocks[-1]) :])
        self._tail = text
        self._whole += blocks[:-1]
        if self._width:
            del self._lines[self._whole_lines :]
            self._draw(blocks[:-1])
            self._whole_lines = len(self._lines)
            self._draw(last)

    def _draw(self, blocks: list[Block]) -> None:
        pen = markdown_text.block_painter(self.app.theme)
        for block in blocks:
            if self._lines:
                self._lines.append(Strip.blank(0))
            self._lines += pen.draw(block, self._width)

    def _fit(self, width: int) -> None:
        """Draw everything anew if the width has changed."""
        if width != self._width and width > 0:
            self._width = width
            self._lines, self._whole_lines = [], 0
            self._draw(self._whole)
            self._whole_lines = len(self._lines)
            self._draw(markdown_text.parse_blocks(self._tail))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines the text takes at this width."""
        self._fit(width)
        return len(self._lines)

    def notify_style_update(self) -> None:
        """Draw everything anew in another look."""
        super().notify_style_update()
        self._width = 0

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines in sight."""
        self._fit(self.content_size.width)
        self._base = self.rich_style  # costly, and the same for every line
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return one line of the text."""
        width, base = self.content_size.width, self._base
        if y >= len(self._lines):
            return Strip.blank(width, base)
        line = self._lines[y].apply_style(base).extend_cell_length(width, base)
        if (selection := self.text_selection) and (span := selection.get_span(y)) is not None:
            start, end = span
            end = width if end == -1 else end
            marked = line.crop(start, end).apply_style(
                self.screen.get_component_rich_style("screen--selection")
            )
            line = Strip.join([line.crop(0, start), marked, line.crop(end)])
        return line.crop(0, width).apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as it stands on the screen."""
        text = "\n".join(line.text.rstrip() for line in self._lines)
        return selection.extract(text), "\n"
