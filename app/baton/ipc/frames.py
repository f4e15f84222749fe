"""Frames on a pipe: a big-endian 32-bit length, then that many bytes of one JSON object.

Both sides use it. What comes from a child is as trustworthy as the model file it reads, so every
frame is checked here for its size and shape, and by its receiver for its fields.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

LIMIT = 16 * 1024 * 1024
"""The largest frame, in bytes."""

Frame = dict[str, Any]

_LENGTH = struct.Struct(">I")


class FrameError(Exception):
    """A frame is too large, was cut, or isn't a JSON object."""


def encode(frame: Mapping[str, Any]) -> bytes:
    """Return the frame's bytes, length first. Raises FrameError when it is over the limit."""
    body = json.dumps(frame, separators=(",", ":")).encode("ascii")
    if len(body) > LIMIT:
        raise FrameError(f"a frame of {len(body):,} bytes is over the limit of {LIMIT:,}")
    return _LENGTH.pack(len(body)) + body


def read(stream: BinaryIO) -> Frame | None:
    """Return the next frame of a buffered stream, None at a clean end. Raises FrameError."""
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise FrameError("the pipe ended within a frame's length")
    (size,) = _LENGTH.unpack(head)
    if size > LIMIT:
        raise FrameError(f"a frame of {size:,} bytes is over the limit of {LIMIT:,}")
    body = stream.read(size)
    if len(body) < size:
        raise FrameError(f"the pipe ended after {len(body):,} of a frame's {size:,} bytes")
    try:
        frame = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame isn't JSON") from error
    if not isinstance(frame, dict):
        raise FrameError("a frame isn't a JSON object")
    return frame
