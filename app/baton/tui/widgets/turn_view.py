"""One turn of a conversation: who, what, and how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from baton.core.messages import Role, Turn, TurnStatus
from baton.core.money import show_usd
from baton.core.sanitiser import one_line, sanitise
from baton.core.view import RunView
from baton.presentation.answers import AnswerPart, AnswerSummary
from baton.presentation.run_story import CardsById
from baton.presentation.words import file_text
from baton.tui import key_bindings
from baton.tui.widgets.status_lines import SplitLine
from baton.tui.workflow_picture import WorkflowView, progress_text

if TYPE_CHECKING:
    from baton.tui.widgets.answer import AnswerView
MAX_SHOWN_CHARS = 40_000
"""How much of a turn is drawn; all of it is copied, exported and sent."""

_STATUS_NOTES = {
    TurnStatus.STREAMING: "",
    TurnStatus.DONE: "",
    TurnStatus.CUT: "This reached its length limit and stops here.",
    TurnStatus.CANCELLED: "Stopped here.",
    TurnStatus.FAILED: "This failed before it was finished.",
    TurnStatus.LOST: "Baton was closed here; the rest was lost.",
}


class TurnView(Vertical):
    """Shows one turn. `selected` marks it as the one that keys act on."""

    selected: reactive[bool] = reactive(False, toggle_class="-selected")

    @dataclass(eq=False, repr=False)
    class Pressed(Message):
        """The turn was clicked."""

        view: TurnView

    def __init__(self, turn: Turn, marker: str = "") -> None:
        super().__init__(classes=f"-{turn.role.value}")
        self.turn = turn
        self.summary = AnswerSummary()
        self.source = sanitise(turn.text)
        self._rating = ""
        self._marker = marker
        self._head = SplitLine(classes="head")
        self._note = Static(classes="note", markup=False)
        self._answers: list[AnswerView] = []
        self._workflow: WorkflowView | None = None
        self._progress = ""

    def compose(self) -> ComposeResult:
        """Lay out the head, the text and the note under it."""
        if self._marker:
            yield Static(self._marker, classes="marker", markup=False)
        yield self._head
        if self.turn.role is Role.USER:
            yield Static(self.source[:MAX_SHOWN_CHARS], classes="text", markup=False)
        else:
            from baton.tui.widgets.answer import AnswerView

            self._answers = [AnswerView(self.source[:MAX_SHOWN_CHARS])]
            yield self._answers[0]
        yield self._note

    def on_mount(self) -> None:
        """Write the head and the note."""
        self._describe()

    def on_click(self) -> None:
        """Choose this turn."""
        self.post_message(self.Pressed(self))

    def show_summary(self, summary: AnswerSummary) -> None:
        """Show what has become known about the turn."""
        if summary != self.summary:
            self.summary = summary
            self._show_parts()
            self._describe()

    def rate(self, rating: str) -> None:
        """Show how the user marked the answer: good, bad or nothing."""
        if rating != self._rating:
            self._rating = rating
            self._describe()

    def draw(self, parts: Sequence[AnswerPart]) -> None:
        """Show the answer as far as it is; a draft stays until what replaces it has a word."""
        if parts:
            self.source = "\n\n".join(sanitise(part.text) for part in parts)
            self._show(parts)

    def show_run(self, run: RunView, roster: CardsById) -> None:
        """Show the steps of the answer's run, where there are several and one has begun."""
        if len(run.steps) < 2 or all(step.began is None for step in run.steps):
            return
        progress = progress_text(run) if run.status == "running" else ""
        if progress != self._progress:
            self._progress = progress
            self._show_head()
        if self._workflow is not None:
            self._workflow.show(run, roster)
        elif self._answers:
            self._workflow = WorkflowView(run, roster)
            self.mount(self._workflow, after=self._head)

    @property
    def has_timeline(self) -> bool:
        """Whether it has steps whose times can be shown."""
        return self._workflow is not None and self.turn.status is not TurnStatus.STREAMING

    def toggle_timeline(self) -> None:
        """Show when each step was at work, or one line again."""
        if self._workflow is not None:
            self._workflow.toggle()

    def finish(self, turn: Turn, summary: AnswerSummary) -> None:
        """Show the turn as it ended: once more from its whole source, so that nothing is askew."""
        self.turn, self.summary = turn, summary
        self.source = sanitise(turn.text)
        for answer in self._answers:
            answer.update("")
        self._show_parts()
        self._describe()

    def _show_parts(self) -> None:
        """Show who wrote which part, where several wrote a text that is known."""
        if self.turn.status is TurnStatus.STREAMING:
            return  # it is drawn as it grows
        parts = self.summary.parts
        whole = "\n\n".join(sanitise(part.text) for part in parts) == self.source
        if self.turn.role is Role.ASSISTANT:
            self._show(parts if whole and parts else [AnswerPart(self.source)])

    def _show(self, parts: Sequence[AnswerPart]) -> None:
        """Draw each part in a widget of its own."""
        from baton.tui.widgets.answer import AnswerView

        if not self._answers:
            return  # not on the screen yet
        while len(self._answers) < len(parts):
            self._answers.append(AnswerView())
            self.mount(self._answers[-1], before=self._note)
        while len(self._answers) > len(parts):
            self._answers.pop().remove()
        left = MAX_SHOWN_CHARS
        for index, (answer, part) in enumerate(zip(self._answers, parts, strict=True)):
            text = sanitise(part.text)[:left]
            left -= len(text)
            answer.show(text)
            answer.set_class(index > 0, "-next")
            answer.show_author(one_line(part.remote_author, 60) if len(parts) > 1 else "")

    def _describe(self) -> None:
        if not self.is_attached:
            return
        self._show_head()
        note, warnings = self._ending(), "\n".join(sanitise(w) for w in self.summary.warnings)
        doubts = "\n".join(one_line(text, 400) for text in self.summary.doubts)
        lines = [
            Content.styled(doubts, "$warning"),
            Content(note),
            Content.styled(warnings, "$warning"),
        ]
        lines = [line for line in lines if line.plain]
        if lines or self._note.display:  # each update lays the whole screen out
            self._note.update(Content("\n").join(lines))
            self._note.display = bool(lines)
        self._note.set_class(self.turn.status is TurnStatus.FAILED, "-failed")

    def _show_head(self) -> None:
        author = "" if self.summary.parts else one_line(self.summary.remote_author, 60)
        self.set_class(bool(author), "-remote")
        self._head.left = self._heading()
        self._head.right = Content.styled(author, "$accent")
        if self._progress and not author:
            key = key_bindings.configured_keys(self.app, "turn.why")
            self._head.right = Content.styled(f"{key} details", "$muted")

    def _heading(self) -> Content:
        turn, summary = self.turn, self.summary
        if self._progress:
            return Content.assemble(("Baton", "bold"), (f" · {self._progress}", "$muted"))
        if turn.role is Role.USER:
            name, parts = "You", [file_text(file) for file in turn.files]
        else:
            author = "" if summary.remote_author else one_line(summary.author or turn.worker, 40)
            name, parts = "Baton", [summary.steps_text or author]
            parts += summary.steps if summary.remote_author and len(summary.steps) == 1 else ()
        if summary.seconds is not None:
            parts.append(f"{summary.seconds:.1f} s")
        if summary.tokens_per_second:
            parts.append(f"{summary.tokens_per_second:.0f} tokens/s")
        if summary.cost and summary.steps_text:
            parts.append(show_usd(summary.cost))
        if summary.versions > 1:
            parts.append(f"{summary.version} of {summary.versions}")
        parts.append(self._rating)
        rest = "".join(f" · {part}" for part in parts if part)
        return Content.assemble((name, "bold"), (rest, "$muted"))

    def _ending(self) -> str:
        silent = self.summary.is_withdrawn or self.summary.is_unstarted
        note = "" if silent else _STATUS_NOTES[self.turn.status]
        if self.summary.is_unstarted and not self.summary.interruption:
            again = key_bindings.configured_keys(self.app, "turn.again")
            note = f"This plan was not run. {again} runs it."
        if self.turn.status is TurnStatus.FAILED and self.summary.failure:
            note = sanitise(self.summary.failure)
        hidden = len(self.source) - MAX_SHOWN_CHARS
        if hidden > 0:
            note = f"{hidden:,} more characters are not shown here; copy gives all. {note}"
        notes = [one_line(text, 400) for text in self.summary.notes]
        return "\n".join(filter(None, (note.strip(), self._continue_hint(), *notes)))

    @property
    def can_continue(self) -> bool:
        """Whether its run was interrupted, or its answer lost or cut at its cap."""
        has_more = self.turn.status is TurnStatus.CUT and bool(self.source.strip())
        is_open = has_more or self.turn.status is TurnStatus.LOST
        return self.turn.role is Role.ASSISTANT and (is_open or bool(self.summary.interruption))

    def _continue_hint(self) -> str:
        """Say how an interrupted run, or a cut answer, is continued."""
        key = key_bindings.configured_keys(self.app, "turn.go_on")
        if not self.summary.interruption:
            return f"{key} continues from there; so does /continue." if self.can_continue else ""
        what = "runs it" if self.summary.is_unstarted else "continues from there"
        return f"{self.summary.interruption} {key} {what}; so does /continue."
