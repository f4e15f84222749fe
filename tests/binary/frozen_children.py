"""For pytest's `-p binary.frozen_children`: every child is the binary that FROZEN_BATON names."""

from __future__ import annotations

import os

from baton.ipc import process

_EXECUTABLE = os.environ["FROZEN_BATON"]


def _command(name: str) -> list[str]:
    return [_EXECUTABLE, "--child", name]


process.command = _command
