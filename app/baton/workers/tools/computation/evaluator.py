"""Computes expressions, within bounds: no sum takes longer than some ten milliseconds.

A number has at most MAX_BITS bits above and below the line, so two of the largest are added in
half a millisecond (a core of 2.5 GHz). What an operation costs grows with the square of its size:
MAX_WORK allows for ten of the largest, and for thousands of the size that people compute with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Overflow, Underflow
from fractions import Fraction
from typing import Any

from baton.workers.tools.computation import NoResult, NotAnExpression
from baton.workers.tools.computation.expression import (
    Call,
    Group,
    Literal,
    Name,
    Negative,
    Node,
    Power,
)

MAX_BITS = 10_000
"""The largest number that is computed with: about 3,000 digits."""

MAX_WORK = 10 * (2 * MAX_BITS) ** 2
"""How much an expression may cost: the sum, over all values in it, of the squares of their bits."""

CALL_WORK = MAX_WORK // 40
"""What a function or a power costs besides: logarithms and roots take 100 to 200 microseconds."""

CALL_FACTOR = 4
"""How many operations of the size of its arguments a function does."""

_SIMPLE = ("percent", "quantity", "unit", "date", "time")
"""Functions that cost no more than a literal."""

MAX_EXPONENT = 1000
"""Of a number such as 1e9."""

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Percent:
    """A number followed by %: `200 - 15%` takes 15 per cent off, as on a pocket calculator."""

    number: Fraction

    @property
    def share(self) -> Fraction:
        """The number divided by 100."""
        return self.number / 100


@dataclass(frozen=True, slots=True)
class Result:
    """A value, and the outermost function of the expression ("" for an operator)."""

    value: Any
    function: str = ""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a tool's expressions may use: functions, named values, and operators by their sign.

    `NEGATIVE` is the sign of the minus before a value.
    """

    functions: Functions
    names: Mapping[str, Any]
    operators: Functions


NEGATIVE = "negative"


def evaluate_tree(tree: Node, words: Vocabulary) -> Result:
    """Return the value of an expression over closed lists. Raises CannotCompute."""
    try:
        value = _Evaluator(words).value(tree)
    except ZeroDivisionError as error:
        raise NoResult("by_zero") from error
    except (Overflow, Underflow) as error:
        raise NoResult("too_large") from error
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        raise NotAnExpression from error
    while isinstance(tree, Group):
        tree = tree.inside
    return Result(value, tree.function if isinstance(tree, Call) else "")


class _Evaluator:
    """Computes one expression, and counts what that costs."""

    def __init__(self, words: Vocabulary) -> None:
        self._words = words
        self._work = 0

    def value(self, node: Node) -> Any:
        """Return a node's value, which is bounded."""
        return self._bounded(self._computed(node))

    def _bounded(self, value: Any) -> Any:
        self._spend(size_of(value) ** 2)
        return value

    def _spend_call(self, name: str, values: Sequence[Any]) -> None:
        if name not in _SIMPLE:
            self._spend(CALL_WORK + CALL_FACTOR * sum(size_of(value) ** 2 for value in values))

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > MAX_WORK:
            raise NoResult("too_large")

    def _computed(self, node: Node) -> Any:
        words = self._words
        match node:
            case Literal("number", text):
                return _exact_number(text)
            case Literal("text", text):
                return text
            case Literal(kind, text):
                return words.functions[kind](text)
            case Name(name):
                return words.names[name]
            case Group(inside):
                return self.value(inside)
            case Negative(value):
                return words.operators[NEGATIVE](self.value(value))
            case Power(base, exponent):
                values = [self.value(base), self.value(exponent)]
                self._spend_call("^", values)
                return words.operators["^"](*values)
            case Call(name, arguments):
                function = words.functions[name]
                values = [self.value(argument) for argument in arguments]
                self._spend_call(name, values)
                return function(*values)
        value = self.value(node.first)
        for sign, operand in node.rest:
            value = self._bounded(words.operators[sign](value, self.value(operand)))
        return value


def size_of(value: Any) -> int:
    """Return the bits of a number, above and below the line. Raises CannotCompute for too many."""
    number = getattr(value, "magnitude", value)
    if isinstance(number, Percent):
        number = number.number
    if not isinstance(number, Fraction):
        return 0
    above, below = number.numerator.bit_length(), number.denominator.bit_length()
    if max(above, below) > MAX_BITS:
        raise NoResult("too_large")
    return above + below


def _exact_number(text: str) -> Fraction:
    if text[:2].lower() in ("0b", "0o", "0x"):
        return Fraction(int(text, 0))
    exponent = text.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > MAX_EXPONENT:
        raise NoResult("too_large")
    return Fraction(text)
