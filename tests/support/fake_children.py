"""Child processes that run a few lines of a test's own instead of what they are there for."""

from __future__ import annotations

import sys

PRELUDE = """
import os, sys, threading, time
from baton.ipc import frames as framing
def send(**frame):
    sys.stdout.buffer.write(framing.encode(frame)); sys.stdout.buffer.flush()
def receive():
    return framing.read(sys.stdin.buffer)
"""


def command(code: str) -> list[str]:
    """Return the command of a child that runs that code, with `send` and `receive` for frames."""
    return [sys.executable, "-c", PRELUDE + code]
