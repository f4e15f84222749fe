"""The side bar of the chat screen: gathered once a second, shown where there is room for it."""

from __future__ import annotations

import asyncio

from textual.widget import Widget

from baton.core.errors import BatonError
from baton.core.ledger_types import Egress
from baton.core.view import RunView
from baton.tui.chat.context import ChatContext
from baton.tui.chat.runs import RunController
from baton.tui.widgets.side_bar_view import SideBarState, SideBarView
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
        if not self._memory and services.library is not None:
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
            steps=_steps(run) if run is not None and run.plan is not None else (),
            waiting=tuple(pending.prompt.text for pending in context.queue.waiting),
            sent=self._sent,
        )

    def take_out(self, place: int, *, is_edit: bool) -> None:
        """Take a prompt that waits back to be changed, or remove it."""
        waiting = self._context.queue.waiting
        if place < len(waiting):
            (self._runs.take_back if is_edit else self._runs.remove)(waiting[place])
        self.refresh()


def _steps(run: RunView) -> tuple[tuple[str, str], ...]:
    return tuple((f"{one.number} {step_name(one)}", step_status(one, run)) for one in run.steps)
