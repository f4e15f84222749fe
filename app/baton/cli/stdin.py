"""Text piped into Baton."""

from __future__ import annotations

import select
import sys

from baton.cli.output import notify
from baton.core.byte_format import show_size
from baton.core.errors import ConfigError
from baton.workers.attachments import decode

MAX_PIPED_BYTES = 8 * 10**6
"""How many bytes may be piped in."""

_NOTICE_SECONDS = 1.0
"""After how many seconds without a byte it is said what Baton is waiting for."""


def read_piped(quiet: bool) -> str:
    """Return what is piped in, "" when stdin is a terminal. Raises ConfigError."""
    if sys.stdin.isatty():
        return ""
    try:
        if (
            not quiet
            and sys.stderr.isatty()
            and not select.select([sys.stdin], [], [], _NOTICE_SECONDS)[0]
        ):
            notify("Reading piped text until it ends ...")
        data = sys.stdin.buffer.read(MAX_PIPED_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"Standard input can't be read: {error.strerror}.") from error
    if len(data) > MAX_PIPED_BYTES:
        raise ConfigError(
            f"More than {show_size(MAX_PIPED_BYTES)} were piped in, and nothing of it was sent.",
            "Pipe the part that matters.",
        )
    return decode(data, "The piped text")
