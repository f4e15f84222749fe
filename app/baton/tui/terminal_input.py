"""What a terminal sends, read so that a paste is one even where the terminal doesn't say so.

Some terminals (`screen`, serial lines, old consoles) have no bracketed paste: a paste of several
lines looks like typing, and each Enter in it would send a prompt. Others (tmux) leave escape
sequences in a bracketed one, of which Textual would make keys.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator

from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from baton.core.sanitiser import remove_terminal_codes

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
