"""Plain texts of any length, and lines and areas to type in, on whole characters.

By itself Textual looks up what a key is bound to only after the widget has passed the key on: where
a slow line brings several keys at once, Backspace or an arrow acts after the letters behind it. And
it moves by code points, of which a flag or an emoji has several.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells, split_graphemes
from rich.segment import Segment
from rich.style import StyleType
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, TextArea
from textual.widgets.input import Selection

from baton.core.sanitiser import sanitise

if TYPE_CHECKING:
    from textual.widget import Widget
else:
    Widget = object  # Textual takes the styles of a widget's first base only

JOINERS = ("\u200c", "\u200d")
"""What parts and joins letters and emoji. Python calls them unprintable, so Textual drops them."""


class KeysInOrder(Widget):
    """Does what its own keys are bound to where they stand among the letters."""

    async def _on_key(self, event: events.Key) -> None:
        if event.character in JOINERS:
            await self._dispatch_message(events.Paste(event.character))
            event.stop()
            event.prevent_default()
            return
        bindings = self._bindings.copy()
        bindings.apply_keymap(self.app._keymap)
        for binding in bindings.key_to_bindings.get(event.key, ()):
            if await self.act(binding.action):
                event.stop()
                event.prevent_default()
                return

    async def act(self, action: str) -> bool:
        """Do what a key is bound to, and return whether it could be done."""
        return await self.app.run_action(action, self)


class TextField(KeysInOrder, Input):
    """A line to type in."""

    def validate_selection(self, selection: Selection) -> Selection:
        """Put the ends between characters: on the far side of one that the cursor moves over."""
        start, end = super().validate_selection(selection)
        is_end = end > self.cursor_position
        return Selection(
            character_border(self.value, start, is_end=is_end and start == end),
            character_border(self.value, end, is_end=is_end),
        )

    def delete(self, start: int, end: int) -> None:
        """Delete all characters between two places, also those that are there in part."""
        start, end = sorted((start, end))
        end = character_border(self.value, end, is_end=True)
        super().delete(character_border(self.value, start), end)

    @property
    def _value(self) -> Text:
        shown = super()._value
        return shown if self.password else _WholeText(shown.plain, no_wrap=True, end="")


class TextEditor(KeysInOrder, TextArea):
    """An area to write in."""

    def get_cursor_right_location(self) -> tuple[int, int]:
        """Return where the character behind the cursor ends."""
        row, column = super().get_cursor_right_location()
        return row, character_border(self.document.get_line(row), column, is_end=True)

    def get_cursor_left_location(self) -> tuple[int, int]:
        """Return where the character before the cursor begins."""
        return self.clamp_visitable(super().get_cursor_left_location())

    def clamp_visitable(self, location: tuple[int, int]) -> tuple[int, int]:
        """Return the nearest place for the cursor, between two characters."""
        row, column = super().clamp_visitable(location)
        return row, character_border(self.document.get_line(row), column)

    def get_line(self, line_index: int) -> Text:
        """Return a line to be drawn."""
        return _WholeText(self.document.get_line(line_index), end="", no_wrap=True)


class _WholeText(Text):
    """A text of which no character is drawn in two styles: terminals would draw it as two."""

    def stylize(self, style: StyleType, start: int = 0, end: int | None = None) -> None:
        if end is not None:
            end = character_border(self.plain, end, is_end=True)
        super().stylize(style, character_border(self.plain, start), end)


def character_border(line: str, place: int, *, is_end: bool = False) -> int:
    """Return the beginning, or the end, of the character (as people see it) around a place.

    A place between two characters is returned as it is.
    """
    if line.isascii() or not 0 < place < len(line):
        return place
    ends = [0]
    is_half_flag = False
    for first, end, _ in split_graphemes(line)[0]:
        is_flag = "\U0001f1e6" <= line[first] <= "\U0001f1ff"
        if is_flag and is_half_flag:
            ends[-1] = end
        else:
            ends.append(end)
        is_half_flag = is_flag and not is_half_flag
    at = bisect_left(ends, place)
    return ends[at] if is_end or ends[at] == place else ends[at - 1]


class TextView(ScrollView):
    """Shows any text exactly as it is, but for what a terminal would obey.

    A line that is broken continues `hanging` columns from the left.
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
    if cell_len(line) <= width:
        return [line]
    parts: list[str] = []
    rest = ""
    for word in re.split(r"(?<= )(?=[^ ])", line):  # a word keeps the spaces behind it
        if cell_len(rest + word.rstrip(" ")) <= width:
            rest += word
            continue
        if rest:
            parts.append(rest)
        *whole, rest = chop_cells(word, width) if cell_len(word) > width else [word]
        parts += whole
    return [*parts, rest]
