"""The lines above and below: a left and a right end, the header, the footer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textual.binding import Binding
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

from baton.core.sanitiser import one_line
from baton.presentation.charges import FROZEN_TEXT
from baton.tui.key_bindings import footer_rank


class SplitLine(Widget):
    """Shows `left` and `right` on one line; where both don't fit, the left one is cut."""

    DEFAULT_CSS = "SplitLine { height: 1; width: 1fr; }"
    GAP = 2

    left: reactive[Content] = reactive(Content(""))
    right: reactive[Content] = reactive(Content(""))

    def render(self) -> Content:
        """Put both ends onto the width there is."""
        width = self.content_size.width
        room = max(0, width - self.right.cell_length - (self.GAP if self.right.plain else 0))
        gap = " " * max(0, width - room - self.right.cell_length)
        return Content.assemble(self.left.truncate(room, ellipsis=True, pad=True), gap, self.right)


TITLE_COLUMNS = 20
"""So many columns of the title are kept; what stands beside it is worded more shortly."""


class Header(SplitLine):
    """The top line. `context` is the used part of the worker's context (None: not known yet).

    `policy` is how far texts may travel and what else is set, the first being the most important.
    `money` is worded in full and in short, or nothing while the cloud is off and nothing was spent.
    `offline` is a badge, so that it is easy to see.
    """

    title: reactive[str] = reactive("")
    policy: reactive[tuple[str, ...]] = reactive(("local first",))
    offline: reactive[bool] = reactive(False)
    context: reactive[float | None] = reactive(None)
    money: reactive[tuple[str, ...]] = reactive(())

    def on_resize(self) -> None:
        """Word the line for its new width."""
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
        name = Content.assemble(("baton", "bold $primary"), "   ")
        title = Content(one_line(self.title))
        self.left = Content.assemble(name, title)
        kept = name.cell_length + min(TITLE_COLUMNS, title.cell_length) + self.GAP
        room = self.content_size.width - kept
        for words in self._wordings():
            self.right = self._content_of(words)
            if self.right.cell_length <= room:
                break

    def _wordings(self) -> Iterator[tuple[str, ...]]:
        """Yield the policy, the context and the money, each time more shortly."""
        used = "" if self.context is None else f"{self.context * 100:.0f} %"
        context = f"context {used}" if used else ""
        *_, short = ("", *self.money)
        yield *self.policy, context, *self.money[:1]
        yield *self.policy, context, short
        yield *self.policy, used, short
        yield *self.policy[:1], used, short

    def _content_of(self, words: tuple[str, ...]) -> Content:
        calm = " · ".join(word for word in words if word and word != FROZEN_TEXT)
        parts = [Content.styled(" offline ", "bold $background on $accent")] if self.offline else []
        parts += [Content.styled(calm, "$muted")] if calm else []
        parts += [Content.styled(FROZEN_TEXT, "bold $error")] if FROZEN_TEXT in words else []
        return Content.styled(" · ", "$muted").join(parts)


MIN_STATUS_COLUMNS = 24
"""How many columns are kept free for what is happening, even while that is short."""


class Footer(SplitLine):
    """The bottom line. `status` is what is happening; `said` covers it for a while.

    `asking` covers it while a question is open: nothing goes on until that is answered. `beside` is
    what goes on besides, shown in place of the status unless the person waits (`busy`).
    """

    ALLOW_SELECT = False
    status: reactive[str] = reactive("")
    said: reactive[str] = reactive("")
    asking: reactive[bool] = reactive(False)
    beside: reactive[str] = reactive("")
    busy: reactive[bool] = reactive(False)

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[Content] = []

    def on_mount(self) -> None:
        """Follow the screen's bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._show_keys)

    def say(self, text: str, seconds: float = 6) -> None:
        """Show what was just done; nothing that must not be missed."""
        self.said = text
        self.set_timer(seconds, lambda: self._clear_said(text))

    def _clear_said(self, text: str) -> None:
        if self.said == text:
            self.said = ""

    def watch_status(self) -> None:
        """Show what is happening now."""
        self._fill()

    def watch_said(self) -> None:
        """Show what was just done, or again what is happening."""
        self._fill()

    def watch_asking(self) -> None:
        """Show that the person's choice is waited for."""
        self._fill()

    def watch_beside(self) -> None:
        """Show what goes on in the background."""
        self._fill()

    def watch_busy(self) -> None:
        """Show what the person waits for, or else what goes on besides."""
        self._fill()

    def on_resize(self) -> None:
        """Choose the keys that fit the new width."""
        self._fill()

    def _show_keys(self, screen: Screen[Any]) -> None:
        if not self.is_attached or screen is not self.screen:
            return
        active = [a.binding for a in screen.active_bindings.values() if a.enabled]
        if any((binding.id or "").startswith(("question.", "plan.")) for binding in active):
            # Who chooses has other things in mind than the message above.
            active = [binding for binding in active if not (binding.id or "").startswith("turn.")]
        shown: dict[str, Binding] = {}
        shown_first = {"chat.answer"} if self.asking else set[str]()
        shown_keys = [binding for binding in active if binding.show and binding.id]
        for binding in sorted(shown_keys, key=lambda b: (b.id not in shown_first, footer_rank(b))):
            shown.setdefault(binding.action, binding)
        self._keys = [
            Content.assemble((self.app.get_key_display(b), "$primary"), f" {b.description}")
            for b in shown.values()
        ]
        self._fill()

    def _fill(self) -> None:
        """Show as many keys as fit beside what is said."""
        status = self.status if self.busy else self.beside or self.status
        status = "waiting for your choice" if self.asking else status
        self.left = Content(one_line(self.said or status))
        room = self.content_size.width - max(MIN_STATUS_COLUMNS, self.left.cell_length) - self.GAP
        keys = Content("")
        for key in self._keys:
            more = Content.assemble(keys, "  ", key) if keys.plain else key
            if more.cell_length > room:
                break
            keys = more
        self.right = keys
