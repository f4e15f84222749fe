"""Child processes that run a few lines of a test's own instead of what they are there for."""

from __future__ import annotations

import sys

PRELUDE = """
import json, os, struct, sys, threading, time
def send(**message):
    body = json.dumps(message).encode()
    sys.stdout.buffer.write(struct.pack(">I", len(body)) + body); sys.stdout.buffer.flush()
def receive():
    head = sys.stdin.buffer.read(4)
    return json.loads(sys.stdin.buffer.read(*struct.unpack(">I", head))) if head else None
"""


def command(code: str) -> list[str]:
    """Return the command of a child that runs that code, with `send` and `receive` for messages."""
    return [sys.executable, "-c", PRELUDE + code]
