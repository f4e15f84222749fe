"""Reads the headers of files on this machine, and no more of the files than need be."""

from __future__ import annotations

import os
import re
from pathlib import Path

from baton.core.errors import ModelFileError
from baton.core.sanitiser import one_line
from baton.gguf.header import Header, MalformedHeader, read_header, read_kind, read_part
from baton.gguf.split_files import JOIN_PARTS_HINT, check_parts, part_paths
from baton.models.store.store_files import open_regular_file

_KIND_BYTES = 1 << 16
"""How much of a file is read to see what kind of model it is."""

_OTHER_NAME = re.compile(
    r"mmproj|projector|vocab|embed|imatrix|rerank|incomplete|download"
    r"|(?<![a-z])(lora|clip|whisper|adapter)(?![a-z])",
    re.IGNORECASE,
)
"""Names of files that are no chat models, or parts of one."""

_OTHER_ARCHITECTURE = re.compile(
    r"bert|clip|embedding|t5encoder|wavtokenizer|whisper", re.IGNORECASE
)
"""Architectures that don't write text."""


def read_file_header(path: Path) -> Header:
    """Return a file's header. Raises ModelFileError, with the path as it was given.

    Of a model in several files, any of them may be named, and all are looked at. A pipe is never
    waited for.
    """
    path = part_paths(path)[0]
    name = one_line(str(path), 300)
    try:
        with open_regular_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise MalformedHeader("it is empty")
            # Not mapped into memory: a file that another program truncates would end this process.
            header = read_header(file.read, size)
        check_parts(path.name, header.parts, lambda part: _read_part(path.with_name(part)))
        return header
    except MalformedHeader as error:
        raise ModelFileError(
            f"{name} is no model that can be used: {one_line(str(error))}.",
            error.hint
            or "Baton runs GGUF files: look for one of that kind, or get this one again.",
        ) from error
    except (FileNotFoundError, NotADirectoryError):
        hint = JOIN_PARTS_HINT if len(part_paths(path)) > 1 else "Check its path."
        raise ModelFileError(f"There is no file {name}.", hint) from None
    except OSError as error:
        raise ModelFileError(
            f"{name} can't be read: {error.strerror or error}.",
            "Check its owner and permissions, and its folder's.",
        ) from error


def _read_part(path: Path) -> tuple[int, int]:
    with open_regular_file(path) as file:
        return read_part(file.read, os.fstat(file.fileno()).st_size)


def chat_model_bytes(path: Path, name: str = "") -> int:
    """Return the size of a file that looks like a chat model, 0 of any other.

    Of a model in several files, that is the size of all for the first one, if all are there.
    `name` is what its program calls it. Only its first bytes are read, and a pipe is never waited
    for. Whether it can be loaded shows when it is.
    """
    parts = part_paths(path)
    if _OTHER_NAME.search(path.name) or _OTHER_NAME.search(name) or path != parts[0]:
        return 0
    try:
        with open_regular_file(path) as file:
            kind = read_kind(file.read(_KIND_BYTES))
            is_chat = kind.has_weights and kind.type in ("", "model")
            if not is_chat or _OTHER_ARCHITECTURE.search(kind.architecture):
                return 0
            return sum(part.stat().st_size for part in parts)
    except (OSError, MalformedHeader):
        return 0
