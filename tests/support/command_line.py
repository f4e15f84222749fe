"""How tests call the command line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """How a call inside this process ended and what it printed."""

    code: int
    out: str
    err: str


Call = Callable[..., Done]
Process = Callable[..., subprocess.CompletedProcess[bytes]]
