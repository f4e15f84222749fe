"""A run's workflow in the conversation: live while it runs, after it a timeline on one line."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.widgets import Static

from baton.core.view import RunView
from baton.presentation.run_story import CardsById
from baton.tui.workflow_picture import picture_rows, timeline_summary


class WorkflowView(Static):
    """Shows the steps of a run; once that is over, a click opens them and folds them up again."""

    def __init__(self, run: RunView, roster: CardsById) -> None:
        super().__init__(markup=False)
        self._run = run
        self._roster = roster
        self._is_open = False
        self._is_asking = False
        self._height = 0

    def show(self, run: RunView, roster: CardsById) -> None:
        """Show the run as it is now."""
        if run is not self._run:
            self._run, self._roster = run, roster
            self._draw()

    def show_question(self, *, is_open: bool) -> None:
        """Show whether the person is asked before a step begins."""
        if is_open != self._is_asking:
            self._is_asking = is_open
            self._draw()

    def toggle(self) -> None:
        """Show all steps of a run that is over, or one line again."""
        self._is_open = not self._is_open
        self._draw()

    def on_resize(self) -> None:
        """Fit the lines to the width."""
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Open the steps, or fold them up."""
        if self._run.status != "running":
            event.stop()
            self.toggle()

    def _draw(self) -> None:
        """Draw it again; only another number of lines has the screen laid out again."""
        if (width := self.content_size.width) <= 0:
            return
        lines = self._lines(width)
        height = sum(1 + line.plain.count("\n") for line in lines)
        self.update(Content("\n").join(lines), layout=height != self._height)
        self._height = height

    def _lines(self, width: int) -> list[Content]:
        run, roster = self._run, self._roster
        if run.status == "running":
            answers = run.plan.answer if run.plan else ()
            texts = {s.number: s.text for s in run.steps if s.number not in answers}
            rows = picture_rows(run, roster, width, texts_of=texts, is_asking=self._is_asking)
            return [row.content for row in rows]
        if not self._is_open:
            mark = Content.styled("▸ ", "$primary")
            return [mark + timeline_summary(run, roster, width - 2)]
        lines = [row.content for row in picture_rows(run, roster, width - 2)]
        marks = [Content.styled("▾ ", "$primary"), *[Content("  ")] * (len(lines) - 1)]
        return [mark + line for mark, line in zip(marks, lines, strict=True)]
