"""Secrets that a test looks for in what must not hold them."""

from __future__ import annotations

SHORTEST = 8
"""A run of so many characters of a secret says too much; a user may see its last four."""


def shows(secret: str, text: str) -> bool:
    """Whether a text holds a secret or a part of it."""
    runs = (secret[at : at + SHORTEST] for at in range(max(len(secret) - SHORTEST, 0) + 1))
    return any(run in text for run in runs)
