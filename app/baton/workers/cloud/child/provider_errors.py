"""What a provider's error says, in any shape, and what it means: the table of `provider_errors.toml`.

Errors come nested: in lists, in strings of JSON, and from the provider behind a router.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from baton.ipc.child_http import DURATION, duration_seconds, retry_after

TABLE_FILE = Path(__file__).with_suffix(".toml")

MAX_DEPTH = 12
MAX_TEXT_CHARS = 16_384
"""How much of one text is searched for JSON."""

MAX_LISTED = 3
"""How many of several errors are named."""

_WORDS = (
    "error", "message", "Message", "msg", "detail", "errors", "description", "error_description",
    "error_msg", "raw",
)  # fmt: skip
"""Fields that hold what was said, the likeliest first."""

_INNER = (
    "metadata", "providerMetadata", "gateway", "routing", "attempts", "innererror", "details",
    "fieldViolations", "cause", "param",
)  # fmt: skip
"""Fields that hold the reason where the others say nothing."""

_SAYS_NOTHING = re.compile(
    r"(error from provider: )?(provider returned (an )?error|upstream error|bad request"
    r"|unknown error|internal server error|request contains an invalid argument"
    r"|invalid error response format: .*)\.?",
    re.IGNORECASE,
)
_CODES = ("code", "type", "status", "reason", "error_type", "error_code", "errortype")
_ECHOES = ("input", "flagged_input", "messages")
"""Fields that may quote the request."""

_WAITS = {"retrydelay": 1.0, "retry_after": 1.0, "retryafter": 1.0, "retry_after_seconds": 1.0,
          "retry_after_ms": 0.001}  # fmt: skip
_WAIT_WORDS = re.compile(
    rf"(?:try again|retry|wait|resets?|available again)\b[^.\d]{{0,40}}?({DURATION})",
    re.IGNORECASE,
)

_NUMBER = r"(?<![\w.=/-])(\d{1,3}(?:,\d{3})+|\d{3,})(?![\w-])"
_NEAR = r"(?:(?!\bby\b)[^\d>])"
_LIMITS = tuple(
    re.compile(pattern.replace("NUMBER", _NUMBER).replace("NEAR", _NEAR), re.IGNORECASE)
    for pattern in (
        r"(?:<=|>=?)\s*(?:n_ctx\W*)?NUMBER",
        r"\bn_ctx\W*NUMBER",
        r"\bcontext (?:length|size|window)\bNEAR{0,30}NUMBER",
        r"\blimit\bNEAR{0,30}NUMBER",
        r"\bmax(?:imum)?\bNEAR{0,48}NUMBER",
        r"NUMBER(?: tokens)? maximum",
        r"(?:up to|at most|less than|cannot exceed|\[\d+,)\s*NUMBER",
    )
)
"""Where a sentence names the limit of a context, the surest first."""

_EXCESS = re.compile(rf"\bby {_NUMBER} tokens", re.IGNORECASE)
_ERROR_NUMBER = re.compile(r"\s*\(\d{4}\)$")  # MiniMax ends its sentences with one


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """A row of the table, which explains its fields."""

    name: str
    error: str
    message: str
    hint: str
    codes: frozenset[str]
    words: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    statuses: frozenset[int]
    providers: frozenset[str]
    billed: frozenset[str]

    def fits(self, provider: str, status: int, codes: set[str], said: str) -> bool:
        """Whether an error is of this kind."""
        if self.statuses and status not in self.statuses:
            return False
        if self.providers and provider not in self.providers:
            return False
        if self.unless is not None and self.unless.search(said):
            return False
        has_words = self.words is not None and bool(self.words.search(said))
        return has_words or not codes.isdisjoint(self.codes) or not (self.words or self.codes)


def find_kind(provider: str, status: int, body: object, said: str) -> ErrorKind | None:
    """Return what an error means; None where the table doesn't know it. `status` 0 is a stream's.

    A stream's error may name its status itself.
    """
    codes = {str(value).lower() for name, value in _fields(body) if name.lower() in _CODES}
    if status == 0:
        status = next((int(c) for c in sorted(codes) if re.fullmatch("[45][0-9]{2}", c)), 0)
    rows = (kind for kind in _table() if kind.fits(provider, status, codes, said))
    return next(rows, None)


@cache
def _table() -> tuple[ErrorKind, ...]:
    def pattern(found: str) -> re.Pattern[str] | None:
        return re.compile(found, re.IGNORECASE) if found else None

    return tuple(
        ErrorKind(
            name=row["name"],
            error=row["error"],
            message=row.get("message", ""),
            hint=row.get("hint", ""),
            codes=frozenset(row.get("codes", ())),
            words=pattern("|".join(row.get("words", ()))),
            unless=pattern(row.get("unless", "")),
            statuses=frozenset(row.get("statuses", ())),
            providers=frozenset(row.get("providers", ())),
            billed=frozenset(row.get("billed", ())),
        )
        for row in tomllib.loads(TABLE_FILE.read_text("utf-8"))["kind"]
    )


def error_sentence(body: object, depth: int = 0) -> str:
    """Return what a provider said about an error, in any shape; "" when it said nothing."""
    if depth > MAX_DEPTH:
        return ""
    match body:
        case str():
            text = body.strip()
            inner = error_sentence(_json_in(text), depth + 1)
            return inner or ("" if re.match("<[!?a-zA-Z]", text) else text)
        case list():
            found = [error_sentence(each, depth + 1) for each in body[:MAX_LISTED]]
            return "; ".join(dict.fromkeys(filter(None, found)))
        case dict():
            found = [error_sentence(body.get(name), depth + 1) for name in _WORDS]
            words = [each for each in found if each]
            said = next((each for each in words if " " in each), words[0] if words else "")
            if not said or _SAYS_NOTHING.fullmatch(said):
                inner = (error_sentence(body.get(name), depth + 1) for name in _INNER)
                said = next(filter(None, inner), said)
            return _with_field(_with_source(said, body), body)
    return ""


def _with_source(said: str, body: Mapping[str, Any]) -> str:
    """Add whose error it is behind a router, and what a filter found."""
    if said and body.get("raw") and isinstance(name := body.get("provider_name"), str):
        said = f"{name}: {said}"
    match body:
        case {"metadata": {"reasons": [*reasons]}}:
            found = [each for each in reasons if isinstance(each, str)]
        case {"innererror": {"content_filter_result": dict(results)}}:
            found = [k for k, v in results.items() if isinstance(v, dict) and v.get("filtered")]
        case _:
            return said
    unsaid = ", ".join(each for each in found if each not in said)
    return f"{said.rstrip('.')} ({unsaid})" if unsaid else said


def _with_field(said: str, body: Mapping[str, Any]) -> str:
    """Put the field at fault before what was said."""
    match body:
        case {"loc": [*parts]}:
            field = ".".join(str(part) for part in parts if part != "body")
        case {"field": str(field)}:
            pass
        case {"param": str(field), "type": str(kind)} if "invalid" in kind:
            pass
        case _:
            return said
    return f"{field}: {said}" if said and field and field not in said else said


def _json_in(text: str) -> object:
    """Return the JSON that a text is or has at its end, or None."""
    start = min((n for n in (text.find("{"), text.find("[")) if n >= 0), default=-1)
    if start < 0 or len(text) > MAX_TEXT_CHARS:
        return None
    with suppress(ValueError, RecursionError):
        found: object = json.JSONDecoder().raw_decode(text[start:])[0]
        return found
    return None


def _fields(body: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Give the fields of an error that hold a value, with those of JSON in its texts."""
    if depth > MAX_DEPTH:
        return
    if isinstance(body, list):
        for each in body:
            yield from _fields(each, depth + 1)
    elif isinstance(body, dict):
        for name, value in body.items():
            if name in _ECHOES:
                continue
            if isinstance(value, str):
                yield from _fields(_json_in(value), depth + 1)
            yield str(name), value
            yield from _fields(value, depth + 1)


def wait_seconds(headers: Mapping[str, str], body: object, said: str) -> float | None:
    """Return for how long a provider wants not to be asked, None if it doesn't say."""
    if (wait := retry_after(headers)) is not None:
        return wait
    for name, value in _fields(body):
        if name == "headers" and isinstance(value, dict):
            wait = retry_after({str(k): str(v) for k, v in value.items()})
        elif (unit := _WAITS.get(name.lower())) is not None:
            seconds = value.get("seconds") if isinstance(value, dict) else value
            wait = duration_seconds(str(seconds), unit)
        if wait is not None:
            return wait
    found = _WAIT_WORDS.search(said)
    return duration_seconds(found[1]) if found else None


def context_sizes(body: object, said: str, context: int, guess: int) -> tuple[int, int]:
    """Return the tokens that were needed, and the limit.

    They are the provider's where it names them. Otherwise `context` is the limit, and `guess` what
    was needed.
    """
    names = ("n_ctx", "n_prompt_tokens")
    fields = [f"{name} {value}" for name, value in _fields(body) if name in names]
    text = " ".join([_ERROR_NUMBER.sub("", said), *fields])
    found = next((match for rule in _LIMITS if (match := rule.search(text))), None)
    limit = _whole(found[1]) if found else context
    if excess := _EXCESS.search(text):
        return limit + _whole(excess[1]), limit
    others = [n for n in dict.fromkeys(map(_whole, re.findall(_NUMBER, text))) if n != limit]
    largest = max(others, default=0)
    needed = largest if largest > limit else sum(others[:2])
    return (needed if found and needed > limit else max(guess, limit + 1)), limit


def _whole(number: str) -> int:
    return int(number.replace(",", ""))
