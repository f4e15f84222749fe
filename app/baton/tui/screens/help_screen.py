"""The keys that work here, and all keys and commands: taken from the bindings, with a search."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from baton.tui import key_bindings, slash_commands
from baton.tui.menu_entries import MenuEntry, ranked_entries
from baton.tui.screens.overlay import Overlay
from baton.tui.widgets.text_widgets import TextField

KEY_COLUMNS = 20
"""How many columns the keys take."""

SIGNS = {
    "@path": "send a file along; its letters find it",
    "!command": "run it in your shell; a yes attaches what it wrote",
    "Backspace": "in an empty prompt: leave out the last pasted text",
    "//": "a prompt that begins with a slash: any text but a command",
}
"""What means something in a prompt, besides text and commands."""

HERE = "Keys that work here"
NAMES_NOTE = "Grey: the name for `[keys]` in config.toml, which changes the key."
MORE_NOTE = "F1 shows all keys and commands; letters search them."
NOTHING = "No key and no command is called that."


class HelpScreen(Overlay[None]):
    """Shows what can be done; `here` are the keys of the screen below it.

    With `is_whole` all keys and commands stand below these, else only once they are searched.
    """

    BINDINGS = key_bindings.HELP
    HEADING = "Keys and commands"

    def __init__(self, here: Sequence[Binding], *, is_whole: bool) -> None:
        super().__init__()
        self._here = here
        self._is_whole = is_whole
        self._text = Static()

    def body(self) -> ComposeResult:
        """Lay out the search over what it finds."""
        yield TextField(placeholder="Search")
        with VerticalScroll():
            yield self._text

    def on_mount(self) -> None:
        """Begin without a search."""
        self._show("")

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        event.stop()
        self._show(event.value.strip())
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def _show(self, words: str) -> None:
        here = [self._key_entry(HERE, binding) for binding in self._here]
        if words:
            shown = {entry.id for entry in here}
            rest = [entry for entry in self._all_entries() if entry.id not in shown]
            entries = [*ranked_entries(here, words), *ranked_entries(rest, words)]
        else:
            entries = self._all_entries() if self._is_whole else here
        self._text.update(_entries_text(entries, "" if words else self._note))

    @property
    def _note(self) -> str:
        return NAMES_NOTE if self._is_whole else MORE_NOTE

    def _all_entries(self) -> list[MenuEntry]:
        keys = [
            self._key_entry(group, binding)
            for group, bindings in key_bindings.GROUPS.items()
            for binding in bindings
            if isinstance(binding, Binding)
        ]
        return [*keys, *_command_entries()]

    def _key_entry(self, group: str, binding: Binding) -> MenuEntry:
        id = binding.id or ""
        keys = key_bindings.configured_keys(self.app, id)
        return MenuEntry(id, keys, binding.tooltip, group=group, binding=id)

    def action_scroll(self, lines: int) -> None:
        """Go down, or up, while the search has the keys."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """Go down a page, or up."""
        scroll = self.query_one(VerticalScroll)
        scroll.scroll_relative(y=pages * max(1, scroll.size.height - 1), animate=False)


def _command_entries() -> list[MenuEntry]:
    commands = [
        MenuEntry(
            f"/{command.name}",
            f"/{command.name} {command.argument}".strip(),
            command.help,
            synonyms=command.synonyms,
            group="Commands, typed as a prompt",
        )
        for command in slash_commands.COMMANDS
    ]
    signs = [MenuEntry(sign, sign, text, group="In a prompt") for sign, text in SIGNS.items()]
    return [*commands, *signs]


def _entries_text(entries: Sequence[MenuEntry], note: str) -> Content:
    """Write the entries under the headings of their groups."""
    if not entries:
        return Content.styled(NOTHING, "$muted")
    lines = [Content.styled(note, "$muted"), Content("")] if note else []
    group = ""
    for entry in entries:
        if entry.group != group:
            lines += [Content("")] if group else []
            group = entry.group
            lines.append(Content.styled(group, "bold"))
        lines.append(
            Content.assemble(
                (f"  {entry.name:<{KEY_COLUMNS - 1}} ", "$primary"),
                entry.sentence,
                (f"  {entry.binding}", "$muted"),
            )
        )
    return Content("\n").join(lines)
