"""How large a JSON Schema may be: a grammar is made of it, which can grow far beyond its text."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_COUNT = 10_000
MAX_VALUES = 10_000
MAX_DEPTH = 100
MAX_ELEMENTS = 100_000
"""A grammar with so many repeated elements takes llama.cpp 0.1 s and 25 MB to read."""

_COUNTS = frozenset(
    f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items", "Properties", "Contains")
)
_DATA = frozenset({"const", "default", "enum", "examples"})
_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_PATTERN_PART = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]?|\{[^}]*\}?|.", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+")


def schema_problem(schema: object) -> str:
    """Return in a sentence what of a JSON Schema is too large to be kept to, "" if nothing is.

    It may be any JSON value: what else is wrong with it, is for those who keep to it.
    """
    waiting: list[tuple[object, int, str]] = [(schema, 1, "schema")]
    seen = 0
    while waiting:
        value, depth, kind = waiting.pop()
        seen += 1
        if isinstance(value, dict):
            if kind == "schema" and (problem := _problem_of_fields(value)):
                return problem
            waiting += [(one, depth + 1, _kind(kind, name)) for name, one in value.items()]
        elif isinstance(value, list):
            waiting += [(one, depth + 1, kind) for one in value]
        if depth > MAX_DEPTH:
            return f"The schema is nested more than {MAX_DEPTH} levels deep."
        if seen + len(waiting) > MAX_VALUES:
            return f"The schema has more than {MAX_VALUES:,} parts."
    return ""


def repeated_elements(parts: Iterable[str]) -> int:
    """Return how many elements a grammar or a regular expression has with its repetitions unrolled.

    Its parts are groups' ends, `*`, `+`, `?`, counts in braces, and what stands for an element each:
    a text in quotes or a class in brackets for as many as it has characters.
    """
    groups, last = [0], 0
    for part in parts:
        if part == "(":
            groups.append(0)
            continue
        before = last
        if part == ")":
            before, last = 0, 1 + (groups.pop() if len(groups) > 1 else 0)
        elif part in ("*", "+", "?"):
            last += 3
        elif part.startswith("{"):
            last *= max([1, *(int(number[:12]) for number in _NUMBER.findall(part))])
        else:
            before, last = 0, len(part) if part[:1] in ('"', "[") else 1
        groups[-1] += last - before
    return sum(groups)


def _kind(kind: str, name: str) -> str:
    """Return whether a field of a schema, of data or of named schemas is one of these."""
    if kind == "schema":
        return "data" if name in _DATA else "named" if name in _NAMED else "schema"
    return "schema" if kind == "named" else "data"


def _problem_of_fields(fields: dict[str, object]) -> str:
    for name in _COUNTS & fields.keys():
        count = fields[name]  # a schema, where a property has that name
        if isinstance(count, int | float) and not count <= MAX_COUNT:
            said = f"{count:,}" if count < 10**15 else "a number of more than 15 digits"
            return f"{name} is {said}; at most {MAX_COUNT:,} can be kept to."
    pattern = fields.get("pattern")
    if isinstance(pattern, str):
        count = repeated_elements(_PATTERN_PART.findall(pattern))
        if count > MAX_ELEMENTS:
            return f"A pattern repeats its parts too often; {MAX_ELEMENTS:,} can be kept to."
    return ""
