"""Questions to native libraries, each in a child process of its own: which GPUs, which build."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baton.core.errors import ModelFileError, WorkerUnavailable
from baton.core.machine import Gpu
from baton.core.sanitiser import one_line
from baton.ipc.messages import Failed, Message
from baton.ipc.process import ChildDied, environment, error_of, start_child
from baton.workers.local.messages import (
    REPLIES,
    CheckFile,
    DescribeLlama,
    FileChecked,
    LlamaInfo,
)


async def probe_llama(environ: Mapping[str, str] = os.environ) -> LlamaInfo:
    """Load llama.cpp in a child and return what it is. Raises WorkerUnavailable."""
    reply = await _ask("llama", environ, DescribeLlama())
    if isinstance(reply, Failed):
        raise WorkerUnavailable(str(reply.message or "llama can't be loaded."), reply.hint)
    info: LlamaInfo = reply
    return info


async def check_model(path: Path) -> str:
    """Have llama.cpp load all of a model file but its weights, in a child.

    Returns a sentence on what is wrong with its chat template, or "". That takes part of a second,
    whatever the file's size. Raises ModelFileError if the file can't be used. Where llama.cpp
    itself can't be, nothing is known of the file, and none is raised.
    """
    try:
        reply = await _ask(one_line(path.name), os.environ, CheckFile(path))
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


async def probe_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that llama.cpp can use here, and what is free on them; none if it can't say.

    Their drivers are for the caller to look up.
    """
    global _no_gpus
    if _no_gpus:
        return ()
    try:
        info = await probe_llama()
    except WorkerUnavailable:
        return ()
    _no_gpus = not info.devices
    return tuple(
        Gpu(one_line(gpu.description, 80), gpu.free, gpu.total, integrated=gpu.shared)
        for gpu in info.devices
    )
