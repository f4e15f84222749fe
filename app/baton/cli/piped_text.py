"""What is piped into a command: read to its end, or given up where it never begins.

A parent that leaves its own stdin open (cron, ssh, a test runner, an editor) must not hang a
command that has its prompt already. A thread reads, since nothing else can wait for a pipe on every
system. It sleeps in the system call for good if nothing comes, and keeps no process from ending.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from contextlib import suppress
from queue import Empty, Queue
from typing import NamedTuple

from baton.cli.output import notify
from baton.core.errors import ConfigError
from baton.core.machine import show_size
from baton.workers import decode_text

MAX_PIPED_BYTES = 8 * 10**6
"""How many bytes may be piped in."""

BEGIN_SECONDS = 2.0
"""For how long a first byte is waited for where there is a prompt without it."""

_NAME = "The piped text"
_BLOCK_BYTES, _MAX_BLOCKS = 65_536, 8
_RETRY_SECONDS = 0.05


class PipedText(NamedTuple):
    """What was piped in; `lack` says what isn't there of it, or ""."""

    text: str
    lack: str = ""


def read_piped(*, quiet: bool, may_skip: bool, deadline: float | None) -> PipedText:
    """Read what is piped in, "" when stdin is a terminal. Raises ConfigError.

    What doesn't begin within BEGIN_SECONDS is given up where it `may_skip` it, else waited for. It
    is read to its end, or for `deadline` seconds: then the whole lines that came by then are used.
    """
    if sys.stdin.isatty():
        return PipedText("")
    blocks: Queue[bytes | OSError] = Queue(_MAX_BLOCKS)
    threading.Thread(target=_read_blocks, args=(blocks,), name="stdin", daemon=True).start()
    start, data, is_waiting = time.monotonic(), bytearray(), True
    end = math.inf if deadline is None else start + deadline
    while True:
        until = min(end, start + BEGIN_SECONDS) if is_waiting else end
        left = None if until == math.inf else max(0.0, until - time.monotonic())
        try:
            block = blocks.get(timeout=left)
        except Empty:
            if data or may_skip or until == end:
                return _cut_text(bytes(data), until - start)
            is_waiting = False
            if not quiet:
                notify("Reading piped text until it ends ...")
            continue
        if isinstance(block, OSError):
            raise ConfigError(f"Standard input can't be read: {block.strerror}.") from block
        if not block:
            return PipedText(decode_text(bytes(data), _NAME))
        data += block
        is_waiting = False
        if data.startswith(b"%PDF-") and b"endobj" in data:
            raise ConfigError("A PDF was piped in; it was not sent.", "Attach it: -f FILE.")
        if len(data) > MAX_PIPED_BYTES:
            raise ConfigError(
                f"More than {show_size(MAX_PIPED_BYTES)} were piped in; nothing was sent.",
                "Pipe the part that matters.",
            )


def _read_blocks(blocks: Queue[bytes | OSError]) -> None:
    # Without a buffer: its lock, held by a thread that sleeps, would break a late exit.
    stream = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    try:
        while (block := stream.read(_BLOCK_BYTES)) != b"":
            if block is None:  # the other end was set not to block
                time.sleep(_RETRY_SECONDS)
            else:
                blocks.put(block)
        blocks.put(b"")
    except OSError as error:
        blocks.put(error)


def _cut_text(data: bytes, seconds: float) -> PipedText:
    """Return what came of a text that hasn't ended: whole lines, or words where it has none."""
    if not data:
        return PipedText("", f"No text was piped in within {seconds:g} s, so it was left out.")
    for cut in range(4):  # bytes of a character that hasn't come whole
        with suppress(ConfigError):
            text = decode_text(data[: len(data) - cut], _NAME)
            break
    else:
        text = decode_text(data, _NAME)
    text = text[: text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)]
    used = show_size(len(text.encode()))
    lack = f"The piped text had not ended after {seconds:g} s: only {used} were used."
    return PipedText(text, lack)
