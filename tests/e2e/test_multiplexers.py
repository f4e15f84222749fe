"""Every key that Baton binds arrives through tmux and GNU screen, each with its own defaults."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from textual.binding import Binding

from baton.tui import key_bindings
from support.terminal import Terminal

NO_BYTES = frozenset({"alt+enter", "shift+enter"})
"""What a plain terminal can't tell from another key; Ctrl+J does the same."""

BYTES = {
    "enter": "\r",
    "tab": "\t",
    "escape": "\x1b",
    "space": " ",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[1~",
    "end": "\x1b[4~",
    "delete": "\x1b[3~",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "f1": "\x1bOP",
    "plus": "+",
    "minus": "-",
    "question_mark": "?",
}

KEY_LOG = """
import json, os, sys
from textual.app import App
from baton.tui.desktop import can_use_mouse

class KeyLog(App, inherit_bindings=False):
    ENABLE_COMMAND_PALETTE = False
    logged = None
    def on_ready(self):
        self.log_file = open(sys.argv[1], "a", buffering=1)
        self.log_file.write(str(os.getpid()) + "\\n")
    def on_event(self, event):
        if type(event).__name__ == "Key" and event is not self.logged:
            self.logged = event  # it comes once more, from the screen
            names = [*event.aliases, event.character or ""]
            self.log_file.write(json.dumps(names) + "\\n")
        return super().on_event(event)

KeyLog().run(mouse=can_use_mouse())
"""

MULTIPLEXERS = {
    "tmux": ["tmux", "-L", "baton-test", "-f", "/dev/null", "new-session"],
    "screen": ["screen", "-c", "/dev/null", "-S", "baton-test"],
}


def default_keys() -> dict[str, list[str]]:
    """Return the keys of every binding by its id."""
    groups = key_bindings.GROUPS.values()
    bound = [one for group in groups for one in group if isinstance(one, Binding)]
    return {one.id or "": one.key.split(",") for one in bound}


def bytes_of(key: str) -> str:
    """Return what an xterm sends for a key."""
    if key.startswith("ctrl+"):
        return chr(ord(key[-1]) & 0x1F)
    return BYTES.get(key, key)


def test_each_binding_has_a_key_that_terminals_can_send() -> None:
    keys_of: dict[str, list[str]] = {}
    for name, keys in default_keys().items():
        keys_of.setdefault(key_bindings.BY_ID[name].action, []).extend(keys)
    for action, keys in keys_of.items():
        sent = [key for key in keys if key not in NO_BYTES]
        assert sent, action
        assert all(len(bytes_of(key)) == 1 or key in BYTES for key in sent), action


@pytest.mark.parametrize("name", MULTIPLEXERS)
def test_every_default_key_arrives(name: str, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed here")
    log, program = tmp_path / "keys.log", tmp_path / "key_log.py"
    program.write_text(KEY_LOG)
    command = [*MULTIPLEXERS[name], sys.executable, str(program), str(log)]
    folders = {
        "HOME": str(tmp_path),
        "TMUX_TMPDIR": str(tmp_path),
        "SCREENDIR": str(tmp_path / "s"),
    }
    (tmp_path / "s").mkdir(mode=0o700)
    terminal = Terminal(command, {**os.environ, **folders})
    try:
        terminal.wait(lambda _: log.exists() and "\n" in log.read_text())
        keys = sorted({key for keys in default_keys().values() for key in keys} - NO_BYTES)
        for key in keys:
            before = len(log.read_text())
            terminal.send(bytes_of(key))
            terminal.wait(lambda _, start=before: "\n" in log.read_text()[start:])  # type: ignore[misc]
            arrived = json.loads(log.read_text()[before:].splitlines()[0])
            assert key in arrived, f"{name} makes {arrived} of {key}"
    finally:
        if log.exists():
            os.kill(int(log.read_text().split()[0]), signal.SIGKILL)  # the session ends with it
        terminal.close()
