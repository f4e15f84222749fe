"""Checks the parts that the conductor wrote against the request, and writes them as subtasks.

What an expression takes from earlier tools stands behind it, so that it is exact and can be read
alone: `#1 / 2 where #1 = units: 42 km -> mi`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from baton.core.planning.plan_lines import TOOL_HEADS, PlanPart
from baton.core.planning.request_parts import CheckedPart
from baton.workers.tools.computation import CannotCompute, NoResult
from baton.workers.tools.computation.evaluator import evaluate
from baton.workers.tools.computation.expression_check import (
    CONSTANTS,
    correct_expression,
    find_foreign_word,
    find_lost_name,
    find_problem,
    find_unused_numbers,
    request_literals,
)
from baton.workers.tools.computation.lexicon import request_words
from baton.workers.tools.computation.plan_steps import REFERENCE, WHERE
from baton.workers.tools.computation.relation_check import find_lost_relation
from baton.workers.tools.computation.request_spans import divide_request
from baton.workers.tools.computation.result_text import plain_value, result_text
from baton.workers.tools.messages import MarkedText

_HEADS = {"": "", **{tool: head for head, tool in TOOL_HEADS.items()}}
_WORD = re.compile(r"\w+")
_PLACEHOLDER_VALUE = Fraction(7)
"""What the number in a text that isn't written yet is taken to be, to see whether it would do."""


def check_parts(marked: MarkedText, parts: Sequence[PlanPart]) -> list[CheckedPart]:
    """Return the parts as subtasks with what is wrong with each, then what the plan omits.

    A text becomes the words of the request that it stands for. What the plan omits is a part of
    its own; background that it omits is a part with a problem.
    """
    parts = [
        replace(part, text=correct_expression(_HEADS[part.tool], part.text, marked))
        for part in parts
    ]
    division = divide_request(marked.text, [(part.text, bool(part.tool)) for part in parts])
    missing = _missing_numbers(parts, division.words, marked.text)
    values: dict[int, Any] = {}
    checked: list[CheckedPart] = []
    for number, part in enumerate(parts, start=1):
        words = division.words[number - 1]
        if part.tool:
            why = _why_not_computable(part, marked, values, number)
            its_words = words if len(parts) > 1 else marked.text
            why = why or _find_lost_words(part, its_words, marked.language)
            if name := find_lost_name(
                _HEADS[part.tool], part.text, replace(marked, text=its_words), marked.text
            ):
                why = why or f"It leaves {name} out."
            why = why or missing.get(number - 1, "")
            why = why or _find_misreading(part.text, words, number)
            if why:  # no later expression builds on one in doubt
                values.pop(number, None)
            text = _expand_references(number, parts)
        else:
            values[number] = _PLACEHOLDER_VALUE
            why, text = _as_text(part.text, words, marked)
        said = marked.restored(words) or text
        checked.append(_checked_part(text, why, said))
    checked += [_checked_part(text) for text in map(marked.restored, division.omitted)]
    if text := marked.restored(division.background):
        checked.append(_checked_part(text, "The plan leaves it out."))
    return checked


def _checked_part(text: str, problem: str = "", words: str = "") -> CheckedPart:
    words = words or text
    refers = any(pattern.search(words) for pattern in (_ASKS_RESULT, _POINTS_BACK))
    return CheckedPart(text, problem, words, refers)


def _missing_numbers(
    parts: Sequence[PlanPart], all_words: Sequence[str], request: str
) -> Mapping[int, str]:
    """Return a number of the request that the plan leaves out, by the place of a part.

    It is left out where no expression holds it, nor a text that asks something. Where no sum's own
    words have it, all sums lack it.
    """
    pairs = list(zip(all_words, parts, strict=False))
    asked = [t for t, part in pairs if not part.tool and ("?" in t or "?" not in request)]
    sums = {place: t for place, (t, part) in enumerate(pairs) if part.tool}
    stated = [t for t, part in pairs if not (part.tool or t in asked)]
    expressions = [part.text for part in parts if part.tool]
    missing: dict[int, str] = {}
    for number in find_unused_numbers(expressions, asked, " ".join([*sums.values(), *stated])):
        owners = [place for place, text in sums.items() if number in request_literals(text)]
        missing |= dict.fromkeys(owners or sums, f"The plan leaves {number} out.")
    return missing


def _find_lost_words(part: PlanPart, words: str, language: str) -> str:
    """Say what a part's own words say of its numbers that its expression doesn't."""
    lost = find_lost_relation(_HEADS[part.tool], part.text, words, language)
    return f"It leaves out what the request says: {lost}." if lost else ""


def _find_misreading(expression: str, words: str, number: int) -> str:
    """Say why an expression can't be what its own words ask for, "" where nothing shows it."""
    if not REFERENCE.search(expression):
        return "It leaves the result out." if number > 1 and _ASKS_RESULT.search(words) else ""
    literals = request_literals(REFERENCE.sub(" ", expression))
    foreign = literals - request_literals(words) - CONSTANTS
    return f"{min(foreign)} belongs to another part." if foreign else ""


_ASKS_RESULT = re.compile(rf"(?<!\w){request_words('result')}(?!\w)", re.IGNORECASE)
_POINTS_BACK = re.compile(rf"(?<!\w){request_words('that_result')}(?!\w)", re.IGNORECASE)


def _as_text(text: str, words: str, marked: MarkedText) -> tuple[str, str]:
    """Return what is wrong with a text, and the text in words of the request."""
    there = set(_WORD.findall(words.casefold()))
    its_words = _WORD.findall(text.casefold())
    if there and sum(word not in there for word in its_words) <= max(1, len(its_words) // 5):
        return "", marked.restored(words)
    foreign = find_foreign_word(text, marked)
    return (f"{foreign} isn't in the request." if foreign else ""), marked.restored(text)


def _why_not_computable(
    part: PlanPart, marked: MarkedText, values: dict[int, Any], number: int
) -> str:
    """Say why an expression must not be computed, and note its value."""
    if foreign := find_problem(_HEADS[part.tool], part.text, marked):
        return f"{foreign} isn't in the request."
    try:
        result = evaluate(_HEADS[part.tool], part.text, results=values)
        result_text(_HEADS[part.tool], part.text, result, marked.language)
    except NoResult:
        return ""  # which is the answer
    except CannotCompute as error:
        return str(error)
    value = plain_value(result)
    values[number] = result.value if value is None else value
    return ""


def _expand_references(number: int, parts: Sequence[PlanPart]) -> str:
    """Return an expression with all that it takes from other tools' parts."""
    part = parts[number - 1]
    definitions: dict[int, str] = {}

    def take(text: str, tool: str) -> str:
        def put(match: re.Match[str]) -> str:
            wanted = int(match[1])
            earlier = parts[wanted - 1]
            if not earlier.tool:
                return match[0]
            inner = take(earlier.text, earlier.tool)
            if tool == earlier.tool == TOOL_HEADS["calc"]:
                return f"({inner})"
            definitions[wanted] = f"#{wanted} = {_HEADS[earlier.tool]}: {inner}"
            return match[0]

        return REFERENCE.sub(put, text)

    text = take(part.text, part.tool)
    if not definitions:
        return text
    return text + WHERE + "; ".join(definitions[key] for key in sorted(definitions))
