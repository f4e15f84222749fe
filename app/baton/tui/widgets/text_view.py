"""A plain text of any length, wrapped and drawn only where it is in sight."""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from baton.core.sanitiser import sanitise


class TextView(ScrollView):
    """Shows any text exactly as it is, but for what a terminal would obey.

    A line that is broken goes on `hanging` columns from the left.
    """

    BAR = 1
    """The column of the scroll bar, kept free so that it never covers a text."""

    def __init__(self, text: str, *, focusable: bool = False, hanging: int = 0) -> None:
        super().__init__()
        self._hanging = hanging
        self.can_focus = focusable
        self._text = sanitise(text).expandtabs(4)
        self._lines: list[str] = []
        self._width = 0

    def put(self, text: str) -> None:
        """Show another text."""
        if (clean := sanitise(text).expandtabs(4)) != self._text:
            self._text, self._width = clean, 0
            self._fit(self.size.width - self.BAR)
            self.refresh(layout=True)

    def _fit(self, width: int) -> None:
        if width == self._width or width <= 0:
            return
        self._width = width
        self._lines = [
            part
            for line in self._text.split("\n")
            for part in wrap_hanging(line, width, self._hanging)
        ]
        self.virtual_size = Size(width, len(self._lines))

    @property
    def lines(self) -> int:
        """How many lines the text takes at its width."""
        return len(self._lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines the text takes at this width."""
        self._fit(width - self.BAR)
        return len(self._lines)

    def on_resize(self) -> None:
        """Wrap again."""
        self._fit(self.size.width - self.BAR)

    def render_line(self, y: int) -> Strip:
        """Return one line of those in sight."""
        width, base = max(0, self.size.width), self.rich_style
        index = y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else ""
        return Strip([Segment(line, base)]).adjust_cell_length(width, base)


def wrap_hanging(line: str, width: int, hanging: int) -> list[str]:
    """Break one line as `wrap_line` does; all but the first part begin with so many spaces."""
    first, *rest = wrap_line(line, width)
    if not rest or hanging >= width // 2:
        return [first, *rest]
    more = wrap_line("".join(rest).lstrip(" "), width - hanging)
    return [first, *(" " * hanging + part for part in more)]


def wrap_line(line: str, width: int) -> list[str]:
    """Break one line at spaces where that is possible, else anywhere; nothing is left out."""
    from rich.cells import cell_len, chop_cells

    if cell_len(line) <= width:
        return [line]
    parts: list[str] = []
    rest = ""
    for word in _split_words(line):
        if cell_len(rest + word.rstrip(" ")) <= width:
            rest += word
            continue
        if rest:
            parts.append(rest)
        *whole, rest = chop_cells(word, width) if cell_len(word) > width else [word]
        parts += whole
    return [*parts, rest]


def _split_words(line: str) -> list[str]:
    """Split a line after its spaces; joined, the words are the line."""
    words: list[str] = []
    start = 0
    for index in range(1, len(line)):
        if line[index - 1] == " " != line[index]:
            words.append(line[start:index])
            start = index
    return [*words, line[start:]]
