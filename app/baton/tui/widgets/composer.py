"""The bottom of the conversation: files that go along, what waits, and the prompt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Static, TextArea

from baton.core.errors import ConfigError
from baton.core.messages import MENTION_SIGNS, Attachment, Prompt as Asked, Turn
from baton.core.sanitiser import one_line, remove_terminal_codes, sanitise
from baton.presentation.words import file_text
from baton.tui import key_bindings
from baton.tui.widgets.menu_view import MenuView
from baton.tui.widgets.text_widgets import TextEditor

PAUSE_SECONDS = 0.25
"""After how many seconds without typing a draft is kept and its files are looked at."""

TYPING_SECONDS = 0.3
"""For how long after a keystroke the next one is expected."""

MAX_WAITING_SHOWN = 3
"""How many of the prompts that wait are shown: there must be room to write another."""


MAX_PASTED_CHARS = 8_000
"""From how many characters on a pasted text goes along as a file instead of into the prompt."""


SHELL_TITLE = "a command for your shell"


class PromptArea(TextEditor):
    """The prompt. `choose` takes what the menu shows for it, and returns whether it shows any."""

    BINDINGS = key_bindings.PROMPT

    @dataclass(eq=False, repr=False)
    class Sent(Message):
        """The user pressed Enter: the prompt's text, which no longer stands in it."""

        text: str

    class Recalling(Message):
        """Earlier prompts are wanted: the answer is `remember`."""

    @dataclass(eq=False, repr=False)
    class LongPasted(Message):
        """More was pasted than a prompt should hold."""

        text: str

    class FileDropped(Message):
        """Backspace was pressed where there is nothing left to delete."""

    def __init__(self, menu: MenuView) -> None:
        super().__init__(
            placeholder="Ask anything", highlight_cursor_line=False, compact=False, id="prompt"
        )
        self._menu = menu
        self.choose: Callable[[], bool] = lambda: False
        self._earlier: list[str] = []
        self._place: int | None = None
        self._draft = ""

    @property
    def before_cursor(self) -> str:
        """The cursor's line as far as the cursor."""
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    def put(self, text: str) -> None:
        """Replace the whole prompt, and go to its end."""
        self.load_text(sanitise(remove_terminal_codes(text)))
        self.move_cursor(self.document.end)

    def remember(self, prompts: Sequence[str]) -> None:
        """Take the earlier prompts, the newest last, and go to the newest."""
        self._earlier = list(prompts)
        self._place = len(self._earlier)
        self._draft = self.text
        self._recall(-1)

    @property
    def is_recalling(self) -> bool:
        """Whether an earlier prompt stands in it."""
        return self._place is not None and self._place < len(self._earlier)

    def forget(self) -> None:
        """Leave the earlier prompts: what stands in the prompt now is new."""
        self._place = None

    def fit(self) -> None:
        """Be as high as the text, up to a third of the screen."""
        most = max(3, self.app.size.height // 3 - 2)
        lines = min(most, max(1, self.wrapped_document.height))
        if self.styles.height is None or self.styles.height.value != lines + 2:
            self.styles.height = lines + 2

    def render_line(self, y: int) -> Strip:
        """Draw nothing where there is no column: Textual can't wrap a placeholder to none."""
        return super().render_line(y) if self.content_size.width > 0 else Strip([])

    def on_resize(self) -> None:
        """Fit the height to the new width."""
        self.call_after_refresh(self.fit)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A question mark shows the keys only where nothing is written; the menu has its own."""
        if action == "keys":
            return not self.text
        return not (action in ("send", "recall", "forget") and self._menu.is_open)

    def action_keys(self) -> None:
        """Show the keys that work here."""
        self.app.call_later(self.app.run_action, "keys_here")

    def action_send(self) -> None:
        """Send the prompt, once the keys before this one are in it."""
        self.call_later(self._send)

    def _send(self) -> None:
        """Take the text out, in the order of the keys: what is typed next is another prompt.

        The menu may have opened since Enter was pressed.
        """
        if self.choose():
            return
        self.post_message(self.Sent(self.text))
        self.put("")
        self.forget()

    def action_line(self) -> None:
        """Break the line."""
        self._replace_via_keyboard("\n", *self.selection)

    def replace_before_cursor(self, length: int, text: str) -> None:
        """Put a text in the place of so many characters before the cursor."""
        row, column = self.cursor_location
        self._replace_via_keyboard(text, (row, column - length), (row, column))

    def action_recall(self) -> None:
        """Go up a line; from the first one, to the prompt before."""
        if not self.cursor_at_first_line:
            self.action_cursor_up()
        elif self._place is None:
            self.post_message(self.Recalling())
        else:
            self._recall(-1)

    def action_forget(self) -> None:
        """Go down a line; from the last one, to the prompt after, and at last to the draft."""
        if not self.cursor_at_last_line or self._place is None:
            self.action_cursor_down()
        else:
            self._recall(1)

    def _recall(self, step: int) -> None:
        assert self._place is not None
        place = self._place + step
        if not 0 <= place <= len(self._earlier):
            return
        text = self._draft if place == len(self._earlier) else self._earlier[place]
        self.put(text)
        self._place = None if place == len(self._earlier) else place

    def action_delete_left(self) -> None:
        """Delete to the left; in an empty prompt, the file added last."""
        if not self.text:
            self.post_message(self.FileDropped())
        super().action_delete_left()

    async def act(self, action: str) -> bool:
        """Send at once: it comes from the messages, behind all keys before it."""
        if action != "send":
            return await super().act(action)
        self._send()
        return True

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = sanitise(remove_terminal_codes(event.text))
        if len(text) > MAX_PASTED_CHARS:
            self.post_message(self.LongPasted(text))
        elif result := self._replace_via_keyboard(text, *self.selection):
            self.move_cursor(result.end_location)


class Composer(Vertical):
    """Shows the prompt and what belongs to it.

    Messages: PromptArea.Sent, PromptArea.Recalling, Edited, Paused.

    `editing` is the earlier prompt that what is written will be another version of; `worker` is
    who it then goes to ("": who answers here).
    """

    editing: reactive[Turn | None] = reactive(None, toggle_class="-editing", bindings=True)

    class Edited(Message):
        """The prompt has another text."""

    class Paused(Message):
        """The user stopped typing for a moment."""

    def __init__(self, menu: MenuView) -> None:
        super().__init__()
        self._menu = menu
        self.prompt = PromptArea(menu)
        self.worker = ""
        self._pasted: list[Attachment] = []
        self._waiting = Static(id="waiting", markup=False)
        self._files = Static(id="files", markup=False)
        self._editing = Static(id="editing", markup=False)
        self._saved_draft: tuple[str, Sequence[Attachment]] = ("", ())
        self._pause: Timer | None = None
        self._changed_at = -TYPING_SECONDS

    def compose(self) -> ComposeResult:
        """Lay the parts out above the prompt."""
        yield self._editing
        yield self._waiting
        yield self._files
        yield self.prompt

    def on_mount(self) -> None:
        """Hide what is empty."""
        for part in (self._waiting, self._files):
            part.display = False

    def on_resize(self) -> None:
        """Leave the menu as many lines as there are now."""
        self._menu.fit()

    @property
    def text(self) -> str:
        """What stands in the prompt."""
        return self.prompt.text

    @property
    def pasted(self) -> tuple[Attachment, ...]:
        """The long pasted texts that go along."""
        return tuple(self._pasted)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written, and nothing was pasted that goes along."""
        return not (self.text or self._pasted)

    @property
    def is_typing(self) -> bool:
        """Whether the user is typing just now."""
        return time.monotonic() - self._changed_at < TYPING_SECONDS

    def put(self, text: str, pasted: Sequence[Attachment] = ()) -> None:
        """Replace what is being written."""
        self._pasted = list(pasted)
        self.prompt.put(text)
        self.prompt.forget()
        self._show_files()

    @property
    def draft(self) -> str:
        """What was being written, which an edited message only covers."""
        return self.text if self.editing is None else self._saved_draft[0]

    def edit(self, turn: Turn, worker: str = "", name: str = "") -> None:
        """Write another version of an earlier prompt, for a worker of that name if one is given.

        `leave_edit` brings back what it covers.
        """
        if self.editing is None:
            self._saved_draft = (self.text, self.pasted)
        self.editing, self.worker = turn, worker
        to = f" to {one_line(name, 40)}" if name else ""
        self._editing.update(f"Enter sends this{to} as a new version.")
        self.put(turn.text, turn.files)

    def leave_edit(self) -> None:
        """Go back to what was being written, or empty the prompt."""
        covered = self._saved_draft if self.editing is not None else ("", ())
        self.editing, self.worker = None, ""
        self.put(*covered)

    def clear_sent(self) -> None:
        """Leave out what went along; after an edit go back to what was being written."""
        if self.editing is not None:
            self.leave_edit()
        else:
            self.put(self.text)

    def attach(self, file: Attachment) -> None:
        """Let a text go along with the prompt."""
        self._pasted.append(file)
        self._show_files()

    def put_before(self, prompt: Asked) -> None:
        """Put a prompt that comes back before what is being written."""
        text = "\n\n".join(filter(None, (prompt.text, self.text)))
        self.put(text, (*prompt.files, *self.pasted))

    def show_waiting(self, prompts: Sequence[str]) -> None:
        """Show the prompts that wait for their turn."""
        lines = [f"Waiting: {one_line(text, 120)}" for text in prompts[-MAX_WAITING_SHOWN:]]
        if more := len(prompts[:-MAX_WAITING_SHOWN]):
            lines.insert(0, f"Waiting: {more} earlier")
        _show_lines(self._waiting, lines)

    @on(TextArea.Changed)
    def _change(self, event: TextArea.Changed) -> None:
        event.stop()
        self._changed_at = time.monotonic()
        self.prompt.fit()
        self.prompt.border_title = SHELL_TITLE if self.text.startswith("!") else ""
        self.post_message(self.Edited())
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(PAUSE_SECONDS, self._handle_pause)

    async def _handle_pause(self) -> None:
        self.post_message(self.Paused())
        self._show_files(await asyncio.to_thread(_mention_lines, self.text))

    @on(PromptArea.LongPasted)
    def _paste(self, event: PromptArea.LongPasted) -> None:
        number = len(self._pasted) + 1
        name = "pasted text" if number == 1 else f"pasted text {number}"
        self.attach(Attachment(name, event.text, len(event.text.encode())))

    @on(PromptArea.FileDropped)
    def _drop(self) -> None:
        if self._pasted:
            self._pasted.pop()
            self._show_files()

    def _show_files(self, mentions: Sequence[str] = ()) -> None:
        """Show name, size and about how many tokens of each file that goes along."""
        pasted = [f"With {file_text(file)}" for file in self._pasted]
        _show_lines(self._files, [*pasted, *mentions])


def _show_lines(view: Static, lines: Sequence[str]) -> None:
    """Show these lines, or nothing where there are none."""
    if lines or view.display:  # each update lays the whole screen out
        view.update("\n".join(lines))
        view.display = bool(lines)


def _mention_lines(text: str) -> list[str]:
    """Return a line for each file that a text names, and for each that isn't there."""
    if not any(sign in text for sign in MENTION_SIGNS):
        return []  # what reads files is loaded only then
    from baton.workers import find_mentions

    mentions = find_mentions(text)
    return [*map(_path_line, mentions.files), *mentions.missing]


def _path_line(path: Path) -> str:
    from baton.workers import read_attachment

    try:
        return f"With {file_text(read_attachment(path))}"
    except ConfigError as error:
        return one_line(str(error))
