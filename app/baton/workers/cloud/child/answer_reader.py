"""What a streamed answer is in every dialect: events, text, the provider's count, and its end.

Some servers and proxies send it as a whole, in JSON, although it was to be streamed: that is read
as well, under any content type.

Pure readers: bytes in, text out, cut anywhere (also inside a character). They don't believe much:
a count that can't be right isn't one, and an end is one only where the provider said so in its
dialect and nothing before it was broken.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import Struct
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from baton.core.sanitiser import whole_characters
from baton.workers.cloud.child.provider_errors import error_sentence
from baton.workers.cloud.child.response_limits import MAX_EVENT_BYTES, FewestTokens, parse_json
from baton.workers.cloud.messages import TokenCount

MAX_NAME_CHARS = 200
"""How much of a model's name is looked at."""
_ANSWER_FIELDS = frozenset(
    ("candidates", "choices", "content", "delta", "output", "response", "usage")
)
_ERROR_FIELDS = frozenset(("code", "detail", "error"))
"""Fields of an answer, and of an error without one: a notice has a message alone."""

_PRELUDE = Struct(">III")
_CRC_BYTES = 4
_BYTES, _TEXT = 6, 7
_VALUE_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""How long a header's value is, by its type; bytes and texts name their length themselves."""

_UNFINISHED = re.compile("(?:[\ud800-\udbff]|\ufffd{1,3})$")
"""What may be the first part of a character: half of a pair, or what a server makes of its bytes
where a cap cut them."""


class Events:
    """Server-sent events, or one JSON text in their place.

    `count` is how many there were, `broken` whether something was none, `is_too_long` whether one
    of them goes beyond all bounds; none of it is kept.
    """

    def __init__(self) -> None:
        self.broken = False
        self.is_too_long = False
        self.count = 0
        self._line = bytearray()
        self._data: list[str] = []
        self._size = 0
        self._has_begun = self._is_json = False

    def feed(self, data: bytes) -> Iterator[str]:
        """Take bytes as they came; yield the events that they complete."""
        if not self._has_begun:
            data = (bytes(self._line) + data).removeprefix(BOM_UTF8).lstrip()
            self._line.clear()
            self._has_begun = not BOM_UTF8.startswith(data)
            self._is_json = data[:1] in (b"{", b"[")
        *whole, rest = [data] if self._is_json else data.split(b"\n")
        for part in whole:
            self._line += part
            line, self._line = bytes(self._line), bytearray()
            yield from self._take(line.removesuffix(b"\r"))
        self._line += rest
        if len(self._line) > MAX_EVENT_BYTES:
            self._give_up()

    def rest(self) -> str:
        """Return the JSON text, once nothing more comes; "" where there were events."""
        if not self._is_json:
            return ""
        whole, self._is_json = self._line.decode("utf-8", "replace"), False
        self.count += 1
        return whole

    def _take(self, line: bytes) -> Iterator[str]:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self.broken = True
            return
        if text.startswith(("data:", "error:")):  # llama.cpp names its errors so
            self._data.append(text.partition(":")[2].removeprefix(" "))
            self._size += len(line)
            if self._size > MAX_EVENT_BYTES:
                self._give_up()
        elif not text and self._data:
            event, self._data, self._size = "\n".join(self._data), [], 0
            self.count += 1
            yield event

    def _give_up(self) -> None:
        self.broken = self.is_too_long = True
        self._line.clear()
        self._data.clear()


class EventFrames:
    """AWS's binary event stream, in which Amazon Bedrock answers; the fields are those of Events.

    An event is a frame: its size, the size of its headers and a CRC of both (12 bytes), headers, a
    payload of JSON, and a CRC of all before it. After a frame that is none, nothing more is read:
    where the next one begins isn't known. AWS's own decoder isn't used: its package (botocore,
    31 MB) comes with litellm, but the packaged Baton leaves it out. test_converse.py compares both.
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
    error = headers.get(":error-message") or headers[":error-code"]
    return json.dumps({"error": {"message": error}, "code": headers.get(":error-code")})


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


class AnswerReader(ABC):
    """One streamed answer. `finish` is why it ended (core.messages.Finish), once that is named.

    `error` is the provider's sentence when it failed in mid-stream, `error_event` the event with
    it. `written` counts the characters of text and of thoughts so far, `size` their bytes.
    `has_unread` is whether there was output that is neither (the call of a tool, an image),
    `is_count_broken` whether there was a count that can't be one. `model` is the model's name by
    the provider's first word, "" without one.
    """

    dialect = ""

    def __init__(self, events: EventFrames | None = None) -> None:
        self.finish = ""
        self.error = ""
        self.error_event: Mapping[str, Any] = {}
        self.model = ""
        self.wrote = False
        self.written = 0
        self.size = 0
        self.has_unread = False
        self.count: TokenCount | None = None
        self.is_count_broken = False
        self._most: TokenCount | None = None
        self._is_count_last = False  # whether it came at the end, and nothing was written after it
        self._is_final = False
        self._has_own_thought_count = False  # of thoughts of which only a summary is shown
        self._is_counted_now = False
        self._events = events or Events()
        self._broken = False
        self._is_own_error = False
        self._is_counted_begun = False
        self._calls_tool = False
        self._fewest = FewestTokens()
        self._fewest_thoughts = FewestTokens()
        self._unfinished = ""

    def feed(self, data: bytes) -> str:
        """Take bytes as they came; return the text that they complete."""
        return self._take_text("".join(map(self._read, self._events.feed(data))))

    def _take_text(self, text: str) -> str:
        """Take text as it was sent; return what is surely whole of it."""
        text = self._unfinished + text
        cut = _UNFINISHED.search(text)
        self._unfinished = cut[0] if cut is not None else ""
        text = whole_characters(text.removesuffix(self._unfinished))
        self.wrote = self.wrote or bool(text)
        self._note_written(text)
        self._fewest.add(text)
        return text

    def rest(self) -> str:
        """Return what is left at the end: not what a cap left of a character."""
        text = ""
        if whole := self._events.rest():
            text = self._take_text(self._read(whole, is_whole=True))
        is_whole = self.at_end and self.finish != "length" and self._unfinished >= "\ufffd"
        return text + self._unfinished if is_whole else text

    @property
    def broken(self) -> bool:
        """Whether something came that is not of the dialect."""
        return self._broken or self._events.broken

    @property
    def is_too_long(self) -> bool:
        """Whether one event goes beyond all bounds."""
        return self._events.is_too_long

    @property
    def events(self) -> int:
        """How many events came."""
        return self._events.count

    @property
    def at_end(self) -> bool:
        """Whether all of it came, once nothing more comes: the provider's own genuine end."""
        return self._ended() and bool(self.finish) and not self.broken and not self.error

    @property
    def is_refusal(self) -> bool:
        """Whether the provider's own error came before any output or count: it costs nothing."""
        output = self.written or self.has_unread or self.finish or self.count is not None
        has_begun = bool(output) or self._is_counted_begun
        return self._is_own_error and not has_begun and not self.broken

    @property
    def fewest(self) -> int:
        """The number of tokens that the text and thoughts so far can't have less of."""
        thoughts = 0 if self._has_own_thought_count else self._fewest_thoughts.count
        return self._fewest.count + thoughts

    @property
    def has_thoughts(self) -> bool:
        """Whether thoughts came beside the text."""
        return self._fewest_thoughts.count > 0

    @property
    def usage(self) -> TokenCount | None:
        """The provider's count, if it can be believed for the text and thoughts that came."""
        count = self.count
        if count is None or not self._is_count_last or count.tokens_out < self.fewest:
            return None
        parts = count.cached + count.cache_written
        return count if count.tokens_in > 0 and parts <= count.tokens_in else None

    def _read(self, event: str, *, is_whole: bool = False) -> str:
        if event == "[DONE]":
            self._mark_end()
            return ""
        try:
            parsed = parse_json(event)
        except (ValueError, RecursionError):
            self._broken = True
            return ""
        chunks = parsed if is_whole and isinstance(parsed, list) else [parsed]
        take = self._take_whole if is_whole else self._take
        return "".join(self._read_chunk(chunk, take) for chunk in chunks)

    def _read_chunk(self, chunk: Any, take: Callable[[Mapping[str, Any]], str]) -> str:
        if not isinstance(chunk, dict):
            self._broken = True
            return ""
        self.model = self.model or _model_name(chunk)
        if _is_bare_error(chunk, is_whole=take == self._take_whole):
            self._note_error(chunk, chunk)
            return ""
        before, self._is_counted_now = self.written, False
        try:
            text = take(chunk)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            self._broken = True
            return ""
        if not self._is_counted_now and (text or self.written > before):
            self._is_count_last = False
        return text

    def _mark_end(self) -> None:  # noqa: B027 - most dialects have none
        """Take the mark that nothing more comes."""

    def _note_written(self, text: str) -> None:
        """Count text or thoughts."""
        self.written += len(text)
        self.size += len(text.encode("utf-8", "replace"))

    def _note_thoughts(self, text: str) -> None:
        """Take a piece of thoughts, which are counted as the text is."""
        self._note_written(text)
        self._fewest_thoughts.add(text)

    def _note_unread(self, found: Mapping[str, Any], known: Iterable[str]) -> None:
        """Notice output in a place that isn't known."""
        self.has_unread |= any(value for name, value in found.items() if name not in known)

    def _note_count(self, count: TokenCount | None, *, is_final: bool = False) -> None:
        """Take the provider's count. A later one only grows; one that can't be right is none.

        The first that `is_final`, at the answer's end, replaces what came on the way.
        """
        before = None if is_final and not self._is_final else self._most
        self._is_final = self._is_final or is_final
        self._is_counted_now = self._is_count_last = True
        if count is not None and before is not None:
            count = replace(
                count,
                tokens_in=max(count.tokens_in, before.tokens_in),
                tokens_out=max(count.tokens_out, before.tokens_out),
                cache_written=max(count.cache_written, before.cache_written),
                reported=max(
                    (n for n in (count.reported, before.reported) if n is not None), default=None
                ),
            )
        self.count = count
        self._most = count or before
        self.is_count_broken = count is None

    def _note_error(self, event: Mapping[str, Any], error: object) -> None:
        """Take an event that says that the provider failed; `error` is the part with its words.

        An answer that reached its cap has ended so, although OpenRouter reports that as an error.
        """
        if self.finish == "length":
            return
        self.error, self.error_event = error_sentence(error) or "It gave no reason.", event
        self._is_own_error = is_own_error(self.dialect, event)

    def _ended(self) -> bool:
        """Whether nothing more of the answer can come once `finish` says why it ended."""
        return True

    @abstractmethod
    def _take(self, event: Mapping[str, Any]) -> str:
        """Note what an event says; return its text."""

    def _take_whole(self, answer: Mapping[str, Any]) -> str:
        """Note what an answer says that isn't streamed; return its text."""
        return self._take(answer)


def _model_name(event: Mapping[str, Any]) -> str:
    """Return the name of the model in an event of any dialect, or ""."""
    match event:
        case (
            {"model": str(name)}
            | {"modelVersion": str(name)}
            | {"response": {"model": str(name)}}
            | {"message": {"model": str(name)}}
        ):
            return name[:MAX_NAME_CHARS]
    return ""


def _is_bare_error(event: Mapping[str, Any], *, is_whole: bool) -> bool:
    """Whether an event of any dialect, or what came in place of a stream, is an error alone."""
    if not _ANSWER_FIELDS.isdisjoint(event):
        return False
    return (is_whole or not _ERROR_FIELDS.isdisjoint(event)) and bool(error_sentence(event))


def is_own_error(dialect: str, body: object) -> bool:
    """Whether this is a provider's own error object, and not one of a proxy before it."""
    match dialect, body:
        case ("gemini", [inner]) | ("messages", {"error": {"error": dict()} as inner}):
            return is_own_error(dialect, inner)
        case "gemini", {"error": {"code": int(), "message": str(), "status": str()}}:
            return True
        case ("cohere", {"id": str(), "message": str()}) | (
            "converse",
            {"message": str()} | {"Message": str()},
        ):
            return True
        case "cohere", {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": str()}}:
            return True
        case "messages", {"type": "error", "error": {"type": str(), "message": str()}}:
            return True
        case "responses", {"type": "error", "message": str()}:
            return True
        case "responses", {"type": "response.failed", "response": {"error": {"message": str()}}}:
            return True
        case "chat" | "converse" | "responses", {"error": {"message": str()}}:
            return True
        case "chat", {"object": "error", "message": str()} | {"code": str(), "error": str()}:
            return True  # Mistral and vLLM; xAI
    return False
