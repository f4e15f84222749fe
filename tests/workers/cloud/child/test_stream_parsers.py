"""What providers stream, cut anywhere: text, count and end come out the same."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from baton.workers.cloud.child.answer_reader import AnswerReader
from baton.workers.cloud.child.provider_errors import error_sentence
from baton.workers.cloud.child.response_limits import MAX_DEPTH, MAX_EVENT_BYTES
from baton.workers.cloud.child.stream_parsers import DIALECTS as READERS
from baton.workers.cloud.messages import TokenCount

DIALECTS = {name: reader for name, reader in READERS.items() if name != "converse"}
"""Those with server-sent events; test_converse.py tries the one with frames."""

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


def cohere(usage: Any, reason: str = "COMPLETE") -> bytes:
    return stream(
        {"type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}},
        {"type": "content-start", "delta": {"message": {"content": {"type": "text", "text": ""}}}},
        {"type": "content-delta", "delta": {"message": {"content": {"text": TEXT}}}},
        {"type": "content-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": reason, "usage": usage}},
    )


def responses(kind: str, **response: Any) -> bytes:
    return stream(
        {"type": "response.created", "response": {"usage": None}},
        {"type": "response.output_text.delta", "delta": TEXT},
        {"type": f"response.{kind}", "response": response},
    )


def thinking(thoughts: Any) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": thoughts}}


PLAIN = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
CASES: dict[str, tuple[str, bytes, str, TokenCount]] = {
    "openai": (
        "chat",
        chat(PLAIN | {"prompt_tokens_details": {"cached_tokens": 4}}),
        "stop",
        TokenCount(10, 5, 4),
    ),
    "cut by the cap": ("chat", chat(PLAIN, "length"), "length", TokenCount(10, 5)),
    "openrouter": (
        "chat",
        chat(PLAIN | {"cost": 0.00012}),
        "stop",
        TokenCount(10, 5, reported=120_000),
    ),
    "deepseek": (
        "chat",
        chat(PLAIN | {"prompt_cache_hit_tokens": 6}),
        "stop",
        TokenCount(10, 5, 6),
    ),
    "moonshot": (
        "chat",
        stream(
            delta(TEXT),
            {"choices": [{"delta": {}, "finish_reason": "stop", "usage": PLAIN}]},
            {"choices": [], "usage": PLAIN | {"cached_tokens": 6}},
            done=True,
        ),
        "stop",
        TokenCount(10, 5, 6),
    ),
    "moonshot, in its choice alone": (
        "chat",
        stream(
            delta(TEXT),
            {"choices": [{"finish_reason": "stop", "usage": PLAIN | {"cached_tokens": 6}}]},
            done=True,
        ),
        "stop",
        TokenCount(10, 5, 6),
    ),
    "mistral, until February 2026": (
        "chat",
        chat(PLAIN | {"num_cached_tokens": 6, "prompt_tokens_details": None}),
        "stop",
        TokenCount(10, 5, 6),
    ),
    "two names of what is cached": (
        "chat",
        chat(PLAIN | {"cached_tokens": 6, "prompt_tokens_details": {"cached_tokens": 4}}),
        "stop",
        TokenCount(10, 5, 4),
    ),
    "a proxy names what is kept": (
        "chat",
        chat(PLAIN | {"cache_read_input_tokens": 2, "cache_creation_input_tokens": 3}),
        "stop",
        TokenCount(10, 5, 2, 3),
    ),
    "openrouter, with a key of the person's own": (
        "chat",
        chat(
            PLAIN
            | {"cost": 0.00001, "is_byok": True}
            | {"cost_details": {"upstream_inference_cost": 0.0002}}
        ),
        "stop",
        TokenCount(10, 5, reported=210_000),
    ),
    "openrouter counts what is kept as read": (
        "chat",
        chat(PLAIN | {"prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 9}}),
        "stop",
        TokenCount(10, 5, 1, 9),
    ),
    "perplexity": (
        "chat",
        chat(PLAIN | {"cost": {"request_cost": 0.005, "total_cost": 0.0051}}),
        "stop",
        TokenCount(10, 5, reported=5_100_000),
    ),
    "gemini by vercel's gateway": (
        "chat",
        chat(PLAIN | {"completion_tokens_details": {"reasoning_tokens": 26}, "cost": 0.0003}),
        "stop",
        TokenCount(10, 31, reported=300_000),
    ),
    "openrouter reports the cap as an error": (
        "chat",
        stream(
            delta(TEXT, "length"),
            delta("", "length"),
            {"choices": [{"delta": {"content": ""}, "finish_reason": None}]}
            | {"error": {"code": 400, "message": "Token limit reached"}}
            | {"usage": PLAIN | thinking(6) | {"cost": 0}},
            done=True,
        ),
        "length",
        TokenCount(10, 5, reported=0),
    ),
    "snowflake": (
        "chat",
        stream(delta(TEXT), delta(""), {"choices": [], "usage": PLAIN}, done=True),
        "stop",
        TokenCount(10, 5),
    ),
    "a server without a marker": (
        "chat",
        stream(delta(TEXT), delta("", "stop"), {"choices": [], "usage": PLAIN}),
        "stop",
        TokenCount(10, 5),
    ),
    "moonshot without a marker": (
        "chat",
        stream(delta(TEXT), {"choices": [{"finish_reason": "stop", "usage": PLAIN}]}),
        "stop",
        TokenCount(10, 5),
    ),
    "a count after the marker": (
        "chat",
        stream(delta(TEXT, "stop"), done=True) + stream({"choices": [], "usage": PLAIN}),
        "stop",
        TokenCount(10, 5),
    ),
    "groq": ("chat", chat(None, x_groq={"usage": PLAIN}), "stop", TokenCount(10, 5)),
    "xai": (
        "chat",
        chat(PLAIN | {"total_tokens": 22, "completion_tokens_details": {"reasoning_tokens": 7}}),
        "stop",
        TokenCount(10, 12),
    ),
    "xai names its cost": (
        "chat",
        chat(PLAIN | {"cost_in_usd_ticks": 37756001}),
        "stop",
        TokenCount(10, 5, reported=3_775_601),
    ),
    "anthropic counts less at its end": (
        "messages",
        messages({"input_tokens": 10}, {"input_tokens": 0, "output_tokens": 5}),
        "stop",
        TokenCount(10, 5),
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
        TokenCount(17, 5, 4, 3),
    ),
    "anthropic refuses": (
        "messages",
        messages({"input_tokens": 10}, {"output_tokens": 5}, "refusal"),
        "filter",
        TokenCount(10, 5),
    ),
    "anthropic cut": (
        "messages",
        messages({"input_tokens": 10}, {"output_tokens": 5}, "max_tokens"),
        "length",
        TokenCount(10, 5),
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
        TokenCount(10, 12, 2),
    ),
    "cohere charges less than it read": (
        "cohere",
        cohere(
            {
                "billed_units": {"input_tokens": 5, "output_tokens": 4},
                "tokens": {"input_tokens": 10, "output_tokens": 7},
                "cached_tokens": 8,
            }
        ),
        "stop",
        TokenCount(5, 4),
    ),
    "cohere names no charge": (
        "cohere",
        cohere({"billed_units": None, "tokens": {"input_tokens": 10, "output_tokens": 7}}),
        "stop",
        TokenCount(10, 7),
    ),
    "cohere cut": (
        "cohere",
        cohere({"tokens": {"input_tokens": 10, "output_tokens": 7}}, "MAX_TOKENS"),
        "length",
        TokenCount(10, 7),
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
        TokenCount(10, 5, 2),
    ),
    "responses cut": (
        "responses",
        responses(
            "incomplete",
            usage={"input_tokens": 10, "output_tokens": 5},
            incomplete_details={"reason": "max_output_tokens"},
        ),
        "length",
        TokenCount(10, 5),
    ),
}


def read_answer(dialect: str, *pieces: bytes) -> tuple[str, AnswerReader]:
    reader = DIALECTS[dialect]()
    return "".join(reader.feed(piece) for piece in pieces), reader


@pytest.mark.parametrize("case", CASES)
def test_every_dialect_is_counted_right(case: str) -> None:
    dialect, data, finish, count = CASES[case]
    text, reader = read_answer(dialect, data)
    assert (text, reader.finish, reader.usage) == (TEXT, finish, count)
    assert reader.at_end


@given(st.sampled_from(sorted(CASES)), st.lists(st.integers(0, 2000)), st.booleans())
def test_it_may_be_cut_anywhere(case: str, cuts: list[int], crlf: bool) -> None:
    dialect, data, finish, count = CASES[case]
    data = data.replace(b"\n", b"\r\n") if crlf else data
    borders = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    pieces = [data[a:b] for a, b in itertools.pairwise(borders)]
    text, reader = read_answer(dialect, *pieces)
    assert (text, reader.finish, reader.usage, reader.at_end) == (TEXT, finish, count, True)


@given(st.sampled_from(sorted(CASES)), st.integers(1, 2000))
def test_what_is_not_whole_has_no_end(case: str, missing: int) -> None:
    dialect, data, _, count = CASES[case]
    whole = data.rstrip(b"\n")
    text, reader = read_answer(dialect, whole[: max(0, len(whole) - missing)])
    assert TEXT.startswith(text)
    # Gemini has no last word, and servers leave out their marker: everything came once the reason
    # and the count did.
    is_known = dialect in ("chat", "gemini")
    if reader.at_end and (found := reader.usage) is not None:
        assert is_known
        assert count is not None
        assert replace(found, cached=0) == replace(count, cached=0)
        assert found.cached <= count.cached, "the count that follows may know of a cheaper part"


@given(st.sampled_from(sorted(DIALECTS)), st.binary(max_size=200))
def test_garbage_is_neither_an_answer_nor_a_crash(dialect: str, data: bytes) -> None:
    _, reader = read_answer(dialect, data, b"\n\n")
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
    _, reader = read_answer(dialect, stream(event, done=True))
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
        {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": "4"},
        PLAIN | {"cached_tokens": 4, "prompt_tokens_details": {"cached_tokens": "4"}},
        PLAIN | {"cache_creation_input_tokens": -1},
    ],
)
def test_a_count_that_cannot_be_right_is_none(usage: Any) -> None:
    text, reader = read_answer("chat", chat(usage))
    assert (text, reader.usage) == (TEXT, None)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_error_in_mid_stream_is_not_an_end(dialect: str) -> None:
    [(_, data, _, _), *_] = [case for case in CASES.values() if case[0] == dialect]
    error = stream({"type": "error", "error": {"type": "overloaded", "message": "Too busy"}})
    _, reader = read_answer(dialect, error, data)
    assert reader.error == "Too busy"
    assert not reader.at_end


@pytest.mark.parametrize("event", [b"data: [1]\n\n", b"data: 5\n\n", b"data: {\n\n"])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_what_is_not_an_event_leaves_no_genuine_end(dialect: str, event: bytes) -> None:
    [(_, data, _, _), *_] = [case for case in CASES.values() if case[0] == dialect]
    assert read_answer(dialect, data)[1].at_end
    assert not read_answer(dialect, event, data)[1].at_end


@pytest.mark.parametrize(("cached", "kept"), [(4, 0), (0, 4), (4, 2)])
def test_more_cached_tokens_than_the_prompt_has_stand_beside_it(cached: int, kept: int) -> None:
    parts = {"cached_tokens": cached, "cache_write_tokens": kept}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "prompt_tokens_details": parts}
    _, reader = read_answer("chat", chat(usage))
    assert reader.usage == TokenCount(3 + cached + kept, 5, cached, kept)


@pytest.mark.parametrize("total", [0, 7])
def test_thoughts_are_not_counted_by_a_total_that_is_too_low(total: int) -> None:
    thought = {"completion_tokens_details": {"reasoning_tokens": 2}, "total_tokens": total}
    usage = {"prompt_tokens": 3, "completion_tokens": 5} | thought
    assert read_answer("chat", chat(usage))[1].usage is None
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 5, "totalTokenCount": total}
    end = {"candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": "STOP"}]}
    assert read_answer("gemini", stream({**end, "usageMetadata": usage}))[1].usage is None


def test_an_error_can_stand_in_a_field_of_its_own() -> None:
    error = b'error: {"detail":"No room","error":{"message":"No room"}}\n\n'
    _, reader = read_answer("chat", stream(delta(TEXT)) + error)
    assert (reader.at_end, reader.error) == (False, "No room")


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
    _, reader = read_answer("chat", *[b"data: " + b"x" * 1_000_000] * 9)
    assert reader.broken


# Counts that understate


def cohere_piece(**content: str) -> dict[str, Any]:
    return {"type": "content-delta", "delta": {"message": {"content": content}}}


LONG = "".join(f"word{number} " for number in range(64))


def answer_bytes(dialect: str, text: str, *usages: Any) -> bytes:
    """Return an answer in a dialect, with one count or several."""
    if dialect == "chat":
        counts = [{"choices": [], "usage": usage} for usage in usages]
        return stream(delta(text), delta("", "stop"), *counts, done=True)
    if dialect == "responses":
        ends = [{"type": "response.completed", "response": {"usage": usage}} for usage in usages]
        return stream({"type": "response.output_text.delta", "delta": text}, *ends)
    if dialect == "gemini":
        last = {"candidates": [{"finishReason": "STOP"}]}
        ends = [last | {"usageMetadata": usage} for usage in usages]
        return stream({"candidates": [{"content": {"parts": [{"text": text}]}}]}, *ends)
    if dialect == "cohere":
        ends = [
            {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": count}}
            for count in ({"tokens": usage} for usage in usages)
        ]
        return stream(cohere_piece(text=text), *ends)
    more: list[Any] = [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
        for usage in usages
    ]
    piece = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    start: Any = {"type": "message_start", "message": {"usage": {"input_tokens": 1}}}
    return stream(start, piece, *more, {"type": "message_stop"})


NAMES = {
    "chat": ("prompt_tokens", "completion_tokens"),
    "responses": ("input_tokens", "output_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount"),
    "messages": ("input_tokens", "output_tokens"),
    "cohere": ("input_tokens", "output_tokens"),
}


def token_counts(dialect: str, tokens_in: int, tokens_out: int) -> dict[str, int]:
    return dict(zip(NAMES[dialect], (tokens_in, tokens_out), strict=True))


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_count_lower_than_the_text_can_take_is_none(dialect: str) -> None:
    text = LONG.replace(" ", "")
    least = -(-len(text) // 64)
    _, reader = read_answer(dialect, answer_bytes(dialect, text, token_counts(dialect, 10, least)))
    assert reader.usage == TokenCount(10, least)
    _, reader = read_answer(
        dialect, answer_bytes(dialect, text, token_counts(dialect, 10, least - 1))
    )
    assert reader.at_end
    assert reader.usage is None


THINKING = {
    "chat": {"choices": [{"delta": {"reasoning_content": LONG}}]},
    "responses": {"type": "response.reasoning_text.delta", "delta": LONG},
    "messages": {"type": "content_block_delta", "delta": {"thinking": LONG}},
    "cohere": cohere_piece(thinking=LONG),
    "gemini": {"candidates": [{"content": {"parts": [{"text": LONG, "thought": True}]}}]},
}


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_thoughts_that_came_are_in_a_count_that_is_believed(dialect: str) -> None:
    for tokens_out, usage in ((64, TokenCount(10, 64)), (63, None)):
        answer = answer_bytes(dialect, LONG, token_counts(dialect, 10, tokens_out))
        _, reader = read_answer(dialect, stream(THINKING[dialect]), answer)
        assert reader.at_end
        assert reader.usage == usage


def test_gemini_may_sum_its_thoughts_up_at_greater_length() -> None:
    parts = [{"text": LONG, "thought": True}, {"text": TEXT}]
    end = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    counts = {"promptTokenCount": 8, "candidatesTokenCount": 7, "totalTokenCount": 20}
    _, reader = read_answer("gemini", stream({**end, "usageMetadata": counts}))
    assert reader.usage is None
    counts["thoughtsTokenCount"] = 5
    _, reader = read_answer("gemini", stream({**end, "usageMetadata": counts}))
    assert reader.usage == TokenCount(8, 12)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_long_run_of_one_character_may_be_few_tokens(dialect: str) -> None:
    text = f"{' ' * 2000}x"
    _, reader = read_answer(dialect, answer_bytes(dialect, text, token_counts(dialect, 10, 2)))
    assert reader.usage == TokenCount(10, 2)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_half_as_many_tokens_as_words_are_believed_and_no_fewer(dialect: str) -> None:
    text = "I am as I was. " * 20
    _, reader = read_answer(dialect, answer_bytes(dialect, text, token_counts(dialect, 10, 50)))
    assert reader.usage == TokenCount(10, 50)
    _, reader = read_answer(dialect, answer_bytes(dialect, text, token_counts(dialect, 10, 49)))
    assert reader.usage is None


@pytest.mark.parametrize("text", ["ab" * 32, "a b "])
def test_the_least_count_that_a_text_can_have_is_believed(text: str) -> None:
    """64 runs of one character, or two words, may be one token."""
    _, reader = read_answer("chat", answer_bytes("chat", text, token_counts("chat", 10, 1)))
    assert reader.usage == TokenCount(10, 1)
    _, reader = read_answer(
        "chat", answer_bytes("chat", text + "c d ", token_counts("chat", 10, 1))
    )
    assert reader.usage is None


def test_no_count_is_not_a_broken_one() -> None:
    """After a broken one the whole cap counts, after none what was written."""
    _, reader = read_answer("chat", stream(delta(TEXT), delta("", "stop"), done=True))
    assert (reader.count, reader.is_count_broken) == (None, False)
    _, reader = read_answer("chat", chat({"a": 1}))
    assert (reader.count, reader.is_count_broken) == (None, True)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_second_count_only_grows(dialect: str) -> None:
    for order in ((1, 0), (0, 1)):
        usages = (token_counts(dialect, 1, 1), token_counts(dialect, 50, 40))
        _, reader = read_answer(dialect, answer_bytes(dialect, TEXT, *(usages[i] for i in order)))
        assert reader.usage == TokenCount(50, 40)


def test_parts_of_messages_only_grow_wherever_they_come() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 50}}}
    again = {"type": "message_start", "message": {"usage": {"input_tokens": 20}}}
    late = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 40}}
    end = [ENDS["messages"] | {"usage": {"output_tokens": 9}}, {"type": "message_stop"}]
    _, reader = read_answer("messages", stream(start, again, *end, late))
    assert reader.usage == TokenCount(50, 40)


def test_a_dearer_part_of_a_count_is_not_taken_back() -> None:
    """Tokens that are written to a cache cost more, and a provider may name its own cost."""
    dear = PLAIN | {"prompt_tokens_details": {"cache_write_tokens": 3}, "cost": 0.5}
    for usages in ((dear, PLAIN), (PLAIN, dear), (dear, PLAIN | {"cost": 0.1})):
        _, reader = read_answer("chat", answer_bytes("chat", TEXT, *usages))
        assert reader.usage == TokenCount(10, 5, cache_written=3, reported=500_000_000)


@pytest.mark.parametrize("bad", [{"total_tokens": 15}, {"prompt_tokens": -1}, {"a": 1}])
def test_a_count_after_which_comes_one_that_cannot_be_is_none(bad: dict[str, int]) -> None:
    _, reader = read_answer("chat", answer_bytes("chat", TEXT, PLAIN, bad))
    assert reader.usage is None
    _, reader = read_answer(
        "chat", answer_bytes("chat", TEXT, PLAIN, bad, token_counts("chat", 1, 5))
    )
    assert reader.usage == TokenCount(10, 5), "what came before still counts"


def thinking_counts(thoughts: Any, **more: Any) -> dict[str, Any]:
    return thinking(thoughts) | more


@pytest.mark.parametrize(
    ("usage", "count"),
    [
        # Among the five, or beside them? Nothing says.
        (thinking_counts(3, prompt_tokens=10, completion_tokens=5), None),
        (thinking_counts(7, prompt_tokens=10, completion_tokens=5), TokenCount(10, 12)),
        (thinking_counts(0, prompt_tokens=10, completion_tokens=5), TokenCount(10, 5)),
        (thinking_counts(3, **PLAIN), TokenCount(10, 5)),
        (thinking_counts(6, **PLAIN), TokenCount(10, 11)),
        (thinking_counts(13, cost=0, **PLAIN), TokenCount(10, 5, reported=0)),
        (thinking_counts(14, cost=0, **PLAIN), TokenCount(10, 19, reported=0)),
        (thinking_counts(6, **PLAIN | {"total_tokens": 12}), TokenCount(10, 11)),
        (thinking_counts(3, **PLAIN | {"total_tokens": 18}), TokenCount(10, 8)),
        (thinking_counts(-1, **PLAIN), None),
        (thinking_counts("3", **PLAIN), None),
        (PLAIN | {"total_tokens": "15"}, None),
        (PLAIN | {"total_tokens": 1}, TokenCount(10, 5)),
        ({"total_tokens": 15}, None),
    ],
)
def test_thoughts_are_never_left_out(usage: Any, count: TokenCount | None) -> None:
    _, reader = read_answer("chat", chat(usage))
    assert reader.usage == count


@pytest.mark.parametrize(
    ("usage", "count"),
    [
        ({"output_tokens_details": {"reasoning_tokens": 3}}, TokenCount(10, 5)),
        ({"output_tokens_details": {"reasoning_tokens": 6}}, TokenCount(10, 11)),
        ({"total_tokens": 18}, TokenCount(10, 8)),
        ({"input_tokens_details": {"cached_tokens": 11}}, None),
    ],
)
def test_parts_of_responses_fit_their_whole(usage: Any, count: TokenCount | None) -> None:
    usage = {"input_tokens": 10, "output_tokens": 5} | usage
    _, reader = read_answer("responses", responses("completed", usage=usage))
    assert reader.usage == count


def test_the_total_of_gemini_counts_where_it_is_more() -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 30}
    _, reader = read_answer("gemini", gemini(usage))
    assert reader.usage == TokenCount(10, 20)


@pytest.mark.parametrize(
    ("last", "count"),
    [
        ({"candidatesTokenCount": 12, "totalTokenCount": 91}, TokenCount(79, 12)),
        ({"candidatesTokenCount": 9, "totalTokenCount": 88}, TokenCount(79, 9)),
        ({"candidatesTokenCount": 3}, TokenCount(169, 7)),
        ({"thoughtsTokenCount": 5, "totalTokenCount": 84}, TokenCount(169, 7)),
        ({"promptTokenCount": None, "candidatesTokenCount": 12}, None),
    ],
)
def test_a_prompt_that_falls_is_believed_to_the_last_count_alone(
    last: Any, count: TokenCount | None
) -> None:
    """Of Gemini 2.0, as recorded; a last count that isn't whole takes nothing back."""
    begun = {"promptTokenCount": 169, "candidatesTokenCount": 7, "totalTokenCount": 176}
    words: Any = {"candidates": [{"content": {"parts": [{"text": TEXT}]}}]}
    end = {"candidates": [{"finishReason": "STOP"}]}
    usage = {"promptTokenCount": 79} | last
    first = words | {"usageMetadata": begun}
    for events in ([first, end | {"usageMetadata": usage}], [first, end, {"usageMetadata": usage}]):
        _, reader = read_answer("gemini", stream(*events))
        assert (reader.at_end, reader.usage) == (True, count)


def test_a_count_of_gemini_without_any_of_what_was_written_is_none() -> None:
    _, reader = read_answer("gemini", gemini({"promptTokenCount": 10, "thoughtsTokenCount": 9}))
    assert reader.usage is None


@pytest.mark.parametrize("more", ["b", ""])
@pytest.mark.parametrize("dialect", ["chat", "gemini"])
def test_a_count_before_the_end_is_none(dialect: str, more: str) -> None:
    """It doesn't know all of it: an answer may have lost the count that came with its end."""
    usage = token_counts(dialect, 10, 50)
    if dialect == "chat":
        events: list[Any] = [delta("a") | {"usage": usage}, delta(more), delta("", "stop")]
    else:
        first, last = ({"candidates": [{"content": {"parts": [{"text": t}]}}]} for t in ("a", more))
        events = [first | {"usageMetadata": usage}, last, ENDS["gemini"]]
    _, reader = read_answer(dialect, stream(*events, done=dialect == "chat"))
    assert (reader.at_end, reader.usage, reader.count) == (True, None, TokenCount(10, 50))


@pytest.mark.parametrize(
    "events",
    [
        [delta(TEXT)],
        [delta(TEXT) | {"usage": PLAIN}],  # of so far
        [{"choices": [], "usage": PLAIN}, delta(TEXT)],
    ],
)
def test_a_marker_without_a_reason_or_a_count_of_the_whole_is_not_an_end(events: list[Any]) -> None:
    """A proxy may add the marker to what was cut."""
    _, reader = read_answer("chat", stream(*events, done=True))
    assert not reader.at_end


def test_an_answer_with_a_reason_alone_has_its_end() -> None:
    text, reader = read_answer("chat", stream(delta(TEXT), delta("", "stop")))
    assert (text, reader.at_end, reader.count) == (TEXT, True, None)


def test_an_error_before_the_cap_was_reached_is_one() -> None:
    error = {"error": {"code": 400, "message": "Token limit reached"}, "usage": PLAIN}
    _, reader = read_answer("chat", stream(delta(TEXT), error, delta("", "length"), done=True))
    assert (reader.at_end, reader.error) == (False, "Token limit reached")


def test_what_geminis_tools_read_is_read_too() -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "toolUsePromptTokenCount": 4}
    for total, count in ((19, TokenCount(14, 5)), (25, TokenCount(14, 11))):
        _, reader = read_answer("gemini", gemini(usage | {"totalTokenCount": total}))
        assert reader.usage == count


# Answers that aren't streamed


def whole_answer(dialect: str, finish: str = "stop", **more: Any) -> Any:
    """Return an answer as it comes where no stream is asked for, with 10 tokens in and 5 out."""
    is_cut = finish == "length"
    if dialect == "chat":
        message = {"role": "assistant", "content": TEXT, "reasoning_content": "Hm"}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {"object": "chat.completion", "choices": [choice], "usage": PLAIN} | more
    if dialect == "responses":
        parts = [{"type": "output_text", "text": TEXT, "annotations": []}]
        thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}]}
        end: Any = {"incomplete_details": {"reason": "max_output_tokens"}} if is_cut else {}
        return {
            "object": "response",
            "status": "incomplete" if is_cut else "completed",
            "output": [thought | {"summary": []}, {"type": "message", "content": parts}],
            "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        } | (end | more)
    if dialect == "messages":
        return {
            "type": "message",
            "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": TEXT}],
            "stop_reason": "max_tokens" if is_cut else "end_turn",
            "usage": {"input_tokens": 8, "cache_read_input_tokens": 2, "output_tokens": 5},
        } | more
    if dialect == "gemini":
        said: Any = [{"text": "Hm", "thought": True}, {"text": TEXT}]
        reason = "MAX_TOKENS" if is_cut else "STOP"
        return {
            "candidates": [{"content": {"parts": said}, "finishReason": reason}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5},
        } | more
    content = [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": TEXT}]
    return {
        "id": "1",
        "finish_reason": "MAX_TOKENS" if is_cut else "COMPLETE",
        "message": {"role": "assistant", "content": content},
        "usage": {"billed_units": {"input_tokens": 10, "output_tokens": 5}},
    } | more


def read_whole(dialect: str, body: Any, size: int = 0) -> tuple[str, AnswerReader]:
    """Read an answer that isn't streamed, in pieces of some size."""
    data = body if isinstance(body, bytes) else json.dumps(body, indent=1).encode()
    pieces = [data[i : i + size] for i in range(0, len(data), size)] if size else [data]
    text, reader = read_answer(dialect, *pieces)
    return text + reader.rest(), reader


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_answer_that_is_not_streamed_is_read(dialect: str, finish: str) -> None:
    for body in (whole_answer(dialect, finish), b"\xef\xbb\xbf \r\n"):
        data = body if isinstance(body, bytes) else b""
        data += json.dumps(whole_answer(dialect, finish), ensure_ascii=False).encode()
        for size in (0, 1, 7):
            text, reader = read_whole(dialect, data, size)
            assert (text, reader.finish, reader.at_end) == (TEXT, finish, True)
            count = reader.usage
            assert count is not None
            assert (count.tokens_in, count.tokens_out) == (10, 5)
            assert (reader.has_thoughts, reader.written) == (True, len(f"Hm{TEXT}"))


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_whole_answer_that_is_cut_has_no_end(dialect: str) -> None:
    data = json.dumps(whole_answer(dialect)).encode()
    for missing in (1, 2, len(data) // 2):
        text, reader = read_whole(dialect, data[:-missing])
        assert (text, reader.at_end, reader.is_refusal) == ("", False, False)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_whole_answer_without_a_count_or_with_a_bad_one_has_none(dialect: str) -> None:
    place = "usageMetadata" if dialect == "gemini" else "usage"
    for usage in (None, {}, {"prompt_tokens": "10"}):
        text, reader = read_whole(dialect, whole_answer(dialect) | {place: usage})
        assert (text, reader.at_end, reader.usage) == (TEXT, True, None)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_whole_error_is_one(dialect: str) -> None:
    body = OWN[dialect] if dialect != "cohere" else {"id": "1", "message": "Too busy"}
    text, reader = read_whole(dialect, body)
    assert (text, reader.error, reader.is_refusal) == ("", "Too busy", True)


def test_gemini_may_send_a_list_of_chunks() -> None:
    words = {"candidates": [{"content": {"parts": [{"text": TEXT}]}}]}
    text, reader = read_whole("gemini", [words, words, whole_answer("gemini")], 3)
    assert (text, reader.usage) == (TEXT * 3, TokenCount(10, 5))
    text, reader = read_whole("chat", [whole_answer("chat"), 5])
    assert not reader.at_end


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        ("chat", {"choices": [{"message": {"content": TEXT}}] * 2}),
        ("chat", {"choices": [{"message": {"tool_calls": [{}]}, "finish_reason": "tool_calls"}]}),
        ("responses", {"output": [{"type": "function_call", "arguments": "{}"}]}),
        ("responses", {"status": "failed", "error": {"message": "Too busy"}}),
        ("responses", {"status": "in_progress"}),
        ("messages", {"content": [{"type": "tool_use", "id": "1"}], "stop_reason": "tool_use"}),
        ("gemini", {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]}),
        ("cohere", {"message": {"tool_calls": [{}]}, "finish_reason": "TOOL_CALL"}),
    ],
)
def test_a_whole_answer_that_is_not_a_plain_one_is_refused(dialect: str, more: Any) -> None:
    _, reader = read_whole(dialect, whole_answer(dialect, **more))
    assert not reader.at_end or (reader.finish, reader.has_unread) == ("tool", True)


def test_a_whole_answer_of_snowflake_names_no_reason() -> None:
    text, reader = read_whole("chat", whole_answer("chat", None))  # type: ignore[arg-type]
    assert (text, reader.finish, reader.usage) == (TEXT, "stop", TokenCount(10, 5))


def test_a_whole_answer_beyond_all_bounds_is_not_kept() -> None:
    _, reader = read_answer("chat", b'{"choices": ["', *[b"x" * 1_000_000] * 9)
    assert reader.is_too_long
    assert reader.rest() == ""
    assert not reader.at_end


# Bounds


@pytest.mark.parametrize("size", [MAX_EVENT_BYTES, MAX_EVENT_BYTES // 4])
def test_an_event_beyond_all_bounds_is_not_kept(size: int) -> None:
    line = b"data: " + b"x" * (size - 100) + b"\n"
    _, reader = read_answer("chat", *[line] * 5)
    assert reader.is_too_long
    assert reader.broken


def nested_event(depth: int) -> bytes:
    return f'data: {{"choices": [], "x": {"[" * depth}{"]" * depth}}}\n\n'.encode()


def test_a_string_without_end_is_looked_through_once() -> None:
    """Looked through again from each of its quotes, it would take hours."""
    event = "[" * (MAX_DEPTH + 1) + '"' + '\\"' * 1_000_000
    _, reader = read_answer("chat", f"data: {event}\n\n".encode())
    assert reader.broken


@pytest.mark.parametrize("cost", ["1e999999", 1e300, "-1e999999", "1e-999999"])
def test_a_cost_beyond_all_numbers_is_not_a_crash(cost: Any) -> None:
    _, reader = read_answer("chat", chat(PLAIN | {"cost": cost}))
    assert reader.at_end
    assert reader.usage is not None
    assert (reader.usage.reported or 0) <= 1


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_byte_order_mark_costs_no_text(dialect: str) -> None:
    text, reader = read_answer(dialect, b"\xef\xbb", b"\xbf" + answer_bytes(dialect, TEXT))
    assert (text, reader.broken) == (TEXT, False)


def test_json_is_nested_within_bounds() -> None:
    _, reader = read_answer("chat", nested_event(MAX_DEPTH - 1))
    assert not reader.broken
    for depth in (MAX_DEPTH, 2000, 100_000):
        _, reader = read_answer("chat", nested_event(depth))
        assert reader.broken
    brackets = json.dumps(delta("[{" * 5000))
    text, reader = read_answer("chat", f"data: {brackets}\n\n".encode())
    assert (text, reader.broken) == ("[{" * 5000, False)


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("chat", {"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]}),
        ("chat", {"choices": [{"index": 1, "delta": {"content": "b"}}]}),
        ("gemini", {"candidates": [{"content": {"parts": [{"text": "a"}]}}] * 2}),
        ("gemini", {"candidates": [{"index": 1, "content": {"parts": [{"text": "b"}]}}]}),
    ],
)
def test_a_second_answer_is_none(dialect: str, event: Any) -> None:
    text, reader = read_answer(dialect, stream(event))
    assert (text, reader.broken) == ("", True)


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("chat", {"choices": [{"delta": {"reasoning_content": TEXT}}]}),
        ("chat", {"choices": [{"delta": {"reasoning": TEXT, "content": ""}}]}),
        (
            "chat",
            {
                "choices": [
                    {
                        "delta": {
                            "content": [
                                {"type": "thinking", "thinking": [{"type": "text", "text": TEXT}]}
                            ]
                        }
                    }
                ]
            },
        ),
        *(
            ("chat", {"choices": [{"delta": {"content": "", **more}}]})
            for more in (
                {"thinking": TEXT},
                {"reasoning_details": [{"type": "reasoning.text", "text": TEXT}]},
                {"reasoning_details": [{"type": "reasoning.summary", "summary": TEXT}]},
                {"reasoning": TEXT, "reasoning_details": [{"type": "x", "text": TEXT}]},
                {"reasoning_content": TEXT, "thinking_blocks": [{"thinking": TEXT}]},
                {"content": [{"type": "reasoning", "text": TEXT}]},
                {"content": [{"type": "thought", "text": TEXT}], "reasoning": None},
                {"content": TEXT, "channel": "analysis"},
                {"content": TEXT, "extra_content": {"google": {"thought": True}}},
            )
        ),
        ("responses", {"type": "response.reasoning_summary_text.delta", "delta": TEXT}),
        (
            "messages",
            {
                "type": "content_block_delta",
                "delta": {"type": "thinking_delta", "thinking": TEXT},
            },
        ),
        ("gemini", {"candidates": [{"content": {"parts": [{"text": TEXT, "thought": True}]}}]}),
        ("cohere", cohere_piece(type="thinking", thinking=TEXT)),
    ],
)
def test_thoughts_are_counted_and_not_shown(dialect: str, event: Any) -> None:
    text, reader = read_answer(dialect, stream(event))
    assert (text, reader.wrote, reader.written) == ("", False, len(TEXT))
    assert reader.size == len(TEXT.encode())


# Errors


OWN = {
    "chat": {"error": {"message": "Too busy", "type": "server_error"}},
    "responses": {"type": "error", "code": "server_error", "message": "Too busy"},
    "messages": {"type": "error", "error": {"type": "overloaded_error", "message": "Too busy"}},
    "gemini": {"error": {"code": 503, "message": "Too busy", "status": "UNAVAILABLE"}},
    "cohere": {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "Too busy"}},
}


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_own_error_before_any_output_is_a_refusal(dialect: str) -> None:
    _, reader = read_answer(dialect, b": ping\n\n", stream(OWN[dialect]))
    assert (reader.error, reader.is_refusal) == ("Too busy", True)
    whole = stream(OWN[dialect])
    _, reader = read_answer(dialect, whole[:-2])
    assert not reader.is_refusal, "it was cut"
    for before in (
        answer_bytes(dialect, "a"),
        answer_bytes(dialect, "", token_counts(dialect, 5, 5)),
    ):
        _, reader = read_answer(dialect, before, whole)
        assert reader.error
        assert not reader.is_refusal


CALL = {"function": {"name": "f", "arguments": "word " * 40}}
UNREAD = [
    ("chat", {"choices": [{"delta": {"tool_calls": [CALL]}}]}),
    ("chat", {"choices": [{"delta": {"content": {"text": "word"}}}]}),
    ("chat", {"choices": [{"delta": {"content": [{"type": "image", "image": "AAAA"}]}}]}),
    ("chat", {"choices": [{"delta": {"content": [{"type": "text"}, {"type": "image"}]}}]}),
    ("chat", {"choices": [{"text": "word"}]}),
    ("chat", {"choices": [{"delta": {"reasoning_details": [{"data": "AAAA"}]}}]}),
    ("chat", {"choices": [{"message": {"content": "word"}}]}),
    ("responses", {"type": "response.function_call_arguments.delta", "delta": "word"}),
    ("responses", {"type": "response.output_item.added", "item": {"type": "reasoning"}}),
    ("messages", {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "1"}}),
    ("messages", {"type": "content_block_delta", "delta": {"partial_json": "word"}}),
    ("messages", {"type": "content_block_start", "content_block": {"type": "redacted_thinking"}}),
    ("gemini", {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]}),
    ("gemini", {"candidates": [{"content": {"parts": [{"text": "", "inlineData": "A"}]}}]}),
    ("cohere", {"type": "tool-call-start", "delta": {"message": {"tool_calls": CALL}}}),
    ("cohere", {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "word"}}}),
    ("cohere", cohere_piece(image="AAAA")),
]
"""Output that isn't shown, but may be charged."""


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("chat", {"choices": [{"delta": {"content": None, "refusal": "I won't."}}]}),
        ("responses", {"type": "response.refusal.delta", "delta": "I won't."}),
    ],
)
def test_a_refusal_in_words_is_the_answer(dialect: str, event: Any) -> None:
    text, reader = read_answer(dialect, stream(event))
    assert (text, reader.has_unread) == ("I won't.", False)


@pytest.mark.parametrize(("dialect", "event"), UNREAD)
def test_an_error_after_output_that_is_not_shown_is_not_a_refusal(dialect: str, event: Any) -> None:
    _, reader = read_answer(dialect, stream(event), stream(OWN[dialect]))
    assert (reader.error, reader.has_unread) == ("Too busy", True)
    assert not reader.is_refusal


ENDS = {
    "chat": delta("", "stop"),
    "responses": {"type": "response.completed", "response": {}},
    "messages": {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    "gemini": {"candidates": [{"finishReason": "STOP"}]},
    "cohere": {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
}


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_error_after_the_end_of_an_answer_is_not_a_refusal(dialect: str) -> None:
    _, reader = read_answer(dialect, stream(ENDS[dialect]), stream(OWN[dialect]))
    assert (reader.error, reader.is_refusal, reader.has_unread) == ("Too busy", False, False)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_all_of_a_plain_answer_is_read(dialect: str) -> None:
    _, reader = read_answer(dialect, answer_bytes(dialect, TEXT, token_counts(dialect, 50, 40)))
    assert not reader.has_unread


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_error_without_words_is_still_one(dialect: str) -> None:
    kind = {"type": "error"} if dialect in ("messages", "responses") else {}
    usage = token_counts(dialect, 5, 5)
    _, reader = read_answer(
        dialect, stream({"error": {"code": 1}} | kind), answer_bytes(dialect, "a", usage)
    )
    assert not reader.at_end
    assert not reader.is_refusal


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_halves_of_characters_are_joined_over_events_and_none_is_left_at_a_cap(finish: str) -> None:
    texts = ("a\ud83d", "\ude00 \ud83d", " b\ude00 \ufffd", "c\ufffd\ufffd")
    events = [json.dumps(delta(text)) for text in texts] + [json.dumps(delta("", finish))]
    reader = DIALECTS["chat"]()
    said = "".join(reader.feed(f"data: {event}\n\n".encode()) for event in events)
    said += reader.feed(b"data: [DONE]\n\n") + reader.rest()
    end = "\ufffd\ufffd" if finish == "stop" else ""
    assert said == f"a\U0001f600 \ufffd b\ufffd \ufffdc{end}"


@pytest.mark.parametrize(("usage", "is_free"), [(None, True), ({"input_tokens": 9}, False)])
def test_an_error_after_a_counted_prompt_may_cost_something(usage: Any, is_free: bool) -> None:
    events = [{"type": "message_start", "message": {"usage": usage}}] if usage else []
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    _, reader = read_answer("messages", stream(*events, failed))
    assert (reader.error, reader.is_refusal) == ("Overloaded", is_free)
