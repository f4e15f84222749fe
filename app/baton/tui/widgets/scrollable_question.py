"""A question about a text that may be long: a part of it is in sight, all of it can be read."""

from __future__ import annotations

from textual import events

from baton.core.ports import Question
from baton.tui.widgets.question_view import ChoiceView, QuestionView
from baton.tui.widgets.text_view import TextView


class ScrollableQuestion(QuestionView):
    """Shows a text above the choices, from which it is scrolled as well."""

    NOTE = "Tab, arrows, Enter choose; Esc takes the first."
    ROW_COLUMNS = 84
    """From how many columns on the choices stand side by side."""

    SHARE = 4
    """Which part of the screen's height the text may take: a quarter."""

    def __init__(self, question: Question, text: str, hanging: int = 0) -> None:
        super().__init__(question)
        self._text = TextView(text, hanging=hanging)

    def on_mount(self) -> None:
        """Leave all the rest of the card in sight."""
        self._fit()

    def on_resize(self, event: events.Resize) -> None:
        """Put the choices into two rows where they don't fit into one."""
        self.set_class(event.size.width < self.ROW_COLUMNS, "-narrow")
        self._fit()

    def _fit(self) -> None:
        """Leave so much of the text in sight that all the rest of the card is, too."""
        self._text.styles.max_height = max(4, self.app.size.height // self.SHARE)
        self.call_after_refresh(self._show_remainder)

    def _show_remainder(self) -> None:
        """Say how much of the text is out of sight."""
        more = self._text.lines - self._text.size.height
        lines = "line" if more == 1 else "lines"
        rest = f" PgDn: {more:,} more {lines}." if more > 0 else ""
        self.note.update(self.NOTE + rest)

    def on_choice_view_scrolling(self, event: ChoiceView.Scrolling) -> None:
        """Show more of the text."""
        event.stop()
        page = max(1, self._text.size.height - 1)
        self._text.scroll_relative(y=event.pages * page, animate=False)
