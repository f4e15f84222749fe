"""Checks that what a request says of its numbers is what its expression does with them.

The small conductor copies numbers well and reads the words between them less well: a half gets
lost, a second thing that is spent is added, "of what" is multiplied. So an operation is computed
only where the request has a word for it (its licence), and what the request says besides must show
in the expression (a relation). The words of the six languages stand in `relations.toml`. What
fails is left to a worker, whose answer is marked.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from baton.core.late_pattern import late_pattern


class _Rule(NamedTuple):
    """What a request `says` where something is so, but not `unless`.

    A licence allows what it `does`. A relation `needs` something in the expression, besides the
    request's own numbers, or `forbids` it; `name` is what is lost.
    """

    says: re.Pattern[str]
    unless: re.Pattern[str] | None
    does: re.Pattern[str]
    needs: re.Pattern[str] | None
    forbids: re.Pattern[str] | None
    name: str
    tool: str

    def is_said(self, request: str) -> bool:
        """Whether a request says it."""
        return bool(self.says.search(request)) and not (self.unless and self.unless.search(request))


def _rule(found: Mapping[str, Any]) -> _Rule:
    return _Rule(
        _words(found.get("says", ()), found.get("signs")),
        _words(found["unless"], found.get("unless_signs")) if "unless" in found else None,
        late_pattern(found.get("does", "")),
        late_pattern(found["needs"]) if "needs" in found else None,
        late_pattern(found["forbids"]) if "forbids" in found else None,
        found.get("name", ""),
        found.get("tool", ""),
    )


def _words(says: Sequence[str], signs: str | None) -> re.Pattern[str]:
    """Return what finds any of some words, or of some signs, in small or large letters."""
    words = [rf"(?<!\w)(?:{'|'.join(says)})(?!\w)"] if says else []
    return late_pattern("|".join([*words, *([signs] if signs is not None else [])]), re.IGNORECASE)


@cache
def _rules() -> tuple[Sequence[_Rule], Sequence[_Rule]]:
    """Return the licences and the relations."""
    source = files("baton.workers.tools.computation") / "relations.toml"
    found = tomllib.loads(source.read_text(encoding="utf-8"))
    return tuple(map(_rule, found["licence"])), tuple(map(_rule, found["relation"]))


def find_lost_relation(tool: str, expression: str, request: str) -> str:
    """Return what a request says that doesn't show in an expression, "" for nothing known.

    `request` is marked: the words of it that the expression stands for.
    """
    licences, relations = _rules()
    for operation in _operations(tool, expression, request):
        if not any(r.does.fullmatch(operation) and r.is_said(request) for r in licences):
            return f"no {operation.removeprefix('#').removeprefix('c:')}"
    besides = expression
    for literal in _NUMBER.findall(request):
        besides = re.sub(rf"(?<![\d.]){re.escape(literal)}(?![\d.])", " ", besides, count=1)
    for rule in relations:
        if rule.tool == tool and rule.is_said(request):
            is_lost = rule.needs is not None and not rule.needs.search(besides)
            if is_lost or (rule.forbids is not None and rule.forbids.search(expression)):
                return rule.name
    for over, under in _FRACTION.findall(request) if tool == "calc" else ():
        divides = re.search(rf"(?:by|durch|par|entre|por|per) {over}/{under}", request)
        there = rf"\({over} ?/ ?{under}\)" if divides else rf"(?<![\d.]){over} ?/ ?{under}(?![\d.])"
        is_share = over == "1" and not divides and re.search(rf"/ ?{under}(?![\d.])", expression)
        if not is_share and not re.search(there, expression):
            return f"{over}/{under}"
    for whole, part, parts in _MIXED.findall(request) if tool == "calc" else ():
        decimal = re.escape(f"{int(whole) + int(part) / max(1, int(parts)):g}")
        if not re.search(rf"{whole} ?\+ ?\(?{part} ?/ ?{parts}|{decimal}", expression):
            return f"{whole} {part}/{parts}"
    return ""


def _operations(tool: str, expression: str, request: str) -> Iterator[str]:
    """Yield what an expression does: its signs, functions, and numbers that aren't the request's.

    `+%` adds a percentage, `-%` takes one off, `%*` is a part, `/(1+%` what was there before it.
    """
    if tool == "clock":
        yield from (f"c:{name}" for name in _FUNCTION.findall(expression) or ("shift",))
    if tool != "calc":
        return
    for pattern, operation in _SHAPES:
        expression, count = pattern.subn(" ", expression)
        if count:
            yield operation
    yield from _FUNCTION.findall(expression)
    yield from _SIGN.findall(expression)
    theirs = {
        number.rstrip("0").rstrip(".") if "." in number else number
        for number in _DIGITS.findall(request)
    }
    for number in _NUMBER.findall(_REFERENCE.sub(" ", expression)):
        if (number.rstrip("0").rstrip(".") if "." in number else number) not in theirs:
            yield f"#{number}"


_SHAPES = (
    (re.compile(r"/ ?\(1 ?\+ ?[\d.]+%\)"), "/(1+%"),
    (re.compile(r"/ ?\(1 ?- ?[\d.]+%\)"), "/(1-%"),
    (re.compile(r"\* ?\(1 ?\+ ?[\d.]+%\)(?= ?\^)"), "*"),
    (re.compile(r"\+ ?[\d.]+%"), "+%"),
    (re.compile(r"- ?[\d.]+%"), "-%"),
    (re.compile(r"[\d.]+% ?\*|\* ?[\d.]+%"), "%*"),
)
_FUNCTION = re.compile(r"[a-z]+(?=\()|(?<![\w(,] )(?<!\w)pi(?!\w)")
_SIGN = re.compile(r"(?<=[\w)%!])\s*([-+*/^])")
_REFERENCE = re.compile(r"#\d|0[bxo][\da-f]+")
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_NUMBER = late_pattern(r"(?<![\w.])\d+(?:\.\d+)?")
_FRACTION = late_pattern(r"(?<!\d )(?<![\w./-])(\d+)/(\d+)(?![\w/-])")
_MIXED = late_pattern(r"(?<![\d./])(\d+) (\d+)/(\d+)(?![\d/])")
