"""Looking for secrets, also for a part of one."""

from __future__ import annotations

SHORTEST = 8


def parts_of(text: str) -> set[str]:
    """Return every part of a text that is long enough to give a key away."""
    return {text[start : start + SHORTEST] for start in range(len(text) - SHORTEST + 1)}
