"""Which setting a provider refused, by the words of its refusal: the request can go without it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from baton.workers.cloud.model_families import LEVELS

OPTIONS: tuple[tuple[str, str], ...] = (
    (
        "schema",
        r"response[_ ]?(?:format|(?:json_?)?schema|mime_?type)(?:\.\w+)?|output[_ ]format"
        r"|output_config\.format(?:\.\w+)*|text\.format(?:\.\w+)*|json[_ ](?:schema|mode)"
        r"|structured outputs?|grammar|(?:specified|output) schema",
    ),
    (
        "effort",
        r"(?:model_)?reasoning[ _.]?effort|reasoning\.(?:effort|enabled)|output_config(?:\.effort)?"
        r"|(?:include_?)?(?:thinking|thoughts)(?:[ _.]?(?:level|budget|config|type|mode|enabled"
        r"|adaptive|disabled|display|tokens))*|reasoning value|think value|budget[_ ]tokens"
        r"|reasoning|effort",
    ),
    ("extra", r"reasoning_format|include_reasoning"),
    ("temperature", r"temperature"),
    ("top_p", r"top_?p"),
    ("seed", r"(?:random_)?seed"),
    ("cap", r"max_(?:completion_|output_)?tokens"),
    (
        "system",
        r"(?:system|developer) (?:role|message|prompt|instruction|field)s?",
    ),
    ("usage", r"stream_options(?:\.include_usage)?|include_usage"),
    ("stop", r"stop[ _]sequences?|(?<=['\"`])stop(?=['\"`])|(?<=: )stop$|^stop$"),
)
"""The settings of a request, and their fields in all dialects and sentences."""

_FIELD = re.compile(
    "|".join(
        rf"(?P<{option}>(?<![\w.-])(?:(?:body|(?:generation|thinking)_config)\.)*(?:{words})"
        rf"(?![a-z0-9_-]))"
        for option, words in OPTIONS
    ),
    re.IGNORECASE | re.ASCII,
)

_REFUSES = re.compile(
    r"unsupported|type is unavailable"
    r"|not (?:\w+ )?(?:support|allow|permit|enabled|accept|recogni[sz]ed|available|a valid)"
    r"|(?:(?:does|do|is|are)(?:n.t| not)|can(?:.t| ?not)) (?:\w+ )?"
    r"(?:support|allow|permit|accept|enabled|be (?:set|used|specified|disabled))"
    r"|unknown|unrecogni[sz]ed|unexpected|invalid|deprecated|only .{1,40} (?:is|are) allowed"
    r"|(?:must|should) be|cannot both|extra inputs|no longer|mandatory|incompatible"
    r"|not compatible|(?:may|can) only|only (?:set|enabled)|doesn't match|does not match"
    r"|extraneous|fixed at|range|failed to parse|too many states|input tag"
    r"|不支持|非法|无效|nicht unterstützt|サポートし",
    re.IGNORECASE,
)
"""Words of a refusal of a setting."""

_ABOUT_VALUE = re.compile(
    r"between|range|at (?:most|least)|(?:less|greater|more|higher|lower) than|(?:max|min)imum"
    r"|positive|non-negative|both|greedy|when (?!streaming)|参数非法"
    r"|invalid value(?!.{0,80}thinking)|[<>]=? ?\d+\b(?!>)",
    re.IGNORECASE,
)
"""Words of a refusal that another value, or the same one beside other settings, would not get."""

_ABOUT_SCHEMA = re.compile(
    r"invalid schema|schema (?:produces|is too)|format\.schema|parse grammar|must contain the word",
    re.IGNORECASE,
)
"""Words of the refusal of a schema that another schema would not get."""

_BETWEEN_TWO = (
    ("temperature.{1,40}top_p.{1,40}(both|only use one)", "top_p"),
    ("max_tokens.{1,40}(greater|more|larger|higher) than.{1,20}(budget|thinking)", "effort"),
)
"""Sentences about two settings, and which of them can be left out."""

_PLACE_OF_ROLE = re.compile(r"messages?\[?\d*\]?\.?role|role", re.IGNORECASE)
_INSTEAD = re.compile(r"(?:use|mean) ['\"`]?(max_\w*tokens)", re.IGNORECASE)
_CAP_UNKNOWN = re.compile("unknown|unrecogni[sz]ed|extra inputs|unsupported", re.IGNORECASE)
_LISTED = re.compile(
    r"\b(?:supported|allowed|valid|accepted|permitted|one of|(?:must|should) be|either|choose|use"
    r"|only)\b"
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
        if named is None and "max_completion_tokens" in body and _CAP_UNKNOWN.search(said):
            return option, "max_tokens"
        return (option, named[1].lower()) if named is not None else None
    return option, "user" if option == "system" else ""


def is_about_value(option: str, said: str) -> bool:
    """Whether a setting was refused for its value in one request, and may be taken in others."""
    return bool((_ABOUT_SCHEMA if option == "schema" else _ABOUT_VALUE).search(said))


def _named_option(field: str, said: str) -> str | None:
    """Return the option that an error names by its field, or in its sentence."""
    if field:
        if _PLACE_OF_ROLE.fullmatch(field):
            return "system" if re.search("system|developer", said, re.IGNORECASE) else None
        if found := _FIELD.fullmatch(field.removeprefix("body.")):
            return found.lastgroup if _REFUSES.search(said) or not said else None
    if not _REFUSES.search(said):
        return None
    for words, option in _BETWEEN_TWO:
        if re.search(words, said, re.IGNORECASE):
            return option
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
        apart = {"system", "systemInstruction", "system_instruction"} & body.keys()
        return bool(apart or roles & {"system", "developer"})
    fields = {*body, *(body.get("generationConfig") or ()), *(body.get("inferenceConfig") or ())}
    if "format" in (body.get("output_config") or ()):
        fields.add("output_format")
    return any(
        found.lastgroup == option
        for name in fields
        if (found := _FIELD.fullmatch(re.sub(r"([a-z])([A-Z])", r"\1_\2", name)))
    )


def _effort_instead(said: str, body: Mapping[str, Any]) -> str:
    """Return the effort to ask for in place of a refused one: the nearest that is named, or ""."""
    match body:
        case (
            {"reasoning_effort": str(sent)}
            | {"reasoning": {"effort": str(sent)}}
            | {"output_config": {"effort": str(sent)}}
            | {"generationConfig": {"thinkingConfig": {"thinkingLevel": str(sent)}}}
        ):
            pass
        case _:
            return ""
    lists = (found["list"] for found in _LISTED.finditer(said))
    words = (word for text in lists for word in _WORD.findall(text) if word != "None")
    named = {word.lower() for word in words if word.lower() in _EFFORTS} - {sent}
    most = LEVELS.index(sent) if sent in LEVELS else LEVELS.index("low")
    below = [level for level in LEVELS[: most + 1] if level in named]
    above = [level for level in LEVELS[most + 1 :] if level in named]
    return (below or above[::-1] or sorted(named & {"default"}) or [""])[-1]
