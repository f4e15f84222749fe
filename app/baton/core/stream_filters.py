"""Changes to a text while it streams: hidden texts are put back, and it ends at a stop text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from baton.core.frozen_dataclass import frozen_dataclass


@frozen_dataclass
class HiddenText:
    """One thing that was hidden: `kind` in plain words ("mail address")."""

    placeholder: str
    original: str
    kind: str


@frozen_dataclass
class RedactedTexts:
    """Texts as they may leave, in their order, and what stands behind their placeholders."""

    texts: tuple[str, ...]
    hidden: tuple[HiddenText, ...] = ()

    def summary(self) -> str:
        """Return what is hidden in words: "1 mail address, 2 phone numbers", or ""."""
        counts = Counter(thing.kind for thing in self.hidden)
        return ", ".join(f"{n} {_plural(kind) if n > 1 else kind}" for kind, n in counts.items())


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


_PLACEHOLDER = re.compile(r"\[[A-Za-z ]+ \d+\]")


@dataclass(slots=True)
class Restorer:
    """Puts the originals back into a text that comes in pieces.

    A piece that may be the beginning of a placeholder is kept back until more is known. What was
    put back is never looked at again, so an original may hold anything.
    """

    hidden: tuple[HiddenText, ...]
    _originals: dict[str, str] = field(init=False, repr=False)
    _placeholders: list[str] = field(init=False, repr=False)
    _longest: int = field(init=False, repr=False)
    _kept: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._originals = {thing.placeholder: thing.original for thing in self.hidden}
        self._placeholders = sorted(self._originals)
        self._longest = max(map(len, self._placeholders), default=0)

    def feed(self, piece: str) -> str:
        """Return what can be shown after one more piece."""
        if not self.hidden:
            return piece
        text = self._kept + piece
        done, shown = 0, ""
        while True:
            found = self._find(text, done)
            kept = self._beginning(text, done)
            if found is None or found.start() >= kept:
                self._kept = text[kept:]
                return shown + text[done:kept]
            shown += text[done : found.start()] + self._originals[found.group()]
            done = found.end()

    def flush(self) -> str:
        """Return what was kept back, at the end."""
        kept, self._kept = self._kept, ""
        if not self.hidden:
            return kept
        return _PLACEHOLDER.sub(lambda found: self._originals.get(found[0], found[0]), kept)

    def _find(self, text: str, done: int) -> re.Match[str] | None:
        found = _PLACEHOLDER.finditer(text, done)
        return next((one for one in found if one.group() in self._originals), None)

    def _beginning(self, text: str, done: int) -> int:
        """Return where an end of the text starts that may become a (longer) placeholder."""
        for start in range(max(done, len(text) - self._longest + 1), len(text)):
            place = bisect_right(self._placeholders, text[start:])  # a whole one isn't its own
            if "".join(self._placeholders[place : place + 1]).startswith(text[start:]):
                return start
        return len(text)


class StopFilter:
    """Lets a text through until one of `stops` comes, which is `found` then ("": none yet).

    What may be the beginning of one is kept back until it is known.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.found = ""
        self._stops = stops
        self._pending = ""

    @property
    def is_over(self) -> bool:
        """Whether one of them came."""
        return bool(self.found)

    def feed(self, text: str) -> str:
        """Return what may be shown now that more of the text is there."""
        if not self._stops or self.is_over:
            return "" if self.is_over else text
        self._pending += text
        places = [(at, stop) for stop in self._stops if (at := self._pending.find(stop)) >= 0]
        if places:
            end, self.found = min(places)
            return self._pending[:end]
        end = len(self._pending) - held_back(self._pending, self._stops)
        shown, self._pending = self._pending[:end], self._pending[end:]
        return shown

    def flush(self) -> str:
        """Return what was kept back, now that nothing more comes."""
        left, self._pending = self._pending, ""
        return "" if self.is_over else left


def held_back(text: str, marks: Iterable[str]) -> int:
    """Return how many characters at a text's end may be the beginning of one of the marks."""
    lengths = (
        size
        for mark in marks
        for size in range(min(len(mark) - 1, len(text)), 0, -1)
        if text.endswith(mark[:size])
    )
    return max(lengths, default=0)
