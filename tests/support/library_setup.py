"""What tests of the library share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from baton.domain.library import Held, Progress


async def last(steps: AsyncGenerator[Progress | Held]) -> Held:
    """Return how a model stands when all steps are done."""
    async with aclosing(steps):
        found = [step async for step in steps]
    assert isinstance(found[-1], Held)
    return found[-1]
