"""Processes that are started before it is known what they will be asked.

Python takes 0.1 s to start and to import what a child needs. With two cores that costs nothing
while the parent imports its own parts.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

_spares: dict[object, subprocess.Popen[bytes]] = {}


def start_process(
    command: Sequence[str], environ: Mapping[str, str], folder: str | None
) -> subprocess.Popen[bytes]:
    """Start a process with pipes, or return the spare one that is just so. Raises OSError."""
    return _spares.pop(_key(command, environ, folder), None) or subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environ),
        cwd=folder,
        start_new_session=True,  # a Ctrl+C in the terminal is not for it
    )


def start_spare(command: Sequence[str], environ: Mapping[str, str], folder: str | None) -> None:
    """Start a process that is likely needed soon, if it can be."""
    with suppress(OSError):
        _spares[_key(command, environ, folder)] = start_process(command, environ, folder)


def end_spares() -> None:
    """End the spare processes that nothing has needed."""
    while _spares:
        _, process = _spares.popitem()
        process.kill()
        process.communicate()


def _key(command: Sequence[str], environ: Mapping[str, str], folder: str | None) -> object:
    return tuple(command), frozenset(environ.items()), folder
