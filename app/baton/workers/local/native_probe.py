"""What the doctor asks of the children: whether the native libraries load, and what they can do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baton.core.errors import ModelFileError, WorkerUnavailable
from baton.core.machine import Gpu
from baton.core.sanitiser import one_line
from baton.ipc.frames import Frame
from baton.ipc.process import Child, Died, environment


async def probe(what: str, environ: Mapping[str, str] = os.environ) -> Frame:
    """Load a native library in a child of its own and return what it says of itself.

    `llama`: version, processor, system (its build's abilities), gpu (whether one can be used),
    gpu_kinds (those it is made for, with why one can't be used), devices (name, description, free
    and total bytes, shared). `onnxruntime`: version, providers. Raises WorkerUnavailable.
    """
    frame = await _asked(what, environ, "info", what=what)
    if frame.get("type") != "info":
        raise WorkerUnavailable(str(frame.get("message", f"{what} can't be loaded.")))
    return frame


async def check_model(path: Path, environ: Mapping[str, str] = os.environ) -> None:
    """Have llama.cpp load all of a model file but its weights, in a child of its own.

    That takes part of a second, whatever the file's size. Raises ModelFileError if the file can't
    be loaded. Where llama.cpp itself can't be, nothing is known of the file, and none is raised.
    """
    name = one_line(path.name)
    try:
        frame = await _asked(name, environ, "check", path=str(path))
    except WorkerUnavailable as error:  # llama.cpp crashed
        raise ModelFileError(error.message, error.hint) from error
    if frame.get("error") == "ModelFileError":
        message = one_line(str(frame.get("message", f"{name} can't be loaded.")), 400)
        raise ModelFileError(message, one_line(str(frame.get("hint", "")), 400))


async def _asked(name: str, environ: Mapping[str, str], type: str, **fields: Any) -> Frame:
    """Ask a runner of its own one thing and return its answer. Raises WorkerUnavailable."""
    try:
        child = Child("runner", environment(environ))
    except OSError as error:
        raise WorkerUnavailable(f"No child process could be started: {error}.") from error
    try:
        child.send(type, **fields)
        return await child.receive()
    except Died as death:
        words = child.last_words.strip().splitlines()
        raise WorkerUnavailable(f"{name} can't be loaded. {death}", *words[-1:]) from death
    finally:
        child.kill()
        await child.gone()


_no_gpus = False
"""Whether llama.cpp has said that it can use no GPU: that stays so as long as Baton runs."""


async def gpus(environ: Mapping[str, str] = os.environ) -> tuple[Gpu, ...]:
    """Return the GPUs that llama.cpp can use here, and what is free on them; none if it can't say.

    Their drivers are looked up by whoever wants to know.
    """
    global _no_gpus
    if _no_gpus:
        return ()
    try:
        devices = (await probe("llama", environ)).get("devices") or []
        found = tuple(
            Gpu(
                one_line(str(one["description"]), 80),
                int(one["free"]),
                int(one["total"]),
                integrated=bool(one["shared"]),
            )
            for one in devices
        )
    except (WorkerUnavailable, KeyError, TypeError, ValueError):
        return ()
    _no_gpus = not found
    return found
