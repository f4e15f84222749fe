"""Arithmetic on fractions: the operators and functions of `calc`.

No function takes more than two milliseconds, however large its arguments (`evaluator` bounds them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, Underflow
from fractions import Fraction
from typing import Any

from baton.workers.tools.computation import CannotCompute, NoResult, NotAnExpression
from baton.workers.tools.computation.evaluator import (
    MAX_BITS,
    NEGATIVE,
    Functions,
    Percent,
    Result,
    Vocabulary,
    evaluate_tree,
)
from baton.workers.tools.computation.expression import parse_expression, token_pattern

MAX_DEGREE = 100
"""The highest root that is taken exactly."""

MAX_PLACES = 30
"""To how many decimal places a number is rounded at most."""

_TRAPS = [DivisionByZero, InvalidOperation, Overflow, Underflow]
_PRECISE = Context(prec=60, Emin=-MAX_BITS, Emax=MAX_BITS, traps=_TRAPS)
_ROMAN = {"M": 1000, "CM": 900, "D": 500, "CD": 400, "C": 100, "XC": 90, "L": 50, "XL": 40}
_ROMAN |= {"X": 10, "IX": 9, "V": 5, "IV": 4, "I": 1}
_ROMAN_NUMERAL = r"(?<=unroman\()\s*(?P<argument>[MDCLXVImdclxvi]{1,15})(?=\s*\))"
_TOKEN = token_pattern(argument=_ROMAN_NUMERAL)


def evaluate_numbers(text: str, names: Mapping[str, Any]) -> Result:
    """Return the value of a `calc` expression. Raises CannotCompute."""
    words = Vocabulary(FUNCTIONS, {**NAMED_CONSTANTS, **names}, OPERATORS)
    result = evaluate_tree(parse_expression(text, _TOKEN), words)
    value = plain_number(result.value)
    if not isinstance(value, (Fraction, str, bool, list)):
        raise NotAnExpression
    return Result(value, result.function)


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
                raise NoResult("too_large")
        elif abs(exponent.numerator) > 6:
            raise NoResult("too_large")
        return base**exponent.numerator
    if not isinstance(base, Fraction):
        raise NoResult("no_root")
    if exponent.denominator <= MAX_DEGREE:
        return root(power(base, Fraction(exponent.numerator)), Fraction(exponent.denominator))
    if base <= 0:
        raise NoResult("no_root")
    return _rounded(_PRECISE.power(_decimal(base), _decimal(exponent)))


OPERATORS: Functions = {
    "+": add,
    "-": subtract,
    "*": lambda left, right: plain_number(left) * plain_number(right),
    "/": lambda left, right: plain_number(left) / plain_number(right),
    "^": power,
    NEGATIVE: lambda value: Percent(-value.number) if isinstance(value, Percent) else -value,
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
    if number.denominator != 1:
        raise CannotCompute("A whole number is needed here.")
    if abs(number) > most:
        raise NoResult("too_large")
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
        raise NoResult("no_root")
    sign, number = (-1, -number) if number < 0 else (1, number)
    over, under = (_exact_root(part, n) for part in (number.numerator, number.denominator))
    if over is not None and under is not None:
        return sign * Fraction(over, under)
    return sign * _rounded(_PRECISE.power(_decimal(number), _PRECISE.divide(1, n)))


def _exact_root(number: int, degree: int) -> int | None:
    if degree == 2 or not number:
        found = math.isqrt(number)
    else:  # Newton's way, from a little above the root
        whole, rest = divmod(math.log2(number) / degree, 1)
        found = (int(2 ** (rest + 53 + 1e-9)) << int(whole) >> 53) + 1
        while (step := ((degree - 1) * found + number // found ** (degree - 1)) // degree) < found:
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
    if n < 2 or any(n % prime == 0 for prime in _SMALL_PRIMES):
        return n in _SMALL_PRIMES
    twos = (n - 1 & 1 - n).bit_length() - 1
    for base in _SMALL_PRIMES:
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


_SMALL_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def factors(value: Any) -> list[int]:
    """Return the prime factors of a number up to 10^12, smallest first."""
    n = _whole(value, 10**12)
    if n < 2:
        raise CannotCompute("There are prime factors of whole numbers from 2 on only.")
    found = []
    for prime in _SMALL_PRIMES:
        while n % prime == 0:
            found.append(prime)
            n //= prime
    left = [n] if n > 1 else []
    while left:
        n = left.pop()
        if is_prime(Fraction(n)):
            found.append(n)
        else:
            divisor = _divisor(n)
            left += [divisor, n // divisor]
    return sorted(found)


def _divisor(n: int) -> int:
    """Return a divisor of a number that isn't prime, by Pollard's rho in some 1,000 steps."""
    for constant in range(1, n):
        slow = fast = 2
        divisor = 1
        while divisor == 1:
            slow = (slow * slow + constant) % n
            fast = (fast * fast + constant) % n
            fast = (fast * fast + constant) % n
            divisor = math.gcd(slow - fast, n)
        if divisor < n:
            return divisor
    raise AssertionError(n)


def _total(values: Sequence[Any]) -> Fraction:
    """Return a sum over the least common denominator, which is reduced once."""
    numbers = [_number(value) for value in values]
    under = 1
    for number in numbers:
        under = math.lcm(under, number.denominator)
        if under.bit_length() > MAX_BITS:
            raise NoResult("too_large")
    over = sum(number.numerator * (under // number.denominator) for number in numbers)
    return Fraction(over, under)


def _median(*values: Any) -> Fraction:
    numbers = sorted(map(_number, values))
    middle = len(numbers) // 2
    return numbers[middle] if len(numbers) % 2 else (numbers[middle - 1] + numbers[middle]) / 2


def _round(value: Any, digits: Any = Fraction(0)) -> Fraction:
    """Round half away from zero, as people do."""
    number, places = _number(value), _whole(digits)
    if abs(places) > MAX_PLACES:
        raise CannotCompute("A number isn't rounded to so many places.")
    scale = Fraction(10) ** places
    rounded = math.floor(abs(number) * scale + Fraction(1, 2)) / scale
    return rounded if number >= 0 else -rounded


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
        raise CannotCompute(f"{text} isn't a Roman numeral.")
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
    "avg": lambda *values: _total(values) / len(values),
    "median": _median,
    "min": lambda *values: min(map(_number, values)),
    "max": lambda *values: max(map(_number, values)),
    "sum": lambda *values: _total(values),
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
