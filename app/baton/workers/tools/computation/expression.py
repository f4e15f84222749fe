"""The language of expressions, which the conductor writes for `calc`, `units` and `clock`.

docs/orchestration.md describes it. One parser reads all of them, and sums as people write them
(`written_expression` makes their tokens); `evaluator` computes the tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from baton.workers.tools.computation import CannotCompute, NotAnExpression

MAX_EXPRESSION_CHARS = 1000
MAX_NODES = 500
"""How many operands and signs an expression may have; a sign counts twice."""

MAX_DEPTH = 40
"""How many brackets, signs and powers may stand inside of each other."""


class Literal(NamedTuple):
    """A number, a date, a time, or a text such as a city's name."""

    kind: str
    text: str


class Name(NamedTuple):
    """A name for a value: `pi`, `today`, or `#1` for an earlier result."""

    name: str


class Call(NamedTuple):
    """A function of some arguments; so are `15%` and `42 km`."""

    function: str
    arguments: Sequence[Node]


class Chain(NamedTuple):
    """Operands of one rank, computed from left to right, each with the sign before it."""

    first: Node
    rest: Sequence[tuple[str, Node]]


class Power(NamedTuple):
    """A base and its exponent."""

    base: Node
    exponent: Node


class Negative(NamedTuple):
    """A value with a minus before it."""

    value: Node


class Group(NamedTuple):
    """What stands in brackets."""

    inside: Node


Node: TypeAlias = Literal | Name | Call | Chain | Power | Negative | Group

_NUMBER = r"0[bBoOxX][0-9a-fA-F]+(?!\w)|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])"
_PERCENT = r"(?:\s*(?P<percent>%)(?!\s*[\w(]))?"
_NEVER = r"(?!)"


def token_pattern(
    units: str = _NEVER, literals: str = _NEVER, argument: str = _NEVER
) -> re.Pattern[str]:
    """Return what finds the tokens of a tool's expressions.

    A unit stands behind a number, an earlier result or a bracket. Literals have named groups;
    an `argument` is a text without quotation marks.
    """
    return re.compile(
        rf"{argument}|\s*(?:{literals}"
        rf"|(?P<amount>[0-9]+(?:\.[0-9]+)?|\#[0-9])\s*(?P<unit>{units})"
        rf"|(?P<number>{_NUMBER}|\#[0-9](?!\w)){_PERCENT}"
        rf"|\)\s*(?P<factor>{units})"
        r"|(?P<name>[A-Za-z][A-Za-z0-9]*)|\"(?P<text>[^\"]*)\"|(?P<sign>\*\*|[-+*/^(),]))"
    )


def parse_expression(text: str, pattern: re.Pattern[str]) -> Node:
    """Return the tree of an expression in a tool's notation. Raises CannotCompute."""
    text = text.strip()
    if len(text) > MAX_EXPRESSION_CHARS:
        raise CannotCompute("This is too long to be computed.")
    tokens: list[Node | str] = []
    at = 0
    while at < len(text):
        if (match := pattern.match(text, at)) is None:
            raise NotAnExpression
        tokens += _tokens_of(match)
        at = match.end()
    return parse_tokens(tokens)


def _tokens_of(match: re.Match[str]) -> Sequence[Node | str]:
    kind = match.lastgroup or ""
    text = match[kind]
    match kind:
        case "sign":
            return ["^" if text == "**" else text]
        case "name":
            return [Name(text)]
        case "number":
            return [_number(text)]
        case "percent":
            return [Call("percent", [_number(match["number"])])]
        case "unit":
            return [Call("quantity", [_number(match["amount"]), Literal("text", text)])]
        case "factor":
            return [")", "*", Call("unit", [Literal("text", text)])]
        case "argument":
            return [Literal("text", text)]
    return [Literal(kind, text)]


def _number(text: str) -> Node:
    return Name(text) if text[0] == "#" else Literal("number", text)


def parse_tokens(tokens: Sequence[Node | str]) -> Node:
    """Return the tree of operands and the signs between them. Raises CannotCompute."""
    tree = _Parser(tokens).parse()
    signs = sum(isinstance(token, str) and token not in "()," for token in tokens)
    operands = sum(not isinstance(token, str) for token in tokens)
    if operands + 2 * signs > MAX_NODES:
        raise CannotCompute("The expression is too long.")
    return tree


class _Parser:
    """Reads tokens by recursive descent; a name with a bracket behind it is a function."""

    def __init__(self, tokens: Sequence[Node | str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def parse(self) -> Node:
        tree = self._sum()
        if self._at < len(self._tokens):
            raise NotAnExpression
        return tree

    def _next(self) -> Node | str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        token = self._next()
        if not isinstance(token, str) or token not in wanted:
            return ""
        self._at += 1
        return token

    def _sum(self) -> Node:
        product = partial(self._chain, self._signed, "*", "/", "mod", "//")
        return self._chain(product, "+", "-")

    def _chain(self, operand: Callable[[], Node], *signs: str) -> Node:
        first = operand()
        rest: list[tuple[str, Node]] = []
        while sign := self._take(*signs):
            rest.append((sign, operand()))
        return Chain(first, rest) if rest else first

    def _signed(self) -> Node:
        if sign := self._take("+", "-"):
            value = self._deeper(self._signed)
            return Negative(value) if sign == "-" else value
        base = self._postfix()
        return Power(base, self._deeper(self._signed)) if self._take("^") else base

    def _postfix(self) -> Node:
        value = self._operand()
        while sign := self._take("!", "%"):
            value = Call("fact" if sign == "!" else "percent", [value])
        return value

    def _operand(self) -> Node:
        if self._take("\u221a"):
            return Call("sqrt", [self._deeper(self._postfix)])
        if self._take("("):
            inside = self._deeper(self._sum)
            self._close()
            return Group(inside)
        token = self._next()
        if isinstance(token, str):
            raise NotAnExpression
        self._at += 1
        if isinstance(token, Name) and self._take("("):
            return Call(token.name, self._arguments())
        return token

    def _arguments(self) -> Sequence[Node]:
        if self._take(")"):
            return []
        arguments = [self._deeper(self._sum)]
        while self._take(","):
            arguments.append(self._deeper(self._sum))
        self._close()
        return arguments

    def _close(self) -> None:
        if not self._take(")"):
            raise CannotCompute("A bracket is not closed.") if not self._next() else NotAnExpression

    def _deeper(self, read: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CannotCompute("The expression is nested too deeply.")
        tree = read()
        self._depth -= 1
        return tree


def notation(node: Node) -> str:
    """Return a sum in the exact notation, with as many brackets as it was written with."""
    match node:
        case Literal(text=text) | Name(text):
            return text
        case Call(function, arguments):
            return _call_notation(function, arguments)
        case Power(base, exponent):
            return f"{notation(base)}^{notation(exponent)}"
        case Negative(value):
            return f"-{notation(value)}"
        case Group(node):
            return f"({notation(node)})"
    text = notation(node.first)
    for sign, operand in node.rest:
        if sign in _FUNCTION_OF_SIGN:
            text = f"{_FUNCTION_OF_SIGN[sign]}({text}, {notation(operand)})"
        else:
            text = f"{text} {sign} {notation(operand)}"
    return text


_FUNCTION_OF_SIGN = {"mod": "mod", "//": "quot"}


def _call_notation(function: str, arguments: Sequence[Node]) -> str:
    match function, arguments:
        case "percent", [Literal(text=number)]:
            return f"{number}%"
        case _, [Group(argument)]:
            return f"{function}({notation(argument)})"
    return f"{function}({', '.join(map(notation, arguments))})"
