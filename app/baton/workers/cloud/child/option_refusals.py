"""Which setting a provider refused, by the words of its refusal: the request can go without it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from baton.workers.cloud.model_families import LEVELS

TABLE_FILE = Path(__file__).with_name("setting_refusals.toml")


@dataclass(frozen=True, slots=True)
class RefusalWords:
    """The table's words: the `field` of a setting, which is its group, and words of a refusal.

    `value` and `schema` are words of a refusal that another value, or another schema, would not
    get. `between` are sentences about two settings, and which of them can be left out.
    """

    field: re.Pattern[str]
    refuses: re.Pattern[str]
    value: re.Pattern[str]
    schema: re.Pattern[str]
    between: Sequence[tuple[str, re.Pattern[str]]]


@cache
def refusal_words() -> RefusalWords:
    """Return the words of `setting_refusals.toml`."""
    table = tomllib.loads(TABLE_FILE.read_text("utf-8"))
    fields = (
        rf"(?P<{option}>(?<![\w.-])(?:(?:body|(?:generation|thinking)_config)\.)*"
        rf"(?:{'|'.join(words)})(?![a-z0-9_-]))"
        for option, words in table["options"].items()
    )
    words = {name: re.compile("|".join(row), re.IGNORECASE) for name, row in table["words"].items()}
    return RefusalWords(
        field=re.compile("|".join(fields), re.IGNORECASE | re.ASCII),
        between=[(opt, re.compile(row, re.IGNORECASE)) for opt, row in table["between"].items()],
        **words,
    )


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
    words = refusal_words()
    return bool((words.schema if option == "schema" else words.value).search(said))


def _named_option(field: str, said: str) -> str | None:
    """Return the option that an error names by its field, or in its sentence."""
    words = refusal_words()
    if field:
        if _PLACE_OF_ROLE.fullmatch(field):
            return "system" if re.search("system|developer", said, re.IGNORECASE) else None
        if found := words.field.fullmatch(field.removeprefix("body.")):
            return found.lastgroup if words.refuses.search(said) or not said else None
    if not words.refuses.search(said):
        return None
    for option, sentence in words.between:
        if sentence.search(said):
            return option
    found = words.field.search(said)
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
        if (found := refusal_words().field.fullmatch(re.sub(r"([a-z])([A-Z])", r"\1_\2", name)))
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
