"""The bottom of the conversation: hints, files that go along, what waits, and the prompt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.timer import Timer
from textual.widgets import Static, TextArea

from baton.core.errors import ConfigError
from baton.core.messages import Attachment, Turn
from baton.core.messages import Prompt as Asked
from baton.core.sanitiser import one_line
from baton.tui import path_completion, slash_commands
from baton.tui.widgets.prompt_area import PromptArea
from baton.tui.widgets.turn_view import file_text

PAUSE_SECONDS = 0.25
"""After how many seconds without typing a draft is kept and its files are looked at."""

TYPING_SECONDS = 0.3
"""For how long after a keystroke the next one is expected."""

MAX_COMMANDS_SHOWN = 9
"""How many commands are described at once; the others are only named."""

MAX_WAITING_SHOWN = 3
"""How many of the prompts that wait are shown: there must be room to write another."""


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
        self._waiting.update("\n".join(lines))
        self._waiting.display = bool(lines)

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
        elif (typed := path_completion.path_at_end(before)) is not None:
            found_paths = await asyncio.to_thread(path_completion.path_candidates, typed)
            lines = [Content.styled(f"@{path}", "$muted") for path in found_paths]
            if found_paths:
                length = len(before) - before.rindex("@")
                completion = (length, path_completion.mention_of(found_paths[0]))
                if completion[1] == before[-length:]:
                    completion = None
        self._hints.update(Content("\n").join(lines))
        self._hints.display = bool(lines)
        self.prompt.completion = completion
        self.screen.refresh_bindings()

    async def _look_at_files(self) -> None:
        """Show name, size and about how many tokens of each file that the prompt names."""
        from baton.workers.attachments import mentions

        named: list[str] = []
        if "@" in self.text:
            for path in await asyncio.to_thread(mentions, self.text):
                named.append(await asyncio.to_thread(_path_text, path))
        self._show_files(named)

    def _show_files(self, named: Sequence[str] = ()) -> None:
        lines = [*map(file_text, self._pasted), *named]
        self._files.update("\n".join(f"With {line}" for line in lines))
        self._files.display = bool(lines)


def _command_hint(command: slash_commands.SlashCommand) -> Content:
    name = f"/{command.name} {command.argument}".rstrip()
    return Content.assemble((f"{name:<18}", "$primary"), (command.help, "$muted"))


def _path_text(path: Path) -> str:
    from baton.workers.attachments import read_attachment

    try:
        return file_text(read_attachment(path))
    except ConfigError as error:
        return one_line(str(error))
