"""Says a computed result as people do, in the language of the request.

What the sentence doesn't show itself stands behind it: a wrong expression is the worst failure of
this way of computing, and a reader sees it at once.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from baton.workers.tools.computation import NoResult
from baton.workers.tools.computation.evaluator import Result
from baton.workers.tools.computation.lexicon import (
    MINUS,
    SIGNIFICANT_DIGITS,
    Lexicon,
    digits_beside,
    is_rounded,
    lexicon,
    number_text,
)
from baton.workers.tools.computation.quantities import Amount

_TIMES, _DIVIDED = "\u00d7", "\u00f7"
_SIGNS = {"*": _TIMES, "/": _DIVIDED, "-": MINUS}


def result_text(tool: str, expression: str, result: Result, language: str) -> str:
    """Return a sentence with the result."""
    words = lexicon(language)
    match tool:
        case "calc":
            return _calc(expression, result, words)
        case "units":
            return _units(expression, result, words)
    from baton.workers.tools.computation.date_text import clock_text

    return clock_text(expression, result, words)


def no_result_text(expression: str, refusal: NoResult, language: str) -> str:
    """Return a sentence that says why an expression has no result."""
    words = lexicon(language)
    value = refusal.value or _readable_expression(expression, words)
    return words.answers[refusal.reason].format(value=value)


def _readable_expression(expression: str, words: Lexicon) -> str:
    """Return an expression with a mathematician's signs and the language's decimal sign."""
    expression = " ".join(expression.replace("--", "- -").split())
    text = re.sub(
        r"(?<=[\d)%\s])\s*([*/-])\s*(?=[\d(\s#a-z])", lambda m: f" {_SIGNS[m[1]]} ", expression
    )
    text = re.sub(r"\s*\+\s*", " + ", text)
    if words.decimal == ",":
        text = re.sub(r"(?<=\d)\.(?=\d)", ",", text)
        text = text.replace(", ", "; ") if "(" in text else text
    text = re.sub(r"(?<!\w)fact\((\d+)\)", r"\1!", re.sub(r"  +", " ", text)).strip()
    return re.sub(rf"(?<=[+{_TIMES}\u00f7{MINUS}] ){MINUS} (?=\d)", MINUS, text)  # a number's own


def _calc(expression: str, result: Result, words: Lexicon) -> str:
    value, answers = result.value, words.answers
    inside = _readable_expression(expression.partition("(")[2].rpartition(")")[0], words)
    whole = _readable_expression(expression, words)
    match result.function, value:
        case "isprime", bool():
            return answers["prime" if value else "not_prime"].format(value=inside)
        case "factors", list():
            return f"{inside} = {f' {_TIMES} '.join(map(str, value))}"
        case "pct", Fraction():
            return answers["percent"].format(value=number_text(value, words)) + f" ({whole})"
        case "change", Fraction():
            key = "percent_up" if value >= 0 else "percent_down"
            return answers[key].format(value=number_text(abs(value), words)) + f" ({whole})"
    text = number_text(value, words) if isinstance(value, Fraction) else str(value)
    sign = "≈" if isinstance(value, Fraction) and is_rounded(value) else "="
    return f"{whole} {sign} {text}"


def _units(expression: str, result: Result, words: Lexicon) -> str:
    if not isinstance(result.value, Amount):
        return f"{_readable_expression(expression, words)} = {number_text(result.value, words)}"
    amount = result.value
    source = _SOURCE.fullmatch(amount.source)
    written = source[1] if source is not None else amount.source
    to = " ".join(_about_text(value, code, words, written) for value, code in amount.parts)
    if source is None:
        return f"{_readable_expression(amount.source, words)} = {to}"
    value = Fraction(source[1])
    key = "convert_one" if value == 1 else "convert"
    return (
        words.answers[key]
        .replace("{from}", quantity_text(value, source[2], words))
        .replace("{to}", to)
    )


def scaled_amount_text(expression: str, amount: Amount, result: Result, language: str) -> str:
    """Return a sentence with a multiple or share of `#1`, an amount, in its unit."""
    words = lexicon(language)
    value, code = amount.parts[-1]
    first = quantity_text(value, code, words, digits_beside(value, amount.source))
    text = re.sub(r"#\d", first, _readable_expression(expression, words))
    digits = digits_beside(result.value, amount.source)
    sign = "≈" if is_rounded(result.value, digits) else "="
    return f"{text} {sign} {quantity_text(result.value, code, words, digits)}"


def _about_text(value: Fraction, code: str, words: Lexicon, source: str) -> str:
    """Return a number that was made of another with its unit, marked where it is rounded."""
    digits = digits_beside(value, source)
    sign = "≈ " if is_rounded(value, digits) else ""
    return f"{sign}{quantity_text(value, code, words, digits)}"


_SOURCE = re.compile(r"(-?\d+(?:\.\d+)?) (\S+)")


def quantity_text(
    value: Fraction, code: str, words: Lexicon, digits: int = SIGNIFICANT_DIGITS
) -> str:
    """Return a number with its unit: the word for what people say, else the code."""
    forms = words.units.get(code, (code, code))
    name = forms[0 if value == 1 else min(1, len(forms) - 1)] if code in _IN_WORDS else code
    name = {"C": "°C", "F": "°F", "deg": "°"}.get(code, name)
    name = _SUPERSCRIPT.sub(lambda m: "²³"[int(m[0]) - 2], name)
    name = f"{name} (US)" if code in _AMERICAN else name
    return f"{number_text(value, words, digits)} {name}"


_IN_WORDS = frozenset({"d", "w", "mo", "y", "ft", "in", "yd", "mi", "nmi", "oz", "lb", "st"})
_IN_WORDS |= {"tsp", "tbsp", "cup", "floz", "pt", "qt", "gal", "acre", "ft2", "yd2", "mi2", "kn"}
_IN_WORDS |= {"ifloz", "ipt", "iqt", "igal", "ston", "lton"}
_IN_WORDS |= {"t", "a", "hp", "cal", "B", "bit"}
"""Units that are written as a word; the others are, by their code, the same everywhere."""
_AMERICAN = frozenset({"tsp", "tbsp", "cup", "floz", "pt", "qt", "gal", "mpg"})
"""Units of which there are British ones, too, that are larger."""
_SUPERSCRIPT = re.compile(r"(?<=[a-z])[23](?!\d)")


def plain_value(result: Result) -> Any:
    """Return a result as other expressions can use it: a number, or None."""
    value = result.value
    if isinstance(value, Amount) and len(value.parts) == 1:
        return value.parts[0][0]
    return value if isinstance(value, Fraction) else None
