"""Has a model write for Baton itself: two seconds to measure its speed, a token to try it."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

from baton.core.errors import BatonError, ContextTooLong, ModelFileError
from baton.core.messages import Message, Request, Role, Text, Thinking, Usage
from baton.core.ports import Worker
from baton.core.sanitiser import one_line
from baton.workers.local.messages import AnswerPrompt
from baton.workers.local.model_memory import Memory
from baton.workers.local.model_process import LoadSettings, ModelProcess
from baton.workers.local.model_session import ModelRequest

_PROMPT = "Describe a walk through a town in the morning, in as much detail as you can."
_MAX_TOKENS = 1024
_LOADING_SECONDS = 120.0
"""How long the first word may take: with a large model on a slow disk."""

TRIAL_CONTEXT = 2048
"""The context that a model is tried with, in tokens. Some templates bring 1,000 of their own."""

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


async def try_model(path: Path, force: bool = False) -> None:
    """Have a model file write one token, in a child. Raises BatonError if it can't."""
    settings = LoadSettings(TRIAL_CONTEXT, slots=1)
    model = ModelProcess(path, Memory(), settings, force=force)
    hello = AnswerPrompt([{"role": "user", "content": "Hello"}], 1, 1)
    try:
        async with aclosing(model.stream(ModelRequest(one_line(path.name), hello))) as chunks:
            async for _ in chunks:
                pass
    except ContextTooLong as error:
        what = f"The model's chat template makes {error.needed:,} tokens of one word."
        raise ModelFileError(what, "Choose another model.") from error
    finally:
        await model.aclose()


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
