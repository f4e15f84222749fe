"""How far a download is."""

from __future__ import annotations

from enum import StrEnum

from baton.core.frozen_dataclass import frozen_dataclass


class Phase(StrEnum):
    """What a download is doing."""

    WAITING = "waiting"  # another Baton fetches the same file
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"


@frozen_dataclass
class Progress:
    """How far a download is: `done` of `total` bytes, which never go backwards.

    `speed` is in bytes per second over the last seconds, `left` in seconds (None: unknown).
    """

    phase: Phase
    done: int
    total: int
    speed: float = 0.0
    left: float | None = None
