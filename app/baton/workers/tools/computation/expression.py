"""Evaluates the expressions of plan steps: `calc`, `units` and `clock`.

The small conductor writes expressions (docs/orchestration.md has the language); the values are
exact. Parsing is Python's, evaluation simpleeval's with a closed list of operators and functions,
units are pint's, dates dateutil's and zoneinfo's. No expression takes longer than a moment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import simpleeval

from baton.workers.tools.computation import CannotCompute, NotAnExpression

MAX_EXPRESSION_CHARS = 1000
MAX_NODES = 500
MAX_DEPTH = 120
"""How deep the tree of an expression may be: a sum of so many numbers is as deep."""

MAX_EXPONENT = 1000
"""Of a number such as 1e9."""

TOOLS = ("calc", "units", "clock")

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
    exact: bool = True


class Evaluator(simpleeval.SimpleEval):
    """simpleeval without its strings, attributes, comparisons and other expressions."""

    def __init__(
        self,
        functions: Functions,
        names: Mapping[str, Any],
        operators: Mapping[type[ast.AST], Callable[..., Any]],
    ) -> None:
        super().__init__(operators=dict(operators), functions=dict(functions), names=dict(names))
        self.nodes = {
            ast.Expr: self._eval_expr,
            ast.UnaryOp: self._eval_unaryop,
            ast.BinOp: self._eval_binop,
            ast.Call: self._eval_call,
            ast.Name: self._eval_name,
            ast.Constant: self._exact_constant,
        }

    def _exact_constant(self, node: ast.Constant) -> Any:
        match node.value:
            case str():
                return node.value
            case bool() | None:
                raise NotAnExpression
            case int() as number:
                return Fraction(number)
            case float():
                return _exact_decimal(ast.get_source_segment(self.expr, node) or "")
        raise NotAnExpression


def _exact_decimal(text: str) -> Fraction:
    exponent = text.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > MAX_EXPONENT:
        raise CannotCompute("The numbers are too large.")
    return Fraction(text)


def _depth(tree: ast.AST) -> int:
    depth, level = 0, [tree]
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth


_NO_VALUE = (
    simpleeval.InvalidExpression,
    ArithmeticError,
    LookupError,
    ValueError,
    TypeError,
)


def evaluate_source(
    source: str,
    functions: Functions,
    names: Mapping[str, Any],
    operators: Mapping[type[ast.AST], Callable[..., Any]],
) -> Result:
    """Return the value of a Python expression over closed lists. Raises CannotCompute."""
    source = source.strip()
    if len(source) > 3 * MAX_EXPRESSION_CHARS:
        raise CannotCompute("The expression is too long.")
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise NotAnExpression from error
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise CannotCompute("The expression is too long.")
    if _depth(tree) > MAX_DEPTH:
        raise CannotCompute("The expression is nested too deeply.")
    if any(node.keywords for node in ast.walk(tree) if isinstance(node, ast.Call)):
        raise NotAnExpression
    function = ""
    if isinstance(tree.body, ast.Call) and isinstance(tree.body.func, ast.Name):
        function = tree.body.func.id
    evaluator = Evaluator(functions, names, operators)
    try:
        value = evaluator.eval(source, ast.Expr(tree.body))
    except CannotCompute:
        raise
    except ZeroDivisionError as error:
        raise CannotCompute("This would divide by zero.") from error
    except (
        simpleeval.InvalidExpression,
        ArithmeticError,
        LookupError,
        ValueError,
        TypeError,
    ) as error:
        raise NotAnExpression from error
    return Result(value, function)


_NUMBER_PATTERN = r"\d+(?:\.\d+)?"
_PERCENT_PATTERN = re.compile(rf"((?<![\w.]){_NUMBER_PATTERN}|#\d)\s*%(?!\s*[\w(])")
_LEADING_ZEROS = re.compile(r"(?<![\w.])0+(?=\d)")
_REFERENCE = re.compile(r"#(\d)")


def python_source(text: str) -> str:
    """Return calculator notation as Python: `^`, percentages, `#1` for an earlier result."""
    text = _PERCENT_PATTERN.sub(r"percent(\1)", text)
    text = _LEADING_ZEROS.sub("", text) if "0b" not in text and "0x" not in text else text
    return _REFERENCE.sub(r"result_\1", text).replace("^", "**")
