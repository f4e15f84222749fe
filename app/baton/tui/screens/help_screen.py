"""All keys and commands, taken from the bindings themselves."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from baton.tui import key_bindings, slash_commands
from baton.tui.screens.overlay import Overlay

COLUMN = 20
"""How many columns the keys take."""

NAMES = "At the end of a line stands what `[keys]` in config.toml calls it.\n"


class HelpScreen(Overlay[None]):
    """Shows what can be done, by where it can be done."""

    HEADING = "Keys and commands"

    def __init__(self, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._keymap = keymap

    def body(self) -> ComposeResult:
        """Lay out a group of keys for every part of the app, and the commands."""
        with VerticalScroll():
            yield Static(Content.styled(NAMES, "$muted"))
            for name, bindings in key_bindings.GROUPS.items():
                yield Static(self._group(name, bindings))
            lines = [
                _line(f"/{command.name} {command.takes}".strip(), command.words)
                for command in slash_commands.COMMANDS
            ]
            yield Static(_titled("Commands, typed as a prompt", lines))
            lines = [
                _line("@path", "send a file along; Tab completes the path"),
                _line("Backspace", "in an empty prompt: leave out the last pasted text"),
                _line("//", "a prompt that begins with a slash: any text but a command"),
            ]
            yield Static(_titled("In a prompt", lines))

    def _group(self, name: str, bindings: list[BindingType]) -> Content:
        lines = []
        for binding in bindings:
            assert isinstance(binding, Binding)
            line = _line(key_bindings.shown(binding, self._keymap), binding.tooltip)
            lines.append(Content.assemble(line, (f"  {binding.id or ''}", "$muted")))
        return _titled(name, lines)


def _line(key: str, words: str) -> Content:
    return Content.assemble((f"  {key:<{COLUMN - 1}} ", "$primary"), words)


def _titled(title: str, lines: list[Content]) -> Content:
    return Content("\n").join([Content.styled(title, "bold"), *lines, Content("")])
