"""How tests call the command line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from baton.platform.paths import find_paths


@dataclass(frozen=True)
class CallResult:
    """How a call inside this process ended and what it printed."""

    code: int
    out: str
    err: str


Call = Callable[..., CallResult]
Process = Callable[..., subprocess.CompletedProcess[bytes]]


def write_settings(text: str) -> None:
    """Write the settings file, which must not exist yet."""
    file = find_paths().config_file
    file.parent.mkdir(parents=True)
    file.write_text(text)
