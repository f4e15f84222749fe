"""The terminal and the desktop: pastes, the clipboard, the window, the user's editor, exports.

Some terminals (`screen`, serial lines, old consoles) have no bracketed paste: a paste of several
lines looks like typing, and each Enter in it would send a prompt. Others (tmux) leave escape
sequences in a bracketed one, of which Textual would make keys.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line, remove_terminal_codes
from baton.platform.durable_files import create_file, expand_home, make_folder
from baton.platform.processes import run_in_foreground
from baton.platform.secrets import plain_environ
from baton.platform.settings import keyless_environ

COPY_SECONDS = 1.0
"""Seconds that the system's clipboard may take; some wait for a display that is gone."""

NEEDED_VARIABLES = (
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "LC_CTYPE",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_TYPE",
)
"""What a clipboard's program needs of the environment besides what every program may know."""


SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""Have the terminal keep its window's title, and show it again; those that can't ignore it."""


def can_use_mouse() -> bool:
    """Whether the terminal can report the mouse without harm.

    While it does so, GNU screen keeps a lone Esc to itself until another key comes.
    """
    return "STY" not in os.environ


def has_terminal() -> bool:
    """Whether the terminal is still there, and takes what is written to it."""
    try:
        # A descriptor is only known to be gone by using it: `isatty` may say yes for a while.
        return bool(os.isatty(0) and select.select([], [2], [], 0)[1])
    except (OSError, ValueError):
        return False


def title_sequence(title: str) -> str:
    """Return what gives the terminal's window that title."""
    return f"\x1b]2;{one_line(title, 80)}\x07"


def notice_sequence(text: str) -> str:
    """Return what has the desktop show a notice (OSC 9), and a bell for terminals without them."""
    return f"\x1b]9;Baton: {one_line(text, 120)}\x07\x07"


class _KeylessSubprocess:
    """Starts programs for pyperclip, in place of `subprocess`: some stay, and none needs a key."""

    PIPE = subprocess.PIPE

    def __getattr__(self, name: str) -> Any:
        """Return the function of `subprocess` with that name, with an environment without keys."""
        return partial(getattr(subprocess, name), env=plain_environ(also=NEEDED_VARIABLES))


def has_system_clipboard(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this machine's own clipboard is the one before the user."""
    if environ.get("SSH_TTY") or environ.get("SSH_CONNECTION"):
        return False
    graphical = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return bool(graphical) or sys.platform in ("darwin", "win32")


async def copy(text: str, what: str, send: Callable[[str], None]) -> str:
    """Copy a text; return a sentence that says of `what` was copied only what is known.

    Where this machine's clipboard isn't the user's, or doesn't take it, `send` sends it to the
    terminal (OSC 52), which never says whether it took it.
    """
    if has_system_clipboard() and await copy_to_system(text):
        return f"copied {what}"
    if "STY" in os.environ or os.environ.get("TERM", "").partition("-")[0] in ("linux", "dumb"):
        return "this terminal can't copy: select with the mouse and Shift, or export (/export)"
    send(text)
    return f"sent {what} to the terminal, which may copy it"


async def copy_to_system(text: str) -> bool:
    """Put the text onto the system's clipboard; return whether that worked in time."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bool] = loop.create_future()

    def report(worked: bool) -> None:
        if not done.done():
            done.set_result(worked)

    def copy() -> None:
        import pyperclip

        pyperclip.subprocess = _KeylessSubprocess()  # type: ignore[attr-defined]
        try:
            pyperclip.copy(text)
            worked = True
        except Exception:  # however xclip, wl-copy or pbcopy fails, OSC 52 comes next
            worked = False
        if not loop.is_closed():
            loop.call_soon_threadsafe(report, worked)

    # A daemon, so that a clipboard that hangs doesn't keep Baton from ending.
    threading.Thread(target=copy, daemon=True).start()
    try:
        return await asyncio.wait_for(done, COPY_SECONDS)
    except TimeoutError:
        return False


def edit_text(
    text: str, name: str = "prompt.md", environ: Mapping[str, str] = os.environ
) -> str | None:
    """Open the text in $VISUAL or $EDITOR and return what was saved. Raises ConfigError.

    None means that the user left it unchanged or empty: nothing follows from it. The file's
    `name` shows the editor what it is.
    """
    named = environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip() or "vi"
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise ConfigError(f"The editor {named!r} has an unclosed quote.", "Set $EDITOR.") from error
    with tempfile.TemporaryDirectory(prefix="baton-") as folder:  # 0700
        path = Path(folder, name)
        create_file(path, text)
        try:
            code = run_in_foreground([*command, str(path)], keyless_environ())
        except OSError as error:
            raise ConfigError(
                f"The editor {command[0]!r} can't be started: {error.strerror}.", "Set $EDITOR."
            ) from error
        if code != 0:
            raise ConfigError(f"The editor ended with code {code}; the text is as it was.")
        try:
            saved = path.read_text("utf-8", "replace").removesuffix("\n")
        except OSError as error:
            raise ConfigError(
                f"The editor left no file to read: {error.strerror}; the text is as it was."
            ) from error
    return saved if saved.strip() and saved != text.removesuffix("\n") else None


def unused_path(folder: Path, title: str) -> Path:
    """Return a path in the folder that is named after the title and isn't taken yet."""
    stem = re.sub(r"[^\w]+", "-", title.lower()).strip("-")[:60] or "conversation"
    path, number = folder / f"{stem}.md", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.md", number + 1
    return path


def export_path(typed: str, folder: Path, title: str) -> Path:
    """Return where an export goes: into the typed file or folder, or the usual folder."""
    if not typed:
        return unused_path(folder, title)
    path = expand_home(typed)
    return unused_path(path, title) if path.is_dir() else path


def save_export(path: Path, text: str) -> None:
    """Write a new file, for the owner only. Raises ConfigError; never overwrites anything."""
    if path.exists():
        raise ConfigError(f"{path} is there already.", "Choose another name.")
    try:
        make_folder(path.parent)
        create_file(path, text)
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}.", "Try another.") from error


BURST_SECONDS = 0.02
"""What comes so soon after the keys before it wasn't typed: repeated keys are 30 ms apart."""

_PASTE_STARTS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LINES = re.compile(r"[\r\n]\s*\S")
"""An Enter with more text behind it."""

_LAST_ENTERS = re.compile(r"[\r\n]+$")


def read_bursts_as_pastes() -> None:
    """Have Textual's driver read the terminal with a `BurstParser`."""
    if sys.platform != "win32":
        from textual.drivers import linux_driver

        linux_driver.XTermParser = BurstParser  # type: ignore[attr-defined]


class BurstParser(XTermParser):
    """Takes keys that come faster than they can be typed, with an Enter among them, for a paste.

    A burst's last Enter is held until it is seen whether more follows; one by itself never is.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._held = ""
        self._is_paste = False
        self._fed_at = 0.0
        self._tail = ""
        self._is_bracketed = False
        self._pasted: list[str] = []

    def feed(self, data: str) -> Iterator[Message]:
        """Parse what came."""
        if not data:  # the end
            yield from self._feed_keys(data)
        while data:
            mark = _PASTE_ENDS if self._is_bracketed else _PASTE_STARTS
            seen = self._tail + data
            end = seen.find(mark) + len(mark) - len(self._tail) if mark in seen else len(data)
            self._tail = "" if mark in seen else seen[1 - len(mark) :]
            if self._is_bracketed:
                self._pasted.append(data[:end])
            else:
                yield from self._feed_keys(data[:end])
            data = data[end:]
            if mark not in seen:
                return
            if self._is_bracketed:
                text = "".join(self._pasted).removesuffix(mark)
                self._pasted.clear()
                yield from super().feed(remove_terminal_codes(text) + mark)
            self._is_bracketed = not self._is_bracketed

    def _feed_keys(self, data: str) -> Iterator[Message]:
        now = time.monotonic()
        is_near, self._fed_at = now - self._fed_at < BURST_SECONDS, now
        is_typed = bool(data) and not _CONTROL.search(data)
        if not (is_typed and is_near):
            yield from self._release()
        if not is_typed:
            yield from super().feed(data)
            return
        text, self._held = self._held + data, ""
        self._is_paste |= bool(_LINES.search(text))
        last = _LAST_ENTERS.search(text)
        if self._is_paste:
            self._held = text
        elif last is not None and (last.start() or is_near):
            self._held = last[0]
            if typed := text[: last.start()]:  # to Textual's parser, nothing is the end
                yield from super().feed(typed)
        else:
            yield from super().feed(text)

    def tick(self) -> Iterator[Message]:
        """Pass on what was held once nothing follows."""
        if time.monotonic() - self._fed_at >= BURST_SECONDS:
            yield from self._release()
        yield from super().tick()

    def _release(self) -> Iterator[Message]:
        held, is_paste = self._held, self._is_paste
        self._held, self._is_paste = "", False
        if is_paste:
            yield events.Paste(held)
        elif held:
            yield from super().feed(held)
