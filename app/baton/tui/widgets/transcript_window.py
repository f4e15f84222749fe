"""Which turns of a long conversation are on the screen: a rule without any widget."""

from __future__ import annotations

from dataclasses import dataclass

STEP_TURNS = 16
"""How many turns come onto the screen at a time."""

MAX_TURNS = 48
"""How many turns are kept there; beyond, the far end leaves."""


@dataclass(frozen=True, slots=True)
class TranscriptWindow:
    """The turns from `first` up to `end`, of `total`."""

    first: int
    end: int
    total: int

    @classmethod
    def newest(cls, total: int) -> TranscriptWindow:
        """Return the window at the end of a conversation."""
        return cls(max(0, total - STEP_TURNS), total, total)

    @classmethod
    def around(cls, index: int, total: int) -> TranscriptWindow:
        """Return the window with a turn in its middle."""
        first = max(0, min(index - STEP_TURNS // 2, total - STEP_TURNS))
        return cls(first, min(total, first + STEP_TURNS), total)

    def earlier(self) -> TranscriptWindow:
        """Return the window grown at its beginning, and cut at its end if it got too large."""
        first = max(0, self.first - STEP_TURNS)
        return TranscriptWindow(first, min(self.end, first + MAX_TURNS), self.total)

    def later(self) -> TranscriptWindow:
        """Return the window grown at its end, and cut at its beginning if it got too large."""
        end = min(self.total, self.end + STEP_TURNS)
        return TranscriptWindow(max(self.first, end - MAX_TURNS), end, self.total)
