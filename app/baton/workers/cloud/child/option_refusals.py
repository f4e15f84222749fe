"""Which setting a provider refused, by the words of its refusal: the request can go without it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from baton.workers.cloud.model_families import LEVELS

OPTIONS: tuple[tuple[str, str], ...] = (
    (
        "effort",
        r"(?:model_)?reasoning[ _.]?effort|reasoning\.(?:effort|enabled)|output_config(?:\.effort)?"
        r"|thinking(?:[ _.]?(?:level|budget|config|type|mode))*|budget[_ ]tokens|reasoning|effort",
    ),
    ("extra", r"reasoning_format|include_reasoning"),
    ("temperature", r"temperature"),
    ("top_p", r"top_?p"),
    ("seed", r"(?:random_)?seed"),
    ("cap", r"max_(?:completion_|output_)?tokens"),
    (
        "schema",
        r"response_(?:format|(?:json_)?schema|mime_type)|output_format|output_config\.format"
        r"|text\.format|json_schema|structured outputs?",
    ),
    (
        "system",
        r"(?:system|developer) (?:role|message|prompt|instruction)s?",
    ),
    ("usage", r"stream_options(?:\.include_usage)?|include_usage"),
    ("stop", r"stop[ _]sequences?|(?<=['\"`])stop(?=['\"`])|(?<=: )stop$|^stop$"),
)
"""The settings of a request, and their fields in all dialects and sentences."""

_FIELD = re.compile(
    "|".join(rf"(?P<{option}>(?<![\w.])(?:{words})(?!\w))" for option, words in OPTIONS),
    re.IGNORECASE,
)

_REFUSES = re.compile(
    r"unsupported|type is unavailable"
    r"|not (?:\w+ )?(?:support|allow|permit|enabled|accept|recogni[sz]ed|available)"
    r"|(?:does|do|is|are|can)(?:n't| not| ?not) (?:\w+ )?"
    r"(?:support|allow|permit|accept|enabled|be (?:set|used|specified|disabled))"
    r"|unknown|unrecogni[sz]ed|unexpected|invalid|deprecated|only .{1,40} (?:is|are) allowed"
    r"|must be|cannot both|extra inputs|no longer|mandatory|incompatible|not compatible",
    re.IGNORECASE,
)
"""Words of a refusal of a setting."""

_PLACE_OF_ROLE = re.compile(r"messages?\[?\d*\]?\.?role|role", re.IGNORECASE)
_INSTEAD = re.compile(r"use '?`?(max_\w*tokens)", re.IGNORECASE)
_LISTED = re.compile(
    r"(?:supported|allowed|valid|accepted|permitted|one of|must be|either|choose|use|only)\b"
    r"(?P<list>.{0,160})",
    re.IGNORECASE | re.DOTALL,
)
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_EFFORTS = (*LEVELS, "default", "xhigh", "max", "enabled", "disabled", "adaptive")


def refused_option(error: object, said: str, body: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the setting that was refused, and what to send in its place ("": nothing).

    `error` is the provider's, as data, `said` its sentence, `body` what it refused. None where it
    refused something else, or nothing that was sent.
    """
    option = _named_option(_field_of(error), said)
    if option is None or not _was_sent(option, body):
        return None
    if option == "effort":
        return option, _effort_instead(said, body)
    if option == "cap":
        named = _INSTEAD.search(said)
        return (option, named[1].lower()) if named is not None else None
    return option, "user" if option == "system" else ""


def _named_option(field: str, said: str) -> str | None:
    """Return the option that an error names by its field, or in its sentence."""
    if field:
        if _PLACE_OF_ROLE.fullmatch(field):
            return "system" if re.search("system|developer", said, re.IGNORECASE) else None
        if found := _FIELD.fullmatch(field):
            return found.lastgroup if _REFUSES.search(said) or not said else None
    if not _REFUSES.search(said):
        return None
    if re.search("temperature.{1,40}top_p.{1,40}(both|only use one)", said, re.IGNORECASE):
        return "top_p"
    found = _FIELD.search(said)
    return found.lastgroup if found is not None else None


def _field_of(error: object) -> str:
    """Return the field that an error names beside its sentence, or ""."""
    match error:
        case {"error": {"param": str(field)}} | {"param": str(field)}:
            return field
        case {"detail": [{"loc": [*_, str(field)]}, *_]}:
            return field
        case {"message": {"detail": [{"loc": [*_, str(field)]}, *_]}}:
            return field
    return ""


def _was_sent(option: str, body: Mapping[str, Any]) -> bool:
    """Whether a body holds a setting, under any of its names."""
    if option == "system":
        messages = body.get("messages") or body.get("input") or ()
        roles = {said.get("role") for said in messages}
        return bool({"systemInstruction", "system_instruction"} & body.keys()) or bool(
            roles & {"system", "developer"}
        )
    fields = {*body, *(body.get("generationConfig") or ())}
    if "format" in (body.get("output_config") or ()):
        fields.add("output_format")
    return any(
        found.lastgroup == option
        for name in fields
        if (found := _FIELD.fullmatch(re.sub(r"([a-z])([A-Z])", r"\1_\2", name)))
    )


def _effort_instead(said: str, body: Mapping[str, Any]) -> str:
    """Return the effort to ask for in place of a refused one: the nearest that is named, or ""."""
    sent = str(body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort") or "")
    lists = (found["list"] for found in _LISTED.finditer(said))
    named = {
        word.lower() for text in lists for word in _WORD.findall(text) if word.lower() in _EFFORTS
    } - {sent}
    most = LEVELS.index(sent) if sent in LEVELS else LEVELS.index("low")
    below = [level for level in LEVELS[: most + 1] if level in named]
    above = [level for level in LEVELS[most + 1 :] if level in named]
    return (below or above[::-1] or sorted(named & {"default"}) or [""])[-1]
