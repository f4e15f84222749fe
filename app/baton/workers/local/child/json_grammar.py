"""A JSON Schema as the grammar that keeps a model to it."""

from __future__ import annotations

import json
from typing import Any

from baton.core.schema_bounds import schema_problem
from baton.platform.lean_imports import skip_package_init
from baton.workers.local.child.sampler import MAX_GRAMMAR_BYTES, GrammarRefused

skip_package_init("llama_cpp")

import llama_cpp.llama_grammar as llama  # noqa: E402

MAX_COST = 6_000_000
"""How much making the rules of a schema may cost, in characters: 0.5 s at most. With optional
properties it grows with the square, with references to references without any bound."""


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
_any_llama._build_repetition = _repetition
