"""The header of a model file on this machine."""

from __future__ import annotations

from pathlib import Path

from baton.domain.gguf import Header, read_on


def header_of(path: Path, size: int) -> Header:
    """Return the header of a file of that size. Raises Malformed and OSError.

    It is read and not mapped: a file that somebody cuts off meanwhile would end the process.
    """
    with path.open("rb") as file:
        return read_on(file.read, size)
