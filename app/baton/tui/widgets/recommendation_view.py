"""The block of the first start: what is ready now, and which models would suit this machine."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Static

from baton.core.ports import Choice
from baton.core.sanitiser import sanitise
from baton.tui.widgets.question_view import ChoiceView

TAB_HINT = "(Tab to get here)"


class RecommendationView(Vertical):
    """Shows sentences and, once there is something to choose, choices. Takes no focus by itself.

    Nothing waits for it: it is no question, and whoever types a prompt has passed it by.
    """

    class Chosen(Message):
        """The person chose."""

        def __init__(self, view: RecommendationView, choice: Choice) -> None:
            super().__init__()
            self.view = view
            self.choice = choice

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self._text = Static(sanitise(text), markup=False, classes="text")
        self._row = Horizontal(classes="choices")
        self._choices: tuple[Choice, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the sentences over the choices."""
        yield self._text
        yield self._row

    def on_mount(self) -> None:
        """There is nothing to choose yet."""
        self._row.display = False

    @property
    def choosable(self) -> bool:
        """Whether there is something to choose."""
        return bool(self._choices) and self.is_attached

    def say(self, text: str) -> None:
        """Say something else."""
        self.text = text
        self._text.update(sanitise(text))

    async def offer(self, choices: Sequence[Choice]) -> None:
        """Let the person choose among these; among nothing, if empty."""
        if tuple(choices) == self._choices or not self.is_attached:
            return
        self._choices = tuple(choices)
        if isinstance(self.screen.focused, ChoiceView) and self in self.screen.focused.ancestors:
            self.screen.set_focus(self.screen.query_one("#prompt"))
        await self._row.remove_children()
        if choices:
            await self._row.mount(*(ChoiceView(choice) for choice in choices))
            await self._row.mount(Static(TAB_HINT, markup=False, classes="note"))
        self._row.display = bool(choices)
        self.screen.refresh_bindings()

    def on_choice_view_chosen(self, event: ChoiceView.Chosen) -> None:
        """Pass a decision on; one that came too late is none."""
        event.stop()
        if event.choice in self._choices:
            self.post_message(self.Chosen(self, event.choice))
