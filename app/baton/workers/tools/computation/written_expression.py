"""Reads texts that are expressions already: sums, conversions, questions for the time, and claims.

People write 3², √16 and 1,234.5 where the exact language has 3^2, sqrt(16) and 1234.5. Requests in
words are for the conductor.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from baton.core.reading.bare_expressions import MATH_SIGNS, clock_expression, without_lead
from baton.workers.tools.computation import CannotCompute, NotAnExpression, evaluate
from baton.workers.tools.computation.expression import (
    MAX_EXPRESSION_CHARS,
    Literal,
    Name,
    Node,
    notation,
    parse_tokens,
)
from baton.workers.tools.computation.lexicon import (
    guess_language,
    is_rounded,
    lexicon,
    number_text,
    request_words,
)
from baton.workers.tools.computation.marked_text import unit_code
from baton.workers.tools.computation.numbers import FUNCTIONS


class Written(NamedTuple):
    """An expression in the exact language, its tool there, and the language of its text."""

    tool: str
    expression: str
    language: str


def written_expression(text: str, language: str = "") -> Written | None:
    """Return what a text is as an expression, or None; its language is guessed unless given.

    Raises CannotCompute for a sum that can be read in more than one way, or is too long.
    """
    if len(text) > 2 * MAX_EXPRESSION_CHARS:
        return None
    plain, lead = without_lead(text)
    language = language or guess_language(text, lead or "en")
    if clock := clock_expression(text):
        return Written("clock", clock, language)
    if conversion := _conversion(plain, language):
        return Written("units", conversion, language)
    try:
        return Written("calc", sum_expression(plain, language), language)
    except NotAnExpression:
        return None


_TO = r"in|to|into|nach|en|em|->|\u2192"
_CONVERSION = (
    r"(?P<number>[-\u2212]?\d[\d.,'\u2019]*)\s*(?P<unit>[^\s\d](?:.*?\S)?)\s+(?:%s)"
    r"\s+(?P<target>\S.*)"
)


def _conversion(text: str, language: str) -> str:
    """Return `42 km -> mi` for 42 km in miles, "" for anything else."""
    words = _TO + "|a" if language in ("es", "it", "pt") else _TO
    if (match := re.fullmatch(_CONVERSION % words, text, re.IGNORECASE)) is None:
        return ""
    unit, target = (
        unit_code(match[name], language) or unit_code(match[name], "en")
        for name in ("unit", "target")
    )
    try:
        number = sum_expression(match["number"], language)
    except CannotCompute:
        return ""
    return f"{number} {unit} -> {target}" if unit and target else ""


_SIGNS = str.maketrans({**MATH_SIGNS, "\u03c0": " pi ", "\u2019": "'"})
_REWRITTEN = (
    (re.compile(r"(?<=\d) (?=\d{3}(?!\d))"), ""),
    (re.compile(r"(?<=[\d)])\s*x\s*(?=[\d(])"), "*"),
    (re.compile(rf"%\s*{request_words('of')}\b"), "% *"),
)
_NUMBER = r"(?:\d+(?:[.,']\d+)*|\.\d+)(?:e[+-]?\d{1,4}(?![\d.]))?"
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_NUMBER})|[a-z][a-z0-9]*|\*\*|//|[-+*/^()%!,\u221a])")
_ALIASES = {"factorial": "fact", "log10": "log", "average": "avg", "**": "^"}
_PI, _MOD = Name("pi"), Name("mod")


def sum_expression(text: str, language: str) -> str:
    """Return a written sum in the exact notation. Raises CannotCompute."""
    if len(text) > MAX_EXPRESSION_CHARS:
        raise CannotCompute("This is too long to be computed.")
    return notation(parse_tokens(list(_with_all_signs(_tokens(text, language)))))


def _tokens(text: str, language: str) -> Sequence[Node | str]:
    """Return the numbers (plain), names and signs of a sum."""
    text = text.lower().translate(_SIGNS).strip()
    if "!!" in text:
        raise CannotCompute("!! can be read in two ways: write (n!)!, or the product itself.")
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    tokens: list[Node | str] = []
    calls: list[bool] = []  # for each open bracket, whether a function's
    position = 0
    while position < len(text):
        if (match := _TOKEN.match(text, position)) is None:
            raise NotAnExpression
        token, position = match[0].strip(), match.end()
        token = _ALIASES.get(token, token)
        if match["number"]:
            if calls and calls[-1] and "," in token:  # gcd(12,18) has two arguments
                position -= len(token) - token.index(",")
                token = token.partition(",")[0]
            tokens.append(Literal("number", _plain_number(token, language)))
            continue
        if token == "(":
            calls.append(bool(tokens) and isinstance(tokens[-1], Name) and tokens[-1] != _PI)
        elif token == ")" and calls:
            calls.pop()
        tokens.append(Name(token) if token in FUNCTIONS or token == "pi" else token)
    return tokens


def _with_all_signs(tokens: Sequence[Node | str]) -> Iterator[Node | str]:
    """Yield a sum's tokens with the `*` in 2(3 + 4), and with `mod` for a % between operands.

    Raises NotAnExpression for a function without arguments.
    """
    is_behind_operand = False
    for token, after in itertools.zip_longest(tokens, tokens[1:], fillvalue=""):
        if is_behind_operand and (token == _MOD or (token == "%" and _begins_operand(after))):
            yield "mod"
            is_behind_operand = False
            continue
        if is_behind_operand and _begins_operand(token) and not isinstance(token, Literal):
            yield "*"
        is_function = isinstance(token, Name) and token != _PI
        if (is_function and after != "(") or (token, after) == ("(", ")"):
            raise NotAnExpression
        yield token
        is_behind_operand = token in (")", "!", "%") or not (is_function or isinstance(token, str))


def _begins_operand(token: Node | str) -> bool:
    return token in ("(", "\u221a") if isinstance(token, str) else token != _MOD


def _plain_number(written: str, language: str) -> str:
    """Return a number with a decimal point and nothing between thousands. Raises CannotCompute."""
    digits, mark, exponent = written.replace("\u2019", "'").replace("'", "").partition("e")
    between = "," if language == "en" else "."
    signs = re.sub(r"\d", "", digits)
    decimal = signs[-1:] if len(set(signs)) == 2 or len(signs) == 1 else ""
    if signs == between and re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", digits):
        decimal = ""
    whole, _, places = digits.rpartition(decimal) if decimal else (digits, "", "")
    if not re.fullmatch(r"\d*|[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*", whole):
        raise CannotCompute(f"{written} is not a number that can be read in one way.")
    whole = re.sub(r"[.,]", "", whole) or "0"
    return whole + (f".{places}" if places else "") + mark + exponent


MAX_CLAIMS = 500
MAX_CLAIM_CHARS = 600

_CLAIM_PATTERN = re.compile(
    r"(?:(?:is|does|check(?: whether| that| if)?)\s)?"
    r"(?P<left>[^=\u2248]+)(?P<sign>[=\u2248])(?P<right>[^=\u2248?]*\d[^=\u2248?]*)\??",
    re.IGNORECASE,
)
_CURRENCY_PATTERN = re.compile(r"[$€£]\s?(?=[\d.])|(?<=\d)\s?[€£]")
_NUMBER_PATTERN = re.compile(r"[-\u2212]?[$€£]?[\d.,']*?(?:[.,](\d+))?\s*(%?)")
_GROUPED_PATTERN = re.compile(r"[1-9]\d{0,2}(,\d{3})+%?\s*$|(\.\d{3}){2,}%?\s*$")


def judge_claims(text: str) -> str:
    """Return for each line "Yes: LEFT = VALUE", "No: LEFT = VALUE" or "Unreadable".

    Raises CannotCompute where a line isn't a claim, or the only one can't be read.
    """
    lines = text.strip().splitlines()
    if len(lines) > MAX_CLAIMS or not lines or not all(map(_match_claim, lines)):
        raise CannotCompute("There is no claim in this that can be judged.")
    return _judge_claim(lines[0]) if len(lines) == 1 else "\n".join(map(judge_line, lines))


def judge_line(claim: str) -> str:
    """Return "Yes: LEFT = VALUE", "No: LEFT = VALUE", or "Unreadable"."""
    try:
        return _judge_claim(claim)
    except CannotCompute:
        return "Unreadable"


def _match_claim(line: str) -> re.Match[str] | None:
    return _CLAIM_PATTERN.fullmatch(line[:MAX_CLAIM_CHARS].strip())


def _judge_claim(claim: str) -> str:
    """Say whether two sides are the same number; with ≈ as far as the right one goes."""
    if (match := _match_claim(claim)) is None:
        raise CannotCompute("There is no claim in this that can be judged.")
    left, sign, right = match["left"], match["sign"], match["right"]
    value, claimed = _value(left), _value(right)
    step = _last_digit_value(right.strip())
    same = value == claimed
    if not same and step is not None and (step < 1 or sign == "\u2248"):
        # Rounded or cut off, but a whole number needs neither.
        same = value.denominator != 1 and abs(value - claimed) < step
    equals = "\u2248" if is_rounded(value) else "="
    shown = number_text(value, lexicon("en"))
    return f"{'Yes' if same else 'No'}: {left.strip()} {equals} {shown}"


def _value(side: str) -> Fraction:
    value = evaluate("calc", sum_expression(_CURRENCY_PATTERN.sub("", side), "en")).value
    if not isinstance(value, Fraction):
        raise CannotCompute("A claim is about numbers.")
    return value


def _last_digit_value(written: str) -> Fraction | None:
    """Return what one more in the last digit of a written number adds; None for no number."""
    if (match := _NUMBER_PATTERN.fullmatch(written)) is None:
        return None
    places = len(match[1]) if match[1] and not _GROUPED_PATTERN.search(written) else 0
    return Fraction(1, 10**places) / (100 if match[2] else 1)
