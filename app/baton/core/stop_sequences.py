"""Ends a text before the first of some others that it would hold, while it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
