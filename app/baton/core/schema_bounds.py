"""How large a JSON Schema may be: the grammar that is made of it can be far larger."""

from __future__ import annotations

import re

MAX_COUNT = 10_000
MAX_VALUES = 10_000
MAX_DEPTH = 100

_COUNTS = ("Length", "Items", "Properties", "Contains")
_COUNTED = frozenset(f"{end}{what}" for end in ("min", "max") for what in _COUNTS)
DATA_KEYWORDS = frozenset({"const", "default", "enum", "examples"})
"""What stands behind these is data, no schema."""

_UNKEPT = frozenset(
    {
        *("contains", "dependentRequired", "dependentSchemas", "else", "if", "maxProperties"),
        *("minProperties", "multipleOf", "not", "patternProperties", "propertyNames", "then"),
        *("unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    }
)
"""What the grammar that is made of a schema leaves out."""

_INTEGER_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_NAMED_SCHEMAS = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_PATTERN_COUNTS = re.compile(r"\{([0-9,\s]{1,40})\}")


def schema_problem(schema: object) -> str:
    """Return in a sentence what of a JSON Schema is too large to be kept to, "" if nothing is.

    It may be any JSON value: what else is wrong with it is for those to say who keep to it.
    """
    waiting: list[tuple[object, int, bool]] = [(schema, 1, False)]
    seen = 0
    while waiting:
        value, depth, is_data = waiting.pop()
        seen += 1
        if isinstance(value, dict):
            if not is_data and (problem := _problem_of_counts(value)):
                return problem
            waiting += [
                (one, depth + 1, is_data or name in DATA_KEYWORDS) for name, one in value.items()
            ]
        elif isinstance(value, list):
            waiting += [(one, depth + 1, is_data) for one in value]
        if depth > MAX_DEPTH:
            return f"The schema is nested more than {MAX_DEPTH} levels deep."
        if seen + len(waiting) > MAX_VALUES:
            return f"The schema has more than {MAX_VALUES:,} parts."
    return ""


def unkept_keywords(schema: object) -> list[str]:
    """Return the keywords of a JSON Schema that a grammar can't hold a text to, in their order.

    The schema must be within bounds (`schema_problem`).
    """
    found: set[str] = set()
    waiting: list[tuple[object, bool]] = [(schema, False)]
    while waiting:
        value, is_named = waiting.pop()
        if isinstance(value, list):
            waiting += [(one, False) for one in value]
        if not isinstance(value, dict):
            continue
        if not is_named:
            bounds = _INTEGER_BOUNDS if value.get("type") != "integer" else frozenset()
            found |= value.keys() & (_UNKEPT | bounds)
        waiting += [
            (one, name in _NAMED_SCHEMAS and not is_named)
            for name, one in value.items()
            if is_named or name not in DATA_KEYWORDS
        ]
    return sorted(found)


def _problem_of_counts(fields: dict[str, object]) -> str:
    counts = {name: fields[name] for name in _COUNTED & fields.keys()}
    pattern = fields.get("pattern")  # a schema, where a property has that name; so with the others
    if isinstance(pattern, str):
        found = ",".join(_PATTERN_COUNTS.findall(pattern)).replace(",", " ").split()
        counts["A count of a pattern"] = max(map(int, found), default=0)
    for name, count in counts.items():
        if isinstance(count, int | float) and not count <= MAX_COUNT:
            shown = f"{count:,}" if count < 10**15 else "a number of more than 15 digits"
            return f"{name} is {shown}; at most {MAX_COUNT:,} can be kept to."
    return ""
