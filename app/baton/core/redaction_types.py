"""What is hidden from a remote worker, and how it is restored in the answer."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

from baton.core.frozen_dataclass import frozen_dataclass


@frozen_dataclass
class HiddenText:
    """One thing that was hidden: `kind` in a person's words ("mail address")."""

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
