"""The conversation: its newest turns, and the earlier ones when a user scrolls to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.messages import Turn
from baton.core.sanitiser import sanitise
from baton.presentation.words import count_text
from baton.tui import key_bindings
from baton.tui.widgets.question_view import QuestionView
from baton.tui.widgets.turn_view import TurnView

HIGHLIGHT_SECONDS = 1.0
"""How long a sentence that is there already stands out when it would be shown again."""


class Notice(Static):
    """Baton's own sentence in the conversation: it stays until the conversation changes."""

    def __init__(self, text: str, *, error: bool = False) -> None:
        super().__init__(sanitise(text), markup=False, classes="-error" if error else "")
        self.text = text


class Transcript(VerticalScroll):
    """Holds the turns of one branch. At the bottom it follows what is written, above it stays.

    `turns` are all of the branch, oldest first, on the screen or not.
    """

    BINDINGS = key_bindings.TRANSCRIPT

    @dataclass(eq=False, repr=False)
    class Typed(Message):
        """A key was pressed that belongs to the prompt."""

        key: events.Key

    class Changed(Message):
        """Other turns are on the screen now."""

    def __init__(self) -> None:
        super().__init__()
        self.can_focus = True
        self.turns: list[Turn] = []
        self._visible = TranscriptWindow.newest(0)
        self._sent_from: str | None = None
        self._earlier = Static("", id="earlier", markup=False)
        self._column = Vertical(self._earlier)
        self._moving = False
        self._has_typed = False

    def compose(self) -> ComposeResult:
        """Put the turns into a column at least as high as the screen, so that few begin on top."""
        yield self._column

    @property
    def views(self) -> list[TurnView]:
        """The turns on the screen, oldest first."""
        return [child for child in self._column.children if isinstance(child, TurnView)]

    @property
    def selected(self) -> TurnView | None:
        """The turn that keys act on: the newest one unless another was chosen."""
        views = self.views
        return next((view for view in views if view.selected), views[-1] if views else None)

    def view_of(self, turn: str) -> TurnView | None:
        """Return what shows that turn, if it is on the screen."""
        return next((view for view in self.views if view.turn.id == turn), None)

    async def show(
        self, turns: Sequence[Turn], sent_from: str | None = None, at: str | None = None
    ) -> None:
        """Show another branch, at its end or at one of its turns."""
        self.turns = list(turns)
        self._sent_from = sent_from
        index = next((i for i, turn in enumerate(turns) if turn.id == at), None)
        window = TranscriptWindow.newest(len(turns))
        if index is not None:
            window = TranscriptWindow.around(index, len(turns))
        with self.app.batch_update():
            # An open question stays: going to another conversation doesn't answer it.
            old = [c for c in self._column.children if not isinstance(c, QuestionView)]
            await self._column.remove_children([c for c in old if c is not self._earlier])
            await self._fill(window)
        if index is None:
            self.anchor()
        elif (view := self.view_of(turns[index].id)) is not None:
            self.release_anchor()
            self.select(view)

    async def add(self, turn: Turn) -> None:
        """Show one more turn, and go to it."""
        self.turns.append(turn)
        if self._visible.end < self._visible.total:
            await self.show(self.turns, self._sent_from)
        else:
            total = len(self.turns)
            window = TranscriptWindow(max(self._visible.first, total - MAX_TURNS), total, total)
            await self._column.mount(self._view(turn))
            if gone := window.first - self._visible.first:
                # With what was said between them, but for what is still to be answered or ends.
                kept = self._column.children.index(self.views[gone])
                left = self._column.children[:kept]
                await self._column.remove_children(
                    [child for child in left if isinstance(child, TurnView | Notice)]
                )
            self._set_window(window)
        self.anchor()

    def replace(self, turn: Turn) -> None:
        """Remember how a turn ended; the follower of the run updates the view."""
        for index in range(len(self.turns) - 1, -1, -1):
            if self.turns[index].id == turn.id:
                self.turns[index] = turn
                return

    async def note(self, text: str, *, error: bool = False) -> Notice:
        """Say something as Baton at the end of the conversation; return what says it.

        A sentence that is there already isn't repeated, but highlighted.
        """
        last = [c for c in self._column.children if not isinstance(c, QuestionView)][-1]
        if isinstance(last, Notice) and last.text == text:
            self.highlight(last)
            return last
        notice = Notice(text, error=error)
        await self.insert(notice)
        return notice

    def highlight(self, widget: Widget) -> None:
        """Have something stand out for a moment that is in the conversation already."""
        widget.scroll_visible(animate=False)
        widget.add_class("-pointed")
        self.set_timer(HIGHLIGHT_SECONDS, lambda: widget.remove_class("-pointed"))

    async def mention(self, text: str) -> None:
        """Say something at the end of the conversation without going there."""
        await self.insert(Notice(text), follow=False)

    async def insert(self, widget: Widget, *, follow: bool = True) -> None:
        """Put a widget at the end of the conversation, before an open question, and go to it.

        Without `follow`, the view stays where the user reads.
        """
        open = [child for child in self._column.children if isinstance(child, QuestionView)]
        await self._column.mount(widget, before=open[0] if open else None)
        if follow:
            self.anchor()

    async def show_home(self, home: Widget) -> None:
        """Show the home over all else, in place of an older one, until the first turn comes."""
        with self.app.batch_update():
            await self.query("HomeView").remove()
            await self._column.mount(home, after=self._earlier)
        self.screen.refresh_bindings()  # Tab leads to its rows

    def select(self, view: TurnView) -> None:
        """Make this the turn that keys act on."""
        for other in self.views:
            other.selected = other is view
        view.scroll_visible(animate=False, top=view.size.height > self.size.height)

    def on_focus(self) -> None:
        """Show which turn the keys act on."""
        if (view := self.selected) is not None:
            view.selected = True

    def on_blur(self) -> None:
        """The keys act on the newest turn again."""
        self._has_typed = False
        for view in self.views:
            view.selected = False

    @on(TurnView.Pressed)
    def _press(self, event: TurnView.Pressed) -> None:
        event.stop()
        if self.screen.get_selected_text() is None:
            self.focus(scroll_visible=False)
            for view in self.views:
                view.selected = view is event.view

    def on_key(self, event: events.Key) -> None:
        """Send letters that mean nothing here to the prompt, with all keys that follow at once.

        In a burst they all come here before the prompt has the focus.
        """
        if self._has_typed or (event.is_printable and event.key not in self.screen.active_bindings):
            event.stop()
            self._has_typed = True
            self.post_message(self.Typed(event))

    async def action_move(self, step: int) -> None:
        """Select the message before or after."""
        views, current = self.views, self.selected
        if current is None:
            return
        index = views.index(current) + step
        if index < 0 and self._visible.first > 0:
            await self._move_window(self._visible.earlier())
        elif index >= len(views) and self._visible.end < self._visible.total:
            await self._move_window(self._visible.later())
        views = self.views
        self.select(views[max(0, min(len(views) - 1, views.index(current) + step))])

    async def action_top(self) -> None:
        """Select the conversation's first message."""
        await self._jump_to(0)

    async def action_end(self) -> None:
        """Select the conversation's newest message, and follow it."""
        await self._jump_to(len(self.turns) - 1)
        self.anchor()

    async def go_to(self, turn: str) -> None:
        """Select a turn, if it is there."""
        index = next((i for i, one in enumerate(self.turns) if one.id == turn), None)
        if index is not None:
            self.focus(scroll_visible=False)
            self.release_anchor()
            await self._jump_to(index)

    async def _jump_to(self, index: int) -> None:
        if not self.turns:
            return
        if not self._visible.first <= index < self._visible.end:
            window = TranscriptWindow.around(index, len(self.turns))
            with self.app.batch_update():
                await self.query(TurnView).remove()
                await self._fill(window)
        if (view := self.view_of(self.turns[index].id)) is not None:
            self.select(view)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Fetch earlier or later turns when their end of the window comes into sight."""
        super().watch_scroll_y(old_value, new_value)
        if self._moving or not self.is_mounted:
            return
        window = self._visible
        if new_value < min(old_value, 4) and window.first > 0:
            window = window.earlier()
        elif new_value > max(old_value, self.max_scroll_y - 4) and window.end < window.total:
            window = window.later()
        if window is not self._visible:
            self._moving = True
            self.run_worker(self._move_window(window), exclusive=False)

    async def _move_window(self, window: TranscriptWindow) -> None:
        """Bring other turns onto the screen, and keep the ones in sight where they are."""
        self._moving = True
        old, views = self._visible, self.views
        kept = [v for i, v in enumerate(views, old.first) if window.first <= i < window.end]
        fixed = kept[0] if window.first < old.first else kept[-1]
        place = fixed.virtual_region.y - self.scroll_y
        try:
            with self.app.batch_update():
                before = [self._view(t) for t in self.turns[window.first : old.first]]
                after = [self._view(t) for t in self.turns[old.end : window.end]]
                gone = [view for view in views if view not in kept]
                await self._column.mount_all(before, before=kept[0])
                await self._column.mount_all(after, after=kept[-1])
                for view in gone:
                    await view.remove()
                self._set_window(window)
            self.call_after_refresh(self._restore, fixed, place)
        except BaseException:
            self._moving = False
            raise
        self.post_message(self.Changed())

    def _restore(self, fixed: Widget, place: float) -> None:
        self.scroll_to(y=fixed.virtual_region.y - place, animate=False, immediate=True)
        self._moving = False

    async def _fill(self, window: TranscriptWindow) -> None:
        await self._column.mount_all(
            [self._view(turn) for turn in self.turns[window.first : window.end]],
            after=self._earlier,
        )
        self._set_window(window)
        self.post_message(self.Changed())

    def _set_window(self, window: TranscriptWindow) -> None:
        self._visible = window
        self._earlier.display = window.first > 0
        self._earlier.update(f"Earlier: {count_text(window.first, 'turn')} · scroll up")

    def _view(self, turn: Turn) -> TurnView:
        is_first_sent = turn.id == self._sent_from
        return TurnView(turn, "From here on, nothing above is sent any more." * is_first_sent)


STEP_TURNS = 16
"""How many turns come onto the screen at a time."""

MAX_TURNS = 48
"""How many turns are kept there; beyond, the far end leaves."""


@frozen_dataclass
class TranscriptWindow:
    """The turns from `first` up to `end`, of `total`."""

    first: int
    end: int
    total: int

    @classmethod
    def newest(cls, total: int) -> TranscriptWindow:
        """Return the window at the end of a conversation."""
        return cls(max(0, total - STEP_TURNS), total, total)

    @classmethod
    def around(cls, index: int, total: int) -> TranscriptWindow:
        """Return the window with a turn in its middle."""
        first = max(0, min(index - STEP_TURNS // 2, total - STEP_TURNS))
        return cls(first, min(total, first + STEP_TURNS), total)

    def earlier(self) -> TranscriptWindow:
        """Return the window grown at its beginning, and cut at its end if it got too large."""
        first = max(0, self.first - STEP_TURNS)
        return TranscriptWindow(first, min(self.end, first + MAX_TURNS), self.total)

    def later(self) -> TranscriptWindow:
        """Return the window grown at its end, and cut at its beginning if it got too large."""
        end = min(self.total, self.end + STEP_TURNS)
        return TranscriptWindow(max(self.first, end - MAX_TURNS), end, self.total)
