"""Messages: whole ones arrive as they were sent, anything else is an error and never a crash."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from baton.core.errors import ContextTooLong, ModelFileError, WorkerError
from baton.ipc import messages
from baton.ipc.messages import Failed, FrameError, Message
from baton.ipc.process import error_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=4,
)
CHARACTERS = st.characters(exclude_categories=["Cs"])


class Example(Message, tag="example"):
    text: str
    fields: dict[str, Any]
    number: float
    path: Path


DECODER = messages.request_decoder(Example)

EXAMPLES = st.builds(
    Example,
    st.text(CHARACTERS),
    st.dictionaries(st.text(CHARACTERS), VALUES, max_size=2),
    st.floats(allow_nan=False, allow_infinity=False),
    st.binary(min_size=1).map(os.fsdecode).map(Path),
)


def read_message(data: bytes) -> Any:
    return messages.read(io.BytesIO(data), DECODER)


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


@given(st.lists(EXAMPLES, max_size=2))
def test_messages_arrive_as_they_were_sent(sent: list[Example]) -> None:
    pipe = io.BytesIO(b"".join(map(messages.encode, sent)))
    assert [messages.read(pipe, DECODER) for _ in sent] == sent
    assert messages.read(pipe, DECODER) is None


@given(st.text())
def test_half_a_character_arrives_as_a_question_mark(text: str) -> None:
    arrived = read_message(messages.encode(Example(text, {}, 0.0, Path("/"))))
    assert arrived.text == text.encode("utf-8", "replace").decode()


@given(EXAMPLES, st.data())
def test_a_cut_frame_is_an_error(sent: Example, data: st.DataObject) -> None:
    whole = messages.encode(sent)
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(messages.CutFrame):
        read_message(whole[:cut])


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_message_or_an_error(body: bytes, measured: bool) -> None:
    try:
        message = read_message(frame(body) if measured else body)
    except FrameError:
        return
    assert message is None or isinstance(message, Message)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1_000_000,
        b'{"type":"example","fields":{"a":' + b"[" * 1_000_000,
        b'{"type":"cancel","id":' + b"9" * 10_000 + b"}",
        b'{"type":"cancel","id":"1"}',
        b'{"type":"example","text":"\xff","fields":{},"number":1.0,"path":"/"}',
        b'{"type":"example","text":"","fields":{},"number":1.0,"path":"\\u1234"}',
        b'{"type":"example","text":"","fields":{},"number":1.0,"path":1}',
        b'{"type":"example"}',
        b'{"type":"unknown"}',
        b"{}",
        b"[]",
        b"1",
    ],
    ids=lambda body: body[:40].decode("ascii", "replace"),
)
def test_what_makes_no_sense_is_one_error(body: bytes) -> None:
    with pytest.raises(FrameError, match="no known message"):
        read_message(frame(body))


def test_an_oversized_frame_is_neither_sent_nor_waited_for() -> None:
    with pytest.raises(FrameError, match="over the limit"):
        messages.encode(Example("x" * messages.MAX_FRAME_BYTES, {}, 0.0, Path("/")))
    with pytest.raises(FrameError, match="over the limit"):
        read_message(struct.pack(">I", messages.MAX_FRAME_BYTES + 1))


def test_a_failure_is_raised_as_the_class_that_it_names() -> None:
    error = error_of(Failed("ModelFileError", "It is\nbroken.", "Get another."))
    assert type(error) is ModelFileError
    assert (error.message, error.hint) == ("It is broken.", "Get another.")
    assert type(error_of(Failed("SystemExit", "No."))) is WorkerError
    too_long = error_of(Failed("ContextTooLong", needed=5, limit=3))
    assert isinstance(too_long, ContextTooLong)
    assert (too_long.needed, too_long.limit) == (5, 3)
    assert error_of(Failed()).message
