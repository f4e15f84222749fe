"""The side bar: context, money, loaded models, running steps, what waits, what was sent last."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widgets import OptionList, Static

from baton.core.byte_format import show_memory, show_size
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.ledger_types import Egress, Standing
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.tui import key_bindings

WIDTH = 36
"""How many columns it takes."""

_COLUMNS = WIDTH - 4
_MAX_STEPS = 8


@frozen_dataclass
class SideBarState:
    """What the side bar shows.

    `context` is the used part of the worker's context (None: not known yet), `loaded` are models
    with their bytes, which together are `taken` of this machine's `memory` (0: not known yet).
    `steps` are those of the running answer, each with how it stands, `waiting` the prompts that
    wait, the next one first.
    """

    context: float | None = None
    standing: Standing | None = None
    loaded: tuple[tuple[str, int], ...] = ()
    taken: int = 0
    memory: int = 0
    steps: tuple[tuple[str, str], ...] = ()
    waiting: tuple[str, ...] = ()
    sent: tuple[Egress, ...] = ()


class WaitingList(OptionList):
    """The prompts that wait: each can be taken back to be changed, or removed."""

    BINDINGS = key_bindings.SIDE

    class Wanted(Message):
        """The prompt at this place in the queue is to be edited, or else removed."""

        def __init__(self, place: int, *, is_edit: bool) -> None:
            super().__init__()
            self.place = place
            self.is_edit = is_edit

    def show(self, prompts: Sequence[str]) -> None:
        """Show these prompts, with the cursor where it was."""
        cursor = self.highlighted or 0
        self.set_options(Content(one_line(text, 200)) for text in prompts)
        self.highlighted = min(cursor, len(prompts) - 1) if prompts else None
        self.display = bool(prompts)

    def action_edit(self) -> None:
        """Take the prompt back, to be changed."""
        self._want(is_edit=True)

    def action_remove(self) -> None:
        """Take the prompt out of the queue."""
        self._want(is_edit=False)

    @on(OptionList.OptionSelected)
    def _click(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._want(is_edit=True)

    def _want(self, *, is_edit: bool) -> None:
        if self.highlighted is not None:
            self.post_message(self.Wanted(self.highlighted, is_edit=is_edit))


class SideBarView(VerticalScroll, can_focus=False):
    """Shows a state, each part of it leading to the screen that says more; data goes down only."""

    def __init__(self) -> None:
        super().__init__()
        self._above = Static(markup=False)
        self.waiting = WaitingList(markup=False)
        self._below = Static(markup=False)
        self._state: SideBarState | None = None

    def compose(self) -> ComposeResult:
        """Lay out what waits between what is only read."""
        yield self._above
        yield self.waiting
        yield self._below

    def show(self, state: SideBarState) -> None:
        """Show another state; what hasn't changed isn't drawn again."""
        before, self._state = self._state, state
        if state == before:
            return
        self._above.update(Content("\n").join(_lines_above(state)))
        if before is None or state.waiting != before.waiting:
            self.waiting.show(state.waiting)
        if before is None or state.sent != before.sent:
            self._below.update(Content("\n").join(_sent_lines(state.sent)))


def _lines_above(state: SideBarState) -> Iterator[Content]:
    yield _heading("Context", _percent(state.context), "screen.context")
    yield _meter(state.context or 0, "$primary")
    yield Content("")
    yield from _money_lines(state.standing)
    yield Content("")
    taken = state.taken
    of = f" of {show_memory(state.memory)}" if state.memory else ""
    yield _heading("Loaded", f"{show_size(taken)}{of}" if taken else "", "screen.models")
    if state.memory and taken:
        yield _meter(taken / state.memory, "$primary")
    for name, size in state.loaded:
        yield _row(name, show_size(size))
    if not state.loaded:
        yield Content.styled("no model yet", "$muted")
    if state.steps:
        yield Content("")
        yield _heading("Steps", "", "screen.why")
        for name, status in state.steps[:_MAX_STEPS]:
            yield _row(name, status)
        if more := len(state.steps[_MAX_STEPS:]):
            yield Content.styled(f"{more} more", "$muted")
    if state.waiting:
        yield Content("")
        yield _heading("Waiting", str(len(state.waiting)))


def _money_lines(standing: Standing | None) -> Iterator[Content]:
    is_on = standing is not None and standing.is_cloud_on
    frozen = standing.frozen if standing is not None else ""
    state = "frozen" if frozen else "" if is_on else "cloud off"
    yield _heading("Money", state, "screen.budget")
    for room in standing.rooms if standing is not None else ():
        if room.ceiling is not None or room.used:
            of = f" of {show_usd(room.ceiling)}" if room.ceiling is not None else ""
            yield _row(room.scope.phrase, f"{show_usd(room.used)}{of}")
            if room.ceiling:
                yield _meter(room.used / room.ceiling, "$accent")


def _sent_lines(sent: Sequence[Egress]) -> Iterator[Content]:
    yield Content("")
    yield _heading("Sent", "" if sent else "nothing", "screen.egress")
    for one in sent:
        at = time.strftime("%H:%M", time.localtime(one.at))
        cost = f" {show_usd(one.charged)}" if one.charged else ""
        yield _row(f"{at} {one.worker}", f"{show_size(one.size)}{cost}")


def _heading(name: str, value: str, action: str = "") -> Content:
    """Write a part's name and what matters most of it; a click does `action`."""
    line = _row(name, value).stylize("bold", 0, len(name))
    return line.stylize(Style.from_meta({"@click": action})) if action else line


def _row(name: str, value: str) -> Content:
    room = max(1, _COLUMNS - len(value) - 1)
    left = Content(one_line(name, 80)).truncate(room, ellipsis=True, pad=True)
    return Content.assemble(left, " ", (one_line(value, 40), "$muted"))


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part * 100:.0f} %"


def _meter(part: float, colour: str) -> Content:
    """Draw how much of something is used; a little of it is seen, too."""
    full = max(0, min(_COLUMNS, round(part * _COLUMNS)))
    full = max(full, 1) if part > 0 else full
    return Content.assemble(("━" * full, colour), ("─" * (_COLUMNS - full), "$rule"))
