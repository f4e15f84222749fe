"""One turn of a conversation: who, what, and how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from baton.domain.chat import Attachment, Role, Turn, TurnStatus, about_tokens
from baton.domain.money import show_usd
from baton.domain.sanitise import one_line, sanitise
from baton.tui.facts import Facts
from baton.tui.widgets.line import Line

if TYPE_CHECKING:
    from baton.tui.widgets.answer import Answer

SHOWN_CHARACTERS = 40_000
"""How much of a turn is drawn; all of it is copied, exported and sent."""

_STATUS = {
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

    class Pressed(Message):
        """The turn was clicked."""

        def __init__(self, view: TurnView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, turn: Turn, marker: str = "") -> None:
        super().__init__(classes=f"-{turn.role.value}")
        self.turn = turn
        self.facts = Facts()
        self.source = sanitise(turn.text)
        self._marker = marker
        self._head = Line(classes="head")
        self._note = Static(classes="note", markup=False)
        self._answer: Answer | None = None

    def compose(self) -> ComposeResult:
        """Lay out the head, the text and the note under it."""
        if self._marker:
            yield Static(self._marker, classes="marker", markup=False)
        yield self._head
        if self.turn.role is Role.USER:
            yield Static(_shown(self.source), classes="text", markup=False)
        else:
            from baton.tui.widgets.answer import Answer

            self._answer = Answer(_shown(self.source))
            yield self._answer
        yield self._note

    def on_mount(self) -> None:
        """Write the head and the note."""
        self._describe()

    def on_click(self) -> None:
        """Tell that this turn was chosen."""
        self.post_message(self.Pressed(self))

    def learn(self, facts: Facts) -> None:
        """Show what has become known about the turn."""
        if facts != self.facts:
            self.facts = facts
            self._describe()

    def write(self, text: str) -> None:
        """Show one more piece of the answer."""
        clean = sanitise(text)
        self.source += clean
        if self._answer is not None and len(self.source) <= SHOWN_CHARACTERS:
            self._answer.append(clean)

    def rewrite(self, text: str) -> None:
        """Show this instead of what there is of the answer."""
        self.source = sanitise(text)
        if self._answer is not None:
            self._answer.update(_shown(self.source))

    def settle(self, turn: Turn, facts: Facts) -> None:
        """Show the turn as it ended: once more from its whole source, so that nothing is askew."""
        self.turn, self.facts = turn, facts
        self.source = sanitise(turn.text)
        if self._answer is not None:
            self._answer.update(_shown(self.source))
        self._describe()

    def _describe(self) -> None:
        if not self.is_attached:
            return
        self._head.left = self._heading()
        self._head.right = Content.styled(one_line(self.facts.afar, 60), "$accent")
        self.set_class(bool(self.facts.afar), "-afar")
        note = self._ending()
        self._note.update(note)
        self._note.display = bool(note)
        self._note.set_class(self.turn.status is TurnStatus.FAILED, "-failed")

    def _heading(self) -> Content:
        turn, facts = self.turn, self.facts
        if turn.role is Role.USER:
            name, parts = "You", [describe_file(file) for file in turn.files]
        else:
            name, parts = "Baton", [facts.told_steps or one_line(turn.worker, 40)]
            parts += facts.steps if facts.afar and len(facts.steps) == 1 else ()
        if facts.seconds is not None:
            parts.append(f"{facts.seconds:.1f} s")
        if facts.tokens_per_second:
            parts.append(f"{facts.tokens_per_second:.0f} tokens/s")
        if facts.cost and facts.told_steps:
            parts.append(show_usd(facts.cost))
        if facts.versions > 1:
            parts.append(f"{facts.version} of {facts.versions}")
        rest = "".join(f" · {part}" for part in parts if part)
        return Content.assemble((name, "bold"), (rest, "$muted"))

    def _ending(self) -> str:
        note = "" if self.facts.withdrawn else _STATUS[self.turn.status]
        if self.turn.status is TurnStatus.FAILED and self.facts.failure:
            note = sanitise(self.facts.failure)
        hidden = len(self.source) - SHOWN_CHARACTERS
        if hidden > 0:
            note = f"{hidden:,} more characters are not shown here; copy gives all. {note}"
        return "\n".join(
            filter(None, (note.strip(), *(one_line(n, 400) for n in self.facts.notes)))
        )


def _shown(text: str) -> str:
    return text[:SHOWN_CHARACTERS]


def describe_file(file: Attachment) -> str:
    """Name a file with its size and about how many tokens it takes."""
    tokens = about_tokens(file.text)
    return f"{one_line(file.name, 40)} ({show_size(file.size)}, about {tokens:,} tokens)"


def show_size(size: int) -> str:
    """Write a size in bytes for people."""
    if size < 1000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1000:.1f} kB"
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"
