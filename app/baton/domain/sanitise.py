"""The one gate through which all outside text passes before it reaches a terminal.

Models, files, error messages, worker names, history, pasted text: any of them may hold escape
sequences that would write to the clipboard, forge the window's title or move the cursor. Every
rule looks at single characters, so text may be cleaned in chunks split anywhere.
"""

from __future__ import annotations

import re

_SHOWN = "�"
_BREAKS = re.compile("\u2028|\u2029|\x85")
_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 but tab and newline, DEL
    "\x80-\x9f"  # C1: a terminal may read \x9b as ESC [
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi marks and overrides
    "\ufff9-\ufffb"  # interlinear annotation
    "\U000e0000-\U000e007f"  # tags: text that nobody sees
    "\ud800-\udfff"  # lone surrogates can't be encoded
    "]"
)


def sanitise(text: str) -> str:
    """Return the text with nothing in it that a terminal would obey.

    Carriage returns vanish (so that CRLF becomes a plain line break), exotic line separators become
    line breaks, and every other unsafe character is replaced by U+FFFD, so that the person sees
    that something was there.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _BREAKS.sub("\n", text.replace("\r", ""))
    return _UNSAFE.sub(_SHOWN, text)


def one_line(text: str, limit: int = 200) -> str:
    """Return the text sanitised, on one line, cut with an ellipsis after `limit` characters."""
    line = " ".join(sanitise(text[: limit * 8]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
