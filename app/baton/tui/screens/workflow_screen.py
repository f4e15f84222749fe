"""A run opened into its workflow: its steps, and what there is to know of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import OptionList, Static

from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView
from baton.presentation.answers import CardsById
from baton.tui import key_bindings, workflow_text
from baton.tui.screens.overlay import Overlay
from baton.tui.widgets.text_view import TextView

if TYPE_CHECKING:
    from baton.money import Ledger

REFRESH_SECONDS = 0.25

RunReader = Callable[[], RunView]
"""Returns how a run stands; called again and again while it goes on."""


class _StepList(OptionList):
    """The list of steps; `refit` is called when it has got another width."""

    def __init__(self, refit: Callable[[], object]) -> None:
        super().__init__(markup=False)
        self._refit = refit
        self._fitted = 0

    def on_resize(self) -> None:
        """Have the lines fitted, where the width is another one."""
        if (width := self.scrollable_content_region.width) != self._fitted:
            self._fitted = width
            self.call_after_refresh(self._refit)


class WorkflowScreen(Overlay[None]):
    """Shows a run's steps, and fills in while it goes on.

    `answer` is the answer's text, which the events of a run with one step don't hold.
    """

    BINDINGS = key_bindings.WORKFLOW
    HEADING = "Why this way"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 (as in Textual)

    def __init__(
        self, read_run: RunReader, roster: CardsById, ledger: Ledger, answer: str = ""
    ) -> None:
        super().__init__()
        self._read_run = read_run
        self._run = read_run()
        self._roster = roster
        self._ledger = ledger
        self._answer = answer
        self._following = True
        self._summary = Static(classes="summary")
        self._steps = _StepList(self._fill)
        self._totals = Static(classes="totals")
        self._detail = Static(classes="detail")
        self._scroll = VerticalScroll(can_focus=False)

    def body(self) -> ComposeResult:
        """Lay out the route over the steps, and the step under the cursor below them."""
        yield self._summary
        yield self._steps
        yield self._totals
        with self._scroll:
            yield self._detail

    def on_mount(self) -> None:
        """Show the run, and follow one that isn't over yet."""
        self.call_after_refresh(self._fill)
        if self._run.status == "running":
            self.set_interval(REFRESH_SECONDS, self._follow)

    def on_resize(self) -> None:
        """Lie beside the conversation, not on it."""
        self.call_after_refresh(self._make_room)

    def on_unmount(self) -> None:
        """Give the conversation its whole width again."""
        self._narrow(0)

    def _make_room(self) -> None:
        panel = self.query_one("Vertical")
        self._narrow(panel.region.width if panel.region.width < self.size.width else 0)

    def _narrow(self, columns: int) -> None:
        """Keep so many columns at the conversation's right free."""
        for screen in self.app.screen_stack[:1]:
            screen.styles.padding = (0, columns, 0, 0)

    def _follow(self) -> None:
        if (run := self._read_run()) is not self._run:
            self._run = run
            self._fill()

    def _fill(self) -> None:
        run, roster = self._run, self._roster
        self._summary.update(workflow_text.run_summary(run, roster))
        totals = workflow_text.run_totals(run, roster)
        self._totals.update(totals)
        self._totals.display = bool(totals.plain)
        self._steps.display = bool(run.steps)
        width = self._steps.scrollable_content_region.width - 2
        rows = [workflow_text.step_row(step, run, roster, width) for step in run.steps]
        for index, row in enumerate(rows):
            if index >= self._steps.option_count:
                self._steps.add_option(row)
            else:
                self._steps.replace_option_prompt_at_index(index, row)
        if rows and self._following:
            self._steps.highlighted = self._interesting() - 1
        self._show()
        self.refresh_bindings()

    def _interesting(self) -> int:
        """Return the number of the step that is worked on, else of the answer's last."""
        if self._run.current_step is not None:
            return self._run.current_step.number
        over = [n for n in self._run.plan.answer if n] if self._run.plan else []
        begun = [n for n in over if self._run.steps[n - 1].status != "waiting"]
        return (begun or [1])[-1]

    @property
    def _step(self) -> StepView | None:
        index = self._steps.highlighted
        return None if index is None else self._run.steps[index]

    def _text(self, number: int) -> str:
        """Return a step's text; the only one's is the answer's."""
        return self._run.steps[number - 1].text or (
            self._answer if len(self._run.steps) == 1 else ""
        )

    @on(OptionList.OptionHighlighted)
    def _show(self) -> None:
        if (step := self._step) is not None:
            text = self._text(step.number)
            self._detail.update(workflow_text.step_detail(step, self._run, text, self._roster))
            if self._run.status == "running" and text and not step.is_over:
                self._scroll.scroll_end(animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what there is: a step to read, something that was sent."""
        if action == "egress":
            return bool(self._run.sent)
        return bool(self._run.steps) if action == "open" else True

    def action_move(self, step: int) -> None:
        """Go to the next step, or the one before."""
        self._following = False
        last = len(self._run.steps) - 1
        self._steps.highlighted = max(0, min(last, (self._steps.highlighted or 0) + step))

    def action_page(self, pages: int) -> None:
        """Read on in what is known of the step, or back."""
        rows = max(1, self._scroll.size.height - 1)
        self._scroll.scroll_relative(y=pages * rows, animate=False)

    def action_open(self) -> None:
        """Show all that the step under the cursor wrote."""
        if (step := self._step) is not None:
            number = step.number
            self._following = False
            self.app.push_screen(StepScreen(step, lambda: self._newest(number)))

    @on(OptionList.OptionSelected)
    def _select(self) -> None:
        self.action_open()

    def _newest(self, number: int) -> tuple[str, bool]:
        """Return a step's text, and whether more may come of it."""
        self._run = self._read_run() if self._run.status == "running" else self._run
        over = self._run.steps[number - 1].is_over or self._run.status != "running"
        return self._text(number), not over

    def action_egress(self) -> None:
        """Show what this run sent."""
        from baton.tui.screens.ledger_screens import EgressScreen

        if (started := self._run.started) is not None:
            self.app.push_screen(EgressScreen(self._ledger, started.run))


class StepScreen(Overlay[None]):
    """Shows a step's whole text as it was written, and as it is."""

    BINDINGS = key_bindings.STEP

    def __init__(self, step: StepView, newest: Callable[[], tuple[str, bool]]) -> None:
        super().__init__()
        self.HEADING = f"Step {step.number}: {one_line(step.step.subtask, 100)}"
        self._newest = newest
        self._plain = TextView("", focusable=True)

    def body(self) -> ComposeResult:
        """Lay out the text."""
        yield self._plain

    def on_mount(self) -> None:
        """Show the text, and follow it while it grows."""
        if self._follow():
            self.set_interval(REFRESH_SECONDS, self._follow)

    def _follow(self) -> bool:
        text, growing = self._newest()
        self._plain.put(text or "It has written nothing.")
        self.footer.status = f"{len(text):,} characters{', being written' if growing else ''}"
        return growing
