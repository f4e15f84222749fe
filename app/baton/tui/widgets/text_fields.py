"""Lines and areas to type in, in which every key acts in its turn.

By itself Textual looks up what a key is bound to only after the widget has passed the key on: where
a slow line brings several keys at once, Backspace or an arrow acts after the letters behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.widgets import Input, TextArea

if TYPE_CHECKING:
    from textual.widget import Widget
else:
    Widget = object  # Textual takes the styles of a widget's first base only


class KeysInOrder(Widget):
    """Does what its own keys are bound to where they stand among the letters."""

    async def _on_key(self, event: events.Key) -> None:
        bindings = self._bindings.copy()
        bindings.apply_keymap(self.app._keymap)
        for binding in bindings.key_to_bindings.get(event.key, ()):
            if await self.act(binding.action):
                event.stop()
                event.prevent_default()
                return

    async def act(self, action: str) -> bool:
        """Do what a key is bound to, and return whether it could be done."""
        return await self.app.run_action(action, self)


class TextField(KeysInOrder, Input):
    """A line to type in."""


class TextEditor(KeysInOrder, TextArea):
    """An area to write in."""
