"""Sanitises all untrusted text before it reaches a terminal.

Models, files, error messages, worker names, history, pasted text: any of them may hold escape
sequences that would write to the clipboard, forge the window's title or move the cursor, or text
that doesn't show but is copied along. Text that comes in chunks goes through a `StreamSanitiser`,
since the two characters of a CRLF may come in two chunks.
"""

from __future__ import annotations

import re

_REPLACEMENT = "�"
_BREAKS = re.compile("\r\n?|\u2028|\u2029|\x85")
_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 but tab and newline, DEL
    "\x80-\x9f"  # C1: a terminal may read \x9b as ESC [
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi marks and overrides
    "\xad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff"  # no width: soft hyphen, spaces, joiners
    "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # joiner and letters that have no glyph
    "\u180b-\u180d\u180f\ufe00-\ufe0d"  # variation selectors but those of emoji (VS15, VS16)
    "\u070f\ufff0-\ufffb\U00013430-\U0001343f"  # marks for annotations and layout
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # the same for shorthand and music
    "\U000e0000-\U000e0fff"  # tags and more variation selectors: whole texts that don't show
    "\ud800-\udfff"  # lone surrogates can't be encoded
    "]"
)

_ESCAPED = re.compile(f"{_BREAKS.pattern}|{_UNSAFE.pattern}")

_TERMINAL_CODES = re.compile(
    r"(?:\x1b\[|\x9b(?=[0-?]*[ -/]*[@-~]))[0-?]*[ -/]*[@-~]?"  # CSI: colours, the cursor
    r"|(?:\x1b\]|\x9d)(?:[^\x07\x1b\x9c\x9d\n]*(?:\x07|\x1b\\|\x9c))?"  # OSC: titles, links
    r"|\x1b[PX^_k](?:(?:[^\x1b\x9c]|\x1b\x1b\\?)*(?:\x1b\\|\x9c))?"  # others: pictures, tmux's
    r"|\x1b[ -/]*[0-~]?"  # all other sequences, and an ESC alone
    r"|[^\n\x08]?\x08"  # a character struck over: bold and underlined text of manual pages
    r"|[\x07\x0e\x0f]"  # bell, character sets
)


def sanitise(text: str) -> str:
    """Return the text with nothing in it that a terminal would obey, and nothing invisible.

    CRLF, a lone carriage return (many terminals paste line breaks as those) and exotic line
    separators become line breaks. Every other unsafe character is replaced by U+FFFD, so that the
    person sees that something was there. The two joiners that scripts and emoji need (U+200C,
    U+200D) stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_REPLACEMENT, _BREAKS.sub("\n", whole_characters(text)))


def whole_characters(text: str) -> str:
    """Return the text as UTF-8 can hold it: halves of UTF-16 pairs joined, lone ones U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def remove_terminal_codes(text: str) -> str:
    """Return what a terminal would show of a text: without colours, links, titles, cursor moves.

    A string that isn't ended loses its first two characters only, so that no text gets lost with
    it. All else stays as it is.
    """
    if not any(sign in text for sign in "\x07\x08\x0e\x0f\x1b\x9b\x9d"):
        return text
    return _TERMINAL_CODES.sub("", text)


class StreamSanitiser:
    """Sanitises a text that comes in chunks, independent of their borders."""

    def __init__(self) -> None:
        self._ended_with_return = False
        self._half = ""

    def feed(self, chunk: str) -> str:
        """Return the next chunk sanitised; a CRLF split between two chunks is one line break.

        Halves of a UTF-16 pair are joined; one at the very end is left out.
        """
        chunk = self._half + chunk
        self._half = chunk[-1:] if "\ud800" <= chunk[-1:] <= "\udbff" else ""
        if not (chunk := chunk.removesuffix(self._half)):
            return ""
        rest = chunk.removeprefix("\n") if self._ended_with_return else chunk
        self._ended_with_return = chunk.endswith("\r")
        return sanitise(rest)


def escape_json(text: str) -> str:
    """Return JSON that means the same, but in which all that `sanitise` replaces is escaped."""
    return _ESCAPED.sub(_escape, whole_characters(text))


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def one_line(text: str, limit: int = 200) -> str:
    """Return the text sanitised, on one line, cut with an ellipsis after `limit` characters."""
    line = " ".join(sanitise(text[: limit * 8]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
