"""The header of a model file on this machine."""

from __future__ import annotations

from pathlib import Path

from baton.domain.gguf import Cut, Header, Malformed, read

FIRST_BYTES = 8 << 20
"""What is read of a file at first; few headers are longer."""


def header_of(path: Path, size: int) -> Header:
    """Return the header of a file of that size. Raises Malformed and OSError.

    It is read and not mapped: a file that somebody cuts off meanwhile would end the process.
    """
    wanted = min(FIRST_BYTES, size)
    with path.open("rb") as file:
        data = b""
        while True:
            data += file.read(wanted - len(data))
            if len(data) < wanted:
                raise Malformed("it is being changed")
            try:
                return read(data, size)
            except Cut as cut:
                wanted = cut.needed
