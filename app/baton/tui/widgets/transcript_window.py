"""Which turns of a long conversation are on the screen: a rule without any widget."""

from __future__ import annotations

from dataclasses import dataclass

STEP = 16
"""How many turns come onto the screen at a time."""

MOST = 48
"""How many turns are kept there; beyond, the far end leaves."""


@dataclass(frozen=True, slots=True)
class Window:
    """The turns from `first` up to `end`, of `total`."""

    first: int
    end: int
    total: int

    @classmethod
    def newest(cls, total: int) -> Window:
        """Return the window at the end of a conversation."""
        return cls(max(0, total - STEP), total, total)

    @classmethod
    def around(cls, index: int, total: int) -> Window:
        """Return the window with a turn in its middle."""
        first = max(0, min(index - STEP // 2, total - STEP))
        return cls(first, min(total, first + STEP), total)

    def earlier(self) -> Window:
        """Return the window grown at its beginning, and cut at its end if it got too large."""
        first = max(0, self.first - STEP)
        return Window(first, min(self.end, first + MOST), self.total)

    def later(self) -> Window:
        """Return the window grown at its end, and cut at its beginning if it got too large."""
        end = min(self.total, self.end + STEP)
        return Window(max(self.first, end - MOST), end, self.total)
