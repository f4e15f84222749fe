"""What is hidden from a remote worker, and how it is restored in the answer."""

from __future__ import annotations

import re
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


@dataclass(slots=True)
class Restorer:
    """Puts the originals back into a text that comes in pieces.

    A piece that may be the beginning of a placeholder is kept back until more is known. What was
    put back is never looked at again, so an original may hold anything.
    """

    hidden: tuple[HiddenText, ...]
    _originals: dict[str, str] = field(init=False, repr=False)
    _pattern: re.Pattern[str] = field(init=False, repr=False)
    _beginnings: frozenset[str] = field(init=False, repr=False)
    _longest: int = field(init=False, repr=False)
    _kept: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._originals = {thing.placeholder: thing.original for thing in self.hidden}
        longest_first = sorted(self._originals, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._beginnings = frozenset(p[:end] for p in longest_first for end in range(1, len(p)))
        self._longest = max(map(len, longest_first), default=0)

    def feed(self, piece: str) -> str:
        """Return what can be shown after one more piece."""
        if not self.hidden:
            return piece
        text = self._kept + piece
        done, shown = 0, ""
        while True:
            found = self._pattern.search(text, done)
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
        return self._pattern.sub(lambda found: self._originals[found.group()], kept)

    def _beginning(self, text: str, done: int) -> int:
        """Return where an end of the text starts that may become a (longer) placeholder."""
        for start in range(max(done, len(text) - self._longest + 1), len(text)):
            if text[start:] in self._beginnings:
                return start
        return len(text)
