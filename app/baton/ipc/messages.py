"""What crosses the pipes between Baton and its child processes: frames, messages, errors.

A frame is a big-endian 32-bit length, then that many bytes of JSON: one message. Each slice
declares its messages once, for both sides. A child is only as trustworthy as the model file it
reads, so `read` checks the size, the kind and all fields of what it gets.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from baton.core.sanitiser import whole_characters

MAX_FRAME_BYTES = 16 * 1024 * 1024

_LENGTH = struct.Struct(">I")


class FrameError(Exception):
    """A frame is too large, was cut, or holds no message that its receiver knows."""


class UnknownMessage(FrameError):
    """A whole frame holds no message that its receiver knows; `call` is which call it is of."""

    def __init__(self, what: str, call: int = 0) -> None:
        super().__init__(what)
        self.call = call


class CutFrame(FrameError):
    """The pipe ended within a frame."""


class Message(msgspec.Struct, tag_field="type", omit_defaults=True, kw_only=True):
    """A message; `id` is the call that it belongs to, 0: none."""

    id: int = 0


class FinalReply(Message):
    """The last message of a call."""


class ProgressReply(Message):
    """A message that the next one of its call replaces, if it wasn't received yet."""


class Beat(Message, tag="beat"):
    """A child's sign of life."""


class Cancel(Message, tag="cancel"):
    """The answer to a call isn't needed any more."""


class Stopped(FinalReply, tag="stopped"):
    """A call ended because it was cancelled."""


class Failed(FinalReply, tag="failed"):
    """A call failed; `error` names the class that the parent raises.

    `needed` and `limit` are ContextTooLong's. `declined` is a refusal that costs nothing, `unsent`
    a request of which not a byte left. `option` is the setting that was refused, `value` what may
    be sent in its place ("": nothing), `lasts` whether any value of it would be refused.
    """

    error: str = ""
    message: str = ""
    hint: str = ""
    needed: int = 0
    limit: int = 0
    declined: bool = False
    unsent: bool = False
    option: str = ""
    value: str = ""
    lasts: bool = True


class Discard(Message, tag="discard"):
    """A borrowed child isn't needed any more: its lender ends it if nothing else uses it."""


class Ended(Message, tag="ended"):
    """A borrowed child ended: why, in a sentence, or "" if it had nothing to do."""

    why: str = ""


Decoder = msgspec.json.Decoder[Any]


def request_decoder(requests: Any) -> Decoder:
    """Return what decodes a union of messages to a child, and Cancel."""
    return msgspec.json.Decoder(requests | Cancel, dec_hook=_decode_path)


def reply_decoder(replies: Any) -> Decoder:
    """Return what decodes a union of messages from a child, and those that every child sends."""
    return msgspec.json.Decoder(replies | Beat | Ended | Stopped | Failed, dec_hook=_decode_path)


def encode(message: Message) -> bytes:
    """Return a message's frame. Raises FrameError if it is too large."""
    try:
        body = msgspec.json.encode(message, enc_hook=_encode_path)
    except UnicodeEncodeError:  # a text holds half a character
        import json

        fields = msgspec.to_builtins(message, enc_hook=_encode_path)
        body = whole_characters(json.dumps(fields, ensure_ascii=False)).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {len(body):,} bytes is over the limit of {MAX_FRAME_BYTES:,}")
    return _LENGTH.pack(len(body)) + body


def read(stream: BinaryIO, decoder: Decoder) -> Any:
    """Return the next message of a buffered stream, None at a clean end. Raises FrameError."""
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise CutFrame("the pipe ended within a frame's length")
    (size,) = _LENGTH.unpack(head)
    if size > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {size:,} bytes is over the limit of {MAX_FRAME_BYTES:,}")
    body = stream.read(size)
    if len(body) < size:
        raise CutFrame(f"the pipe ended after {len(body):,} of a frame's {size:,} bytes")
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise UnknownMessage("a frame holds no known message", _call_of(body)) from error


class _AnyMessage(msgspec.Struct):
    id: int = 0


def _call_of(body: bytes) -> int:
    """Return the call of a message of an unknown kind, 0 where it names none."""
    try:
        return msgspec.json.decode(body, type=_AnyMessage).id
    except (ValueError, RecursionError):
        return 0


def _encode_path(value: object) -> str:
    """Encode a path's bytes as characters, since a file's name need not be text."""
    if not isinstance(value, Path):  # msgspec takes no subclass of str, int or float either
        raise TypeError(f"a message can't hold a {type(value).__name__}")
    return os.fsencode(value).decode("latin-1")


def _decode_path(_kind: type, value: str) -> Path:
    return Path(os.fsdecode(bytes(value, "latin-1")))
