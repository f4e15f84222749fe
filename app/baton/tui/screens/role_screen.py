"""Choosing what a worker does: chat, conduct, code, think."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from baton.core.catalogue_types import ModelRole
from baton.core.ports import Choice
from baton.core.sanitiser import one_line
from baton.tui.screens.overlay import Overlay
from baton.tui.widgets.question_view import ChoiceView

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
