"""A JSON Schema as the grammar that keeps a model to it."""

from __future__ import annotations

import json
import math
from typing import Any

from baton.core.schema_bounds import schema_problem
from baton.platform.import_stubs import skip_package_init
from baton.workers.local.child.sampler import MAX_GRAMMAR_BYTES, GrammarRefused

skip_package_init("llama_cpp")

import llama_cpp.llama_grammar as llama  # noqa: E402

MAX_COST = 6_000_000
"""How much making the rules of a schema may cost, in characters: 0.5 s at most. With optional
properties it grows with the square, with references to references without any bound."""

MAX_DIGITS = 15
"""Of an integer: JavaScript knows no more of them exactly."""


def json_grammar(schema: str) -> str:
    """Return the GBNF grammar of a JSON Schema (its JSON), by llama.cpp's own rules.

    Nothing is fetched. Raises GrammarRefused for a schema that can't be turned into one.
    """
    try:
        if len(schema) > 4 * MAX_GRAMMAR_BYTES:
            raise GrammarRefused(f"its schema has more than {4 * MAX_GRAMMAR_BYTES:,} characters")
        parsed = json.loads(schema)
        if problem := schema_problem(parsed):
            raise GrammarRefused(f"{problem[:1].lower()}{problem[1:].rstrip('.')}")
        make: Any = _SchemaConverter
        converter = make(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
        converter.visit(converter.resolve_refs(parsed, "stdin"), "")
        return str(converter.format_grammar())
    except GrammarRefused:
        raise
    except Exception as error:  # it raises whatever its many functions meet
        raise GrammarRefused("its schema can't be kept to by a local model") from error


class _SchemaConverter(llama.SchemaConverter):
    """llama.cpp's, within bounds."""

    _left = MAX_COST

    def visit(self, schema: Any, name: str) -> str:
        """Add the rule of a schema; return its name."""
        if isinstance(schema, dict) and schema.get("type") == "integer":
            bounds = _integer_bounds(schema)
            if bounds != (None, None) and not schema.keys() & {"enum", "const", "$ref"}:
                taken = name in llama.RESERVED_NAMES
                return self._add_rule(
                    f"{name}-" if taken else name or "root", integer_rule(*bounds)
                )
        visit: Any = super().visit
        return str(visit(schema, name))

    def _add_rule(self, name: str, rule: str) -> str:
        """Add a rule; return its name, with a number where another rule has it."""
        key = base = llama.INVALID_RULE_CHARS_RE.sub("-", name)
        cost, number = 40 + len(name) + len(rule), 0
        while True:
            self._left -= cost
            if self._left < 0:
                raise GrammarRefused("its schema has too many combinations")
            if self._rules.setdefault(key, rule) == rule:
                return key
            key, cost, number = f"{base}{number}", 4, number + 1


def _integer_bounds(schema: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the least and the greatest integer that a schema allows, None for no bound."""
    least = [math.ceil(n) for n in _numbers(schema, "minimum")]
    least += [math.floor(n) + 1 for n in _numbers(schema, "exclusiveMinimum")]
    most = [math.floor(n) for n in _numbers(schema, "maximum")]
    most += [math.ceil(n) - 1 for n in _numbers(schema, "exclusiveMaximum")]
    return max(least, default=None), min(most, default=None)


def _numbers(schema: dict[str, Any], name: str) -> list[float]:
    value = schema.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return []
    return [value] if abs(value) < 10**MAX_DIGITS else []


def integer_rule(least: int | None, most: int | None) -> str:
    """Return the rule of an integer between two others (None: of up to 15 digits).

    Raises GrammarRefused where there is none.
    """
    edge = 10**MAX_DIGITS - 1
    low, high = -edge if least is None else least, edge if most is None else most
    ranges = []
    if low < 0:
        ranges += [f'"-" ({part})' for part in _digits(max(1, -high), -low)]
    if high >= 0:
        ranges += _digits(max(0, low), high)
    if not ranges:
        raise GrammarRefused("an integer of its schema has no value")
    return f"({' | '.join(ranges)}) space"


def _digits(least: int, most: int) -> list[str]:
    """Return the parts of a rule for whole numbers between two, by how many digits they have."""
    parts = []
    for length in range(len(str(least)), len(str(most)) + 1):
        low, high = max(least, 10 ** (length - 1) if length > 1 else 0), min(most, 10**length - 1)
        if low <= high:
            parts.append(_between(str(low), str(high)))
    return parts


def _between(low: str, high: str) -> str:
    """Return what matches the numbers between two of as many digits."""
    size = len(low)
    if low == "0" * size and high == "9" * size:
        return f"[0-9]{{{size},{size}}}" if size else ""
    if low[0] == high[0]:
        return f'"{low[0]}" {_between(low[1:], high[1:])}'.strip()
    zeros, nines = "0" * (size - 1), "9" * (size - 1)
    first, last = int(low[0]), int(high[0])
    parts = []
    if low[1:] != zeros:
        parts.append(f'"{first}" {_between(low[1:], nines)}')
        first += 1
    if high[1:] != nines:
        parts.append(f'"{last}" {_between(zeros, high[1:])}')
        last -= 1
    if first <= last:
        parts.append(f"[{first}-{last}] {_between(zeros, nines)}".strip())
    return f"({' | '.join(parts)})"


def _repetition(
    item: str, least: int, most: int | None, separator_rule: str = "", **_: object
) -> str:
    """Return a repetition with its counts in braces, where llama.cpp's own repeats the text."""
    if most == 0:
        return ""
    if separator_rule:
        one_more = f"({separator_rule} {item})"
        all_of_it = f"{item} {_repetition(one_more, max(least - 1, 0), most and most - 1)}"
        return all_of_it if least else f"({all_of_it})?"
    return f"{item}{{{int(least)},{'' if most is None else int(most)}}}"


_any_llama: Any = llama
# With more digits of an exponent a number is infinite for those who read it.
_exponent = "([eE] [-+]? [0-9] [0-9]?)?"
_any_llama.PRIMITIVE_RULES[
    "number"
].content = f'("-"? integral-part) ("." decimal-part)? {_exponent} space'
_any_llama._build_repetition = _repetition
