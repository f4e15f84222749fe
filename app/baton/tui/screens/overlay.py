"""The base of the screens over the conversation, and the small ones that ask one thing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual.actions import SkipAction
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from baton.core.catalogue_types import ModelRole
from baton.core.errors import ConfigError
from baton.core.ports import Choice
from baton.core.sanitiser import one_line, sanitise
from baton.models import LibraryModel
from baton.tui import desktop, key_bindings
from baton.tui.widgets.question_view import ChoiceView, QuestionLine
from baton.tui.widgets.status_lines import Footer, SplitLine
from baton.tui.widgets.text_widgets import TextField

if TYPE_CHECKING:
    from textual.types import CSSPathType

    from baton.models import Library


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


DECLINE = Choice("no", "Leave it")


class ConfirmScreen(Overlay[bool]):
    """Returns whether the user wants it; the cursor is on leaving it."""

    AUTO_FOCUS = "ChoiceView"

    def __init__(self, heading: str, text: str, yes: str) -> None:
        super().__init__()
        self.HEADING = heading
        self._text = text
        self._yes = Choice("yes", yes)

    def body(self) -> ComposeResult:
        """Lay out what is at stake over the two choices."""
        yield Static(sanitise(self._text), markup=False, classes="text")
        with Horizontal(classes="choices"):
            yield ChoiceView(DECLINE)
            yield ChoiceView(self._yes)

    def on_choice_view_chosen(self, event: ChoiceView.Chosen) -> None:
        """Hand the decision back."""
        event.stop()
        self.dismiss(event.choice is not DECLINE)


class RenameScreen(Overlay[str]):
    """Asks for a title and returns it."""

    BINDINGS = key_bindings.RENAME
    HEADING = "Rename the conversation"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = one_line(title)

    def body(self) -> ComposeResult:
        """Lay out the title to change."""
        yield TextField(self._title, max_length=200)

    def action_rename(self) -> None:
        """Return the title, once the keys before this one are in it."""
        self.query_one(TextField).call_later(self._give)

    def _give(self) -> None:
        self.dismiss(one_line(self.query_one(TextField).value) or None)


class CeilingScreen(Overlay[str]):
    """Asks for the ceiling for a day and returns it as it was typed; `check` must accept it."""

    BINDINGS = key_bindings.CEILING
    HEADING = "The ceiling for a day"

    def __init__(self, now: str, check: Callable[[str], object]) -> None:
        super().__init__()
        self._now = now
        self._check = check

    def body(self) -> ComposeResult:
        """Lay out the line to type in."""
        yield TextField(self._now, placeholder="2.50", max_length=20)
        yield Static("US dollars. none removes the ceiling.", markup=False, classes="note")

    def action_set(self) -> None:
        """Return the ceiling, once the keys before this one are in it."""
        self.query_one(TextField).call_later(self._give)

    def _give(self) -> None:
        typed = self.query_one(TextField).value.strip()
        try:
            self._check(typed)
        except ConfigError as error:
            self.query_one(".note", Static).update(sanitise(str(error)))
        else:
            self.dismiss(typed)


ROLE_LABELS = {
    ModelRole.CHAT: "Chat: answers unless another one suits a prompt better",
    ModelRole.CONDUCTOR: "Conductor: draws plans, and says who does which step",
    ModelRole.CODER: "Coder: does the steps that are code",
    ModelRole.REASONING: "Reasoning: mathematics, and what is hard to think through",
}
NO_CHANGE = Choice("none", "Leave it as it is")


class RoleScreen(Overlay[ModelRole]):
    """Returns the role that a worker is to have; `holders` says who has each now."""

    AUTO_FOCUS = "ChoiceView"

    def __init__(self, name: str, holders: Mapping[ModelRole, str]) -> None:
        super().__init__()
        self.HEADING = f"What {one_line(name, 40)} does from now on"
        self._holders = holders

    def body(self) -> ComposeResult:
        """Lay out the roles, and who has them."""
        with Vertical(classes="roles"):
            yield ChoiceView(NO_CHANGE)
            for role, words in ROLE_LABELS.items():
                yield ChoiceView(Choice(role.value, words))
                if holder := self._holders.get(role, ""):
                    yield Static(f"now: {one_line(holder, 40)}", markup=False, classes="note")

    def on_choice_view_chosen(self, event: ChoiceView.Chosen) -> None:
        """Hand the role back."""
        event.stop()
        self.dismiss(None if event.choice is NO_CHANGE else ModelRole(event.choice.id))


async def request_model(
    app: App[Any], library: Library, model: str, roles: Sequence[ModelRole] | None = None
) -> LibraryModel | None:
    """Return the model, to be fetched now; None if the user thought better of it.

    A licence that isn't a free one must be agreed to, and a model that won't fit insisted on. To be
    called in a worker of the app, since it may wait for the user. Raises BatonError.
    """
    from baton.models import DoesNotFit, ModelDownload, NeedsAgreement

    agreed = force = False
    while True:
        try:
            return await ModelDownload(library).request(model, roles, agreed=agreed, force=force)
        except NeedsAgreement as error:
            text = (
                f"{error.message}\nIt can be read at {error.place or 'its page'}. Such licences say"
                " what the model may be used for, or by whom; Apache-2.0 and MIT don't."
            )
            agreed = await _confirm(app, "Agree to its licence?", text, "I agree to it")
            if not agreed:
                return None
        except DoesNotFit as error:
            text = f"{error.verdict.why}\n{error.verdict.remedy}".strip()
            force = await _confirm(app, "It won't fit", text, "Download it all the same")
            if not force:
                return None


async def _confirm(app: App[Any], heading: str, text: str, yes: str) -> bool:
    decided: bool | None = await app.push_screen_wait(ConfirmScreen(heading, text, yes))
    return bool(decided)
