"""What lies over the conversation for a while: the shape of all other screens."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.containers import Vertical
from textual.screen import ModalScreen

from baton.tui import key_bindings
from baton.tui.widgets.question_view import QuestionLine
from baton.tui.widgets.status_lines import Footer, SplitLine

Result = TypeVar("Result")


class Overlay(ModalScreen[Result | None]):
    """A screen with a title above and its keys below; Esc leads back."""

    BINDINGS: ClassVar[list[BindingType]] = [*key_bindings.OVERLAY, *key_bindings.ABOVE]
    HEADING = ""

    def __init__(self) -> None:
        super().__init__()
        self.footer = Footer()

    def compose(self) -> ComposeResult:
        """Lay out the title, what the screen shows, and the footer."""
        heading = SplitLine(classes="heading")
        heading.left = heading.left + self.HEADING
        with Vertical():
            yield heading
            yield QuestionLine()
            yield from self.body()
            yield self.footer

    def body(self) -> ComposeResult:
        """Lay out what the screen shows."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Whether it is laid out still: what was read for it may come after it was left."""
        return self.is_mounted and self.display

    async def action_close(self) -> None:
        """Go back to the conversation."""
        self.dismiss(None)


class Palette(CommandPalette):
    """Textual's command palette, under the question that waits."""

    BINDINGS = key_bindings.PALETTE

    def compose(self) -> ComposeResult:
        """Lay out the question over the palette."""
        yield QuestionLine()
        yield from super().compose()
