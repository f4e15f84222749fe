"""Finding earlier conversations: by their words, newest first, the matches of each together."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from baton.core.errors import BatonError
from baton.core.history_types import Conversation, SearchHit
from baton.core.messages import Role
from baton.core.money import show_usd
from baton.core.sanitiser import one_line, sanitise
from baton.history import Store
from baton.presentation.run_story import CardsById, worker_name
from baton.presentation.words import count_text
from baton.tui import key_bindings
from baton.tui.screens.overlay import Overlay, RenameScreen
from baton.tui.widgets.text_widgets import TextField

SEARCH_DELAY_SECONDS = 0.12
"""After how many seconds without typing a search begins."""

FIRST_ROWS = 100
"""How many conversations or matches are looked for at first; each time the end is reached, twice
as many."""

MAX_BEFORE_MATCH = 24
"""How many characters of a line are shown before its first match, so that it is in sight."""

MAX_PREVIEW_BEFORE = 400
"""From how many characters before a match on a turn is shown beside it, about."""

MAX_PREVIEW_CHARS = 6_000
"""How many characters are shown there: more than any screen holds."""

Exporter = Callable[[str], Awaitable[str]]
"""Saves a conversation, and returns the sentence that says where."""


@dataclass(frozen=True, slots=True)
class ConversationPlace:
    """A place to go to: a conversation, or one turn of it."""

    conversation: str
    title: str
    turn: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list, and where it leads to; None: a heading, or the last line: find more.

    `hit` is the match that it stands for.
    """

    text: Content
    place: ConversationPlace | None = None
    hit: SearchHit | None = None


class ConversationsScreen(Overlay[ConversationPlace]):
    """Lists conversations, or the turns that match; returns the one to open.

    Where it is wide enough, what surrounds a match stands on the right.
    """

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 (as in Textual)
    BINDINGS = key_bindings.CONVERSATIONS
    HEADING = "Conversations"

    def __init__(self, store: Store, roster: CardsById, export: Exporter, words: str = "") -> None:
        super().__init__()
        self._store = store
        self._roster = roster
        self._export = export
        self._words = words
        self._limit = FIRST_ROWS
        self._rows: Sequence[Row] = ()
        self._deleted: list[ConversationPlace] = []
        self._pause: Timer | None = None
        self._is_searching = True
        self._opens_first = False

    def body(self) -> ComposeResult:
        """Lay out the search over its results."""
        yield TextField(self._words, placeholder="Search all conversations")
        with Horizontal():
            yield OptionList(markup=False)
            yield Static(id="preview")

    def on_mount(self) -> None:
        """Begin with everything, or with the words given."""
        self.query_one(OptionList).can_focus = False
        self._search()

    @on(Input.Changed)
    def _type(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._limit = FIRST_ROWS
        self._is_searching, self._opens_first = True, False
        self._pause = self.set_timer(SEARCH_DELAY_SECONDS, self._search)

    @work(exclusive=True, group="search")
    async def _search(self, keep: int = 0) -> None:
        if not self.is_open:
            return
        self._is_searching = True
        words = self.query_one(TextField).value.strip()
        try:
            if words:
                hits = await self._store.search(words, self._limit)
                count, rows = len(hits), hit_rows(hits, self._roster)
                has_more = count >= self._limit
            else:
                own = await self._store.conversations(self._limit, of_programs=False)
                others = await self._store.conversations(self._limit, of_programs=True)
                heading = [Row(Content("Of other programs").stylize("$muted"))] if others else []
                rows = [*map(_conversation_row, own), *heading, *map(_conversation_row, others)]
                count, has_more = len(own) + len(others), self._limit in (len(own), len(others))
        except BatonError as error:
            self._is_searching = False
            self.footer.say(str(error))
            return
        if self.is_open:
            self._show([*rows, Row(Content("Show more"))] if has_more else rows, keep)
            self.footer.status = _count_text(count, words, has_more)
            self._is_searching = False
            if self._opens_first:
                self.action_open()

    def _show(self, rows: Sequence[Row], keep: int) -> None:
        self._rows = rows
        listing = self.query_one(OptionList)
        listing.clear_options()
        listing.add_options(
            Option(row.text, disabled=row.place is None and row is not rows[-1]) for row in rows
        )
        self.set_class(any(row.hit is not None for row in rows), "-found")
        leading = [index for index, row in enumerate(rows) if row.place is not None]
        listing.highlighted = min(leading, key=lambda index: abs(index - keep), default=None)

    @on(OptionList.OptionHighlighted)
    def _show_preview(self, event: OptionList.OptionHighlighted) -> None:
        """Show what surrounds the match under the cursor."""
        if (hit := self._rows[event.option_index].hit) is not None:
            self._read_preview(hit)

    @work(exclusive=True, group="preview")
    async def _read_preview(self, hit: SearchHit) -> None:
        for turn in await self._store.runs.turns([hit.turn]):
            if self.is_open:
                self.query_one("#preview", Static).update(surroundings(turn.text, hit))

    @on(OptionList.OptionHighlighted)
    def _reach(self, event: OptionList.OptionHighlighted) -> None:
        """Find more once the end is reached."""
        if event.option_index == len(self._rows) - 1 and self._rows[-1].place is None:
            self._limit *= 2
            self._search(event.option_index)

    @property
    def _chosen(self) -> ConversationPlace | None:
        index = self._place
        return None if index is None or index >= len(self._rows) else self._rows[index].place

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

    def action_page(self, step: int) -> None:
        """Go through the results by pages."""
        listing = self.query_one(OptionList)
        if step > 0:
            listing.action_page_down()  # type: ignore[no-untyped-call]
        else:
            listing.action_page_up()  # type: ignore[no-untyped-call]

    def action_open(self) -> None:
        """Open what the cursor is on: while it is still being looked for, once it is found."""
        self._opens_first = self._is_searching
        if not self._is_searching and (chosen := self._chosen) is not None:
            self.dismiss(chosen)

    @on(OptionList.OptionSelected)
    def _select(self, event: OptionList.OptionSelected) -> None:
        if (place := self._rows[event.option_index].place) is not None:
            self.dismiss(place)

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
            await self._store.hide(back.conversation, undo=True)
            self.refresh_bindings()
            self.footer.say(f"brought back {one_line(back.title, 24)}")
            self._search()

    @work(group="change")
    async def action_export(self) -> None:
        """Save the conversation as Markdown, and say where."""
        if (chosen := self._chosen) is not None:
            self.footer.say(await self._export(chosen.conversation), 12)


def hit_rows(hits: Sequence[SearchHit], roster: CardsById) -> list[Row]:
    """Return the lines of what was found: the matches of a conversation under its title."""
    groups: dict[str, list[SearchHit]] = {}
    for hit in hits:
        groups.setdefault(hit.conversation, []).append(hit)
    rows: list[Row] = []
    for group in groups.values():
        parts = [_match_count(len(group)), one_line(group[0].program, 24)]
        rows.append(Row(_heading(group[0].title, group[0].created, "  ".join(parts).rstrip())))
        rows += [_hit_row(hit, roster) for hit in group]
    return rows


def _count_text(number: int, words: str, has_more: bool) -> str:
    if number == 0:
        return "nothing found" if words else "no conversations yet"
    count = _match_count(number) if words else count_text(number, "conversation")
    return f"the newest {count}" if has_more else count


def _match_count(number: int) -> str:
    return f"{number:,} {'match' if number == 1 else 'matches'}"


def _conversation_row(conversation: Conversation) -> Row:
    parts = [count_text(conversation.turns, "message")]
    parts += [one_line(conversation.program, 24)] if conversation.program else []
    return Row(
        _heading(conversation.title, conversation.updated, "  ".join(parts)),
        ConversationPlace(conversation.id, conversation.title),
    )


def _hit_row(hit: SearchHit, roster: CardsById) -> Row:
    who = "you" if hit.role is Role.USER else one_line(worker_name(hit.worker, roster), 24)
    parts = [time.strftime("%d %b %H:%M", time.localtime(hit.created)), who]
    parts += [show_usd(hit.cost)] if hit.cost else []
    return Row(
        Content.assemble((f"  {'  '.join(parts)}  ", "$muted"), _matching_line(hit)),
        ConversationPlace(hit.conversation, hit.title, hit.turn),
        hit,
    )


def _matching_line(hit: SearchHit) -> Content:
    """Return the line that matches, from a little before its first match on."""
    line = Content(sanitise(hit.snippet).replace("\n", " "))
    for start, end in hit.spans:
        line = line.stylize("bold $primary", start, end)
    first = hit.spans[0][0] if hit.spans else 0
    return line if first <= MAX_BEFORE_MATCH else Content("…") + line[first - MAX_BEFORE_MATCH :]


def surroundings(text: str, hit: SearchHit) -> Content:
    """Return a turn's text from a little before the match on, what matches marked."""
    clean = sanitise(text)
    words = {sanitise(hit.snippet[start:end]) for start, end in hit.spans}
    matching = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))), re.I)
    at = max(0, clean.find(sanitise(hit.snippet).strip("…")))
    first = matching.search(clean, at) or matching.search(clean) if words else None
    begin = max(0, (first.start() if first else 0) - MAX_PREVIEW_BEFORE)
    begin = clean.rfind("\n", 0, begin) + 1 or clean.find(" ", begin) + 1 if begin else 0
    shown = Content(clean[begin : begin + MAX_PREVIEW_CHARS])
    for match in matching.finditer(shown.plain) if words else ():
        shown = shown.stylize("bold $primary", match.start(), match.end())
    return Content("…") + shown if begin else shown


def _heading(title: str, at: float, what: str) -> Content:
    date = time.strftime("%d %b %Y", time.localtime(at))
    return Content.assemble((one_line(title, 60), "bold"), (f"  {date}  {what}", "$muted"))
