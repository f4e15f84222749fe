"""The last look at a request before it leaves: it must be exactly what money was held for.

A library may add what nobody asked for: a second answer, a search that costs extra, a higher cap.
So a body may hold nothing but what is listed here, shows its cap, and has no more text than the
hold was made for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from baton.domain.chat import text_bound

ALLOWED: dict[str, frozenset[str]] = {
    "chat": frozenset(
        {
            "max_completion_tokens",
            "max_tokens",
            "messages",
            "model",
            "n",
            "provider",
            "random_seed",
            "reasoning",
            "reasoning_effort",
            "seed",
            "service_tier",
            "stream",
            "stream_options",
            "temperature",
            "thinking",
            "usage",
        }
    ),
    "responses": frozenset(
        {
            "input",
            "max_output_tokens",
            "model",
            "reasoning",
            "service_tier",
            "store",
            "stream",
            "temperature",
        }
    ),
    "messages": frozenset(
        {
            "max_tokens",
            "messages",
            "model",
            "output_config",
            "stream",
            "system",
            "temperature",
            "thinking",
        }
    ),
    "gemini": frozenset(
        {
            "contents",
            "generationConfig",
            "safetySettings",
            "systemInstruction",
            "system_instruction",
        }
    ),
}
"""What a body may hold, in each dialect."""

ALLOWED_IN_GENERATION = frozenset(
    {
        "candidateCount",
        "maxOutputTokens",
        "max_output_tokens",
        "seed",
        "temperature",
        "thinkingConfig",
    }
)
FORMS: dict[str, frozenset[str]] = {
    "chat": frozenset({"response_format"}),
    "responses": frozenset({"text"}),
    "messages": frozenset({"output_format"}),
    "gemini": frozenset({"response_json_schema", "response_mime_type"}),
}
"""Where a body holds the schema that its answer shall keep to, if one was asked for."""

CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
SAID = ("messages", "input", "system", "contents", "system_instruction", "systemInstruction")
"""Where a body holds text."""

NOT_SAID = frozenset({"role", "type"})


class Unfit(Exception):
    """A body may not be sent; the text is a sentence's second half."""


def check(
    body: bytes, dialect: str, model: str, cap: int, bound: int, *, shaped: bool = False
) -> None:
    """Raise Unfit unless the body asks for one answer of at most `cap` tokens from that model.

    `bound` is the most tokens that the texts in it may come to, with the schema of a `shaped` one.
    """
    asked = _parse(body)
    options = asked
    forms = FORMS[dialect] if shaped else frozenset()
    if dialect == "gemini":
        _refuse_unknown(asked, ALLOWED[dialect])
        options = asked.get("generationConfig") or {}
        _refuse_unknown(options, ALLOWED_IN_GENERATION | forms)
    else:
        _refuse_unknown(asked, ALLOWED[dialect] | forms)
        _check_model(asked, model)
    _check_options(asked, options)
    _check_cap(options, cap)
    said = sum(_bytes_of(asked[place]) for place in SAID if place in asked)
    said += sum(_written_out(options[place]) for place in forms if place in options)
    if said > bound:
        raise Unfit(f"it holds {said:,} bytes of text instead of at most {bound:,}")


def _check_model(asked: Mapping[str, Any], model: str) -> None:
    if asked.get("model") != model or asked.get("stream") is not True:
        raise Unfit("it asks for another model, or for no stream")


def _check_options(asked: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    if options.get("n", 1) != 1 or options.get("candidateCount", 1) != 1:
        raise Unfit("it asks for more than one answer")
    if (asked.get("provider") or {}).keys() - {"max_price"}:
        raise Unfit("it chooses another 'provider'")
    if asked.get("service_tier", "default") != "default":
        raise Unfit("it asks for a dearer service_tier")


def _parse(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise Unfit("it is not JSON") from error
    if not isinstance(asked, dict):
        raise Unfit("it is not a JSON object")
    return asked


def _refuse_unknown(found: Mapping[str, Any], allowed: frozenset[str]) -> None:
    if unknown := sorted(found.keys() - allowed):
        raise Unfit(f"it holds {unknown[0][:40]!r}, which nobody asked for")


def _check_cap(options: Mapping[str, Any], cap: int) -> None:
    shown = [options[name] for name in CAPS if name in options]
    if not shown:
        raise Unfit("it doesn't show the answer's cap")
    for value in shown:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= cap:
            raise Unfit(f"its cap is not the {cap:,} tokens that were asked for")


def _written_out(form: Any) -> int:
    """Return the bytes of a schema, of which every name and sign counts."""
    return text_bound(json.dumps(form, ensure_ascii=False, separators=(",", ":")))


def _bytes_of(said: Any) -> int:
    """Return the bytes of all texts in there, in their longest form."""
    if isinstance(said, str):
        return text_bound(said)
    if isinstance(said, list):
        return sum(_bytes_of(part) for part in said)
    if isinstance(said, dict):
        return sum(_bytes_of(value) for key, value in said.items() if key not in NOT_SAID)
    return 0
