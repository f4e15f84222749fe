"""Texts folded to what their author typed, and the search in slices.

Pasting leaves spaces that don't break, characters without width, and characters written as entities
or escapes. A folded text has none of these.
"""

from __future__ import annotations

import html
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from io import StringIO

SLICE, REACH = 32_768, 5_000
"""How many characters one call of `re` searches, and how much longer a match may be. No other
thread runs during a call: 11 ms at most ("sk-proj-" repeated, with the reach of keys)."""

_TYPED_CHARACTERS = {
    **dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "),
    **dict.fromkeys((0x85, 0x2028, 0x2029), "\n"),
    **dict.fromkeys(map(ord, "“”„‟«»"), '"'),
    **dict.fromkeys((0x2010, 0x2011, 0xFE63), "-"),
    **{0xFEE0 + code: chr(code) for code in range(0x21, 0x7F)},  # fullwidth
    0xFE62: "+",
    0xFE6B: "@",
}
_INVISIBLE_RUN = (
    r"[\xad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e01ef]+"
)
_PASTED_FORM = re.compile(  # few of the percent escapes: printf writes %5d
    rf"({_INVISIBLE_RUN})"
    r"|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,24});"
    r"|%(?:2[0BDEFbdef]|3[ADad]|40|5[Ff])"
    r"|\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrt/\"'])"
)


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A folded text, and where it stands in the original."""

    text: str
    _keys: array[int] = field(default_factory=lambda: array("I"))
    _shifts: array[int] = field(default_factory=lambda: array("I"))
    """By how much positions in the original are greater: before the character n and after it from
    the key 2n on, only after it from 2n + 1 on."""

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Return where the characters from `start` to `end` stand in the original."""
        return start + self._shift(2 * start), end + self._shift(2 * end - 1)

    def _shift(self, key: int) -> int:
        known = bisect_right(self._keys, key)
        return self._shifts[known - 1] if known else 0


def fold_text(text: str) -> FoldedText:
    """Fold a text; one of plain ASCII without entities and escapes is its own folding."""
    if text.isascii() and not any(sign in text for sign in "&%\\"):
        return FoldedText(text)
    typed = text
    if not text.isascii():
        slices = (text[at : at + SLICE] for at in range(0, len(text), SLICE))
        typed = "".join(part.translate(_TYPED_CHARACTERS) for part in slices)
    keys, shifts, folded = array("I"), array("I"), StringIO()
    done = length = 0
    for match in find_matches(_PASTED_FORM, typed):
        new = "" if match[1] else _typed_character(match.group())
        if len(new) > 1:
            continue
        folded.write(typed[done : match.start()] + new)
        length += match.start() - done
        keys.append(2 * length + len(new))
        length, done = length + len(new), match.end()
        shifts.append(done - length)
    return FoldedText(folded.getvalue() + typed[done:], keys, shifts)


@lru_cache(1024)
def _typed_character(pasted: str) -> str:
    """Return what an entity or an escape stands for."""
    if pasted[0] == "&":
        typed = html.unescape(pasted)
    elif pasted[1:].isalnum() and len(pasted) > 2:
        typed = chr(int(pasted.lstrip("%\\ux"), 16))
    else:
        typed = {"n": "\n", "r": "\r", "t": "\t"}.get(pasted[1], pasted[1])
    return re.sub(_INVISIBLE_RUN, "", typed.translate(_TYPED_CHARACTERS))


def find_matches(
    pattern: re.Pattern[str], text: str, word: str = "", reach: int = REACH
) -> Iterator[re.Match[str]]:
    """Yield what `finditer` does, slice by slice; each match has the `word` and fits in `reach`."""
    at = 0
    while at < len(text):
        end = at + SLICE
        if text.find(word, at, end + reach) >= 0:
            for match in pattern.finditer(text, at, end + reach):
                if match.start() >= end:
                    break
                yield match
                at = match.end()
        at = max(at, end)
