"""Requests that Baton writes itself: Chat Completions for servers, and Responses.

litellm writes Responses only with the package `mcp`, which Baton doesn't install.
"""

from __future__ import annotations

import json
from typing import Any

from baton.platform.proxies import request_address
from baton.workers.cloud.child.cloud_call import (
    KEY_HEADERS,
    KEY_PLACEHOLDER,
    CloudCall,
    HttpRequest,
)

OWN_DIALECTS = {"huggingface": "chat", "perplexity": "responses"}
"""Providers whose requests litellm doesn't write, and their dialects: for Hugging Face's router it
would fetch the names that models have at others, and Perplexity answers in Responses alone."""


def own_request(call: CloudCall) -> HttpRequest:
    """Return the request of a call that litellm doesn't write."""
    if OWN_DIALECTS.get(call.provider) != "responses":
        return chat_request(call)
    call.set_dialect("responses")
    call.schema = ""  # which Perplexity takes in a field of its own
    call.messages = [{"type": "message", **said} for said in call.messages]
    return responses_request(call, None)


def chat_request(call: CloudCall) -> HttpRequest:
    """Return a call as a request for Chat Completions."""
    body: dict[str, Any] = {
        "model": call.model,
        "messages": call.messages,
        "max_tokens": call.cap,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if call.temperature is not None:
        body["temperature"] = call.temperature
    if call.top_p is not None:
        body["top_p"] = call.top_p
    if call.seed is not None:
        body["seed"] = call.seed
    if call.stop:
        body["stop"] = list(call.stop)
    if call.schema:
        body["response_format"] = response_format(call.schema)
    return _request(call, body)


def responses_request(call: CloudCall, effort: str | None) -> HttpRequest:
    """Return a call as a request for Responses; `effort` is how much to think."""
    body: dict[str, Any] = {
        "model": call.model,
        "input": call.messages,
        "max_output_tokens": call.cap,
        "stream": True,
    }
    if call.must_not_store:
        body["store"] = False
    if call.tier:
        body["service_tier"] = call.tier
    if call.top_p is not None:
        body["top_p"] = call.top_p
    if effort:
        body["reasoning"] = {"effort": effort}
    if call.schema:
        body["text"] = {"format": {"type": "json_schema", **_named_schema(call.schema)}}
    return _request(call, body)


def response_format(schema: str) -> dict[str, Any]:
    """Return the field of Chat Completions that holds a schema."""
    return {"type": "json_schema", "json_schema": _named_schema(schema)}


def _named_schema(schema: str) -> dict[str, Any]:
    return {"name": "answer", "schema": json.loads(schema), "strict": True}


def _request(call: CloudCall, body: dict[str, Any]) -> HttpRequest:
    url = request_address(call.base_url, call.dialect, call.model)
    header, prefix = KEY_HEADERS.get(call.provider, ("authorization", "Bearer "))
    return HttpRequest(
        url, {header: prefix + KEY_PLACEHOLDER}, json.dumps(body, ensure_ascii=False).encode()
    )
