"""The base of all screens that are shown over the conversation."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from baton.tui import desktop, key_bindings
from baton.tui.widgets.question_view import QuestionLine
from baton.tui.widgets.status_lines import Footer, SplitLine

if TYPE_CHECKING:
    from textual.types import CSSPathType

Result = TypeVar("Result")


class Overlay(ModalScreen[Result | None]):
    """A screen over the conversation, with a title above and its keys below; Esc closes it."""

    CSS_PATH: ClassVar[CSSPathType | None] = Path(__file__).with_name("overlay.tcss")
    BINDINGS: ClassVar[list[BindingType]] = [*key_bindings.OVERLAY, *key_bindings.ABOVE]
    HEADING = ""

    def __init__(self) -> None:
        super().__init__()
        self.footer = Footer()

    def compose(self) -> ComposeResult:
        """Lay out the title, what the screen shows, and the footer."""
        heading = SplitLine(classes="heading")
        heading.left = Content(self.HEADING)
        with Vertical():
            yield heading
            yield QuestionLine()
            yield from self.body()
            yield self.footer

    @abstractmethod
    def body(self) -> ComposeResult:
        """Lay out what the screen shows."""

    @property
    def is_open(self) -> bool:
        """Whether it is still laid out: what was read for it may arrive after it was closed."""
        return self.is_mounted and self.display

    def action_copy_text(self) -> None:
        """Copy what is selected with the mouse."""
        if (text := self.get_selected_text()) is None:
            raise SkipAction
        self.run_worker(self.copy_text(text, "what is selected"), group="copy")

    async def copy_text(self, text: str, what: str) -> None:
        """Copy a text, and say what is known of it."""
        self.footer.say(await desktop.copy(text, what, self.app.copy_to_clipboard))

    async def action_close(self) -> None:
        """Go back to the conversation."""
        self.dismiss(None)
