"""What the doctor asks of the children: whether the native libraries load, and what they can do."""

from __future__ import annotations

import os
from collections.abc import Mapping

from baton.children.framing import Frame
from baton.children.process import Child, Died, environment
from baton.domain.errors import WorkerUnavailable


async def probe(what: str, environ: Mapping[str, str] = os.environ) -> Frame:
    """Load a native library in a child of its own and return what it says of itself.

    `llama`: version, system (its build's abilities), gpu, devices (name, description, free and
    total bytes). `onnxruntime`: version, providers. Raises WorkerUnavailable.
    """
    try:
        child = Child("runner", environment(environ))
    except OSError as error:
        raise WorkerUnavailable(f"No child process could be started: {error}.") from error
    try:
        child.send("info", what=what)
        frame = await child.receive()
    except Died as death:
        words = child.last_words.strip().splitlines()
        raise WorkerUnavailable(f"{what} can't be loaded. {death}", *words[-1:]) from death
    finally:
        child.kill()
        await child.gone()
    if frame.get("type") != "info":
        raise WorkerUnavailable(str(frame.get("message", f"{what} can't be loaded.")))
    return frame
