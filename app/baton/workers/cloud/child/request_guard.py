"""The last look at a request before it leaves: it must be exactly what money was held for.

A library may add what was not asked for: a second answer, a search that costs extra, a higher cap.
So a body may hold nothing but what is listed here, shows its cap, and has no more text than the
hold was made for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from baton.core.messages import max_text_tokens

_COMMON_FIELDS = frozenset({"model", "stream", "temperature", "top_p"})
ALLOWED_FIELDS: dict[str, frozenset[str]] = {
    "chat": _COMMON_FIELDS
    | {
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "n",
        "provider",
        "random_seed",
        "reasoning",
        "reasoning_effort",
        "reasoning_format",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream_options",
        "thinking",
        "usage",
    },
    "responses": _COMMON_FIELDS
    | {"input", "max_output_tokens", "reasoning", "service_tier", "store"},
    "messages": _COMMON_FIELDS | {"max_tokens", "messages", "output_config", "system", "thinking"},
    "cohere": _COMMON_FIELDS | {"max_tokens", "messages", "p", "seed", "thinking"},
    "converse": frozenset({"inferenceConfig", "messages", "system"}),
    "gemini": frozenset(
        {
            "contents",
            "generationConfig",
            "systemInstruction",
            "system_instruction",
        }
    ),
}
"""What a body may hold, in each dialect."""

OPTIONS_FIELDS = {"converse": "inferenceConfig", "gemini": "generationConfig"}
"""Where the options are, in dialects that keep them apart."""

ALLOWED_OPTIONS: dict[str, frozenset[str]] = {
    "converse": frozenset({"maxTokens", "temperature", "topP"}),
    "gemini": frozenset(
        {
            "candidateCount",
            "maxOutputTokens",
            "max_output_tokens",
            "seed",
            "temperature",
            "thinkingConfig",
            "topP",
            "top_p",
        }
    ),
}
"""What those may hold."""

FIXED_VALUES: dict[str, tuple[object, ...]] = {
    "candidateCount": (1,),
    "n": (1,),
    "reasoning_format": ("parsed",),
    "service_tier": ("default",),
    "store": (False,),
    "stream": (True,),
    "stream_options": ({"include_usage": True},),
    "usage": ({"include": True},),
}
"""The only values that these may have: others cost more, or have the provider keep the text."""

REQUIRED_FIELDS = dict.fromkeys(("chat", "responses", "messages", "cohere"), ("model", "stream"))
"""What a body must hold, since it means something else where it is missing."""

ALLOWED_PARTS: dict[str, frozenset[str]] = {
    "output_config": frozenset({"effort", "format"}),
    "provider": frozenset({"max_price"}),
    "reasoning": frozenset({"effort", "enabled"}),
    "thinking": frozenset({"budget_tokens", "display", "type"}),
    "thinkingConfig": frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"}),
}
"""What these may hold: nothing that chooses who answers, or has thoughts kept."""

SCHEMA_FIELDS: dict[str, frozenset[str]] = {
    "chat": frozenset({"response_format"}),
    "responses": frozenset({"text"}),
    "messages": frozenset({"output_config.format"}),
    "gemini": frozenset({"response_json_schema", "response_mime_type", "response_schema"}),
}
"""Where a body holds the schema that its answer must keep to, if one was asked for."""

CAP_FIELDS = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
    "maxTokens",
)
TEXT_FIELDS = ("messages", "input", "system", "contents", "system_instruction", "systemInstruction")
"""Where a body holds text."""

NAME_FIELDS = frozenset({"role", "type"})
MESSAGE_FIELDS = NAME_FIELDS | {"content", "parts", "reasoning_content", "text"}
"""What a message may hold: text, and nothing that is fetched, cached or run."""


ALLOWED_HEADERS = frozenset(
    {
        "anthropic-version",
        "api-key",
        "authorization",
        "x-api-key",
        "x-goog-api-key",
    }
)
"""The headers of a writer's that a request keeps, in lower case."""

ALLOWED_QUERIES = frozenset({"", "alt=sse"})
"""The queries that an address may have."""


class UnfitRequest(Exception):
    """A body may not be sent; the text is a sentence's second half."""


def check_request(
    body: bytes,
    dialect: str,
    model: str,
    cap: int,
    bound: int,
    *,
    has_schema: bool = False,
    must_not_store: bool = False,
) -> None:
    """Raise UnfitRequest unless the body asks `model` for one answer of at most `cap` tokens.

    `bound` is the most tokens that the texts in it may have, with the schema if there is one. With
    `must_not_store` the body must ask the provider not to store it.
    """
    asked = _parse(body)
    options = asked
    schema_fields = SCHEMA_FIELDS.get(dialect, frozenset()) if has_schema else frozenset()
    if dialect in OPTIONS_FIELDS:
        _refuse_unknown(asked, ALLOWED_FIELDS[dialect])
        options = asked.get(OPTIONS_FIELDS[dialect]) or {}
        _refuse_unknown(options, ALLOWED_OPTIONS[dialect] | schema_fields)
    else:
        match asked:
            case {"output_config": {"format": form}}:
                options = asked | {"output_config.format": form}
        _refuse_unknown(options, ALLOWED_FIELDS[dialect] | schema_fields)
    for name in (*REQUIRED_FIELDS.get(dialect, ()), *(("store",) if must_not_store else ())):
        if name not in asked:
            raise UnfitRequest(f"it lacks {name!r}")
    if asked.get("model", model) != model:
        raise UnfitRequest("it asks for another model")
    _check_values(asked | options)
    _check_cap(options, cap)
    size = sum(_text_size(asked[place]) for place in TEXT_FIELDS if place in asked)
    size += sum(
        max_text_tokens(json.dumps(options[place], ensure_ascii=False, separators=(",", ":")))
        for place in schema_fields  # of which every name and sign counts
        if place in options
    )
    if size > bound:
        raise UnfitRequest(f"it holds {size:,} bytes of text instead of at most {bound:,}")


def check_url(url: str, base_url: str) -> None:
    """Raise UnfitRequest unless the address is below the one that the call goes to."""
    there, base = urlsplit(url), urlsplit(base_url)
    path = base.path.rstrip("/")
    below = there.path == path or there.path.startswith(f"{path}/")
    if there[:2] != base[:2] or not below or there.query not in ALLOWED_QUERIES or there.fragment:
        raise UnfitRequest("it goes to another address")


def _check_values(asked: Mapping[str, Any]) -> None:
    for name, allowed in FIXED_VALUES.items():
        if name in asked and repr(asked[name]) not in map(repr, allowed):  # False isn't 0
            raise UnfitRequest(f"it has another {name!r} than {allowed[0]!r}")
    for name, parts in ALLOWED_PARTS.items():
        if name in asked:
            if not isinstance(asked[name], dict):
                raise UnfitRequest(f"its {name!r} isn't an object")
            _refuse_unknown(asked[name], parts, f"{name}.")


def _parse(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise UnfitRequest("it is not JSON") from error
    if not isinstance(asked, dict):
        raise UnfitRequest("it is not a JSON object")
    return asked


def _refuse_unknown(found: Mapping[str, Any], allowed: frozenset[str], where: str = "") -> None:
    if unknown := sorted(found.keys() - allowed):
        raise UnfitRequest(f"it holds {where + unknown[0][:40]!r}, which was not asked for")


def _check_cap(options: Mapping[str, Any], cap: int) -> None:
    shown = [options[name] for name in CAP_FIELDS if name in options]
    if not shown:
        raise UnfitRequest("it doesn't show the answer's cap")
    for value in shown:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= cap:
            raise UnfitRequest(f"its cap is not the {cap:,} tokens that were asked for")


def _text_size(data: Any) -> int:
    """Return the bytes of all texts in there, in their longest form."""
    if isinstance(data, str):
        return max_text_tokens(data)
    if isinstance(data, list):
        return sum(_text_size(part) for part in data)
    if isinstance(data, dict):
        _refuse_unknown(data, MESSAGE_FIELDS, "messages.")
        return sum(_text_size(value) for key, value in data.items() if key not in NAME_FIELDS)
    return 0
