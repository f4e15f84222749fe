"""How far a transfer is, told to the front: honest, never backwards, and not too often."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from baton.download.progress import Phase, Progress

REPORT_SECONDS = 0.1
"""The least time between two reports of the same phase, in seconds."""

SPEED_WINDOW_SECONDS = 5.0
"""Speed is that of the last so many seconds."""

_MIN_SPEED_SECONDS = 0.2
"""What was seen for a shorter time has no speed yet."""


class ProgressReport:
    """Tells `progress` how far something of `total` bytes is."""

    def __init__(self, progress: Callable[[Progress], None], total: int) -> None:
        self.total = total
        self._progress = progress
        self._done = 0
        self._phase: Phase | None = None
        self._next = 0.0
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(
        self, phase: Phase, done: int, moved: int | None = None, wait: float | None = None
    ) -> None:
        """Tell that `done` bytes are here; `moved` is what speed is measured by, `done` if None.

        `wait` is how long nothing will come because a server asked for that, in seconds.
        """
        now = time.monotonic()
        if phase is self._phase and now < self._next:
            return
        if phase is not self._phase:
            self._phase = phase
            self._seen.clear()
        self._next = now + REPORT_SECONDS
        self._done = min(self.total, max(self._done, done))
        moved = done if moved is None else moved
        speed = self._speed(now, moved)
        left = (self.total - moved) / speed if speed else None
        if wait is not None:
            left = wait + (left or 0.0)
        self._progress(Progress(phase, self._done, self.total, speed, left))

    def _speed(self, now: float, moved: int) -> float:
        seen = self._seen
        if seen and moved < seen[-1][1]:
            seen.clear()
        seen.append((now, moved))
        while len(seen) > 2 and now - seen[1][0] >= SPEED_WINDOW_SECONDS:
            seen.popleft()
        since = now - seen[0][0]
        return (moved - seen[0][1]) / since if since >= _MIN_SPEED_SECONDS else 0.0
