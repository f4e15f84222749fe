"""Reads texts that are expressions already: sums, conversions, questions for the time, and claims.

People write 3², √16 and 1,234.5 where the exact language has 3^2, sqrt(16) and 1234.5. Requests in
words are for the conductor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from baton.core.plan.tool_routing import clock_expression, without_lead
from baton.workers.tools.computation import CannotCompute, NotAnExpression
from baton.workers.tools.computation.expression import MAX_EXPRESSION_CHARS, Result, python_source
from baton.workers.tools.computation.lexicon import guess_language, lexicon
from baton.workers.tools.computation.marked_text import unit_code
from baton.workers.tools.computation.numbers import FUNCTIONS
from baton.workers.tools.computation.result_text import is_rounded, number_text

MAX_DEPTH = 40
"""How many brackets, signs and powers may stand inside of each other."""


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


_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u00d7\u00b7\u22c5\u2219", "*"),
        **dict.fromkeys("\u00f7\u2215\u2044", "/"),
        **dict.fromkeys("\u2212\u2013", "-"),
        "²": "^2",
        "³": "^3",
        "π": " pi ",
        "\u2019": "'",
    }
)
_REWRITTEN = (
    (re.compile(r"(?<=\d) (?=\d{3}(?!\d))"), ""),
    (re.compile(r"(?<=[\d)])\s*x\s*(?=[\d(])"), "*"),
    (re.compile(r"%\s*(?:of|von|de|di)\b"), "% *"),
)
_NUMBER = r"(?:\d+(?:[.,']\d+)*|\.\d+)(?:e[+-]?\d{1,4}(?![\d.]))?"
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_NUMBER})|[a-z][a-z0-9]*|\*\*|//|[-+*/^()%!,\u221a])")
_ALIASES = {"factorial": "fact", "log10": "log", "average": "avg"}
_NAMES = {name: name for name in FUNCTIONS} | _ALIASES
_BEGINNINGS = {"(", "\u221a", "pi", *_NAMES} - {"mod"}


def sum_expression(text: str, language: str) -> str:
    """Return a written sum in the exact language. Raises CannotCompute."""
    if len(text) > MAX_EXPRESSION_CHARS:
        raise CannotCompute("This is too long to be computed.")
    reader = _SumReader(_tokens(text, language))
    expression = reader.sum()
    if reader.next:
        raise NotAnExpression
    return expression


def _tokens(text: str, language: str) -> list[str]:
    """Return the numbers (plain), names and signs of a sum."""
    text = text.lower().translate(_SIGNS).strip()
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    tokens: list[str] = []
    calls: list[bool] = []  # for each open bracket, whether a function's
    position = 0
    while position < len(text):
        if (match := _TOKEN.match(text, position)) is None:
            raise NotAnExpression
        token, position = match[0].strip(), match.end()
        if match["number"]:
            if calls and calls[-1] and "," in token:  # gcd(12,18) has two arguments
                position -= len(token) - token.index(",")
                token = token.partition(",")[0]
            token = _plain_number(token, language)
        elif token == "(":
            calls.append(bool(tokens) and tokens[-1] in _NAMES)
        elif token == ")" and calls:
            calls.pop()
        tokens.append(token)
    return tokens


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


class _SumReader:
    """Reads the tokens of a sum and writes them in the exact language."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> str:
        """The token that isn't read yet, "" at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        if self.next not in wanted or not self.next:
            return ""
        self._at += 1
        return self._tokens[self._at - 1]

    def sum(self) -> str:
        """Read a sum: terms with + and - between them."""
        text = self._term()
        while sign := self._take("+", "-"):
            text = f"{text} {sign} {self._term()}"
        return text

    def _term(self) -> str:
        text = self._signed()
        while True:
            if self._take("mod", "%"):
                text = f"mod({text}, {self._signed()})"
            elif self._take("//"):
                text = f"quot({text}, {self._signed()})"
            elif sign := self._take("*", "/"):
                text = f"{text} {sign} {self._signed()}"
            elif self._begins_operand(self._at) and not self.next[0].isdigit():
                text = f"{text} * {self._signed()}"  # 2(3 + 4)
            else:
                return text

    def _signed(self) -> str:
        if sign := self._take("+", "-"):
            value = self._deeper(self._signed)
            return f"-{value}" if sign == "-" else value
        base = self._postfix()
        return f"{base}^{self._deeper(self._signed)}" if self._take("^", "**") else base

    def _postfix(self) -> str:
        text = self._operand()
        while True:
            if self._take("!"):
                text = _call("fact", text)
            elif self.next == "%" and not self._begins_operand(self._at + 1):
                self._take("%")
                text = f"{text}%" if text[0].isdigit() else _call("percent", text)
            else:
                return text

    def _begins_operand(self, position: int) -> bool:
        token = self._tokens[position] if position < len(self._tokens) else ""
        return token[:1].isdigit() or token in _BEGINNINGS

    def _operand(self) -> str:
        if self._take("\u221a"):
            return _call("sqrt", self._deeper(self._postfix))
        if self._take("("):
            return f"({self._closed()})"
        token = self.next
        self._at += 1
        if token[:1].isdigit() or token == "pi":
            return token
        if token in _NAMES and self._take("("):
            return f"{_NAMES[token]}({self._closed()})"
        raise NotAnExpression

    def _closed(self) -> str:
        """Read what stands before a closing bracket, with commas between several."""
        text = self._deeper(self.sum)
        while self._take(","):
            text = f"{text}, {self._deeper(self.sum)}"
        if not self._take(")"):
            raise CannotCompute("A bracket is not closed.")
        return text

    def _deeper(self, read: Callable[[], str]) -> str:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CannotCompute("The expression is nested too deeply.")
        text = read()
        self._depth -= 1
        return text


def _call(function: str, operand: str) -> str:
    return f"{function}{operand}" if operand.startswith("(") else f"{function}({operand})"


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

    Raises CannotCompute where a line is no claim, or the only one can't be read.
    """
    lines = text.strip().splitlines()
    claims = [
        _CLAIM_PATTERN.fullmatch(line[:MAX_CLAIM_CHARS].strip()) for line in lines[: MAX_CLAIMS + 1]
    ]
    if not 0 < len(claims) <= MAX_CLAIMS or not all(claims):
        raise CannotCompute("There is no claim in this that can be judged.")
    if len(claims) == 1 and claims[0]:
        return _judge_claim(**claims[0].groupdict())
    return "\n".join(_judge_line(**claim.groupdict()) for claim in claims if claim)


def _judge_line(left: str, sign: str, right: str) -> str:
    try:
        return _judge_claim(left, sign, right)
    except CannotCompute:
        return "Unreadable"


def _judge_claim(left: str, sign: str, right: str) -> str:
    """Say whether two sides are the same number; with ≈ as far as the right one goes."""
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


def evaluate(
    tool: str, text: str, *, now: Any = None, results: Mapping[int, Any] | None = None
) -> Result:
    """Return what a tool makes of an expression. Raises CannotCompute.

    `now` is the person's local time (an aware datetime, default: the system's); `results` are the
    values of earlier steps, for `#1`.
    """
    text = text.strip()
    if len(text) > MAX_EXPRESSION_CHARS:
        raise CannotCompute("This is too long to be computed.")
    if not text or "_" in text or "\n" in text:
        raise NotAnExpression
    earlier = {f"result_{number}": value for number, value in (results or {}).items()}
    match tool:
        case "calc":
            from baton.workers.tools.computation.numbers import evaluate_numbers

            return evaluate_numbers(python_source(text), earlier)
        case "units":
            from baton.workers.tools.computation.quantities import evaluate_quantities

            return evaluate_quantities(text, earlier)
        case "clock":
            from baton.workers.tools.computation.dates import evaluate_dates

            return evaluate_dates(text, earlier, now)
    raise CannotCompute(f"There is no tool {tool!r}.")
