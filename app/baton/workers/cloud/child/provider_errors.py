"""What a provider's error says, in any shape, and what it means: by `provider_errors.toml`.

Errors come nested: in lists, in strings of JSON, and from the provider behind a router. Which
setting was refused, so that the request can go without it, `setting_refusals.toml` shows.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from baton.ipc.child_http import DURATION, duration_seconds, retry_after
from baton.workers.cloud.model_settings import LEVELS

TABLE_FILE = Path(__file__).with_suffix(".toml")
REFUSALS_FILE = Path(__file__).with_name("setting_refusals.toml")

MAX_DEPTH = 12
"""How deeply an error is looked into."""

MAX_TEXT_CHARS = 16_384
"""How much of one text is searched for JSON."""

MAX_LISTED = 3
"""How many of several errors are named."""

_WAIT_WORDS = re.compile(
    rf"(?:try again|retry|wait|resets?|available again)\b[^.\d]{{0,40}}?({DURATION})", re.IGNORECASE
)
_NUMBER = r"(?<![\w.=/-])(\d{1,3}(?:,\d{3}){1,3}|\d{3,12})(?![\w-])"
_NEAR = r"(?:(?!\bby\b)[^\d>])"
_EXCESS = re.compile(rf"\bby {_NUMBER} tokens", re.IGNORECASE)
_ERROR_NUMBER = re.compile(r"\s*\(\d{4}\)$")  # MiniMax ends its sentences with one


class ErrorKind(msgspec.Struct, frozen=True):
    """A kind of error: a row of the table, which explains the fields."""

    name: str
    error: str
    message: str = ""
    hint: str = ""
    codes: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    unless: str = "(?!)"
    statuses: frozenset[int] = frozenset()
    providers: frozenset[str] = frozenset()
    billed: frozenset[str] = frozenset()

    def fits(self, names: set[str], status: int, codes: set[str], reason: str) -> bool:
        """Whether an error is of this kind; `names` are the provider's and its domains."""
        is_theirs = not self.providers or not names.isdisjoint(self.providers)
        if not is_theirs or (self.statuses and status not in self.statuses):
            return False
        if re.search(self.unless, reason, re.IGNORECASE):
            return False
        if not self.words or not codes.isdisjoint(self.codes):
            return True
        return bool(re.search("|".join(self.words), reason, re.IGNORECASE))


class ErrorTable(msgspec.Struct, frozen=True):
    """The table, which explains its parts."""

    kind: tuple[ErrorKind, ...]
    sentences: tuple[str, ...]
    reasons: tuple[str, ...]
    empty: str
    codes: frozenset[str]
    echoes: frozenset[str]
    limits: tuple[str, ...]
    waits: dict[str, float]


@cache
def _table() -> ErrorTable:
    return msgspec.toml.decode(TABLE_FILE.read_bytes(), type=ErrorTable)


def find_kind(names: set[str], status: int, body: object, reason: str) -> ErrorKind | None:
    """Return what an error means; None where the table doesn't know it.

    `names` are the provider's and its domains. `status` is 0 in a stream, whose error may name one.
    """
    fields = list(_fields(body))
    found = [str(value) for name, value in fields if name in _table().codes]
    codes = {code.lower().rpartition("#")[2] for code in [*found, *dict(fields)]}
    status = status or next((int(c) for c in found if re.fullmatch("[45][0-9]{2}", c)), 0)
    rows = (kind for kind in _table().kind if kind.fits(names, status, codes, reason))
    return next(rows, None)


def error_sentence(body: object, depth: int = 0) -> str:
    """Return what a provider said about an error, in any shape; "" when it said nothing."""

    def sentences(bodies: list[Any]) -> list[str]:
        found = (error_sentence(each, depth + 1) for each in bodies)
        return [reason for reason in found if reason]

    match body if depth < MAX_DEPTH else None:
        case str(text):
            is_page = re.match("<[!?a-zA-Z]", text.strip())
            return next(iter(sentences([_json_in(text)])), "" if is_page else text.strip())
        case [*listed]:
            return "; ".join(dict.fromkeys(sentences(listed[:MAX_LISTED])))
        case dict(fields):
            found = sentences([fields.get(name) for name in _table().sentences])
            reason = next((each for each in found if " " in each), found[0] if found else "")
            if not reason or re.fullmatch(_table().empty, reason, re.IGNORECASE):
                inner = sentences([fields.get(name) for name in _table().reasons])
                reason = inner[0] if inner else reason
            return _in_place(reason, fields) if reason else ""
    return ""


def _in_place(reason: str, error: Mapping[str, Any]) -> str:
    """Add to a sentence which field it is about, whose it is, or what a filter found."""
    place, found = "", []
    match error:
        case {"loc": [*parts]}:
            place = ".".join(str(part) for part in parts if part != "body")
        case {"field": str(field)}:
            place = field
        case {"param": str(field), "type": str(kind)} if "invalid" in kind:
            place = field
        case {"raw": _, "provider_name": str(name)}:
            place = name
        case {"metadata": {"reasons": [*reasons]}}:
            found = [str(each) for each in reasons]
        case {"innererror": {"content_filter_result": dict(results)}}:
            found = [k for k, v in results.items() if isinstance(v, dict) and v.get("filtered")]
    if unsaid := ", ".join(each for each in found if each not in reason):
        reason = f"{reason.rstrip('.')} ({unsaid})"
    return f"{place}: {reason}" if place not in reason else reason


def _json_in(text: str) -> object:
    """Return the JSON that a text is or has in it, or None."""
    start = re.search(r"[{\[]", text)
    with suppress(ValueError, RecursionError):
        if start is not None and len(text) <= MAX_TEXT_CHARS:
            found: object = json.JSONDecoder().raw_decode(text[start.start() :])[0]
            return found
    return None


def _fields(body: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Give the fields of an error, with those of the JSON in its texts."""
    match body if depth < MAX_DEPTH else None:
        case str(text):
            yield from _fields(_json_in(text), depth + 1)
        case [*listed]:
            for each in listed:
                yield from _fields(each, depth + 1)
        case dict(fields):
            for name, value in fields.items():
                if name not in _table().echoes:
                    yield name, value
                    yield from _fields(value, depth + 1)


def wait_seconds(headers: Mapping[str, str], body: object, reason: str) -> float | None:
    """Return for how long a provider wants not to be asked, None if it doesn't say."""
    wait = retry_after(headers)
    for name, value in _fields(body):
        if wait is None and name == "headers" and isinstance(value, dict):
            wait = retry_after({k: str(v) for k, v in value.items()})
        elif wait is None and (unit := _table().waits.get(name.lower())) is not None:
            seconds = value.get("seconds") if isinstance(value, dict) else value
            wait = duration_seconds(str(seconds), unit)
    if wait is None and (match := _WAIT_WORDS.search(reason)):
        wait = duration_seconds(match[1])
    return wait


def context_sizes(body: object, reason: str, context: int, guess: int) -> tuple[int, int]:
    """Return the tokens that were needed, and the limit.

    They are the provider's where it names them. Otherwise `context` is the limit, and `guess` what
    was needed.
    """
    names = ("n_ctx", "n_prompt_tokens")
    fields = [f"{name} {value}" for name, value in _fields(body) if name in names]
    text = " ".join([_ERROR_NUMBER.sub("", reason), *fields])
    rules = (rule.replace("NUMBER", _NUMBER).replace("NEAR", _NEAR) for rule in _table().limits)
    found = next((m for rule in rules if (m := re.search(rule, text, re.IGNORECASE))), None)
    limit = _whole(found[1]) if found else context
    if excess := _EXCESS.search(text):
        return limit + _whole(excess[1]), limit
    others = [n for n in dict.fromkeys(map(_whole, re.findall(_NUMBER, text))) if n != limit]
    largest = max(others, default=0)
    needed = largest if largest > limit else sum(others[:2])
    return (needed if found and needed > limit else max(guess, limit + 1)), limit


def _whole(number: str) -> int:
    return int(number.replace(",", ""))


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
    table = tomllib.loads(REFUSALS_FILE.read_text("utf-8"))
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
_LETTERS = re.compile(r"[a-z]+", re.IGNORECASE)
_EFFORTS = (*LEVELS, "default", "xhigh", "max", "enabled", "disabled", "adaptive")


def refused_option(error: object, reason: str, body: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the setting that was refused, and what to send in its place ("": nothing).

    `error` is the provider's, as data, `reason` its sentence, `body` what it refused. None where it
    refused something else, or nothing that was sent.
    """
    option = _named_option(_field_of(error), reason)
    if option is None or not _was_sent(option, body):
        return None
    if option == "effort":
        return option, _effort_instead(reason, body)
    if option == "cap":
        named = _INSTEAD.search(reason)
        if named is None and "max_completion_tokens" in body and _CAP_UNKNOWN.search(reason):
            return option, "max_tokens"
        return (option, named[1].lower()) if named is not None else None
    return option, "user" if option == "system" else ""


def is_about_value(option: str, reason: str) -> bool:
    """Whether a setting was refused for its value in one request, and may be taken in others."""
    words = refusal_words()
    return bool((words.schema if option == "schema" else words.value).search(reason))


def _named_option(field: str, reason: str) -> str | None:
    """Return the option that an error names by its field, or in its sentence."""
    words = refusal_words()
    if field:
        if _PLACE_OF_ROLE.fullmatch(field):
            return "system" if re.search("system|developer", reason, re.IGNORECASE) else None
        if match := words.field.fullmatch(field.removeprefix("body.")):
            return match.lastgroup if words.refuses.search(reason) or not reason else None
    if not words.refuses.search(reason):
        return None
    for option, sentence in words.between:
        if sentence.search(reason):
            return option
    match = words.field.search(reason)
    return match.lastgroup if match is not None else None


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
        roles = {message.get("role") for message in messages}
        apart = {"system", "systemInstruction", "system_instruction"} & body.keys()
        return bool(apart or roles & {"system", "developer"})
    fields = {*body, *(body.get("generationConfig") or ()), *(body.get("inferenceConfig") or ())}
    if "format" in (body.get("output_config") or ()):
        fields.add("output_format")
    return any(
        match.lastgroup == option
        for name in fields
        if (match := refusal_words().field.fullmatch(re.sub(r"([a-z])([A-Z])", r"\1_\2", name)))
    )


def _effort_instead(reason: str, body: Mapping[str, Any]) -> str:
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
    lists = (found["list"] for found in _LISTED.finditer(reason))
    words = (word for text in lists for word in _LETTERS.findall(text) if word != "None")
    named = {word.lower() for word in words if word.lower() in _EFFORTS} - {sent}
    most = LEVELS.index(sent) if sent in LEVELS else LEVELS.index("low")
    below = [level for level in LEVELS[: most + 1] if level in named]
    above = [level for level in LEVELS[most + 1 :] if level in named]
    return (below or above[::-1] or sorted(named & {"default"}) or [""])[-1]
