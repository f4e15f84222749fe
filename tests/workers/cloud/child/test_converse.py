"""Amazon's binary events, cut and damaged anywhere, and what Converse says in them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, strategies as st

from baton.workers.cloud.child.answer_reader import EventFrames
from baton.workers.cloud.child.provider_errors import find_kind
from baton.workers.cloud.child.response_limits import MAX_EVENT_BYTES
from baton.workers.cloud.child.stream_parsers import Converse
from baton.workers.cloud.messages import TokenCount
from support.provider_dialects import frame

TEXT = "Naïve — 5 € 🙂"


def event(kind: str, **data: Any) -> bytes:
    return frame(data, {":event-type": kind, ":message-type": "event"})


def delta(**parts: Any) -> bytes:
    return event("contentBlockDelta", delta=parts, contentBlockIndex=0)


def stop(reason: str = "end_turn") -> bytes:
    return event("messageStop", stopReason=reason)


def metadata(**usage: Any) -> bytes:
    return event("metadata", usage=usage, metrics={"latencyMs": 800})


def exception(message: str = "Too busy") -> bytes:
    kind = {":exception-type": "throttlingException", ":message-type": "exception"}
    return frame({"message": message}, kind)


USAGE = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
START = event("messageStart", role="assistant")
WHOLE = START + delta(text=TEXT) + stop() + metadata(**USAGE)


def read_answer(*pieces: bytes) -> tuple[str, Converse]:
    reader = Converse()
    return "".join(reader.feed(piece) for piece in pieces), reader


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool"),
        ("content_filtered", "filter"),
        ("guardrail_intervened", "filter"),
    ],
)
def test_an_answer_is_read_with_its_end(reason: str, finish: str) -> None:
    text, reader = read_answer(START + delta(text=TEXT) + stop(reason) + metadata(**USAGE))
    assert (text, reader.finish, reader.at_end) == (TEXT, finish, True)
    assert reader.usage == TokenCount(10, 5)


@pytest.mark.parametrize(
    ("usage", "count"),
    [
        # Cached tokens stand beside the others, and are charged otherwise.
        ({"cacheReadInputTokens": 4, "cacheWriteInputTokens": 3}, TokenCount(17, 5, 4, 3)),
        ({"totalTokens": 40}, TokenCount(10, 30)),
        ({"totalTokens": None, "cacheReadInputTokens": None}, TokenCount(10, 5)),
        ({"inputTokens": None}, None),
        ({"inputTokens": "10"}, None),
        ({"outputTokens": -5}, None),
        ({"outputTokens": 0, "totalTokens": 10}, None),
        ({"cacheReadInputTokens": "4"}, None),
        ({"totalTokens": "15"}, None),
        ({"totalTokens": 14}, None),
    ],
)
def test_a_count_is_whole_or_none(usage: dict[str, Any], count: TokenCount | None) -> None:
    _, reader = read_answer(START + delta(text=TEXT) + stop() + metadata(**USAGE | usage))
    assert (reader.at_end, reader.usage) == (True, count)


def test_an_end_without_a_count_is_one() -> None:
    _, reader = read_answer(delta(text=TEXT) + stop() + event("metadata", metrics={}))
    assert (reader.at_end, reader.usage, reader.is_count_broken) == (True, None, False)


def test_a_second_count_only_grows() -> None:
    large = {"inputTokens": 50, "outputTokens": 40}
    for usages in ((USAGE, large), (large, USAGE)):
        _, reader = read_answer(delta(text=TEXT), stop(), *(metadata(**one) for one in usages))
        assert reader.usage == TokenCount(50, 40)


def test_fewer_tokens_than_the_text_can_have_are_none() -> None:
    words = "word " * 40
    for tokens, count in ((20, TokenCount(10, 20)), (19, None)):
        usage = {"inputTokens": 10, "outputTokens": tokens}
        _, reader = read_answer(delta(text=words), stop(), metadata(**usage))
        assert reader.usage == count


def test_thoughts_are_counted_and_not_shown() -> None:
    thoughts = [{"text": TEXT}, {"signature": "c2ln"}]
    text, reader = read_answer(*(delta(reasoningContent=part) for part in thoughts))
    assert (text, reader.written, reader.has_thoughts) == ("", len(TEXT), True)
    assert not reader.has_unread


@pytest.mark.parametrize(
    "output",
    [
        event("contentBlockStart", start={"toolUse": {"toolUseId": "1", "name": "look"}}),
        delta(toolUse={"input": "{"}),
        delta(reasoningContent={"redactedContent": "AAAA"}),
        delta(image={"source": {}}),
        event("contentBlockDelta", change={"text": "a"}),
        event("contentBlockMore", delta={"text": "a"}),
    ],
)
def test_output_that_is_not_shown_is_noticed(output: bytes) -> None:
    _, reader = read_answer(output)
    assert reader.has_unread
    _, reader = read_answer(output, exception())
    assert (reader.error, reader.is_refusal) == ("Too busy", False)


def test_an_error_costs_nothing_before_any_output() -> None:
    _, reader = read_answer(START, exception())
    assert (reader.error, reader.is_refusal, reader.at_end) == ("Too busy", True, False)
    _, reader = read_answer(START, exception()[:-1])
    assert not reader.is_refusal, "it was cut"
    for before in (delta(text="a"), metadata(**USAGE), stop()):
        _, reader = read_answer(before, exception())
        assert (reader.error, reader.is_refusal) == ("Too busy", False)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("throttlingException", "rate"),
        ("serviceUnavailableException", "overload"),
        ("validationException", None),
    ],
)
def test_an_exception_is_known_by_its_type(kind: str, name: str | None) -> None:
    headers = {":exception-type": kind, ":message-type": "exception"}
    _, reader = read_answer(START, frame({"message": "It can't be done"}, headers))
    found = find_kind({"bedrock"}, 0, reader.error_event, reader.error)
    assert (found and found.name) == name


def test_an_error_of_the_stream_itself_is_one() -> None:
    headers = {":message-type": "error", ":error-code": "InternalError", ":error-message": "Gone"}
    _, reader = read_answer(WHOLE, frame({}, headers))
    assert (reader.error, reader.at_end) == ("Gone", False)


@pytest.mark.parametrize("reason", [None, "", 5])
def test_an_end_without_a_reason_is_none(reason: Any) -> None:
    end = event("messageStop", stopReason=reason)
    assert not read_answer(delta(text=TEXT), end, metadata(**USAGE))[1].at_end


@pytest.mark.parametrize("missing", [stop(), metadata(**USAGE)])
def test_an_end_has_a_reason_and_metadata(missing: bytes) -> None:
    assert WHOLE.count(missing) == 1
    text, reader = read_answer(WHOLE.replace(missing, b""))
    assert (text, reader.at_end) == (TEXT, False)


# Frames


@given(st.lists(st.integers(0, len(WHOLE))))
def test_it_may_be_cut_anywhere(cuts: list[int]) -> None:
    borders = sorted({0, len(WHOLE), *cuts})
    text, reader = read_answer(*(WHOLE[a:b] for a, b in itertools.pairwise(borders)))
    assert (text, reader.at_end, reader.usage) == (TEXT, True, TokenCount(10, 5))


def test_byte_by_byte_it_is_the_same() -> None:
    text, reader = read_answer(*(bytes([byte]) for byte in WHOLE))
    assert (text, reader.at_end, reader.events) == (TEXT, True, 4)


def test_what_is_not_whole_has_no_end() -> None:
    for size in range(len(WHOLE)):
        text, reader = read_answer(WHOLE[:size])
        assert TEXT.startswith(text)
        assert not reader.at_end


def test_one_damaged_byte_anywhere_leaves_no_genuine_end() -> None:
    for place in range(len(WHOLE)):
        damaged = bytearray(WHOLE)
        damaged[place] ^= 0x10
        text, reader = read_answer(bytes(damaged))
        assert text in ("", TEXT)
        assert not reader.at_end


@given(st.binary(max_size=200))
def test_garbage_is_neither_an_answer_nor_a_crash(data: bytes) -> None:
    assert not read_answer(data)[1].at_end


@pytest.mark.parametrize("payload", [[1], 5, "x", None, {"delta": {"text": ["a"]}}, {"delta": 5}])
def test_odd_events_leave_no_crash_and_no_text(payload: Any) -> None:
    text, reader = read_answer(
        frame(payload, {":event-type": "contentBlockDelta", ":message-type": "event"})
    )
    assert (text, reader.at_end) == ("", False)


@pytest.mark.parametrize(
    "headers", [{}, {":message-type": "event"}, {":event-type": "metadata"}, {":message-type": "x"}]
)
def test_a_frame_that_names_no_event_is_broken(headers: dict[str, str]) -> None:
    _, reader = read_answer(frame({}, headers), WHOLE)
    assert reader.broken
    assert not reader.at_end


def test_a_frame_beyond_all_bounds_is_not_waited_for() -> None:
    from zlib import crc32

    prelude = (MAX_EVENT_BYTES + 1).to_bytes(4) + (0).to_bytes(4)
    _, reader = read_answer(prelude + crc32(prelude).to_bytes(4))
    assert (reader.broken, reader.is_too_long) == (True, True)


HEADERS = st.dictionaries(
    st.text("abc-:", min_size=1, max_size=9),
    st.text(max_size=20),
    max_size=4,
)
VALUES = [b"\x00", b"\x01", b"\x02\x07", b"\x03\x00\x07", b"\x04\x00\x00\x00\x07"]
VALUES += [b"\x05" + b"\x07" * 8, b"\x06\x00\x02ab", b"\x08" + b"\x07" * 8, b"\x09" + b"\x07" * 16]
"""A header's value of each type but text, in bytes, with its type before it."""


@given(HEADERS, st.dictionaries(st.text(max_size=5), st.integers(), max_size=3), st.integers(1, 9))
def test_frames_are_those_of_amazons_own_decoder(
    headers: dict[str, str], payload: dict[str, int], size: int
) -> None:
    data = frame(payload, {":event-type": "x", ":message-type": "event", **headers})
    buffer = EventStreamBuffer()
    buffer.add_data(data * 2)
    theirs = [(message.headers[":event-type"], message.payload) for message in buffer]
    frames = EventFrames()
    pieces = (data * 2)[::1]
    ours = [
        one for at in range(0, len(pieces), size) for one in frames.feed(pieces[at : at + size])
    ]
    assert [json.loads(one) for one in ours] == [{name: json.loads(body)} for name, body in theirs]
    assert len(ours) == 2


def test_damaged_sizes_are_not_waited_for() -> None:
    for place in range(12):
        damaged = bytearray(WHOLE)
        damaged[place] ^= 0x01
        assert read_answer(bytes(damaged[:12]))[1].broken


def test_headers_of_every_type_are_passed_over() -> None:
    from zlib import crc32

    wanted = {":event-type": "metadata", ":message-type": "event"}
    others = b"".join(b"\x01" + bytes([97 + n]) + value for n, value in enumerate(VALUES))
    texts = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2) + value.encode()
        for name, value in wanted.items()
    )
    head = others + texts
    prelude = (len(head) + 2 + 16).to_bytes(4) + len(head).to_bytes(4)
    data = prelude + crc32(prelude).to_bytes(4) + head + b"{}"
    data += crc32(data).to_bytes(4)
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    assert {*next(buffer).headers} == {*wanted, *"abcdefghi"}
    assert [*EventFrames().feed(data)] == ['{"metadata":{}}']


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_whole_answer_is_read_as_well(size: int) -> None:
    """Whatever stands between may not stream."""
    thoughts = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "x"}}}
    answer = {
        "output": {"message": {"role": "assistant", "content": [thoughts, {"text": TEXT}]}},
        "stopReason": "end_turn",
        "usage": USAGE,
    }
    data, reader = json.dumps(answer).encode(), Converse()
    text = "".join(reader.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert text + reader.rest() == TEXT
    assert (reader.at_end, reader.finish, reader.has_thoughts) == (True, "stop", True)
    assert reader.usage == TokenCount(10, 5)
