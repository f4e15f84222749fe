"""AWS's binary event stream, in which Amazon Bedrock answers.

An event is a frame: its size, the size of its headers and a CRC of both (12 bytes), headers, a
payload of JSON, and a CRC of all before it. AWS's own decoder isn't used: its package (botocore,
31 MB) comes with litellm, but the packaged Baton leaves it out. test_event_frames.py compares both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from struct import Struct
from zlib import crc32

from baton.workers.cloud.child.response_limits import MAX_EVENT_BYTES

_PRELUDE = Struct(">III")
_CRC_BYTES = 4
_BYTES, _TEXT = 6, 7
_VALUE_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""How long a header's value is, by its type; bytes and texts name their length themselves."""


class EventFrames:
    """Events in frames; the fields mean what they mean in answer_reader.Events.

    After a frame that is none, nothing more is read: where the next one begins isn't known.
    """

    def __init__(self) -> None:
        self.broken = False
        self.is_too_long = False
        self.count = 0
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[str]:
        """Take bytes as they came; yield the events that they complete: `{"NAME": payload}`."""
        if not self.broken:
            self._data += data
        if self._data.startswith(b"{"):  # an answer that isn't streamed: no frame is so long
            self.is_too_long = len(self._data) > MAX_EVENT_BYTES
            if self.is_too_long:
                self._give_up()
            return
        while len(self._data) >= _PRELUDE.size:
            size, header_bytes, check = _PRELUDE.unpack_from(self._data)
            is_sound = crc32(self._data[: _PRELUDE.size - _CRC_BYTES]) == check
            self.is_too_long = is_sound and size > MAX_EVENT_BYTES
            if not is_sound or self.is_too_long:
                self._give_up()
            if self.broken or len(self._data) < size:
                return
            frame = bytes(self._data[:size])
            del self._data[:size]
            try:
                event = _event(frame, header_bytes)
            except (IndexError, KeyError, ValueError):
                self._give_up()
                return
            self.count += 1
            yield event

    def rest(self) -> str:
        """Return an answer that isn't streamed, once nothing more comes, or ""."""
        return self._data.decode("utf-8", "replace") if self._data.startswith(b"{") else ""

    def _give_up(self) -> None:
        self.broken = True
        self._data.clear()


def _event(frame: bytes, header_bytes: int) -> str:
    """Return a frame's event. Raises ValueError, KeyError or IndexError for what is none."""
    end = _PRELUDE.size + header_bytes
    last = len(frame) - _CRC_BYTES
    if end > last or crc32(frame[:last]) != int.from_bytes(frame[last:]):
        raise ValueError("it is damaged")
    headers = _text_headers(frame[_PRELUDE.size : end])
    payload = frame[end:last].decode()
    match headers[":message-type"]:
        case "event":
            return f"{{{json.dumps(headers[':event-type'])}:{payload}}}"
        case "exception":
            code = json.dumps(headers.get(":exception-type"))
            return f'{{"error":{payload},"code":{code}}}'
    said = headers.get(":error-message") or headers[":error-code"]
    return json.dumps({"error": {"message": said}, "code": headers.get(":error-code")})


def _text_headers(data: bytes) -> dict[str, str]:
    """Return the headers that are text."""
    found, at = {}, 0
    while at < len(data):
        start = at + 1 + data[at]
        name, kind = data[at + 1 : start].decode(), data[start]
        at = start + 1
        if kind in (_BYTES, _TEXT):
            size, at = int.from_bytes(data[at : at + 2]), at + 2
        else:
            size = _VALUE_BYTES[kind]
        if at + size > len(data):
            raise ValueError("a header has no end")
        if kind == _TEXT:
            found[name] = data[at : at + size].decode()
        at += size
    return found
