"""The line at the top: name, title, policy, context used."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive

from baton.domain.sanitise import one_line
from baton.tui.widgets.line import Line


class Header(Line):
    """The top line. `context` is the used part of the worker's context (None: not known yet)."""

    title: reactive[str] = reactive("")
    policy: reactive[str] = reactive("local first")
    context: reactive[float | None] = reactive(None)

    def on_mount(self) -> None:
        """Fill the line once there is a size to fit it to."""
        self._fill()

    def watch_title(self) -> None:
        """Show the conversation's title."""
        self._fill()

    def watch_policy(self) -> None:
        """Show how far texts may travel."""
        self._fill()

    def watch_context(self) -> None:
        """Show how full the worker's context is."""
        self._fill()

    def _fill(self) -> None:
        self.left = Content.assemble(("baton", "bold $primary"), "   ", one_line(self.title))
        used = "" if self.context is None else f"context {self.context * 100:.0f} %"
        self.right = Content.styled(" · ".join(filter(None, (self.policy, used))), "$muted")
