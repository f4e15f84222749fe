"""Reads the header of a file on this machine, and no more of it than need be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from baton.core.errors import ModelFileError
from baton.core.sanitiser import one_line
from baton.gguf.header import Header, HeaderIncomplete, MalformedHeader, parse_header
from baton.models.store.ordinary_file import open_regular_file

FIRST_BYTES = 1 << 20
"""How many bytes are read at first; large vocabularies need up to sixteen times as many."""

MAX_BYTES = 1 << 27
"""No header is longer, in bytes."""


def read_file_header(path: Path) -> Header:
    """Return a file's header. Raises ModelFileError; a pipe is never waited for.

    What goes wrong is told with the path as it was given.
    """
    name = one_line(str(path), 300)
    try:
        with open_regular_file(path) as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    except MalformedHeader as error:
        raise ModelFileError(
            f"{name} is no model that can be used: {one_line(str(error))}.",
            "Baton runs GGUF files: look for one of that kind, or get this one anew.",
        ) from error
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(f"There is no file {name}.", "Check its path.") from None
    except OSError as error:
        raise ModelFileError(
            f"{name} can't be read: {error.strerror or error}.",
            "Check its owner and permissions, and its folder's.",
        ) from error


def _read(file: BinaryIO, size: int) -> Header:
    # Not mapped into memory: a file that another program cuts short would end this process.
    if not size:
        raise MalformedHeader("it is empty")
    data, wanted = b"", FIRST_BYTES
    while True:
        data += file.read(wanted - len(data))
        try:
            return parse_header(data, size)
        except HeaderIncomplete as cut:
            if len(data) < wanted or wanted == MAX_BYTES:
                raise MalformedHeader("its header goes on beyond its end") from cut
            wanted = min(MAX_BYTES, cut.needed)
