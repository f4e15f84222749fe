"""Whether a file looks like a model that can talk, by its name and its first few bytes."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

from baton.models.store.ordinary_file import open_regular_file

_HEAD = 1 << 16
_MOST_KEYS = 64
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT = 8
_VERSIONS = (2, 3)

_OTHER = re.compile(
    r"mmproj|projector|vocab|embed|imatrix|rerank|incomplete|download"
    r"|(?<![a-z])(lora|clip|whisper|adapter)(?![a-z])|-\d{5}-of-\d{5}",
    re.IGNORECASE,
)
"""Names of files that aren't models that talk, or aren't whole ones."""

_SILENT = re.compile(r"bert|clip|embedding|t5encoder|wavtokenizer|whisper", re.IGNORECASE)
"""Architectures that don't write."""


def chat_model_bytes(path: Path, name: str = "") -> int:
    """Return the size of a file that looks like a model that can talk, 0 of any other.

    `name` is what its program calls it. Nothing but its beginning is read, and a pipe is never
    waited for. Whether it can really be loaded is found out when it is.
    """
    if _OTHER.search(path.name) or _OTHER.search(name):
        return 0
    try:
        with open_regular_file(path) as file:
            return os.fstat(file.fileno()).st_size if _is_model(file.read(_HEAD)) else 0
    except OSError:
        return 0


def _is_model(head: bytes) -> bool:
    if len(head) < 24 or head[:4] != b"GGUF":
        return False
    version, tensors, _ = struct.unpack_from("<IQQ", head, 4)
    texts = _texts(head)
    return (
        version in _VERSIONS
        and tensors > 0
        and texts.get("general.type", "model") == "model"
        and not _SILENT.search(texts.get("general.architecture", ""))
    )


def _texts(head: bytes) -> dict[str, str]:
    """Return the texts with which a header begins, up to the first list in it."""
    found: dict[str, str] = {}
    at = 24
    try:
        for _ in range(_MOST_KEYS):
            key, at = _text(head, at)
            (kind,) = struct.unpack_from("<I", head, at)
            at += 4
            if kind == _TEXT:
                found[key], at = _text(head, at)
            else:
                at += _SIZES[kind]
    except (struct.error, KeyError, ValueError):
        pass  # the rest is beyond what was read, or no header
    return found


def _text(head: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", head, at)
    end = at + 8 + length
    if end > len(head):
        raise ValueError("goes on")
    return head[at + 8 : end].decode(errors="replace"), end
