"""The lines above and below: a left and a right end, the header, the footer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from textual.binding import Binding
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.selection import Selection
from textual.style import Style
from textual.widget import Widget

from baton.core.sanitiser import one_line
from baton.presentation.words import FROZEN_TEXT
from baton.tui.key_bindings import footer_need, footer_rank


class SplitLine(Widget):
    """Shows `left` and `right` on one line; where both don't fit, the left one is cut."""

    DEFAULT_CSS = "SplitLine { height: 1; width: 1fr; }"
    GAP = 2

    auto_links = reactive(False)  # what can be clicked keeps its colour
    left: reactive[Content] = reactive(Content(""))
    right: reactive[Content] = reactive(Content(""))

    def render(self) -> Content:
        """Put both ends onto the width there is."""
        width = self.content_size.width
        room = max(0, width - self.right.cell_length - (self.GAP if self.right.plain else 0))
        gap = " " * max(0, width - room - self.right.cell_length)
        return Content.assemble(self.left.truncate(room, ellipsis=True, pad=True), gap, self.right)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text without the blanks that push its ends apart."""
        if (selected := super().get_selection(selection)) is None:
            return None
        text, end = selected
        return re.sub(r" {3,}", "  ", text.strip()), end


def clickable(content: Content, action: str) -> Content:
    """Have a click on it do an action."""
    return content.stylize(Style.from_meta({"@click": action})) if action else content


HeaderPart = tuple[str, str]
"""Words in the header, and the action that a click on them does."""

TITLE_COLUMNS = 20
"""So many columns of the title are kept; what stands beside it is worded more shortly."""


class Header(SplitLine):
    """The top line. `context` is the used part of the worker's context (None: not known yet).

    A click on a part opens what it is about; none of them spends or sends anything by itself.
    `policy` is how far texts may travel and what else is set, the first being the most important.
    `money` is worded in full and in short, or nothing while the cloud is off and nothing was spent.
    `offline` is a badge, so that it is easy to see.
    """

    title: reactive[str] = reactive("")
    policy: reactive[tuple[HeaderPart, ...]] = reactive((("local first", "screen.mode"),))
    offline: reactive[bool] = reactive(False)
    context: reactive[float | None] = reactive(None)
    money: reactive[tuple[str, ...]] = reactive(())

    def _fill(self) -> None:
        """Word the line for its width and what there is to show."""
        name = clickable(Content.styled("baton", "bold $primary"), "app.menu")
        title = clickable(Content(one_line(self.title)), "screen.rename")
        self.left = Content.assemble(name, "   ", title)
        kept = self.left.cell_length - max(0, title.cell_length - TITLE_COLUMNS) + self.GAP
        room = self.content_size.width - kept
        for parts in self._wordings():
            self.right = self._content_of(parts)
            if self.right.cell_length <= room:
                break

    watch_title = watch_policy = watch_offline = watch_context = watch_money = on_resize = _fill

    def _wordings(self) -> Iterator[tuple[HeaderPart, ...]]:
        """Yield the policy, the context and the money, each time more shortly."""
        used = "" if self.context is None else f"{self.context * 100:.0f} %"
        full, short = (
            (f"context {used}" if used else "", "screen.context"),
            (used, "screen.context"),
        )
        money = [(words, "screen.budget") for words in self.money]
        yield *self.policy, full, *money[:1]
        yield *self.policy, full, *money[-1:]
        yield *self.policy, short, *money[-1:]
        yield *self.policy[:1], short, *money[-1:]

    def _content_of(self, parts: tuple[HeaderPart, ...]) -> Content:
        """Write the parts in a row, what is to be seen at once at its ends."""
        badge = Content.styled(" offline ", "bold $background on $accent")
        shown = [clickable(badge, "screen.look_up('offline')")] if self.offline else []
        for words, action in sorted(parts, key=lambda part: part[0] == FROZEN_TEXT):
            style = "bold $error" if words == FROZEN_TEXT else "$muted"
            shown += [clickable(Content.styled(words, style), action)] if words else []
        return Content.styled(" · ", "$muted").join(shown)


MIN_STATUS_COLUMNS = 24
"""How many columns are kept free for what is happening, even while that is short."""


class Footer(SplitLine):
    """The bottom line. `status` is what is happening; `message` covers it for a while.

    `asking` covers it while a question is open: nothing continues until that is answered. `beside`
    is what runs besides, shown in place of the status unless the user waits (`busy`).
    """

    ALLOW_SELECT = False
    status: reactive[str] = reactive("")
    message: reactive[str] = reactive("")
    asking: reactive[bool] = reactive(False)
    beside: reactive[str] = reactive("")
    busy: reactive[bool] = reactive(False)

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[tuple[int, Content]] = []

    def on_mount(self) -> None:
        """Follow the screen's bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._show_keys)

    def say(self, text: str, seconds: float = 6) -> None:
        """Show what was just done; nothing that must not be missed."""

        def clear() -> None:
            if self.message == text:
                self.message = ""

        self.message = text
        self.set_timer(seconds, clear)

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
            (0 if binding.id in shown_first else footer_need(binding), self._content_of(binding))
            for binding in shown.values()
        ]
        self._fill()

    def _content_of(self, binding: Binding) -> Content:
        """Write a key and what it does; a click is as good as the key."""
        key = self.app.get_key_display(binding)
        shown = Content.assemble((key, "$primary"), f" {binding.description}")
        return clickable(shown, f"app.simulate_key({binding.key!r})")

    def _fill(self) -> None:
        """Show as many keys as fit beside the text, the most needed ones."""
        status = self.status if self.busy else self.beside or self.status
        status = "waiting for your choice" if self.asking else status
        self.left = Content(one_line(self.message or status))
        room = self.content_size.width - max(MIN_STATUS_COLUMNS, self.left.cell_length)
        shown: list[int] = []
        for index in sorted(range(len(self._keys)), key=lambda index: self._keys[index][0]):
            room -= self._keys[index][1].cell_length + self.GAP
            if room < 0 and shown:
                break
            shown.append(index)
        self.right = Content("  ").join(self._keys[index][1] for index in sorted(shown))

    watch_status = watch_message = watch_asking = watch_beside = watch_busy = on_resize = _fill
