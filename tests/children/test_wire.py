"""The last look at a request: only what money was held for may leave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from baton.children.wire import Unfit, check

SAID = [{"role": "user", "content": "Hello"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": SAID, "max_tokens": 100, "stream": True},
    "responses": {"model": "m", "input": SAID, "max_output_tokens": 100, "stream": True},
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
}


SCHEMA = {"type": "object", "properties": {"é": {"type": "string"}}}
FORMS: dict[str, dict[str, Any]] = {
    "chat": {"response_format": SCHEMA},
    "responses": {"text": SCHEMA},
    "messages": {"output_format": SCHEMA},
    "gemini": {"generationConfig": {"max_output_tokens": 100, "response_json_schema": SCHEMA}},
}


def checked(dialect: str, body: Any, cap: int = 100, bound: int = 5, shaped: bool = False) -> None:
    check(json.dumps(body).encode(), dialect, "m", cap, bound, shaped=shaped)


@pytest.mark.parametrize("dialect", BODIES)
def test_what_was_asked_for_may_leave(dialect: str) -> None:
    checked(dialect, BODIES[dialect])
    checked(dialect, BODIES[dialect], cap=101)


@pytest.mark.parametrize("dialect", BODIES)
def test_a_higher_cap_more_text_or_anything_else_may_not(dialect: str) -> None:
    body = BODIES[dialect]
    with pytest.raises(Unfit, match="cap"):
        checked(dialect, body, cap=99)
    with pytest.raises(Unfit, match="5 bytes"):
        checked(dialect, body, bound=4)
    for name in ("tools", "web_search_options", "service_tier", "cachedContent", "plugins"):
        with pytest.raises(Unfit, match=name):
            checked(dialect, body | {name: []})


@pytest.mark.parametrize("dialect", BODIES)
def test_a_schema_counts_as_text_and_only_where_it_was_asked_for(dialect: str) -> None:
    body = BODIES[dialect] | FORMS[dialect]
    size = len(json.dumps(SCHEMA, ensure_ascii=False, separators=(",", ":")).encode())
    checked(dialect, body, bound=5 + size, shaped=True)
    with pytest.raises(Unfit, match="bytes"):
        checked(dialect, body, bound=4 + size, shaped=True)
    with pytest.raises(Unfit, match="nobody asked for"):
        checked(dialect, body, bound=1000)
    with pytest.raises(Unfit, match="tools"):
        checked(dialect, body | {"tools": []}, bound=1000, shaped=True)


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
    with pytest.raises(Unfit):
        checked("chat", BODIES["chat"] | change)


@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_the_tier_of_the_known_price_may_be_asked_for(dialect: str) -> None:
    checked(dialect, BODIES[dialect] | {"service_tier": "default"})
    for tier in ("auto", "priority", "flex", None):
        with pytest.raises(Unfit, match="service_tier"):
            checked(dialect, BODIES[dialect] | {"service_tier": tier})


def test_openrouter_may_be_told_the_highest_price_and_nothing_else() -> None:
    price = {"max_price": {"prompt": 1.0, "completion": 2.0}}
    checked("chat", BODIES["chat"] | {"provider": price})
    with pytest.raises(Unfit, match="provider"):
        checked("chat", BODIES["chat"] | {"provider": price | {"sort": "throughput"}})


@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
def test_no_cap_at_all(name: str) -> None:
    body = {k: v for k, v in BODIES[name].items() if not k.startswith("max_")}
    with pytest.raises(Unfit, match="doesn't show"):
        checked(name, body)


@pytest.mark.parametrize("config", [{}, {"maxOutputTokens": 101}, {"candidateCount": 2}])
def test_geminis_options(config: dict[str, int]) -> None:
    body = BODIES["gemini"]
    with pytest.raises(Unfit):
        checked("gemini", body | {"generationConfig": config})


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"{", b"[" * 100_000])
def test_what_is_no_body(body: bytes) -> None:
    with pytest.raises(Unfit):
        check(body, "chat", "m", 100, 5)
