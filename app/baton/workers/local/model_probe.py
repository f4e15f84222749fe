"""Questions to native libraries and models, in child processes: GPUs, builds and speeds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

from baton.core.errors import BatonError, ContextTooLong, ModelFileError, WorkerUnavailable
from baton.core.machine import Gpu
from baton.core.messages import Message as Said, Request, Role, Text, Thinking, Usage
from baton.core.ports import Worker
from baton.core.sanitiser import one_line
from baton.ipc.messages import Failed, Message
from baton.ipc.process import ChildDied, environment, error_of, start_child
from baton.workers.local.messages import (
    REPLIES,
    AnswerPrompt,
    CheckFile,
    DescribeLibrary,
    FileChecked,
    LlamaInfo,
)

_PROMPT = "Describe a walk through a town in the morning, in as much detail as you can."
_MAX_TOKENS = 1024
_LOADING_SECONDS = 120.0
"""How long the first word may take: with a large model on a slow disk."""

TRIAL_CONTEXT = 2048
"""The context that a model is tried with, in tokens. Some templates bring 1,000 of their own."""

_BUSY_PERCENT = 40.0
_IDLE_TRIES = 5


async def probe_library(
    library: Literal["llama", "onnxruntime"], environ: Mapping[str, str] = os.environ
) -> Any:
    """Load a native library in a child and return its LlamaInfo or OnnxInfo.

    Raises WorkerUnavailable.
    """
    reply = await _ask(library, environ, DescribeLibrary(library))
    if isinstance(reply, Failed):
        raise WorkerUnavailable(str(reply.message or f"{library} can't be loaded."), reply.hint)
    return reply


async def check_model(path: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Have llama.cpp load all of a model file but its weights, in a child.

    Returns a sentence on what is wrong with its chat template, or "". That takes part of a second,
    whatever the file's size. Raises ModelFileError if the file can't be used. Where llama.cpp
    itself can't be, nothing is known of the file, and none is raised.
    """
    try:
        reply = await _ask(one_line(path.name), environ, CheckFile(path))
    except WorkerUnavailable as error:  # llama.cpp crashed
        hint = "The file is broken: download it again, or choose another."
        raise ModelFileError(error.message, hint) from error
    if isinstance(reply, Failed) and reply.error == ModelFileError.__name__:
        raise error_of(reply)
    return one_line(reply.note, 200) if isinstance(reply, FileChecked) else ""


async def _ask(name: str, environ: Mapping[str, str], request: Message) -> Any:
    """Return a child's only reply. Raises WorkerUnavailable."""
    child = start_child("runner", environment(environ), REPLIES, "A process")
    try:
        child.send(request)
        return await child.receive()
    except ChildDied as death:
        raise WorkerUnavailable(
            f"{name} can't be loaded. {death}", "Run `baton doctor`."
        ) from death
    finally:
        await child.aclose()


_no_gpus = False
"""Whether llama.cpp has said that it can use no GPU: that stays so as long as Baton runs."""


async def probe_gpus(environ: Mapping[str, str] = os.environ) -> tuple[Gpu, ...]:
    """Return the GPUs that llama.cpp can use here, and what is free on them; none if it can't say.

    Their drivers are for the caller to look up.
    """
    global _no_gpus
    if _no_gpus:
        return ()
    try:
        info: LlamaInfo = await probe_library("llama", environ)
    except WorkerUnavailable:
        return ()
    _no_gpus = not info.devices
    return tuple(
        Gpu(one_line(gpu.description, 80), gpu.free, gpu.total, integrated=gpu.shared)
        for gpu in info.devices
    )


async def is_machine_busy() -> bool:
    """Wait up to a few seconds until other programs leave the processor; return whether in vain."""
    import asyncio

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
    import asyncio

    if worker.card.uses_gateway or worker.card.is_tool:
        return None
    try:
        async with asyncio.timeout(_LOADING_SECONDS + seconds):
            return await _measured(worker, seconds)
    except (BatonError, TimeoutError):
        return None


async def try_model(path: Path, force: bool = False) -> None:
    """Have a model file write one token, in a child. Raises BatonError if it can't."""
    from baton.workers.local.model_memory import Memory
    from baton.workers.local.model_process import LoadSettings, ModelProcess
    from baton.workers.local.model_session import ModelRequest

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
    import time

    request = Request((Said(Role.USER, _PROMPT),), max_tokens=_MAX_TOKENS, temperature=0.0)
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
