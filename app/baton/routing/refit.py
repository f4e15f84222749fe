"""Refitting the router on a person's own answers, in a child of its own: no prompt waits for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from baton.core.errors import BatonError, ModelFileError, WorkerError, WorkerUnavailable
from baton.core.routing_types import Learned, Rated
from baton.core.sanitiser import one_line
from baton.ipc.process import Child, Died, environment
from baton.ipc.supervisor import start
from baton.routing.protocol import learned_in, rated_sent
from baton.routing.router_files import lacking, shipped
from baton.routing.scorer_process import ONE_THREAD

LEARNING_SECONDS = 600.0
"""How long refitting may take; it takes seconds."""

MOST_RATED = 20_000
"""Of more labels than this the newest count."""

_AT_ONCE = 100
"""Labels in one frame, whose size is bounded: a character may take twelve bytes in it."""


async def learn(
    rated: Sequence[Rated],
    target: Path,
    folder: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Learned:
    """Refit the shipped router on labels, and write `target` if that came out better.

    A Baton that runs takes it up with its next prompt. Raises WorkerError or ModelFileError.
    """
    place = shipped() if folder is None else folder
    what, hint = lacking(place)
    if what:
        raise WorkerUnavailable(what, hint)
    child = start("scorer", {**environment(environ), **ONE_THREAD}, "The router")
    newest = sorted(rated, key=lambda one: one.at)[-MOST_RATED:]
    try:
        async with asyncio.timeout(LEARNING_SECONDS):
            return await _taught(child, newest, target, place)
    except Died as death:
        what = f"The router process failed while it was learning. {death} Nothing was changed."
        raise WorkerError(what, "Try again, or run `baton doctor`.") from death
    except TimeoutError as error:
        raise WorkerError("Learning took too long and was stopped; nothing was changed.") from error
    finally:
        await child.aclose()


async def _taught(child: Child, rated: Sequence[Rated], target: Path, folder: Path) -> Learned:
    child.send("load", folder=str(folder), learned=str(target), threads=1)
    for first in range(0, len(rated), _AT_ONCE):
        child.send("rated", rated=rated_sent(rated[first : first + _AT_ONCE]))
    child.send("learn", id=1, target=str(target))
    while True:
        match await child.receive():
            case {"type": "loaded"}:
                continue
            case {"type": "done", "id": 1, "value": value}:
                return learned_in(value)
            case {"type": "failed", "error": str(name), "message": str(text), "hint": str(hint)}:
                raise _error(name, one_line(text, 500), one_line(hint, 500))
        raise Died("It sent an invalid reply.")


def _error(name: str, message: str, hint: str) -> BatonError:
    kinds = {"ModelFileError": ModelFileError, "WorkerUnavailable": WorkerUnavailable}
    return kinds.get(name, WorkerError)(message, hint)
