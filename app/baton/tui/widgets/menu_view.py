"""The one menu above the prompt: commands, files, choices; at most eight rows, one chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from baton.core.sanitiser import one_line
from baton.tui.menu_entries import MenuEntry
from baton.tui.widgets.question_view import QuestionLine
from baton.tui.widgets.text_widgets import TextField

MAX_ROWS = 8
"""How many rows are seen at once."""

NOTHING = "Nothing is called that"
SPENDS_TEXT = "Tab, then Enter does this: it may spend or send"

Rank = Callable[[str], Sequence[MenuEntry]]
"""Returns the entries that fit what was typed, the best first."""


class MenuRows(Widget):
    """The rows in sight, drawn from `rows`; a heading is a text. `cursor` is an index of `rows`."""

    @dataclass(eq=False, repr=False)
    class Pressed(Message):
        """A row was clicked."""

        entry: MenuEntry

    ALLOW_SELECT = False
    rows: reactive[tuple[MenuEntry | str, ...]] = reactive((), layout=True)
    cursor: reactive[int] = reactive(0)
    first: reactive[int] = reactive(0)
    room: reactive[int] = reactive(MAX_ROWS, layout=True)

    def get_content_height(self, *_: object) -> int:
        """Be as high as the rows, up to the room there is."""
        return max(1, min(len(self.rows), self.room))

    def show(self, rows: Sequence[MenuEntry | str], cursor: int) -> None:
        """Show other rows, from the first one on as far as the cursor allows."""
        self.rows, self.cursor, self.first = tuple(rows), cursor, 0
        self._follow()

    def go_to(self, cursor: int) -> None:
        """Move the cursor."""
        self.cursor = cursor
        self._follow()

    def _follow(self) -> None:
        """Keep the cursor in sight, and the heading above it."""
        has_heading = self.cursor > 0 and isinstance(self.rows[self.cursor - 1], str)
        top = self.cursor - has_heading
        lowest = self.cursor - self.get_content_height() + 1
        self.first = max(lowest, min(self.first, top))

    def watch_room(self) -> None:
        """Keep the cursor in sight when there is less room."""
        if self.rows:
            self._follow()

    def render(self) -> Content:
        """Draw the rows in sight, each on one line."""
        if not self.rows:
            return Content.styled(f"  {NOTHING}", "$muted")
        width = self.content_size.width
        entries = [row for row in self.rows if isinstance(row, MenuEntry)]
        keys = max(len(entry.key) for entry in entries)
        has_sentences = any(entry.sentence for entry in entries)
        most = max(14, width // 2) if has_sentences else max(1, width - 4)
        names = min(max(len(one_line(entry.name)) for entry in entries), most)
        end = self.first + self.get_content_height()
        return Content("\n").join(
            _row_text(row, names, keys, width, index == self.cursor)
            for index, row in enumerate(self.rows[self.first : end], self.first)
        )

    def on_click(self, event: events.Click) -> None:
        """Choose the row under the mouse."""
        event.stop()
        index = self.first + event.y
        if index < len(self.rows) and isinstance(row := self.rows[index], MenuEntry):
            self.post_message(self.Pressed(row))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Show later rows."""
        event.stop()
        self.first = min(self.first + 1, max(0, len(self.rows) - self.get_content_height()))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Show earlier rows."""
        event.stop()
        self.first = max(0, self.first - 1)


def _row_text(row: MenuEntry | str, names: int, keys: int, width: int, is_current: bool) -> Content:
    if isinstance(row, str):
        return Content.styled(f"  {row}", "$muted bold").truncate(width, pad=True)
    right = f"  {row.key:>{keys}} " if keys else " "
    room = max(0, width - len(right))
    mark = ("> ", "bold $primary") if is_current else "  "
    text = one_line(row.name)
    if not row.sentence and len(text) > names:
        text = f"…{text[1 - names :]}"  # the end of a path says more than its beginning
    name = Content.styled(text, "$primary").truncate(names, ellipsis=True, pad=True)
    left = Content.assemble(mark, name, "  ", (one_line(row.sentence), "$muted"))
    line = Content.assemble(
        left.truncate(room, ellipsis=True, pad=True), (right, "$muted")
    ).truncate(width)
    return line.stylize("$foreground on $panel") if is_current else line


class MenuView(Vertical):
    """Shows what can be chosen, and which of it the cursor is on.

    Its letters come from the prompt, or from a line of its own (`has_line`) while that is focused.
    `is_deliberate` is whether the user went to the entry, with an arrow, Tab or the mouse, after
    the last letter: without that, nothing is chosen that may spend or send.
    """

    @dataclass(eq=False, repr=False)
    class Chosen(Message):
        """The user chose an entry with the mouse."""

        entry: MenuEntry

    @dataclass(eq=False, repr=False)
    class Highlighted(Message):
        """The cursor is on another entry."""

        entry: MenuEntry | None

    def __init__(self) -> None:
        super().__init__()
        self.line = TextField(
            compact=True, id="menu-line", placeholder="Type to search", select_on_focus=False
        )
        self._question = QuestionLine()
        self._rows = MenuRows()
        self._rank: Rank = lambda _: ()
        self._text = ""
        self._has_groups = False
        self._room: Callable[[], int] = lambda: MAX_ROWS
        self.has_line = False
        self.is_deliberate = False

    def compose(self) -> ComposeResult:
        """Lay out the question that waits, since the menu may cover it, and the line and rows."""
        yield self._question
        yield self.line
        yield self._rows

    def on_mount(self) -> None:
        """Be closed at first."""
        self.display = False

    @property
    def is_open(self) -> bool:
        """Whether it is on the screen."""
        return self.is_mounted and self.display

    @property
    def entry(self) -> MenuEntry | None:
        """What the cursor is on."""
        rows, cursor = self._rows.rows, self._rows.cursor
        row = rows[cursor] if cursor < len(rows) else None
        return row if isinstance(row, MenuEntry) else None

    def open(
        self,
        title: str,
        rank: Rank,
        text: str = "",
        *,
        room: Callable[[], int],
        has_line: bool,
        has_groups: bool = False,
        current: str = "",
    ) -> None:
        """Show what `rank` returns for `text`; the cursor is on the entry `current`, if it's there.

        `room` returns how many lines there are for it. With `has_line` it has a line to type in.
        """
        self._rank, self._room, self._has_groups = rank, room, has_groups
        self.has_line = self.line.display = has_line
        self.border_title = Content(title)
        with self.prevent(Input.Changed):
            self.line.value = text
        self.line.cursor_position = len(text)
        self.display = True
        self._fill(text, current)

    def close(self) -> None:
        """Show nothing more."""
        self.display = False
        self._rank = lambda _: ()

    def type(self, text: str) -> None:
        """Show what fits other letters, the cursor on the best."""
        if text != self._text:
            self._fill(text)

    def _fill(self, text: str, current: str = "") -> None:
        self._text, self.is_deliberate = text, False
        entries = list(self._rank(text))
        rows: list[MenuEntry | str] = []
        group = ""
        for entry in entries:
            if self._has_groups and not text and entry.group != group:
                group = entry.group
                rows.append(group)
            rows.append(entry)
        places = [i for i, row in enumerate(rows) if isinstance(row, MenuEntry)]
        place = next(
            (i for i in places if getattr(rows[i], "id", "") == current), places[0] if places else 0
        )
        self._rows.room = self._rows_room()
        self._rows.show(rows, place)
        self._report()

    def _rows_room(self) -> int:
        asked = self._question.outer_size.height if self._question.display else 0
        return max(1, min(MAX_ROWS, self._room() - 2 - self.has_line - asked))

    def on_resize(self) -> None:
        """Leave the question its lines."""
        self.fit()

    def fit(self) -> None:
        """Take as many rows as there is room for."""
        if self.is_open:
            self._rows.room = self._rows_room()

    def move(self, step: int) -> None:
        """Move the cursor by so many entries; by one it goes round."""
        rows = self._rows.rows
        places = [i for i, row in enumerate(rows) if isinstance(row, MenuEntry)]
        if not places:
            return
        at = places.index(self._rows.cursor) + step
        at = at % len(places) if abs(step) == 1 else max(0, min(len(places) - 1, at))
        self.is_deliberate = True
        self._rows.go_to(places[at])
        self._report()

    def complete_line(self) -> None:
        """Write the name of what the cursor is on into the line; it is meant then."""
        if (entry := self.entry) is not None:
            self._text = entry.name.removeprefix("/")
            with self.prevent(Input.Changed):
                self.line.value = self._text
            self.line.cursor_position = len(self._text)
            self.confirm()

    def confirm(self) -> None:
        """Take what the cursor is on as meant."""
        self.is_deliberate = True
        self._report()

    def _report(self) -> None:
        entry = self.entry
        waits = entry is not None and entry.may_spend and not self.is_deliberate
        self.border_subtitle = Content(SPENDS_TEXT if waits else "")
        self.post_message(self.Highlighted(entry))

    @on(Input.Changed)
    def _type(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self.type(event.value)

    @on(MenuRows.Pressed)
    def _press(self, event: MenuRows.Pressed) -> None:
        event.stop()
        self.post_message(self.Chosen(event.entry))
