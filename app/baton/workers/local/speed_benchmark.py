"""Measures how fast a worker writes here, by having it write for two seconds."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

from baton.core.errors import BatonError
from baton.core.messages import Message, Request, Role, Text, Thinking, Usage
from baton.core.ports import Worker

_PROMPT = "Describe a walk through a town in the morning, in as much detail as you can."
_MAX_TOKENS = 1024
_LOADING_SECONDS = 120.0
"""How long the first word may take: with a large model on a slow disk."""

_BUSY_PERCENT = 40.0
_IDLE_TRIES = 5


async def is_machine_busy() -> bool:
    """Wait up to a few seconds until other programs leave the processor; return whether in vain."""
    import psutil

    for _ in range(_IDLE_TRIES):
        if await asyncio.to_thread(psutil.cpu_percent, 0.5) < _BUSY_PERCENT:
            return False
    return True


async def measure_speed(worker: Worker, seconds: float = 2.0) -> float | None:
    """Return how many tokens a worker on this machine writes per second; None if it can't.

    It loads first if need be, then writes for so long. Nothing is recorded, and a remote worker
    isn't asked. Cancelling stops it at once.
    """
    if worker.card.uses_gateway or worker.card.is_tool:
        return None
    try:
        async with asyncio.timeout(_LOADING_SECONDS + seconds):
            return await _measured(worker, seconds)
    except (BatonError, TimeoutError):
        return None


async def _measured(worker: Worker, seconds: float) -> float | None:
    request = Request((Message(Role.USER, _PROMPT),), max_tokens=_MAX_TOKENS, temperature=0.0)
    tokens, began, now = 0, None, 0.0
    async with aclosing(worker.stream(request)) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Usage):
                break
            if not isinstance(chunk, (Text, Thinking)):
                continue
            now = time.monotonic()
            if began is None:
                began = now  # these came with reading the prompt, so they don't count
                continue
            tokens += chunk.tokens
            if now - began >= seconds:
                break
    return tokens / (now - began) if tokens and began is not None and now > began else None
