"""The line at the top: name, title, policy, context used, money."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive

from baton.core.sanitiser import one_line
from baton.tui.money_text import FROZEN_TEXT
from baton.tui.widgets.split_line import SplitLine


class Header(SplitLine):
    """The top line. `context` is the used part of the worker's context (None: not known yet).

    `money` is "" while the cloud is off and nothing was spent. `offline` is a badge, so that it is
    seen from afar.
    """

    title: reactive[str] = reactive("")
    policy: reactive[str] = reactive("local first")
    offline: reactive[bool] = reactive(False)
    context: reactive[float | None] = reactive(None)
    money: reactive[str] = reactive("")

    def on_mount(self) -> None:
        """Fill the line once there is a size to fit it to."""
        self._fill()

    def watch_title(self) -> None:
        """Show the conversation's title."""
        self._fill()

    def watch_policy(self) -> None:
        """Show how far texts may travel."""
        self._fill()

    def watch_offline(self) -> None:
        """Show whether anything is connected to at all."""
        self._fill()

    def watch_context(self) -> None:
        """Show how full the worker's context is."""
        self._fill()

    def watch_money(self) -> None:
        """Show what was spent of what."""
        self._fill()

    def _fill(self) -> None:
        self.left = Content.assemble(("baton", "bold $primary"), "   ", one_line(self.title))
        used = "" if self.context is None else f"context {self.context * 100:.0f} %"
        frozen = self.money == FROZEN_TEXT
        calm = (self.policy, used, "" if frozen else self.money)
        words = " · ".join(part for part in calm if part)
        parts = [Content.styled(" offline ", "bold $background on $accent")] if self.offline else []
        parts += [Content.styled(words, "$muted")] if words else []
        parts += [Content.styled(self.money, "bold $error")] if frozen else []
        self.right = Content.styled(" · ", "$muted").join(parts)
