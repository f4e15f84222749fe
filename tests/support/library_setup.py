"""What tests of the library share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from baton.download.progress import Progress
from baton.models.model_types import LibraryModel


async def last(steps: AsyncGenerator[Progress | LibraryModel]) -> LibraryModel:
    """Return how a model stands when all steps are done."""
    async with aclosing(steps):
        found = [step async for step in steps]
    assert isinstance(found[-1], LibraryModel)
    return found[-1]
