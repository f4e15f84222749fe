"""The last look at a request: only what money was held for may leave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from baton.workers.cloud.child.request_guard import UnfitRequest, check_request, check_url

SAID = [{"role": "user", "content": "Hello"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": SAID, "max_tokens": 100, "stream": True},
    "responses": {
        "model": "m",
        "input": SAID,
        "max_output_tokens": 100,
        "store": False,
        "stream": True,
    },
    "messages": {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "max_tokens": 100,
        "stream": True,
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "generationConfig": {"max_output_tokens": 100},
    },
    "cohere": {"model": "m", "messages": SAID, "max_tokens": 100, "stream": True},
    "converse": {
        "messages": [{"role": "user", "content": [{"text": "Hello"}]}],
        "inferenceConfig": {"maxTokens": 100},
    },
}


SCHEMA = {"type": "object", "properties": {"é": {"type": "string"}}}
FORMS: dict[str, dict[str, Any]] = {
    "chat": {"response_format": SCHEMA},
    "responses": {"text": SCHEMA},
    "messages": {"output_config": {"format": SCHEMA}},
    "gemini": {"generationConfig": {"max_output_tokens": 100, "response_json_schema": SCHEMA}},
}


def check_body(
    dialect: str, body: Any, cap: int = 100, bound: int = 5, has_schema: bool = False
) -> None:
    check_request(
        json.dumps(body).encode(),
        dialect,
        "m",
        cap,
        bound,
        has_schema=has_schema,
        must_not_store=dialect == "responses",
    )


@pytest.mark.parametrize("dialect", BODIES)
def test_what_was_asked_for_may_leave(dialect: str) -> None:
    check_body(dialect, BODIES[dialect])
    check_body(dialect, BODIES[dialect], cap=101)


@pytest.mark.parametrize("dialect", BODIES)
def test_a_higher_cap_more_text_or_anything_else_may_not(dialect: str) -> None:
    body = BODIES[dialect]
    with pytest.raises(UnfitRequest, match="cap"):
        check_body(dialect, body, cap=99)
    with pytest.raises(UnfitRequest, match="5 bytes"):
        check_body(dialect, body, bound=4)
    for name in ("tools", "web_search_options", "service_tier", "cachedContent", "plugins"):
        with pytest.raises(UnfitRequest, match=name):
            check_body(dialect, body | {name: []})


def test_a_message_without_text_has_no_bytes() -> None:
    said = [{"role": "assistant", "content": None}, {"role": "user", "content": "Hello"}]
    body = BODIES["chat"] | {"messages": said}
    check_body("chat", body, bound=5)
    with pytest.raises(UnfitRequest, match="bytes of text"):
        check_body("chat", body, bound=4)


@pytest.mark.parametrize("dialect", FORMS)
def test_a_schema_counts_as_text_and_only_where_it_was_asked_for(dialect: str) -> None:
    body = BODIES[dialect] | FORMS[dialect]
    size = len(json.dumps(SCHEMA, ensure_ascii=False, separators=(",", ":")).encode())
    check_body(dialect, body, bound=5 + size, has_schema=True)
    with pytest.raises(UnfitRequest, match="bytes"):
        check_body(dialect, body, bound=4 + size, has_schema=True)
    with pytest.raises(UnfitRequest, match="was not asked for"):
        check_body(dialect, body, bound=1000)
    with pytest.raises(UnfitRequest, match="tools"):
        check_body(dialect, body | {"tools": []}, bound=1000, has_schema=True)


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": None},
        {"max_tokens": "100"},
        {"max_tokens": True},
        {"max_tokens": 0},
        {"max_tokens": 100, "max_completion_tokens": 101},
        {"n": 2},
        {"model": "dearer"},
        {"stream": False},
        {"messages": [*SAID, {"role": "user", "content": [{"text": "é"}]}]},
    ],
)
def test_other_changes_of_a_body(change: dict[str, Any]) -> None:
    with pytest.raises(UnfitRequest):
        check_body("chat", BODIES["chat"] | change)


@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_the_tier_of_the_known_price_may_be_asked_for(dialect: str) -> None:
    check_body(dialect, BODIES[dialect] | {"service_tier": "default"})
    for tier in ("auto", "priority", "flex", None):
        with pytest.raises(UnfitRequest, match="service_tier"):
            check_body(dialect, BODIES[dialect] | {"service_tier": tier})


def test_openrouter_may_be_sent_the_highest_price_and_nothing_else() -> None:
    price = {"max_price": {"prompt": 1.0, "completion": 2.0}}
    check_body("chat", BODIES["chat"] | {"provider": price})
    with pytest.raises(UnfitRequest, match="provider"):
        check_body("chat", BODIES["chat"] | {"provider": price | {"sort": "throughput"}})


@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
def test_no_cap_at_all(name: str) -> None:
    body = {k: v for k, v in BODIES[name].items() if not k.startswith("max_")}
    with pytest.raises(UnfitRequest, match="doesn't show"):
        check_body(name, body)


@pytest.mark.parametrize("config", [{}, {"maxOutputTokens": 101}, {"candidateCount": 2}])
def test_geminis_options(config: dict[str, int]) -> None:
    body = BODIES["gemini"]
    with pytest.raises(UnfitRequest):
        check_body("gemini", body | {"generationConfig": config})


@pytest.mark.parametrize("config", [{}, {"maxTokens": 101}, {"maxTokens": 9, "topK": 2}])
def test_converses_options(config: dict[str, int]) -> None:
    with pytest.raises(UnfitRequest):
        check_body("converse", BODIES["converse"] | {"inferenceConfig": config})


@pytest.mark.parametrize("name", ["additionalModelRequestFields", "guardrailConfig", "toolConfig"])
def test_converse_asks_for_nothing_more(name: str) -> None:
    with pytest.raises(UnfitRequest, match=name):
        check_body("converse", BODIES["converse"] | {name: {"x": 1}})


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"{", b"[" * 100_000])
def test_what_is_not_a_body(body: bytes) -> None:
    with pytest.raises(UnfitRequest):
        check_request(body, "chat", "m", 100, 5)


NEVER = (
    "audio",
    "background",
    "cachedContent",
    "container",
    "context_management",
    "conversation",
    "extra_body",
    "functions",
    "inference_geo",
    "include",
    "instructions",
    "labels",
    "logprobs",
    "mcp_servers",
    "metadata",
    "modalities",
    "models",
    "plugins",
    "prediction",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "route",
    "safetySettings",
    "safety_identifier",
    "tool_choice",
    "tools",
    "top_logprobs",
    "transforms",
    "user",
    "web_search_options",
)
"""What has a provider keep a text, tie it to a user, give it to others or do more with it."""


@pytest.mark.parametrize("name", NEVER)
@pytest.mark.parametrize("dialect", BODIES)
def test_no_body_holds_what_concerns_privacy(dialect: str, name: str) -> None:
    for value in (None, True, False, 0, "", "x", [], [{"type": "web_search"}], {}, {"a": "b"}):
        with pytest.raises(UnfitRequest, match=name):
            check_body(dialect, BODIES[dialect] | {name: value}, bound=1000)


ONLY: dict[str, dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "chat": {
        "n": (1, (2, 0, None, True, "1")),
        "provider": ({"max_price": {}}, ({"order": []}, {"data_collection": "allow"}, None, "x")),
        "reasoning": ({"effort": "low"}, ({"effort": "low", "exclude": True}, None, [])),
        "service_tier": ("default", ("auto", "flex", "priority", None)),
        "store": (False, (True, None, 0, "false")),
        "stream": (True, (False, None, 1, "true")),
        "stream_options": ({"include_usage": True}, ({}, {"include_usage": False}, None, True)),
        "thinking": ({"type": "disabled"}, ({"type": "enabled", "keep": True}, None)),
        "usage": ({"include": True}, ({"include": False}, {"include": True, "x": 1}, None)),
    },
    "responses": {
        "reasoning": ({"effort": "low"}, ({"summary": "auto"}, {"encrypted_content": True}, None)),
        "service_tier": ("default", ("auto", "flex", "priority", None)),
        "store": (False, (True, None, 0, "false")),
        "stream": (True, (False, None, 1)),
    },
    "messages": {
        "output_config": ({"effort": "low"}, ({"x": 1}, None)),
        "stream": (True, (False, None, 1)),
        "thinking": ({"type": "enabled", "budget_tokens": 9}, ({"x": 1}, None, "enabled")),
    },
    "gemini": {},
}
"""For each field that concerns privacy or money: the value that leaves, and others."""


@pytest.mark.parametrize(
    ("dialect", "name"), [(dialect, name) for dialect in ONLY for name in ONLY[dialect]]
)
def test_a_field_has_its_one_value(dialect: str, name: str) -> None:
    good, bad = ONLY[dialect][name]
    check_body(dialect, BODIES[dialect] | {name: good})
    for value in bad:
        with pytest.raises(UnfitRequest, match=name):
            check_body(dialect, BODIES[dialect] | {name: value})


@pytest.mark.parametrize("name", ["store", "stream", "model"])
def test_what_a_body_must_say(name: str) -> None:
    body = {key: value for key, value in BODIES["responses"].items() if key != name}
    with pytest.raises(UnfitRequest, match=f"lacks '{name}'"):
        check_body("responses", body)
    chat = json.dumps(BODIES["chat"]).encode()
    with pytest.raises(UnfitRequest, match="lacks 'store'"):
        check_request(chat, "chat", "m", 100, 5, must_not_store=True)


@pytest.mark.parametrize("dialect", BODIES)
@pytest.mark.parametrize(
    "more",
    [
        {"cache_control": {"type": "ephemeral"}},
        {"image_url": {"url": "https://198.51.100.1/x"}},
        {"fileData": {"fileUri": "x"}},
        {"name": "me"},
        {"tool_calls": []},
    ],
)
def test_a_message_holds_text_alone(dialect: str, more: dict[str, Any]) -> None:
    place = {"responses": "input", "gemini": "contents"}.get(dialect, "messages")
    for said in ([SAID[0] | more], [{"role": "user", "content": [{"text": "Hello"} | more]}]):
        with pytest.raises(UnfitRequest, match="messages"):
            check_body(dialect, BODIES[dialect] | {place: said}, bound=1000)


@pytest.mark.parametrize(
    ("url", "base_url"),
    [
        ("https://a.example/v1/chat/completions", "https://a.example/v1"),
        ("https://a.example/v1/chat/completions", "https://a.example/v1/"),
        ("https://a.example/v2/chat", "https://a.example/v2/chat"),
        ("https://a.example/v1/messages", "https://a.example"),
        ("https://a.example/x/v1/messages", "https://a.example/x/v1"),
        ("https://a.example/v1beta/models/m:stream?alt=sse", "https://a.example/v1beta"),
        ("https://a.example/model/us.m-v1%3A0/converse-stream", "https://a.example"),
    ],
)
def test_a_request_goes_below_its_own_address(url: str, base_url: str) -> None:
    check_url(url, base_url)


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/v1/chat/completions",
        "https://a.example:444/v1/chat/completions",
        "https://b.example/v1/chat/completions",
        "https://a.example.b.example/v1/chat/completions",
        "https://me@a.example/v1/chat/completions",
        "https://a.example/other/chat/completions",
        "https://a.example/v1beta/models/m:stream?alt=sse&key=secret",
        "https://a.example/v1/chat/completions#x",
        "",
    ],
)
def test_a_request_goes_nowhere_else(url: str) -> None:
    with pytest.raises(UnfitRequest, match="another address"):
        check_url(url, "https://a.example/v1")
