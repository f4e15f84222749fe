"""What the tools answer: the expressions of plan steps, and questions that are expressions already.

A step's expression stands behind the request and the earlier results that it is shown. The
language of the answer is the request's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from baton.core.markdown import blocks, prose, text_and_blocks as fenced_parts
from baton.core.planning.plan_lines import TOOL_HEADS
from baton.core.reading.bare_expressions import can_compute
from baton.workers.tools.computation import CannotCompute, NoResult, NotAnExpression, evaluate
from baton.workers.tools.computation.lexicon import guess_language
from baton.workers.tools.computation.quantities import Amount
from baton.workers.tools.computation.result_text import (
    no_result_text,
    plain_value,
    result_text,
    scaled_amount_text,
)
from baton.workers.tools.computation.written_expression import judge_claims, written_expression
from baton.workers.tools.messages import MAX_TEXT_CHARS, MarkedText

WHERE = " where "
REFERENCE = re.compile(r"#(\d)")
_SCALED = re.compile(
    r"\d+(?:\.\d+)? ?\* ?#(\d)|#(\d) ?(?:[*/] ?\d+(?:\.\d+)?|[-+] ?\d+(?:\.\d+)?%)"
)
"""An expression that takes an amount several times, or a share of it, which keeps its unit."""
_DEFINITION = re.compile(r"#(\d) = (calc|units|clock): (.+)")
_RESULT = re.compile(r"Result (\d):")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?![\d:-])")
_NO_RESULTS: Mapping[int, MarkedText] = MappingProxyType({})
_HEADS = {tool: head for head, tool in TOOL_HEADS.items()}


def compute(tool: str, text: str, results: Mapping[int, MarkedText] = _NO_RESULTS) -> str:
    """Return the value of an expression, a written sum or conversion, or a claim.

    `text` is what a step's worker is shown, `results` are those in use, marked. Raises
    CannotCompute.
    """
    try:
        return compute_step(_HEADS[tool], text, results)
    except NotAnExpression:
        reason = CannotCompute(f"There is no expression in this that the {tool} tool can read.")
    except CannotCompute as error:
        reason = error
    candidates = list(_question_candidates(text))
    for candidate in candidates:
        try:
            return _compute_written(_HEADS[tool], candidate, text)
        except NotAnExpression:
            continue
        except CannotCompute as error:
            reason = error
    for candidate in candidates if tool == "calculator" else ():
        with suppress(CannotCompute):
            return judge_claims(candidate)
    if any(can_compute(tool, candidate) for candidate in candidates):
        return str(reason)  # what stands in the way of a sum is the answer to it
    raise reason


def _question_candidates(text: str) -> Iterator[str]:
    """Return what may be the question, likeliest first.

    A step's own text is the last paragraph, below what it was shown, which stands between fences.
    """
    text = text[:MAX_TEXT_CHARS].strip()
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", prose(text)) if part.strip()]
    last = paragraphs[-1] if paragraphs else ""
    shown = [block.text.strip() for block in blocks(text)[:8] if not block.language]
    for candidate in dict.fromkeys((text, last, *last.splitlines()[:8], *shown)):
        if candidate:
            yield candidate


def results_in_use(message: str) -> Mapping[int, str]:
    """Return the texts of earlier results in a step's message whose numbers its expression uses."""
    _, results, expression = _read_message(message)
    expression, _, where = expression.partition(WHERE)
    used = {int(number) for number in REFERENCE.findall(expression + where)}
    return {number: text for number, text in results.items() if number in used}


def compute_step(tool: str, message: str, results: Mapping[int, MarkedText] = _NO_RESULTS) -> str:
    """Return the result of a tool's step, in the language of the request. Raises CannotCompute.

    `message` is what a step's worker is shown: the request and earlier results between fences,
    then the expression. `results` are those in use, marked.
    """
    expression = _read_message(message)[2]
    language = step_language(message)
    expression, _, where = expression.partition(WHERE)
    values: dict[int, Any] = {
        number: value
        for number, text in results.items()
        if (value := _only_number(text)) is not None
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
    try:
        result = evaluate(tool, expression, results=values)
    except NoResult as refusal:
        return no_result_text(expression, refusal, language)
    if (scaled := _SCALED.fullmatch(expression)) and (
        amount := amounts.get(int(scaled[1] or scaled[2]))
    ):
        return scaled_amount_text(expression, amount, result, language)
    shown = REFERENCE.sub(lambda m: _number_in_expression(values.get(int(m[1])), m[0]), expression)
    return result_text(tool, shown, result, language)


def _compute_written(tool: str, text: str, message: str) -> str:
    """Return the result of a text that is a sum, a conversion or a question for the time.

    `message` is what the step's worker is shown; the answer is in the language of its request.
    Raises CannotCompute, and NotAnExpression for a text that is none of these.
    """
    written = written_expression(text, step_language(message, ""))
    if written is None or written.tool != tool:
        raise NotAnExpression
    try:
        result = evaluate(tool, written.expression)
    except NoResult as refusal:
        return no_result_text(written.expression, refusal, written.language)
    return result_text(tool, written.expression, result, written.language)


def step_language(message: str, otherwise: str = "en") -> str:
    """Return the language of the request in a step's message."""
    request = _read_message(message)[0]
    return guess_language(request) if request else otherwise


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


def _only_number(text: MarkedText) -> Fraction | None:
    """Return the number in a text, None where there is none or more than one."""
    literals = (_NUMBER.match(literal.marked) for literal in text.literals)
    found = {match[0] for match in literals if match}
    return Fraction(found.pop()) if len(found) == 1 else None
