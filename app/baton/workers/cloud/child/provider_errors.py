"""What a provider's error says, in any shape, and what it means: by `provider_errors.toml`.

Errors come nested: in lists, in strings of JSON, and from the provider behind a router.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from baton.ipc.child_http import DURATION, duration_seconds, retry_after

TABLE_FILE = Path(__file__).with_suffix(".toml")

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

    def fits(self, names: set[str], status: int, codes: set[str], said: str) -> bool:
        """Whether an error is of this kind; `names` are the provider's and its domains."""
        is_theirs = not self.providers or not names.isdisjoint(self.providers)
        if not is_theirs or (self.statuses and status not in self.statuses):
            return False
        if re.search(self.unless, said, re.IGNORECASE):
            return False
        if not self.words or not codes.isdisjoint(self.codes):
            return True
        return bool(re.search("|".join(self.words), said, re.IGNORECASE))


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


def find_kind(names: set[str], status: int, body: object, said: str) -> ErrorKind | None:
    """Return what an error means; None where the table doesn't know it.

    `names` are the provider's and its domains. `status` is 0 in a stream, whose error may name one.
    """
    fields = list(_fields(body))
    found = [str(value) for name, value in fields if name in _table().codes]
    codes = {code.lower().rpartition("#")[2] for code in [*found, *dict(fields)]}
    status = status or next((int(c) for c in found if re.fullmatch("[45][0-9]{2}", c)), 0)
    rows = (kind for kind in _table().kind if kind.fits(names, status, codes, said))
    return next(rows, None)


def error_sentence(body: object, depth: int = 0) -> str:
    """Return what a provider said about an error, in any shape; "" when it said nothing."""

    def sentences(bodies: list[Any]) -> list[str]:
        found = (error_sentence(each, depth + 1) for each in bodies)
        return [said for said in found if said]

    match body if depth < MAX_DEPTH else None:
        case str(text):
            is_page = re.match("<[!?a-zA-Z]", text.strip())
            return next(iter(sentences([_json_in(text)])), "" if is_page else text.strip())
        case [*listed]:
            return "; ".join(dict.fromkeys(sentences(listed[:MAX_LISTED])))
        case dict(fields):
            found = sentences([fields.get(name) for name in _table().sentences])
            said = next((each for each in found if " " in each), found[0] if found else "")
            if not said or re.fullmatch(_table().empty, said, re.IGNORECASE):
                inner = sentences([fields.get(name) for name in _table().reasons])
                said = inner[0] if inner else said
            return _in_place(said, fields) if said else ""
    return ""


def _in_place(said: str, error: Mapping[str, Any]) -> str:
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
    if unsaid := ", ".join(each for each in found if each not in said):
        said = f"{said.rstrip('.')} ({unsaid})"
    return f"{place}: {said}" if place not in said else said


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


def wait_seconds(headers: Mapping[str, str], body: object, said: str) -> float | None:
    """Return for how long a provider wants not to be asked, None if it doesn't say."""
    wait = retry_after(headers)
    for name, value in _fields(body):
        if wait is None and name == "headers" and isinstance(value, dict):
            wait = retry_after({k: str(v) for k, v in value.items()})
        elif wait is None and (unit := _table().waits.get(name.lower())) is not None:
            seconds = value.get("seconds") if isinstance(value, dict) else value
            wait = duration_seconds(str(seconds), unit)
    if wait is None and (found := _WAIT_WORDS.search(said)):
        wait = duration_seconds(found[1])
    return wait


def context_sizes(body: object, said: str, context: int, guess: int) -> tuple[int, int]:
    """Return the tokens that were needed, and the limit.

    They are the provider's where it names them. Otherwise `context` is the limit, and `guess` what
    was needed.
    """
    names = ("n_ctx", "n_prompt_tokens")
    fields = [f"{name} {value}" for name, value in _fields(body) if name in names]
    text = " ".join([_ERROR_NUMBER.sub("", said), *fields])
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
