"""Finding earlier conversations: by their words, newest first."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from baton.core.errors import BatonError
from baton.core.history_types import Conversation, SearchHit
from baton.core.sanitiser import one_line, sanitise
from baton.history import Store
from baton.presentation.words import count_text
from baton.tui import key_bindings
from baton.tui.screens.dialogs import RenameScreen
from baton.tui.screens.overlay import Overlay

SEARCH_DELAY_SECONDS = 0.12
"""After how many seconds without typing a search begins."""


Exporter = Callable[[str], Awaitable[str]]
"""Saves a conversation, and returns the sentence that says where."""


@dataclass(frozen=True, slots=True)
class ConversationPlace:
    """A place to go to: a conversation, or one turn of it."""

    conversation: str
    title: str
    turn: str | None = None


class ConversationsScreen(Overlay[ConversationPlace]):
    """Lists conversations, or the turns that match; returns the one to open."""

    BINDINGS = key_bindings.CONVERSATIONS
    HEADING = "Conversations"

    def __init__(self, store: Store, export: Exporter, words: str = "") -> None:
        super().__init__()
        self._store = store
        self._export = export
        self._words = words
        self._found: list[ConversationPlace] = []
        self._deleted: list[ConversationPlace] = []
        self._pause: Timer | None = None

    def body(self) -> ComposeResult:
        """Lay out the search over its results."""
        yield Input(self._words, placeholder="Search everything that was said")
        yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Begin with everything, or with the words given."""
        self.query_one(OptionList).can_focus = False
        self._search()

    @on(Input.Changed)
    def _type(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(SEARCH_DELAY_SECONDS, self._search)

    @work(exclusive=True, group="search")
    async def _search(self, keep: int = 0) -> None:
        if not self.is_open:
            return
        words = self.query_one(Input).value.strip()
        try:
            if words:
                hits = await self._store.search(words)
                self._found = [
                    ConversationPlace(hit.conversation, hit.title, hit.turn) for hit in hits
                ]
                options = [_hit_option(hit) for hit in hits]
            else:
                listed = await self._store.conversations()
                self._found = [ConversationPlace(one.id, one.title) for one in listed]
                options = [_conversation_option(one) for one in listed]
        except BatonError as error:
            self.footer.say(str(error))
            return
        if self.is_open:
            self._show(options, keep)
            self.footer.status = _count_text(len(options), words)

    def _show(self, options: Sequence[Content], keep: int) -> None:
        listing = self.query_one(OptionList)
        listing.clear_options()
        listing.add_options(Option(option) for option in options)
        listing.highlighted = min(keep, len(options) - 1) if options else None

    @property
    def _chosen(self) -> ConversationPlace | None:
        index = self._place
        return None if index is None or index >= len(self._found) else self._found[index]

    @property
    def _place(self) -> int | None:
        """Where the cursor is."""
        return self.query_one(OptionList).highlighted if self.is_open else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to undo only what was deleted."""
        return bool(self._deleted) if action == "undo" else True

    def action_move(self, step: int) -> None:
        """Go through the results without leaving the search."""
        listing = self.query_one(OptionList)
        listing.action_cursor_down() if step > 0 else listing.action_cursor_up()

    def action_open(self) -> None:
        """Open what the cursor is on."""
        if (chosen := self._chosen) is not None:
            self.dismiss(chosen)

    @on(OptionList.OptionSelected)
    def _select(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._found[event.option_index])

    @work(group="change")
    async def action_rename(self) -> None:
        """Give the conversation another title."""
        if (chosen := self._chosen) is None:
            return
        title = await self.app.push_screen_wait(RenameScreen(chosen.title))
        if title:
            await self._store.rename(chosen.conversation, title)
            self._search(self._place or 0)

    @work(group="change")
    async def action_delete(self) -> None:
        """Delete the conversation; until this screen is left it can be brought back."""
        if (chosen := self._chosen) is None:
            return
        await self._store.hide(chosen.conversation)
        self._deleted.append(chosen)
        self.refresh_bindings()
        self.footer.say("deleted; Ctrl+Z brings it back")
        self._search(self._place or 0)

    @work(group="change")
    async def action_undo(self) -> None:
        """Bring back what was deleted last."""
        if self._deleted:
            back = self._deleted.pop()
            await self._store.restore(back.conversation)
            self.refresh_bindings()
            self.footer.say(f"brought back {one_line(back.title, 24)}")
            self._search()

    @work(group="change")
    async def action_export(self) -> None:
        """Save the conversation as Markdown, and say where."""
        if (chosen := self._chosen) is not None:
            try:
                self.footer.say(await self._export(chosen.conversation), 12)
            except BatonError as error:
                self.footer.say(str(error), 12)


def _count_text(found: int, words: str) -> str:
    if found == 0:
        return "nothing found" if words else "no conversations yet"
    if words:
        return f"{found:,} {'match' if found == 1 else 'matches'}"
    return count_text(found, "conversation")


def _conversation_option(conversation: Conversation) -> Content:
    turns = count_text(conversation.turns, "message")
    return _option_text(conversation.title, conversation.updated, Content.styled(turns, "$muted"))


def _hit_option(hit: SearchHit) -> Content:
    snippet = Content.styled(sanitise(hit.snippet).replace("\n", " "), "$muted")
    for start, end in hit.spans:
        snippet = snippet.stylize("bold $primary", start, end)
    return _option_text(hit.title, hit.created, snippet)


def _option_text(title: str, at: float, line: Content) -> Content:
    date = time.strftime("%d %b %Y", time.localtime(at))
    return Content.assemble((one_line(title, 60), "bold"), (f"  {date}", "$muted"), "\n", line)
