"""Whether Baton keeps to itself while offline: a program is run where every socket is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from baton.ipc.process import command as child_command
from baton.platform.build_info import binary

_MARGIN_SECONDS = 30.0
"""How much longer than its program the watching process may take."""


@dataclass(frozen=True, slots=True)
class WatchResult:
    """What became of a watched program: see `doctor.child.network_watch`.

    `means` are those by which it had no network, none where this machine has none: then it wasn't
    run. `attempts` counts the sockets that were asked for, by family. `status` is None where the
    program took too long.
    """

    means: tuple[str, ...]
    attempts: Mapping[str, int]
    status: int | None
    out: str
    err: str


def baton_command() -> list[str]:
    """Return what starts this very Baton again."""
    file = binary()
    isolation = "-I" if sys.flags.isolated else "-P"
    return [str(file)] if file is not None else [sys.executable, isolation, "-m", "baton"]


def watch_program(
    command: Sequence[str], seconds: float = 300.0, environ: Mapping[str, str] = os.environ
) -> WatchResult:
    """Run a program that can open no socket. Raises OSError where no process can be started."""
    try:
        done = subprocess.run(
            child_command("network_watch"),
            input=json.dumps({"command": list(command), "seconds": seconds}),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds + _MARGIN_SECONDS,
            env=dict(environ),
        )
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return WatchResult((), {}, None, "", "The process that watches failed.")
    return WatchResult(
        tuple(found["means"]), found["attempts"], found["status"], found["out"], found["err"]
    )
