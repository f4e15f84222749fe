"""Arithmetic on fractions: the operators and functions of `calc`."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from baton.workers.tools.computation import CannotCompute, NotAnExpression
from baton.workers.tools.computation.expression import Functions, Percent, Result, evaluate_source

MAX_BITS = 10_000
"""The largest number that is computed with: about 3,000 digits."""

MAX_DEGREE = 100
"""The highest root that is taken exactly."""

_PRECISE = Context(prec=60)
_ROMAN = {"M": 1000, "CM": 900, "D": 500, "CD": 400, "C": 100, "XC": 90, "L": 50, "XL": 40}
_ROMAN |= {"X": 10, "IX": 9, "V": 5, "IV": 4, "I": 1}
_ROMAN_NUMERAL = re.compile(r"unroman\(\s*['\"]?([MDCLXVI]{1,15})['\"]?\s*\)", re.IGNORECASE)


def evaluate_numbers(source: str, names: Mapping[str, Any]) -> Result:
    """Return the value of a `calc` expression in Python's notation. Raises CannotCompute."""
    source = _ROMAN_NUMERAL.sub(r'unroman("\1")', source)
    result = evaluate_source(source, FUNCTIONS, {**NAMED_CONSTANTS, **names}, OPERATORS)
    value = result.value
    if isinstance(value, Percent):
        value = value.share
    if isinstance(value, tuple) or not isinstance(value, (Fraction, str, bool, list)):
        raise NotAnExpression
    return Result(require_bounded(value) if isinstance(value, Fraction) else value, result.function)


def require_bounded(value: Fraction) -> Fraction:
    """Return a number that isn't too large to be shown. Raises CannotCompute."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise CannotCompute("The numbers are too large.")
    return value


NAMED_CONSTANTS: Mapping[str, Any] = {
    "pi": Fraction("3.14159265358979323846264338327950288419716939937510582097494"),
    "e": Fraction(Decimal(1).exp(_PRECISE)),
}


def plain_number(value: Any) -> Any:
    """Return a per cent value as its share of one, anything else as it is."""
    return value.share if isinstance(value, Percent) else value


def add(left: Any, right: Any) -> Any:
    """Add; `200 + 15%` is 230."""
    if isinstance(right, Percent):
        if isinstance(left, Percent):
            return Percent(left.number + right.number)
        return left * (1 + right.share)
    return plain_number(left) + right


def subtract(left: Any, right: Any) -> Any:
    """Subtract; `200 - 15%` is 170."""
    if isinstance(right, Percent):
        if isinstance(left, Percent):
            return Percent(left.number - right.number)
        return left * (1 - right.share)
    return plain_number(left) - right


def power(base: Any, exponent: Any) -> Any:
    """Raise to a power, exactly where that is possible."""
    base, exponent = plain_number(base), plain_number(exponent)
    if not isinstance(exponent, Fraction):
        raise CannotCompute("An exponent is a number.")
    if exponent.denominator == 1:
        if isinstance(base, Fraction):
            bits = max(abs(base.numerator).bit_length(), base.denominator.bit_length())
            if abs(exponent.numerator) * bits > MAX_BITS:
                raise CannotCompute("The numbers are too large.")
        elif abs(exponent.numerator) > 6:
            raise CannotCompute("The numbers are too large.")
        return base**exponent.numerator
    if not isinstance(base, Fraction):
        raise CannotCompute("This root is no real number.")
    if exponent.denominator <= MAX_DEGREE:
        return root(power(base, Fraction(exponent.numerator)), Fraction(exponent.denominator))
    if base <= 0:
        raise CannotCompute("This root is no real number.")
    return _rounded(_PRECISE.power(_decimal(base), _decimal(exponent)))


OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: add,
    ast.Sub: subtract,
    ast.Mult: lambda left, right: plain_number(left) * plain_number(right),
    ast.Div: lambda left, right: plain_number(left) / plain_number(right),
    ast.Pow: power,
    ast.USub: lambda value: Percent(-value.number) if isinstance(value, Percent) else -value,
    ast.UAdd: lambda value: value,
}


def _decimal(value: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


def _rounded(value: Decimal | float) -> Fraction:
    """Return an irrational value to 40 digits, a float's to 15."""
    if isinstance(value, float):
        return Fraction(f"{value:.15g}")
    return Fraction(Context(prec=40).plus(value))


def _number(value: Any) -> Fraction:
    value = plain_number(value)
    if not isinstance(value, Fraction):
        raise CannotCompute("A number is needed here.")
    return value


def _whole(value: Any, most: int = 10**15) -> int:
    number = _number(value)
    if number.denominator != 1 or abs(number) > most:
        raise CannotCompute("A whole number is needed here, and not too large a one.")
    return number.numerator


def _several(one: Any, others: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a function that needs at least two."""
    if not others:
        raise CannotCompute("Two numbers are needed here.")
    return (one, *others)


def root(value: Any, degree: Any = Fraction(2)) -> Fraction:
    """Return a real root, exactly where it is rational."""
    number, n = _number(value), _whole(degree, MAX_DEGREE)
    if n < 1 or (number < 0 and n % 2 == 0):
        raise CannotCompute("This root is no real number.")
    sign, number = (-1, -number) if number < 0 else (1, number)
    over, under = (_exact_root(part, n) for part in (number.numerator, number.denominator))
    if over is not None and under is not None:
        return sign * Fraction(over, under)
    return sign * _rounded(_PRECISE.power(_decimal(number), _PRECISE.divide(1, n)))


def _exact_root(number: int, degree: int) -> int | None:
    if number.bit_length() > MAX_BITS:
        raise CannotCompute("The numbers are too large.")
    if degree == 2:
        found = math.isqrt(number)
    else:
        found = 1 << -(-number.bit_length() // degree) if number else 0
        while (
            found
            and (step := ((degree - 1) * found + number // found ** (degree - 1)) // degree) < found
        ):
            found = step
    return found if found**degree == number else None


def _log(value: Any, base: Any = None) -> Fraction:
    number = _number(value)
    if number <= 0:
        raise CannotCompute("There is a logarithm of positive numbers only.")
    if base is None:
        return _rounded(_PRECISE.log10(_decimal(number)))
    return _rounded(_PRECISE.ln(_decimal(number)) / _PRECISE.ln(_decimal(_number(base))))


def _factorial(value: Any) -> Fraction:
    n = _whole(value, 500)
    if n < 0:
        raise CannotCompute("There is a factorial of numbers from 0 on only.")
    return Fraction(math.factorial(n))


def is_prime(value: Any) -> bool:
    """Whether a number up to 10^15 is prime: Miller-Rabin with bases that suffice there."""
    n = _whole(value)
    small = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if n < 2 or any(n % prime == 0 for prime in small):
        return n in small
    twos = (n - 1 & 1 - n).bit_length() - 1
    for base in small:
        x = pow(base, n - 1 >> twos, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def factors(value: Any) -> list[int]:
    """Return the prime factors of a number up to 10^12, smallest first."""
    n = _whole(value, 10**12)
    if n < 2:
        raise CannotCompute("There are prime factors of whole numbers from 2 on only.")
    found, divisor = [], 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1 if divisor == 2 else 2
    return [*found, n] if n > 1 else found


def _median(*values: Any) -> Fraction:
    numbers = sorted(map(_number, values))
    middle = len(numbers) // 2
    return numbers[middle] if len(numbers) % 2 else (numbers[middle - 1] + numbers[middle]) / 2


def _round(value: Any, digits: Any = Fraction(0)) -> Fraction:
    """Round half away from zero, as people do."""
    number, scale = _number(value), Fraction(10) ** _whole(digits, 30)
    return (
        Fraction(math.floor(abs(number) * scale + Fraction(1, 2)) * (1 if number >= 0 else -1))
        / scale
    )


def in_base(value: Any, base: Any) -> str:
    """Return a whole number's digits in a base from 2 to 36."""
    n, b = _whole(value, 10**30), _whole(base, 36)
    if b < 2:
        raise CannotCompute("A base is 2 to 36.")
    digits = ""
    left = abs(n)
    while left or not digits:
        left, digit = divmod(left, b)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return "-" + digits if n < 0 else digits


def _from_base(value: Any, base: Any = None) -> Fraction:
    if base is None:
        return _number(value)
    digits = value if isinstance(value, str) else str(_whole(value, 10**30))
    return Fraction(int(digits, _whole(base, 36)))


def roman(value: Any) -> str:
    """Return a number from 1 to 3999 in Roman numerals."""
    n = _whole(value, 3999)
    if n < 1:
        raise CannotCompute("Roman numerals go from 1 to 3999.")
    text = ""
    for sign, worth in _ROMAN.items():
        text += sign * (n // worth)
        n %= worth
    return text


def _parse_roman(text: Any) -> Fraction:
    worth = [_ROMAN[sign] for sign in str(text).upper()]
    total = sum(
        -now if now < after else now for now, after in zip(worth, [*worth[1:], 0], strict=True)
    )
    if roman(Fraction(total)) != str(text).upper():
        raise CannotCompute(f"{text} is no Roman numeral.")
    return Fraction(total)


def _degrees(function: Callable[[float], float]) -> Callable[[Any], Fraction]:
    return lambda value: _rounded(round(function(math.radians(float(_number(value)))), 12))


def _tangent(value: Any) -> Fraction:
    if _number(value) % 180 == 90:
        raise CannotCompute("That tangent is infinite.")
    return _degrees(math.tan)(value)


FUNCTIONS: Functions = {
    "percent": lambda value: Percent(_number(value)),
    "sqrt": root,
    "cbrt": lambda value: root(value, Fraction(3)),
    "root": root,
    "abs": lambda value: abs(_number(value)),
    "round": _round,
    "floor": lambda value: Fraction(math.floor(_number(value))),
    "ceil": lambda value: Fraction(math.ceil(_number(value))),
    "ln": lambda value: _log(value, Fraction(Decimal(1).exp(_PRECISE))),
    "log": _log,
    "log2": lambda value: _log(value, Fraction(2)),
    "exp": lambda value: _rounded(_PRECISE.exp(_decimal(min(_number(value), Fraction(1000))))),
    "sin": _degrees(math.sin),
    "cos": _degrees(math.cos),
    "tan": _tangent,
    "fact": _factorial,
    "mod": lambda value, by: _number(value) % _number(by),
    "quot": lambda value, by: Fraction(_number(value) // _number(by)),
    "gcd": lambda one, *others: Fraction(math.gcd(*map(_whole, _several(one, others)))),
    "lcm": lambda one, *others: Fraction(math.lcm(*map(_whole, _several(one, others)))),
    "avg": lambda *values: sum(map(_number, values), Fraction(0)) / len(values),
    "median": _median,
    "min": lambda *values: min(map(_number, values)),
    "max": lambda *values: max(map(_number, values)),
    "sum": lambda *values: sum(map(_number, values), Fraction(0)),
    "isprime": is_prime,
    "factors": factors,
    "pct": lambda part, whole: _number(part) / _number(whole) * 100,
    "change": lambda before, after: (_number(after) - _number(before)) / _number(before) * 100,
    "ncr": lambda n, k: Fraction(math.comb(_whole(n, 10**6), _whole(k, 500))),
    "npr": lambda n, k: Fraction(math.perm(_whole(n, 10**6), _whole(k, 500))),
    "bin": lambda value: in_base(value, Fraction(2)),
    "oct": lambda value: in_base(value, Fraction(8)),
    "hex": lambda value: in_base(value, Fraction(16)).upper(),
    "base": in_base,
    "dec": _from_base,
    "roman": roman,
    "unroman": _parse_roman,
    "frac": lambda value: str(_number(value).limit_denominator(10**6)),
}
