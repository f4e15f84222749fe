"""The line at the bottom: what is happening now, and the keys that work right now."""

from __future__ import annotations

from typing import Any

from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen

from baton.domain.sanitise import one_line
from baton.tui.keys import rank
from baton.tui.widgets.line import Line

STATUS_WIDTH = 34
"""How many columns the status keeps before keys are left out."""


class Footer(Line):
    """The bottom line. `status` is what is happening; `said` covers it for a while."""

    ALLOW_SELECT = False
    status: reactive[str] = reactive("")
    said: reactive[str] = reactive("")

    def on_mount(self) -> None:
        """Follow the screen's bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._show_keys)

    def say(self, text: str, seconds: float = 6) -> None:
        """Tell what was just done; nothing that must not be missed."""
        self.said = text
        self.set_timer(seconds, lambda: self._unsay(text))

    def _unsay(self, text: str) -> None:
        if self.said == text:
            self.said = ""

    def watch_status(self) -> None:
        """Show what is happening now."""
        self._fill()

    def watch_said(self) -> None:
        """Show what was just done, or again what is happening."""
        self._fill()

    def on_resize(self) -> None:
        """Choose the keys anew that fit."""
        self._show_keys(self.screen)

    def _fill(self) -> None:
        self.left = Content(one_line(self.said or self.status))

    def _show_keys(self, screen: Screen[Any]) -> None:
        if not self.is_attached or screen is not self.screen:
            return
        keys = Content("")
        shown: set[str] = set()
        active = [a.binding for a in screen.active_bindings.values() if a.enabled]
        for binding in sorted((b for b in active if b.show and b.id), key=rank):
            if binding.action in shown:
                continue
            shown.add(binding.action)
            key = (self.app.get_key_display(binding), "$primary")
            gap = "  " if keys.plain else ""
            more = Content.assemble(keys, gap, key, f" {binding.description}")
            if more.cell_length > self.content_size.width - STATUS_WIDTH:
                break
            keys = more
        self.right = keys
