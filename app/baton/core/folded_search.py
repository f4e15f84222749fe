"""What the user types to find texts: what of a text matches it, and the line that shows that.

Case, accents, ligatures and the width of characters don't count; punctuation and symbols do. Any
text is a valid query.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sanitiser import sanitise

_CHARS_BEFORE, _CHARS_AFTER = 60, 140
"""How many characters of the matching line are shown around the first match."""

_MAX_QUERY_CHARS, _MAX_PARTS = 1000, 32
"""How much of a query is looked for."""

_QUOTED_OR_ALONE = re.compile(r'"([^"]*\w[^"]*)"|(\S+)')
_SENTENCE_END = re.compile(r"(?<=\w)[.,;:!?]+$")

WIDE = (
    "\u1100-\u11ff\u2e80-\u2fff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Signs of which one or two are a word: Chinese characters, kana and Korean syllables."""

MARKS = "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u109f\u1780-\u17ff"
"""Vowels and tones that stand in words, but aren't letters: Hebrew to Burmese, and Khmer."""

LETTER = f"(?:(?![_{WIDE}])[\\w{MARKS}])"
"""A pattern for a character of any other word."""


class QueryPart(NamedTuple):
    """A word of a query, folded: whether a word of the text begins, and ends, where it does."""

    text: str
    begins: bool
    ends: bool

    @property
    def pattern(self) -> str:
        """What finds it; the rest of the last word, where that may be unfinished, with it."""
        literal = re.escape(self.text)  # first, so that `re` jumps from one to the next
        before = f"(?<!{LETTER}{literal})" if self.begins and re.match(LETTER, self.text) else ""
        after = ""
        if self.begins and re.match(LETTER, self.text[-1]):
            after = f"(?!{LETTER})" if self.ends else f"{LETTER}*"
        return literal + before + after


Span = tuple[int, int]
Snippet = tuple[str, tuple[Span, ...]]
"""The line of a text that matches, cut, and where the matches are in it."""


@frozen_dataclass
class SearchQuery:
    """What is looked for: patterns that must all be found, and their parts, with a pattern each."""

    patterns: tuple[re.Pattern[str], ...]
    parts: tuple[QueryPart, ...]
    shown: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, typed: str, *, whole: bool = False) -> SearchQuery:
        """Return what to look for: parts of words, or whole ones, the last perhaps unfinished.

        What stands in double quotes is looked for as a whole, over any spaces and lines.
        """
        text = fold(typed[:_MAX_QUERY_CHARS].replace("\0", " "))
        found = [quoted or alone for quoted, alone in _QUOTED_OR_ALONE.findall(text)]
        words = [_SENTENCE_END.sub("", one).split() for one in found][:_MAX_PARTS]
        parts = [[QueryPart(part, whole, whole) for part in word] for word in words]
        if parts:
            parts[-1][-1] = parts[-1][-1]._replace(ends=False)
        return cls(
            tuple(re.compile(r"\s+".join(part.pattern for part in word)) for word in parts),
            tuple(part for word in parts for part in word),
            tuple(re.compile(part.pattern) for word in parts for part in word),
        )

    def is_in(self, folded: str) -> bool:
        """Whether a folded text matches."""
        return all(pattern.search(folded) for pattern in self.patterns)

    def spans(self, text: str, folded: str) -> list[Span]:
        """Return where the first matches of each part are in a text, none within another."""
        found = sorted(_spans(self.shown, folded), key=lambda span: (span[0], -span[1]))
        apart: list[Span] = []
        for start, end in found:
            if not apart or start >= apart[-1][1]:
                apart.append((start, end))
        return apart if len(folded) == len(text) else _original_spans(text, apart)

    def snippet(self, text: str, folded: str) -> Snippet:
        """Cut the line out of a text that holds the most of what is looked for."""
        most, best = -1, ("", "")
        for lines in zip(text.split("\n"), folded.split("\n"), strict=False):
            held = sum(pattern.search(lines[1]) is not None for pattern in self.shown)
            if held > most:
                most, best = held, lines
            if held == len(self.shown):
                break
        return _cut_line(best[0], self.spans(*best))


def _spans(patterns: tuple[re.Pattern[str], ...], folded: str) -> Iterator[Span]:
    for pattern in patterns:
        # More of one than that isn't shown: a snippet is short.
        yield from (match.span() for match in islice(pattern.finditer(folded), _CHARS_AFTER))


# How it is written

_QUOTES_AND_DASHES = "\u2018\u2019\u02bc\u201c\u201d\u201e\u2010\u2011\u2013\u2014"
_ALIKE = str.maketrans(_QUOTES_AND_DASHES, "'''\"\"\"----")
_ACCENTS = re.compile("[\u0300-\u036f]+")  # those of Latin, Greek and Cyrillic
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def fold(text: str) -> str:
    """Return text without case, accents and ligatures, which are all that isn't looked for."""
    return _NOT_ASCII.sub(lambda found: _fold_foreign(found[0]), text.lower())


@lru_cache(4096)
def _fold_foreign(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text.translate(_ALIKE)).casefold()
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", folded))
    return unicodedata.normalize("NFC", plain)


_CLUSTER = re.compile(r".[\u0300-\u036f\u1160-\u11ff\u3099\u309a]*", re.DOTALL)


def _original_spans(text: str, spans: list[Span]) -> list[Span]:
    """Return where spans of the folded text are in the text itself."""
    places: list[int] = []
    at = 0
    for foreign in _NOT_ASCII.finditer(text):
        places.extend(range(at, foreign.start()))
        for cluster in _CLUSTER.finditer(text, *foreign.span()):
            places.extend([cluster.start()] * len(fold(cluster[0])))
        at = foreign.end()
    places.extend(range(at, len(text) + 1))
    return [
        (places[start], next(place for place in places[end:] if place > places[end - 1]))
        for start, end in spans
        if end < len(places)
    ]


# What is shown


def _cut_line(line: str, spans: list[Span]) -> Snippet:
    at = spans[0][0] if spans else 0
    snippet = ("…" if at > _CHARS_BEFORE else "") + _single_line(
        line[max(0, at - _CHARS_BEFORE) : at]
    )
    room = len(snippet) + _CHARS_AFTER
    marked: list[tuple[int, int]] = []
    for start, end in (*spans, (len(line), len(line))):
        snippet += _single_line(line[at : min(start, at + room)])
        if len(snippet) >= room:
            return snippet[:room] + "…", tuple(marked)
        first = len(snippet)
        snippet += _single_line(line[start:end])
        marked += [(first, min(len(snippet), room))] if end > start else []
        at = end
    return snippet[:room] + ("…" if len(snippet) > room else ""), tuple(marked)


def _single_line(text: str) -> str:
    """Return text on one line that needs no more sanitising, which would move the spans."""
    return sanitise(text).replace("\n", " ").replace("\t", " ")
