"""The bottom of the conversation: hints, files that go along, what waits, and the prompt."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.timer import Timer
from textual.widgets import Static, TextArea

from baton.core.errors import ConfigError
from baton.core.messages import Attachment, Prompt as Asked, Turn
from baton.core.sanitiser import one_line, sanitise
from baton.presentation.words import file_text
from baton.tui import key_bindings, slash_commands

PAUSE_SECONDS = 0.25
"""After how many seconds without typing a draft is kept and its files are looked at."""

TYPING_SECONDS = 0.3
"""For how long after a keystroke the next one is expected."""

MAX_COMMANDS_SHOWN = 9
"""How many commands are described at once; the others are only named."""

MAX_WAITING_SHOWN = 3
"""How many of the prompts that wait are shown: there must be room to write another."""


MAX_PASTED_CHARS = 8_000
"""From how many characters on a pasted text goes along as a file instead of into the prompt."""


class PromptArea(TextArea):
    """The prompt. `completion` is what Tab would put before the cursor for the word there."""

    BINDINGS = key_bindings.PROMPT

    class Sent(Message):
        """The person pressed Enter: the prompt's text, which no longer stands in it."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Recalling(Message):
        """Earlier prompts are wanted: the answer is `remember`."""

    class LongPasted(Message):
        """More was pasted than a prompt should hold."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class FileDropped(Message):
        """Backspace was pressed where there is nothing left to delete."""

    def __init__(self) -> None:
        super().__init__(
            placeholder="Ask anything", highlight_cursor_line=False, compact=False, id="prompt"
        )
        self.completion: tuple[int, str] | None = None
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
        self.load_text(sanitise(text))
        self.move_cursor(self.document.end)

    def remember(self, prompts: Sequence[str]) -> None:
        """Take the earlier prompts, the newest last, and go to the newest."""
        self._earlier = list(prompts)
        self._place = len(self._earlier)
        self._draft = self.text
        self._recall(-1)

    def forget(self) -> None:
        """Leave the earlier prompts: what stands in the prompt now is new."""
        self._place = None

    def fit(self) -> None:
        """Be as high as the text, up to a third of the screen."""
        most = max(3, self.app.size.height // 3 - 2)
        lines = min(most, max(1, self.wrapped_document.height))
        if self.styles.height is None or self.styles.height.value != lines + 2:
            self.styles.height = lines + 2

    def on_resize(self) -> None:
        """Fit the height to the new width."""
        self.call_after_refresh(self.fit)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Tab completes only where there is something to complete."""
        return self.completion is not None if action == "complete" else True

    def action_send(self) -> None:
        """Send the prompt, once the keys before this one are in it."""
        self.call_later(self._send)

    def _send(self) -> None:
        """Take the text out, in the order of the keys: what is typed next is another prompt."""
        self.post_message(self.Sent(self.text))
        self.put("")
        self.forget()

    def action_line(self) -> None:
        """Break the line."""
        self._replace_via_keyboard("\n", *self.selection)

    def action_complete(self) -> None:
        """Put the completion in the place of the word before the cursor."""
        if self.completion is not None:
            length, text = self.completion
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

    async def _on_key(self, event: events.Key) -> None:
        """Act in the order of the keys: by itself, Backspace acts after what is typed next."""
        bindings = self._bindings.copy()
        bindings.apply_keymap(self.app._keymap)
        for binding in bindings.key_to_bindings.get(event.key, ()):
            if binding.action == "send":
                self._send()  # it comes from the messages, behind all keys before it
            elif not await self.app.run_action(binding.action, self):
                continue
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = sanitise(event.text)
        if len(text) > MAX_PASTED_CHARS:
            self.post_message(self.LongPasted(text))
        elif result := self._replace_via_keyboard(text, *self.selection):
            self.move_cursor(result.end_location)


class Composer(Vertical):
    """Shows the prompt and what belongs to it. Messages: Prompt.Sent, Prompt.Recalling, Paused.

    `editing` is the earlier prompt that what is written will be another version of; `worker` is
    who it then goes to ("": who answers here).
    """

    editing: reactive[Turn | None] = reactive(None, toggle_class="-editing", bindings=True)

    class Paused(Message):
        """The person stopped typing for a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.prompt = PromptArea()
        self.worker = ""
        self._pasted: list[Attachment] = []
        self._waiting = Static(id="waiting", markup=False)
        self._hints = Static(id="hints", markup=False)
        self._files = Static(id="files", markup=False)
        self._editing = Static(id="editing", markup=False)
        self._saved_draft: tuple[str, Sequence[Attachment]] = ("", ())
        self._pause: Timer | None = None
        self._changed_at = -TYPING_SECONDS

    def compose(self) -> ComposeResult:
        """Lay the parts out above the prompt."""
        yield self._editing
        yield self._waiting
        yield self._hints
        yield self._files
        yield self.prompt

    def on_mount(self) -> None:
        """Hide what is empty."""
        for part in (self._waiting, self._hints, self._files):
            part.display = False

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
        """Whether the person is typing just now."""
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

    def edit(self, turn: Turn, worker: str = "") -> None:
        """Write another version of an earlier prompt; `leave_edit` brings back what it covers."""
        if self.editing is None:
            self._saved_draft = (self.text, self.pasted)
        self.editing, self.worker = turn, worker
        to = f" to {one_line(worker, 40)}" if worker else ""
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
    async def _change(self, event: TextArea.Changed) -> None:
        event.stop()
        self._changed_at = time.monotonic()
        self.prompt.fit()
        await self._hint()
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(PAUSE_SECONDS, self._handle_pause)

    async def _handle_pause(self) -> None:
        self.post_message(self.Paused())
        await self._look_at_files()

    @on(PromptArea.LongPasted)
    def _paste(self, event: PromptArea.LongPasted) -> None:
        number = len(self._pasted) + 1
        name = "pasted text" if number == 1 else f"pasted text {number}"
        self._pasted.append(Attachment(name, event.text, len(event.text.encode())))
        self._show_files()

    @on(PromptArea.FileDropped)
    def _drop(self) -> None:
        if self._pasted:
            self._pasted.pop()
            self._show_files()

    async def _hint(self) -> None:
        """Show what a command or a path that is being typed may become."""
        text, before = self.text, self.prompt.before_cursor
        lines: list[Content] = []
        completion: tuple[int, str] | None = None
        if text.startswith("/") and "\n" not in text and "/" not in text[1:]:
            word = text[1:].split(" ")[0]
            found = slash_commands.matching_commands(word.lower())
            lines = [_command_hint(command) for command in found[:MAX_COMMANDS_SHOWN]]
            if rest := ", ".join(f"/{command.name}" for command in found[MAX_COMMANDS_SHOWN:]):
                lines.append(Content.styled(f"and {rest}", "$muted"))
            if found and " " not in text and word != found[0].name:
                completion = (len(text), f"/{found[0].name}" + (" " if found[0].argument else ""))
        elif (typed := path_at_end(before)) is not None:
            found_paths = await asyncio.to_thread(path_candidates, typed)
            lines = [Content.styled(f"@{path}", "$muted") for path in found_paths]
            if found_paths:
                length = len(before) - before.rindex("@")
                completion = (length, mention_of(found_paths[0]))
                if completion[1] == before[-length:]:
                    completion = None
        _show_lines(self._hints, lines)
        self.prompt.completion = completion
        self.screen.refresh_bindings()

    async def _look_at_files(self) -> None:
        """Show name, size and about how many tokens of each file that the prompt names."""
        from baton.workers import mentioned_files

        named: list[str] = []
        if "@" in self.text:
            for path in await asyncio.to_thread(mentioned_files, self.text):
                named.append(await asyncio.to_thread(_path_text, path))
        self._show_files(named)

    def _show_files(self, named: Sequence[str] = ()) -> None:
        lines = [*map(file_text, self._pasted), *named]
        _show_lines(self._files, [f"With {line}" for line in lines])


def _show_lines(view: Static, lines: Sequence[str | Content]) -> None:
    """Show these lines, or nothing where there are none."""
    if lines or view.display:  # each update lays the whole screen out
        view.update(Content("\n").join(lines))
        view.display = bool(lines)


def _command_hint(command: slash_commands.SlashCommand) -> Content:
    name = f"/{command.name} {command.argument}".rstrip()
    return Content.assemble((f"{name:<18}", "$primary"), (command.help, "$muted"))


def _path_text(path: Path) -> str:
    from baton.workers import read_attachment

    try:
        return file_text(read_attachment(path))
    except ConfigError as error:
        return one_line(str(error))


_MENTION = re.compile(r"""(?:^|[\s(\["'])@(?:"([^"]*)|([^\s"]*))$""")
_MAX_ENTRIES = 2_000
"""How many entries of a folder are looked at."""


def path_at_end(before: str) -> str | None:
    """Return the `@path` that is being typed at the end of this text, without the `@`."""
    found = _MENTION.search(before)
    return None if found is None else found[1] if found[1] is not None else found[2]


def path_candidates(typed: str, limit: int = 6) -> list[str]:
    """Return the paths that the typed one may become; folders end in a slash. Reads one folder."""
    folder, _, start = typed.rpartition("/")
    where = Path(f"{folder}/" if "/" in typed else ".").expanduser()
    try:
        with os.scandir(where) as entries:
            found = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in islice(entries, _MAX_ENTRIES)
                if entry.name.lower().startswith(start.lower())
                and (start.startswith(".") or not entry.name.startswith("."))
                and entry.name == sanitise(entry.name)
                and '"' not in entry.name
                and "\n" not in entry.name
            ]
    except OSError:
        return []
    prefix = f"{folder}/" if "/" in typed else ""
    return [prefix + name for name in sorted(found, key=str.lower)[:limit]]


def mention_of(path: str) -> str:
    """Write a path as it is named in a prompt."""
    return f'@"{path}"' if " " in path and not path.endswith("/") else f"@{path}"
