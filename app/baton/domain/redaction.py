"""What is hidden from a worker elsewhere, and how it comes back into the answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Hidden:
    """One thing that was hidden: `kind` in a person's words ("mail address")."""

    placeholder: str
    original: str
    kind: str


@dataclass(frozen=True, slots=True)
class Redacted:
    """Texts as they may leave, in their order, and what stands behind their placeholders."""

    texts: tuple[str, ...]
    hidden: tuple[Hidden, ...] = ()

    def told(self) -> str:
        """Say what is hidden: "1 mail address, 2 phone numbers", or nothing."""
        counts = Counter(thing.kind for thing in self.hidden)
        return ", ".join(f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in counts.items())


@dataclass(slots=True)
class Restorer:
    """Puts the originals back into a text that comes in pieces.

    A piece that may be the beginning of a placeholder is kept back until more is known.
    """

    hidden: tuple[Hidden, ...]
    _kept: str = field(default="")

    def feed(self, piece: str) -> str:
        """Return what can be shown after one more piece."""
        if not self.hidden:
            return piece
        text = self._restored(self._kept + piece)
        self._kept = self._beginning(text)
        return text[: len(text) - len(self._kept)]

    def rest(self) -> str:
        """Return what was kept back, at the end."""
        kept, self._kept = self._kept, ""
        return kept

    def _restored(self, text: str) -> str:
        for thing in self.hidden:
            text = text.replace(thing.placeholder, thing.original)
        return text

    def _beginning(self, text: str) -> str:
        """Return the longest end of the text that is the beginning of a placeholder."""
        longest = max(len(thing.placeholder) for thing in self.hidden) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(thing.placeholder.startswith(text[-size:]) for thing in self.hidden):
                return text[-size:]
        return ""
