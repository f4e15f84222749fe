"""All keys and commands, taken from the bindings themselves."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from baton.tui import key_bindings, slash_commands
from baton.tui.screens.overlay import Overlay

KEY_COLUMNS = 20
"""How many columns the keys take."""

NAMES_NOTE = "To change a key, set the name beside it, in `[keys]` of config.toml.\n"


class HelpScreen(Overlay[None]):
    """Shows what can be done, by where it can be done."""

    HEADING = "Keys and commands"

    def body(self) -> ComposeResult:
        """Lay out a group of keys for every part of the app, and the commands."""
        with VerticalScroll():
            yield Static(Content.styled(NAMES_NOTE, "$muted"))
            for name, bindings in key_bindings.GROUPS.items():
                yield Static(self._group(name, bindings))
            lines = [
                _key_line(f"/{command.name} {command.argument}".strip(), command.help)
                for command in slash_commands.COMMANDS
            ]
            yield Static(_section("Commands, typed as a prompt", lines))
            lines = [
                _key_line("@path", "send a file along; Tab completes the path"),
                _key_line("Backspace", "in an empty prompt: leave out the last pasted text"),
                _key_line("//", "a prompt that begins with a slash: any text but a command"),
            ]
            yield Static(_section("In a prompt", lines))

    def _group(self, name: str, bindings: list[BindingType]) -> Content:
        lines = []
        for binding in bindings:
            assert isinstance(binding, Binding)
            id = binding.id or ""
            line = _key_line(key_bindings.configured_keys(self.app, id), binding.tooltip)
            lines.append(Content.assemble(line, (f"  {id}", "$muted")))
        return _section(name, lines)


def _key_line(key: str, words: str) -> Content:
    return Content.assemble((f"  {key:<{KEY_COLUMNS - 1}} ", "$primary"), words)


def _section(title: str, lines: list[Content]) -> Content:
    return Content("\n").join([Content.styled(title, "bold"), *lines, Content("")])
