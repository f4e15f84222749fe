"""What the tools' process does for plans: marks a request, checks its parts, computes its steps.

A step of a tool is an expression. What it takes from earlier tools stands behind it, so that it is
exact and can be read alone: `#1 / 2 where #1 = units: 42 km -> mi`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, TypedDict

from baton.core.code_blocks import text_and_blocks as fenced_parts
from baton.workers.tools.computation import CannotCompute, NotAnExpression
from baton.workers.tools.computation.expression_check import (
    CONSTANTS,
    correct_expression,
    find_foreign_word,
    find_problem,
    find_unused_number,
    request_literals,
)
from baton.workers.tools.computation.lexicon import guess_language
from baton.workers.tools.computation.marked_text import MarkedText, mark
from baton.workers.tools.computation.quantities import Amount
from baton.workers.tools.computation.request_spans import divide_request
from baton.workers.tools.computation.result_text import plain_value, result_text, scaled_amount_text
from baton.workers.tools.computation.written_expression import evaluate, written_expression

Tool = Literal["calc", "units", "clock"]

_WHERE = " where "
_REFERENCE = re.compile(r"#(\d)")
_SCALED = re.compile(
    r"\d+(?:\.\d+)? ?\* ?#(\d)|#(\d) ?(?:[*/] ?\d+(?:\.\d+)?|[-+] ?\d+(?:\.\d+)?%)"
)
"""An expression that takes an amount several times, or a share of it, which keeps its unit."""
_DEFINITION = re.compile(r"#(\d) = (calc|units|clock): (.+)")
_PLACEHOLDER_VALUE = Fraction(7)
"""What the number in a text that isn't written yet is taken to be, to see whether it would do."""

_WORD = re.compile(r"\w+")
_RESULT = re.compile(r"Result (\d):")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?![\d:-])")


class Part(TypedDict):
    """One part as the conductor wrote it; `tool` is "" for a text."""

    tool: str
    text: str
    inputs: Sequence[int]


class CheckedPart(TypedDict):
    """A part as a step's subtask, what is wrong with it ("" for nothing), and the person's words
    that it stands for. `refers`: they speak of an earlier result.
    """

    text: str
    problem: str
    words: str
    refers: bool


def import_libraries() -> None:
    """Import what computing needs, which takes a third of a second."""
    evaluate("units", "1 km -> m")
    evaluate("clock", "today()")
    evaluate("calc", "1 + 1")


def mark_request(request: str) -> Mapping[str, str]:
    """Return a request with its literals marked, and its language."""
    marked = mark(request)
    return {"text": marked.text, "language": marked.language}


def check_parts(request: str, parts: Sequence[Part]) -> list[CheckedPart]:
    """Return the parts as subtasks with what is wrong with each, then what the plan omits.

    A text becomes the words of the request that it stands for. What the plan omits is a part of
    its own; background that it omits is a part with a problem.
    """
    marked = mark(request)
    parts = [
        {**part, "text": correct_expression(part["tool"], part["text"], marked)} for part in parts
    ]
    division = divide_request(marked.text, [(part["text"], bool(part["tool"])) for part in parts])
    values: dict[int, Any] = {}
    checked: list[CheckedPart] = []
    for number, part in enumerate(parts, start=1):
        words = division.words[number - 1]
        if part["tool"]:
            why = _why_not_computable(part, marked, values, number)
            why = why or _find_missing_number(words, parts, division.words)
            why = why or _find_misreading(part["text"], words, number)
            if why:  # no later expression builds on one in doubt
                values.pop(number, None)
            text = _expand_references(number, parts)
        else:
            values[number] = _PLACEHOLDER_VALUE
            why, text = _as_text(part["text"], words, marked)
        said = marked.restored(words) or text
        checked.append(_checked_part(text, why, said))
    checked += [_checked_part(text) for text in map(marked.restored, division.omitted)]
    if text := marked.restored(division.background):
        checked.append(_checked_part(text, "The plan leaves it out."))
    return checked


def _checked_part(text: str, problem: str = "", words: str = "") -> CheckedPart:
    words = words or text
    refers = any(pattern.search(words) for pattern in (_ASKS_RESULT, _POINTS_BACK))
    return {"text": text, "problem": problem, "words": words, "refers": refers}


def _find_missing_number(words: str, parts: Sequence[Part], all_words: Sequence[str]) -> str:
    """Say which number of a part's words no part holds."""
    expressions = [part["text"] for part in parts if part["tool"]]
    texts = [text for text, part in zip(all_words, parts, strict=True) if not part["tool"]]
    missing = find_unused_number(expressions, texts, words)
    return f"The plan leaves {missing} out." if missing else ""


def _find_misreading(expression: str, words: str, number: int) -> str:
    """Say why an expression can't be what its own words ask for, "" where nothing shows it."""
    if not _REFERENCE.search(expression):
        return "It leaves the result out." if number > 1 and _ASKS_RESULT.search(words) else ""
    literals = request_literals(_REFERENCE.sub(" ", expression))
    foreign = literals - request_literals(words) - CONSTANTS
    return f"{min(foreign)} belongs to another part." if foreign else ""


_ASKS_RESULT = re.compile(
    r"(?<!\w)(?:results?|ergebnis(?:ses)?|résultat|resultado|risultato)(?!\w)", re.IGNORECASE
)

_POINTS_BACK = re.compile(
    r"(?<!\w)(?:that (?:number|many|much|amount|total|sum|price|share|day|date|time|age|height"
    r"|temperature|sentence|poem|text|translation|summary)|(?:with|about|of) it(?= ?(?:[:,.;!?]|$))"
    r"|(?:diese[rmns]?|jene[rmns]?) (?:zahl|betrag|summe|preis|tag|datum|satz|gedicht|text)"
    r"|mit (?:der zahl|dem betrag)|ce (?:nombre|montant|total|prix|jour|poème|texte)"
    r"|cette (?:somme|date|température|phrase)|est?e (?:número|importe|total|precio|día|texto)"
    r"|est?a (?:cantidad|suma|fecha|frase)"
    r"|que(?:l|sto) (?:numero|importo|totale|prezzo|giorno|testo)"
    r"|quella (?:cifra|somma|data|frase)|n?esse (?:número|valor|total|preço|dia|texto)"
    r"|n?essa (?:quantia|soma|data|frase))(?!\w)",
    re.IGNORECASE,
)
"""How a request speaks of what an earlier part comes to."""


def _as_text(text: str, words: str, marked: MarkedText) -> tuple[str, str]:
    """Return what is wrong with a text, and the text in words of the request."""
    there = set(_WORD.findall(words.casefold()))
    its_words = _WORD.findall(text.casefold())
    if there and sum(word not in there for word in its_words) <= max(1, len(its_words) // 5):
        return "", marked.restored(words)
    foreign = find_foreign_word(text, marked)
    return (f"{foreign} isn't in the request." if foreign else ""), marked.restored(text)


def _why_not_computable(part: Part, marked: MarkedText, values: dict[int, Any], number: int) -> str:
    """Say why an expression must not be computed, and note its value."""
    if foreign := find_problem(part["tool"], part["text"], marked):
        return f"{foreign} isn't in the request."
    try:
        result = evaluate(part["tool"], part["text"], results=values)
        result_text(part["tool"], part["text"], result, marked.language)
    except CannotCompute as error:
        return str(error)
    value = plain_value(result)
    values[number] = result.value if value is None else value
    return ""


def _expand_references(number: int, parts: Sequence[Part]) -> str:
    """Return an expression with all that it takes from other tools' parts."""
    part = parts[number - 1]
    definitions: dict[int, str] = {}

    def take(text: str, tool: str) -> str:
        def put(match: re.Match[str]) -> str:
            wanted = int(match[1])
            earlier = parts[wanted - 1]
            if not earlier["tool"]:
                return match[0]
            inner = take(earlier["text"], earlier["tool"])
            if tool == earlier["tool"] == "calc":
                return f"({inner})"
            definitions[wanted] = f"#{wanted} = {earlier['tool']}: {inner}"
            return match[0]

        return _REFERENCE.sub(put, text)

    text = take(part["text"], part["tool"])
    if not definitions:
        return text
    return text + _WHERE + "; ".join(definitions[key] for key in sorted(definitions))


def compute_step(tool: str, message: str) -> str:
    """Return what a tool's step comes to, in the language of the request. Raises CannotCompute.

    `message` is what a step's worker is shown: the request and earlier results between fences,
    then the expression.
    """
    request, results, expression = _read_message(message)
    language = guess_language(request) if request else "en"
    expression, _, where = expression.partition(_WHERE)
    values: dict[int, Any] = {
        number: value
        for number, text in results.items()
        if (value := _only_number(text, language)) is not None
    }
    amounts: dict[int, Amount] = {}
    for definition in where.split("; ") if where else ():
        match = _DEFINITION.fullmatch(definition.strip())
        if match is None:
            raise NotAnExpression
        found = evaluate(match[2], match[3], results=values)
        value = plain_value(found)
        values[int(match[1])] = found.value if value is None else value
        if isinstance(found.value, Amount) and value is not None:
            amounts[int(match[1])] = found.value
    result = evaluate(tool, expression, results=values)
    if (scaled := _SCALED.fullmatch(expression)) and (
        amount := amounts.get(int(scaled[1] or scaled[2]))
    ):
        return scaled_amount_text(expression, amount, result, language)
    shown = _REFERENCE.sub(lambda m: _number_in_expression(values.get(int(m[1])), m[0]), expression)
    return result_text(tool, shown, result, language)


def compute_written(tool: str, text: str, message: str) -> str:
    """Return what a text comes to that is a sum, a conversion or a question for the time.

    `message` is what the step's worker is shown; the answer is in the language of its request.
    Raises CannotCompute, and NotAnExpression for a text that is none of these.
    """
    request = _read_message(message)[0]
    written = written_expression(text, guess_language(request) if request else "")
    if written is None or written.tool != tool:
        raise NotAnExpression
    result = evaluate(tool, written.expression)
    return result_text(tool, written.expression, result, written.language)


def _number_in_expression(value: object, otherwise: str) -> str:
    """Return a number as it can stand in an expression."""
    if not isinstance(value, Fraction):
        return str(value) if value is not None else otherwise
    return str(value) if value.denominator == 1 else f"{float(value):g}"


def _read_message(message: str) -> tuple[str, Mapping[int, str], str]:
    """Return the request, the earlier results, and the last line of a step's message."""
    request, heading = "", ""
    results: dict[int, str] = {}
    for part in fenced_parts(message):
        if isinstance(part, str):
            lines = [line.strip() for line in part.splitlines() if line.strip()]
            heading = lines[-1] if lines else ""
        elif result := _RESULT.fullmatch(heading):
            results[int(result[1])] = part.text
        elif not request:
            request = part.text
    return request, results, heading


def _only_number(text: str, language: str) -> Fraction | None:
    """Return the number in a text, None where there is none or more than one."""
    literals = (_NUMBER.match(literal.marked) for literal in mark(text, language).literals)
    found = {match[0] for match in literals if match}
    return Fraction(found.pop()) if len(found) == 1 else None
