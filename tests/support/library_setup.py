"""What tests of the library share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from baton.download.messages import Progress
from baton.models.ports import LibraryModel
from support import gguf_writer


async def final_model(steps: AsyncGenerator[Progress | LibraryModel]) -> LibraryModel:
    """Return how a model stands when all steps are done."""
    async with aclosing(steps):
        found = [step async for step in steps]
    assert isinstance(found[-1], LibraryModel)
    return found[-1]


def tiny_model(seed: int = 0) -> bytes:
    """Return a model file; each seed makes other weights."""
    tensors = [gguf_writer.Tensor("token_embd.weight", (64, 512))]
    return gguf_writer.whole({"general.name": "Tiny", **gguf_writer.facts()}, tensors, seed)
