"""Requests that Baton writes itself: Chat Completions for servers, and OpenAI's Responses.

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
from baton.workers.cloud.child.request_settings import RequestSettings


def chat_request(call: CloudCall, settings: RequestSettings) -> HttpRequest:
    """Return a call as a request for Chat Completions."""
    body: dict[str, Any] = {
        "model": call.model,
        "messages": settings.messages(call),
        settings.cap_field or "max_tokens": call.cap,
        "stream": True,
        **settings.sampling,
        **settings.thinking,
        **settings.extra,
    }
    if settings.wants_usage:
        body["stream_options"] = {"include_usage": True}
    if settings.seed is not None:
        body["seed"] = settings.seed
    if call.stop and "stop" not in call.learned:
        body["stop"] = list(call.stop)
    if settings.schema:
        body["response_format"] = response_format(settings.schema)
    return _request(call, body)


def responses_request(call: CloudCall, settings: RequestSettings) -> HttpRequest:
    """Return a call as a request for Responses."""
    body: dict[str, Any] = {
        "model": call.model,
        "input": settings.messages(call),
        "max_output_tokens": call.cap,
        "stream": True,
        "store": False,
        **settings.sampling,
        **settings.thinking,
    }
    if call.tier:
        body["service_tier"] = call.tier
    if settings.schema:
        body["text"] = {"format": {"type": "json_schema", **_named_schema(settings.schema)}}
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
