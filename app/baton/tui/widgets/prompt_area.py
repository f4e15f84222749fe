"""Where a person writes: a text area that grows, sends with Enter and recalls earlier prompts."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events, on
from textual.message import Message
from textual.widgets import TextArea

from baton.core.sanitiser import sanitise
from baton.tui import key_bindings

MAX_PASTED_CHARS = 8_000
"""From how many characters on a pasted text goes along as a file instead of into the prompt."""


class PromptArea(TextArea):
    """The prompt. `completion` is what Tab would put before the cursor for the word there."""

    BINDINGS = key_bindings.PROMPT

    class Entered(Message):
        """Enter was pressed; keys before it may still be on their way."""

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
        self.post_message(self.Entered())

    @on(Entered)
    def _enter(self, event: Entered) -> None:
        """Take the text out, in the order of the keys: what is typed next is another prompt."""
        event.stop()
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
        """Edit in the order of the keys: by itself, Backspace acts after what is typed next."""
        bindings = self._bindings.copy()
        bindings.apply_keymap(self.app._keymap)
        for binding in bindings.key_to_bindings.get(event.key, ()):
            if not binding.priority and await self.app.run_action(binding.action, self):
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
