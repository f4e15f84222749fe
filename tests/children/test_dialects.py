"""What providers stream, cut anywhere: text, count and end come out the same."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.children.dialects import DIALECTS, Count, Reader, error_sentence

TEXT = "Naïve — 5 € 🙂"


def stream(*events: Any, done: bool = False, newline: str = "\n") -> bytes:
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}" for event in events]
    lines += ["data: [DONE]"] if done else []
    return "".join(f"{line}{newline}{newline}" for line in lines).encode()


def delta(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}


def chat(usage: Any, finish: str = "stop", **more: Any) -> bytes:
    return stream(delta(TEXT), delta("", finish), {"choices": [], "usage": usage} | more, done=True)


def messages(started: Any, ended: Any, reason: str = "end_turn") -> bytes:
    return stream(
        {"type": "message_start", "message": {"usage": started}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "Hm"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": ended},
        {"type": "message_stop"},
    )


def gemini(usage: Any, reason: str = "STOP") -> bytes:
    parts = [{"text": "Hm", "thought": True}, {"text": TEXT}]
    return stream(
        {"candidates": [{"content": {"parts": parts}}]},
        {"candidates": [{"finishReason": reason}], "usageMetadata": usage},
    )


def responses(kind: str, **response: Any) -> bytes:
    return stream(
        {"type": "response.created", "response": {"usage": None}},
        {"type": "response.output_text.delta", "delta": TEXT},
        {"type": f"response.{kind}", "response": response},
    )


PLAIN = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
CASES: dict[str, tuple[str, bytes, str, Count]] = {
    "openai": (
        "chat",
        chat(PLAIN | {"prompt_tokens_details": {"cached_tokens": 4}}),
        "stop",
        Count(10, 5, 4),
    ),
    "cut by the cap": ("chat", chat(PLAIN, "length"), "length", Count(10, 5)),
    "openrouter": ("chat", chat(PLAIN | {"cost": 0.00012}), "stop", Count(10, 5, reported=120_000)),
    "deepseek": ("chat", chat(PLAIN | {"prompt_cache_hit_tokens": 6}), "stop", Count(10, 5, 6)),
    "groq": ("chat", chat(None, x_groq={"usage": PLAIN}), "stop", Count(10, 5)),
    "xai": (
        "chat",
        chat(PLAIN | {"total_tokens": 22, "completion_tokens_details": {"reasoning_tokens": 7}}),
        "stop",
        Count(10, 12),
    ),
    "xai names its cost": (
        "chat",
        chat(PLAIN | {"cost_in_usd_ticks": 37756001}),
        "stop",
        Count(10, 5, reported=3_775_601),
    ),
    "anthropic counts less at its end": (
        "messages",
        messages({"input_tokens": 10}, {"input_tokens": 0, "output_tokens": 5}),
        "stop",
        Count(10, 5),
    ),
    "anthropic": (
        "messages",
        messages(
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 4,
                "output_tokens": 1,
            },
            {"output_tokens": 5},
        ),
        "stop",
        Count(17, 5, 4, 3),
    ),
    "anthropic refuses": (
        "messages",
        messages({"input_tokens": 10}, {"output_tokens": 5}, "refusal"),
        "stop",
        Count(10, 5),
    ),
    "anthropic cut": (
        "messages",
        messages({"input_tokens": 10}, {"output_tokens": 5}, "max_tokens"),
        "length",
        Count(10, 5),
    ),
    "gemini": (
        "gemini",
        gemini(
            {
                "promptTokenCount": 10,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 7,
                "cachedContentTokenCount": 2,
            },
            "MAX_TOKENS",
        ),
        "length",
        Count(10, 12, 2),
    ),
    "responses": (
        "responses",
        responses(
            "completed",
            usage={
                "input_tokens": 10,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 2},
            },
        ),
        "stop",
        Count(10, 5, 2),
    ),
    "responses cut": (
        "responses",
        responses(
            "incomplete",
            usage={"input_tokens": 10, "output_tokens": 5},
            incomplete_details={"reason": "max_output_tokens"},
        ),
        "length",
        Count(10, 5),
    ),
}


def read(dialect: str, *pieces: bytes) -> tuple[str, Reader]:
    reader = DIALECTS[dialect]()
    return "".join(reader.feed(piece) for piece in pieces), reader


@pytest.mark.parametrize("case", CASES)
def test_every_dialect_is_counted_right(case: str) -> None:
    dialect, data, finish, count = CASES[case]
    text, reader = read(dialect, data)
    assert (text, reader.finish, reader.usage) == (TEXT, finish, count)
    assert reader.at_end


@given(st.sampled_from(sorted(CASES)), st.lists(st.integers(0, 2000)), st.booleans())
def test_it_may_be_cut_anywhere(case: str, cuts: list[int], crlf: bool) -> None:
    dialect, data, finish, count = CASES[case]
    data = data.replace(b"\n", b"\r\n") if crlf else data
    borders = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    pieces = [data[a:b] for a, b in itertools.pairwise(borders)]
    text, reader = read(dialect, *pieces)
    assert (text, reader.finish, reader.usage, reader.at_end) == (TEXT, finish, count, True)


@given(st.sampled_from(sorted(CASES)), st.integers(1, 2000))
def test_what_is_not_whole_has_no_end(case: str, missing: int) -> None:
    dialect, data, _, count = CASES[case]
    whole = data.rstrip(b"\n")
    text, reader = read(dialect, whole[: max(0, len(whole) - missing)])
    assert TEXT.startswith(text)
    # Gemini has no last word: everything came once the event with reason and count did.
    assert not reader.at_end or (reader.usage == count and dialect == "gemini")


@given(st.sampled_from(sorted(DIALECTS)), st.binary(max_size=200))
def test_garbage_is_no_answer_and_no_crash(dialect: str, data: bytes) -> None:
    _, reader = read(dialect, data, b"\n\n")
    assert not reader.at_end


@given(
    st.sampled_from(sorted(DIALECTS)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "choices",
                        "delta",
                        "usage",
                        "message",
                        "candidates",
                        "content",
                        "error",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ),
)
def test_odd_events_do_not_crash_it(dialect: str, event: Any) -> None:
    _, reader = read(dialect, stream(event, done=True))
    assert reader.usage is None or reader.usage.tokens_in > 0


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 10},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": "10", "completion_tokens": 5},
        {"prompt_tokens": 10, "completion_tokens": True},
        {"prompt_tokens": 10, "completion_tokens": 0},
        {"prompt_tokens": 0, "completion_tokens": 5},
        {"prompt_tokens": 10**30, "completion_tokens": 5},
        {"prompt_tokens": 10, "completion_tokens": 5.5},
        {"prompt_tokens": 3, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
    ],
)
def test_a_count_that_cannot_be_right_is_none(usage: Any) -> None:
    text, reader = read("chat", chat(usage))
    assert (text, reader.usage) == (TEXT, None)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_error_in_mid_stream_is_no_end(dialect: str) -> None:
    [(_, data, _, _), *_] = [case for case in CASES.values() if case[0] == dialect]
    error = stream({"type": "error", "error": {"type": "overloaded", "message": "Too busy"}})
    _, reader = read(dialect, error, data)
    assert reader.error == "Too busy"
    assert not reader.at_end


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "No", "type": "x"}},
        {"type": "error", "error": {"type": "x", "message": "No"}},
        [{"error": {"code": 400, "message": "No", "status": "X"}}],
        {"object": "error", "message": "No"},
        {"message": {"detail": [{"msg": "No"}]}},
        {"detail": "No"},
        {"error": "No"},
    ],
)
def test_sentences_of_errors(body: object) -> None:
    assert error_sentence(body) == "No"


def test_a_line_without_end_is_given_up() -> None:
    _, reader = read("chat", *[b"data: " + b"x" * 1_000_000] * 9)
    assert reader.broken
