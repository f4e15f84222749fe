"""How many requests each worker takes at once, over all runs of this Baton."""

from __future__ import annotations

import asyncio

from baton.core.messages import Card


class Slots:
    """One semaphore per worker, made when it is first wanted."""

    def __init__(self) -> None:
        self._free: dict[str, asyncio.Semaphore] = {}

    def of(self, card: Card) -> asyncio.Semaphore:
        """Return what to enter (`async with`) while a worker is used."""
        return self._free.setdefault(card.id, asyncio.Semaphore(max(1, card.slots)))
