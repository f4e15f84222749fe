"""Requests that Baton writes itself: Chat Completions, and Responses.

Their fields stand in `families.toml`. litellm would take seconds to be imported for them, and
writes Responses only with the package `mcp`, which Baton doesn't install.
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


def own_request(call: CloudCall, settings: RequestSettings) -> HttpRequest:
    """Return a call as a request for Chat Completions or Responses, whichever is its dialect."""
    is_chat = call.dialect == "chat"
    body: dict[str, Any] = {
        "model": call.model,
        "messages" if is_chat else "input": settings.messages(call),
        settings.cap_field or ("max_tokens" if is_chat else "max_output_tokens"): call.cap,
        "stream": True,
        **settings.sampling,
        **settings.thinking,
        **settings.extra,
    }
    if call.tier:
        body["service_tier"] = call.tier
    if call.must_not_store:
        body["store"] = False
    if settings.schema and not is_chat:
        body["text"] = {"format": {"type": "json_schema", **_named_schema(settings.schema)}}
    if is_chat:
        body |= _chat_fields(call, settings)
    url = request_address(call.base_url, call.dialect, call.model)
    header, prefix = KEY_HEADERS.get(call.provider, ("authorization", "Bearer "))
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return HttpRequest(url, {header: prefix + KEY_PLACEHOLDER}, text.encode())


def _chat_fields(call: CloudCall, settings: RequestSettings) -> dict[str, Any]:
    """Return the fields that Chat Completions alone have."""
    fields: dict[str, Any] = {}
    if settings.wants_usage:
        fields["stream_options"] = {"include_usage": True}
    if settings.seed is not None:
        fields[settings.seed_field] = settings.seed
    if settings.stop:
        fields["stop"] = list(settings.stop)
    if settings.schema:
        fields["response_format"] = response_format(settings.schema)
    if call.most:
        fields["provider"] = {"max_price": call.most}
    return fields


def response_format(schema: str) -> dict[str, Any]:
    """Return the field of Chat Completions that holds a schema."""
    return {"type": "json_schema", "json_schema": _named_schema(schema)}


def _named_schema(schema: str) -> dict[str, Any]:
    return {"name": "answer", "schema": json.loads(schema), "strict": True}
