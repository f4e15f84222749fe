"""Frames: whole ones arrive as they were, anything else is an error and never a crash."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.ipc import frames as framing

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FRAMES = st.dictionaries(st.text(), VALUES, max_size=5)


@given(st.lists(FRAMES, max_size=5))
def test_frames_arrive_as_they_were_sent(frames: list[dict[str, Any]]) -> None:
    pipe = io.BytesIO(b"".join(map(framing.encode, frames)))
    assert [framing.read(pipe) for _ in frames] == frames
    assert framing.read(pipe) is None


@given(FRAMES, st.data())
def test_a_cut_frame_is_an_error(frame: dict[str, Any], data: st.DataObject) -> None:
    whole = framing.encode(frame)
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(framing.FrameError):
        framing.read(io.BytesIO(whole[:cut]))


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_frame_or_an_error(body: bytes, measured: bool) -> None:
    data = struct.pack(">I", len(body)) + body if measured else body
    try:
        frame = framing.read(io.BytesIO(data))
    except framing.FrameError:
        return
    assert frame is None or isinstance(frame, dict)


def test_deep_nesting_and_endless_numbers_are_errors() -> None:
    for body in (b"[" * 1_000_000, b'{"a":' + b"9" * 10_000 + b"}", b'{"a":"\xff"}', b"[]", b"1"):
        with pytest.raises(framing.FrameError):
            framing.read(io.BytesIO(struct.pack(">I", len(body)) + body))


def test_an_oversized_frame_is_neither_sent_nor_waited_for() -> None:
    with pytest.raises(framing.FrameError, match="over the limit"):
        framing.encode({"text": "x" * framing.LIMIT})
    with pytest.raises(framing.FrameError, match="over the limit"):
        framing.read(io.BytesIO(struct.pack(">I", framing.LIMIT + 1)))
