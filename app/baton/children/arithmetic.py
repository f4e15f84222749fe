"""Exact arithmetic on a written expression: fractions throughout, and never more than a moment.

Numbers may have thousands separators and decimal points or commas; operators may be written as
people type them. What isn't rational (most roots) is computed to 40 digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from baton.children.exact import CannotCompute

MOST_CHARACTERS = 1000
MOST_DEPTH = 40
MOST_BITS = 10_000
"""The largest number that is computed with: about 3,000 digits."""

_PRECISE = Context(prec=60)
_EXACT_ENOUGH = 40


@dataclass(frozen=True, slots=True)
class Value:
    """A number; `exact` unless a root or a logarithm had to be cut. `percent` as in 10%."""

    number: Fraction
    exact: bool = True
    percent: bool = False


_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:[.,']\d+)*(?:[eE][+-]?\d{1,4}(?![\d.]))?|\.\d+)"
    r"|(?P<name>[a-z][a-z0-9]*)|(?P<mark>\*\*|//|[-+*/^()%!,√]))"
)
_SIGNS = str.maketrans(
    {
        "\u00d7": "*",
        "\u00b7": "*",
        "\u22c5": "*",
        "\u2219": "*",
        "\u00f7": "/",
        "\u2215": "/",
        "\u2044": "/",
        "\u2212": "-",
        "\u2013": "-",
        "\u2009": " ",
        "²": "^2",
        "³": "^3",
        "½": "(1/2)",
        "¼": "(1/4)",
        "¾": "(3/4)",
    }
)
_SPACED = re.compile(r"(?<=\d)[\u00a0\u202f](?=\d{3}(?!\d))")
_CROSS = re.compile(r"(?<=[\d)])\s*[xX]\s*(?=[\d(])")


def evaluate(text: str) -> Value:
    """Return the value of an expression. Raises CannotCompute."""
    if len(text) > MOST_CHARACTERS:
        raise CannotCompute(f"The expression is longer than {MOST_CHARACTERS} characters.")
    parser = _Parser(_tokens(text))
    value = parser.sum()
    if parser.next:
        raise CannotCompute("This is not an expression that the calculator can read.")
    return value


def read_number(text: str) -> Fraction:
    """Return a written number: 1,234.5 and 1.234,5 and 0,5 and 1e6. Raises CannotCompute."""
    digits, _, exponent = text.replace("'", "").lower().partition("e")
    if "," in digits:
        digits = _without_separators(digits)
    elif digits.count(".") > 1:
        digits = _ungrouped(digits, ".")
    power = int(exponent or "0")
    if abs(power) > 1000:
        raise CannotCompute("The numbers are too large.")
    return Fraction(digits) * Fraction(10) ** power


def _without_separators(digits: str) -> str:
    """Read commas as thousands where they stand like that, else as the decimal sign."""
    if "." in digits:
        if digits.rindex(".") > digits.rindex(","):
            whole, _, part = digits.rpartition(".")
            return f"{_ungrouped(whole, ',')}.{part}"
        whole, _, part = digits.rpartition(",")
        return f"{_ungrouped(whole, '.')}.{part}"
    if re.fullmatch(r"[1-9]\d{0,2}(,\d{3})+", digits):
        return digits.replace(",", "")
    if digits.count(",") == 1:
        return digits.replace(",", ".")
    raise CannotCompute(f"{digits} is not a number that can be read in one way.")


def _ungrouped(digits: str, separator: str) -> str:
    first, *groups = digits.split(separator)
    if groups and (not 0 < len(first) <= 3 or any(len(group) != 3 for group in groups)):
        raise CannotCompute(f"{digits} is not a number that can be read in one way.")
    return first + "".join(groups)


def _tokens(text: str) -> list[str]:
    text = _SPACED.sub("", text.translate(_SIGNS)).lower()
    text = _CROSS.sub("*", text)
    tokens: list[str] = []
    calls: list[bool] = []  # for each open parenthesis, whether a function's
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CannotCompute("This is not an expression that the calculator can read.")
        found, end = match[0].strip(), match.end()
        if match["number"] and calls and calls[-1] and "," in found:
            found = found.partition(",")[0]  # gcd(12,18) has two arguments
            end = match.start("number") + len(found)
        if found == "(":
            calls.append(bool(tokens) and tokens[-1] in _FUNCTIONS)
        elif found == ")" and calls:
            calls.pop()
        tokens.append(found)
        position = end
    return tokens


class _Parser:
    """Reads and computes at once; recursion and numbers are bounded."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        if self.next in wanted and self.next:
            self._at += 1
            return self._tokens[self._at - 1]
        return ""

    def sum(self) -> Value:
        left = self._product()
        while sign := self._take("+", "-"):
            right = self._product()
            number = right.number
            if right.percent and not left.percent:
                number *= left.number  # 200 + 10% is 220
            total = left.number + (number if sign == "+" else -number)
            left = _checked(total, left.exact and right.exact, left.percent and right.percent)
        return left

    def _product(self) -> Value:
        left = self._signed()
        while True:
            sign = self._take("*", "/", "//", "mod")
            if not sign and not (self.next == "(" or self.next in _FUNCTIONS):
                return left
            left = self._multiplied(left, sign or "*", self._signed())

    def _multiplied(self, left: Value, sign: str, right: Value) -> Value:
        a, b, exact = left.number, right.number, left.exact and right.exact
        if sign == "*":
            return _checked(a * b, exact)
        if not b:
            raise CannotCompute("Nothing can be divided by zero.")
        if sign == "/":
            return _checked(a / b, exact)
        return _checked(Fraction(a // b) if sign == "//" else a % b, exact)

    def _signed(self) -> Value:
        if not (sign := self._take("+", "-")):
            return self._power()
        value = self._deeper(self._signed)
        return Value(-value.number if sign == "-" else value.number, value.exact, value.percent)

    def _power(self) -> Value:
        base = self._postfix()
        if self._take("^", "**"):
            return power(base, self._deeper(self._signed))
        return base

    def _postfix(self) -> Value:
        value = self._atom()
        while mark := self._take("!", "%"):
            if mark == "!":
                value = _factorial([value])
            elif self.next and self.next[0].isdigit():
                value = self._multiplied(value, "mod", self._signed())
            else:
                value = Value(value.number / 100, value.exact, percent=True)
        return value

    def _atom(self) -> Value:
        token = self._take(self.next)
        if not token:
            raise CannotCompute("The expression ends too early.")
        if token == "√":
            return _root([self._deeper(self._postfix)])
        if token in _FUNCTIONS and self._take("("):
            return self._call(token)
        if token == "(":
            value = self._deeper(self.sum)
            self._close()
            return Value(value.number, value.exact)
        if token[0].isdigit() or token[0] == ".":
            return _checked(read_number(token))
        raise CannotCompute("This is not an expression that the calculator can read.")

    def _call(self, name: str) -> Value:
        arguments = [self._deeper(self.sum)]
        while self._take(","):
            arguments.append(self._deeper(self.sum))
        self._close()
        return _FUNCTIONS[name](arguments)

    def _close(self) -> None:
        if not self._take(")"):
            raise CannotCompute("A parenthesis is not closed.")

    def _deeper(self, read: Callable[[], Value]) -> Value:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise CannotCompute("The expression is nested too deeply.")
        value = read()
        self._depth -= 1
        return value


def _checked(number: Fraction, exact: bool = True, percent: bool = False) -> Value:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > MOST_BITS:
        raise CannotCompute("The numbers become too large.")
    return Value(number, exact, percent)


def power(base: Value, exponent: Value) -> Value:
    """Return a power, refused before it is computed when it would be huge."""
    b, e = base.number, exponent.number
    if not b and e <= 0:
        raise CannotCompute("Zero has no such power.")
    size = max(b.numerator.bit_length(), b.denominator.bit_length())
    if abs(e) * (size if abs(b) != 1 else 0) > MOST_BITS:
        raise CannotCompute("The numbers become too large.")
    if e.denominator == 1:
        if abs(b) == 1:
            return Value(Fraction(1) if e % 2 == 0 else b, base.exact)
        return _checked(b**e.numerator, base.exact and exponent.exact)
    raised = power(base, Value(Fraction(e.numerator)))
    return _root_of(raised, e.denominator)


def _root(arguments: Sequence[Value]) -> Value:
    return _root_of(_one(arguments), 2)


def _cube_root(arguments: Sequence[Value]) -> Value:
    return _root_of(_one(arguments), 3)


def _root_of(value: Value, degree: int) -> Value:
    number = value.number
    if number < 0:
        if degree % 2 == 0:
            raise CannotCompute("A negative number has no real root of that degree.")
        positive = _root_of(Value(-number, value.exact), degree)
        return Value(-positive.number, positive.exact)
    top, bottom = (_whole_root(n, degree) for n in (number.numerator, number.denominator))
    if top is not None and bottom is not None:
        return Value(Fraction(top, bottom), value.exact)
    root = _PRECISE.power(_decimal(number), _PRECISE.divide(1, degree))
    return Value(_fraction(root), False)


def _whole_root(number: int, degree: int) -> int | None:
    """Return the exact whole root, or None."""
    if number < 2:
        return number
    if degree == 2:
        root = math.isqrt(number)
    elif degree >= number.bit_length():
        return None
    else:
        low, high = 1, 1 << (number.bit_length() // degree + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**degree <= number else (low, middle - 1)
        root = low
    return root if root**degree == number else None


def _decimal(number: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(number.numerator), Decimal(number.denominator))


def _fraction(number: Decimal) -> Fraction:
    return Fraction(Context(prec=_EXACT_ENOUGH).plus(number))


def _logarithm(base: int) -> Callable[[Sequence[Value]], Value]:
    def of(arguments: Sequence[Value]) -> Value:
        number = _one(arguments).number
        if number <= 0:
            raise CannotCompute("Only a positive number has a logarithm.")
        decimal = _decimal(number)
        value = _PRECISE.log10(decimal) if base == 10 else _PRECISE.ln(decimal)
        if base == 2:
            value = _PRECISE.divide(value, _PRECISE.ln(Decimal(2)))
        near = Fraction(round(value))
        exact = bool(base) and abs(near) < 4000 and Fraction(base) ** near == number
        return Value(near, True) if exact else Value(_fraction(value), False)

    return of


def _factorial(arguments: Sequence[Value]) -> Value:
    number = _one(arguments).number
    if number.denominator != 1 or number < 0:
        raise CannotCompute("Only a whole number has a factorial.")
    if number > 1000:
        raise CannotCompute("The numbers become too large.")
    return _checked(Fraction(math.factorial(int(number))))


def _absolute(arguments: Sequence[Value]) -> Value:
    return Value(abs(_one(arguments).number), _one(arguments).exact)


def _whole(of: Callable[..., int]) -> Callable[[Sequence[Value]], Value]:
    def call(arguments: Sequence[Value]) -> Value:
        if any(value.number.denominator != 1 for value in arguments):
            raise CannotCompute("Only whole numbers have common divisors and multiples.")
        return _checked(Fraction(of(*(int(value.number) for value in arguments))))

    return call


def _extreme(of: Callable[..., Value]) -> Callable[[Sequence[Value]], Value]:
    return lambda arguments: of(arguments, key=lambda value: value.number)


def _one(arguments: Sequence[Value]) -> Value:
    if len(arguments) != 1:
        raise CannotCompute("That function takes one number.")
    return arguments[0]


_FUNCTIONS: dict[str, Callable[[Sequence[Value]], Value]] = {
    "sqrt": _root,
    "cbrt": _cube_root,
    "abs": _absolute,
    "factorial": _factorial,
    "gcd": _whole(math.gcd),
    "lcm": _whole(math.lcm),
    "min": _extreme(min),
    "max": _extreme(max),
    "ln": _logarithm(0),
    "log": _logarithm(10),
    "log10": _logarithm(10),
    "log2": _logarithm(2),
}


def shown(value: Value, digits: int = 12) -> str:
    """Write a number plainly: whole or decimal where that is exact, else cut to some digits."""
    number = value.number
    if number.denominator == 1:
        return str(number.numerator) if value.exact else _significant(number, digits)
    if value.exact and (places := _places(number.denominator)) is not None and places <= 30:
        scaled = number * 10**places
        text = str(abs(scaled.numerator)).rjust(places + 1, "0")
        return f"{'-' if number < 0 else ''}{text[:-places]}.{text[-places:]}"
    return _significant(number, digits)


def _places(denominator: int) -> int | None:
    """Return how many decimal places a fraction with that denominator needs, None if endless."""
    places = 0
    for prime in (2, 5):
        count = 0
        while denominator % prime == 0:
            denominator //= prime
            count += 1
        places = max(places, count)
    return places if denominator == 1 else None


def _significant(number: Fraction, digits: int) -> str:
    cut = Context(prec=digits).plus(_decimal(number)).normalize(Context(prec=digits))
    if -7 < cut.adjusted() < 30:
        return format(cut, "f")
    return str(cut).lower()
