"""The side bar: context, money, models, steps, what waits and was sent; refreshed each second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget
from textual.widgets import OptionList, Static

from baton.core.errors import BatonError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.ledger_types import Egress, Standing
from baton.core.machine import show_memory, show_size
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.tui import key_bindings
from baton.tui.chat.context import ChatContext
from baton.tui.chat.runs import RunController
from baton.tui.workflow_picture import step_name, step_status

MIN_COLUMNS = 120
"""From what width of the window on there is room for it beside the conversation."""

REFRESH_SECONDS = 1.0

MAX_SENT = 3
"""How many of the last requests that left are shown."""


class SideBarController:
    """Shows and hides the side bar, and keeps it up to date."""

    def __init__(self, context: ChatContext, runs: RunController) -> None:
        self._context = context
        self._services = context.services
        self._runs = runs
        self._is_wanted = context.services.has_side_bar
        self._has_begun = False
        self._view: SideBarView | None = None
        self._memory = 0
        self._sent: tuple[Egress, ...] = ()
        self._loaded_for: object = None

    @property
    def focusable(self) -> list[Widget]:
        """The prompts that wait, where they are shown."""
        view = self._view
        return [view.waiting] if view is not None and view.display and view.waiting.display else []

    def begin(self) -> None:
        """Show it from now on where it is wanted and fits. To be called after the first frame."""
        context, self._has_begun = self._context, True
        context.screen.set_interval(REFRESH_SECONDS, self.refresh)
        for what in ("context", "money"):
            context.screen.watch(context.header, what, self.refresh, init=False)
        for what in ("busy", "status"):
            context.screen.watch(context.footer, what, self.refresh, init=False)
        self.fit()

    async def toggle(self) -> None:
        """Show it, or hide it; that is remembered."""
        from baton.platform.settings import write_settings

        columns = self._context.screen.app.size.width
        if columns < MIN_COLUMNS:
            need = f"the side bar needs {MIN_COLUMNS} columns; this window has {columns}"
            self._context.footer.say(need)
            return
        self._is_wanted = not self._is_wanted
        self.fit()
        change = {"screen": {"side_bar": self._is_wanted}}
        await asyncio.to_thread(write_settings, self._services.config, change)

    def fit(self) -> None:
        """Show it where it is wanted and the window is wide enough."""
        screen = self._context.screen
        has_room = screen.app.size.width >= MIN_COLUMNS
        is_shown = self._has_begun and self._is_wanted and has_room
        if is_shown and self._view is None:
            self._view = SideBarView()
            screen.mount(self._view)
        if self._view is not None and self._view.display != is_shown:
            self._view.display = is_shown
        if is_shown:
            screen.call_after_refresh(self.refresh)

    def refresh(self) -> None:
        """Show how things stand, if anything of it can be seen."""
        view, context = self._view, self._context
        if view is None or not (view.display and view.is_mounted) or not context.screen.is_current:
            return
        run = context.queue.current.view if context.queue.current is not None else None
        # Money and what was sent are read again only when they can have changed.
        known = (context.chat.id, context.header.money, run and (len(run.sent), len(run.calls)))
        if known != self._loaded_for:
            self._loaded_for = known
            context.start(self._load, "side_bar", exclusive=True)
        view.show(self._state())

    async def _load(self) -> None:
        services = self._services
        try:
            self._sent = tuple(await services.ledger.egress(limit=MAX_SENT))
        except BatonError as error:
            self._context.footer.say(str(error))
        if not self._memory:
            self._memory = (await services.library.inspect_machine()).memory
        if self._view is not None:
            self._view.show(self._state())

    def _state(self) -> SideBarState:
        context, orchestra = self._context, self._services.orchestra
        running = context.queue.current
        run = running.view if running is not None else None
        sizes = [(card.name, orchestra.resident(card.id)) for card in orchestra.roster]
        return SideBarState(
            context=context.header.context,
            standing=context.standing,
            loaded=tuple((name, size) for name, size in sizes if size),
            taken=orchestra.memory,
            memory=self._memory,
            steps=tuple((f"{s.number} {step_name(s)}", step_status(s, run)) for s in run.steps)
            if run is not None and run.plan is not None
            else (),
            waiting=tuple(pending.prompt.text for pending in context.queue.waiting),
            sent=self._sent,
        )

    def take_out(self, place: int, *, is_edit: bool) -> None:
        """Take a prompt that waits back to be changed, or remove it."""
        waiting = self._context.queue.waiting
        if place < len(waiting):
            (self._runs.take_back if is_edit else self._runs.remove)(waiting[place])
        self.refresh()


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

    @dataclass(eq=False, repr=False)
    class Wanted(Message):
        """The prompt at this place in the queue is to be edited, or else removed."""

        place: int
        is_edit: bool

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
    used = "" if state.context is None else f"{state.context * 100:.0f} %"
    yield _heading("Context", used, "screen.context")
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


def _meter(part: float, colour: str) -> Content:
    """Draw how much of something is used; a little of it is seen, too."""
    full = max(0, min(_COLUMNS, round(part * _COLUMNS)))
    full = max(full, 1) if part > 0 else full
    return Content.assemble(("━" * full, colour), ("─" * (_COLUMNS - full), "$rule"))
