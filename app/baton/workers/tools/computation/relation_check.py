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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple

from baton.core.lazy_loading import lazy_pattern
from baton.workers.tools.computation.lexicon import LANGUAGES, request_words


class _Licence(NamedTuple):
    """What a request says, by language, where an expression may do something."""

    does: re.Pattern[str]
    says: Mapping[str, re.Pattern[str]]


class _Relation(NamedTuple):
    """What a request `says` where something is so, but not `unless`.

    Then a tool's expression `needs` something besides the request's own numbers, or `forbids` it;
    `name` is what is lost.
    """

    name: str
    tools: Collection[str]
    says: re.Pattern[str]
    unless: re.Pattern[str] | None
    needs: re.Pattern[str] | None
    forbids: re.Pattern[str] | None

    def is_said(self, request: str) -> bool:
        """Whether a request says it."""
        return bool(self.says.search(request)) and not (self.unless and self.unless.search(request))

    def is_lost(self, expression: str, besides: str) -> bool:
        """Whether it doesn't show in an expression, and in that without the request's numbers."""
        is_missing = self.needs is not None and not self.needs.search(besides)
        return is_missing or (self.forbids is not None and bool(self.forbids.search(expression)))


class _Place(NamedTuple):
    """What stands between two numbers that a sign joins: clear words, or else others."""

    sign: str
    clear: re.Pattern[str]
    other: Mapping[str, re.Pattern[str]]


class _Rules(NamedTuple):
    """All rules; `apart` are shapes of expressions whose numbers may be apart, with their words."""

    licences: Sequence[_Licence]
    relations: Sequence[_Relation]
    places: Sequence[_Place]
    apart: Sequence[tuple[re.Pattern[str], re.Pattern[str] | None]]


def _pattern(says: Iterable[str], signs: str | None) -> re.Pattern[str] | None:
    """Return what finds any of some words, or of some signs, in small or large letters."""
    words = "|".join(says)
    found = [f"(?<!\\w)(?:{words})(?!\\w)"] if words else []
    found += [signs] if signs is not None else []
    return lazy_pattern("|".join(found), re.IGNORECASE) if found else None


@cache
def _rules() -> _Rules:
    source = files("baton.workers.tools.computation") / "relations.toml"
    found = tomllib.loads(source.read_text(encoding="utf-8"))
    relations = [
        _Relation(
            rule["name"],
            rule["tools"],
            _pattern(rule.get("says", ()), rule.get("signs")) or lazy_pattern(""),
            _pattern(rule.get("unless", ()), rule.get("unless_signs")),
            *(lazy_pattern(rule[key]) if key in rule else None for key in ("needs", "forbids")),
        )
        for rule in found["relation"]
    ]
    any_case = partial(lazy_pattern, flags=re.IGNORECASE)
    return _Rules(
        [_Licence(lazy_pattern(rule["does"]), _licence_words(rule)) for rule in found["licence"]],
        relations,
        [
            _Place(
                rule["sign"],
                any_case(rule["clear"]),
                {name: any_case(words) for name, words in rule["other"].items()},
            )
            for rule in found["place"]
        ],
        [
            (lazy_pattern(rule["shapes"]), _pattern(rule.get("says", ()), rule.get("signs")))
            for rule in found["apart"]
        ],
    )


def _licence_words(rule: Mapping[str, Any]) -> Mapping[str, re.Pattern[str]]:
    says, signs = rule.get("says", ()), rule.get("signs")
    found = {
        language: _pattern(
            {says[language], says["en"]} if isinstance(says, Mapping) else says, signs
        )
        for language in LANGUAGES
    }
    return {language: pattern for language, pattern in found.items() if pattern is not None}


MAX_WORDS = 14
"""Of longer requests the conductor, at first sight, misread every second one, but for clear ones.

Those hold nothing but what is turned into something else.
"""

MAX_CHARS = 1_000
"""A longer one holds a list at best, and some patterns take the square of its length."""


def find_lost_relation(tool: str, expression: str, request: str, language: str) -> str:
    """Return what a request says that doesn't show in an expression, "" for nothing known.

    `request` is marked: the words of it that the expression stands for.
    """
    if len(request) > MAX_CHARS or (
        len(_WORD.findall(request)) > MAX_WORDS and not _CLEAR.match(expression)
    ):
        return "a long story"
    licences, relations, *_ = _rules()
    for operation in _operations(tool, expression, request):
        if not any(
            licence.does.fullmatch(operation) and licence.says[language].search(request)
            for licence in licences
        ):
            return f"no {operation.removeprefix('#').removeprefix('c:')}"
    besides = expression
    for literal in _NUMBER.findall(request):
        besides = re.sub(rf"(?<![\d.]){re.escape(literal)}(?![\d.])", " ", besides, count=1)
    for relation in relations:
        # What the expression has is found out sooner than what the request says, in six languages.
        is_lost = tool in relation.tools and relation.is_lost(expression, besides)
        if is_lost and relation.is_said(request):
            return relation.name
    if tool == "units":
        return _find_other_amounts(expression, request)
    if tool != "calc":
        return ""
    return _find_lost_fraction(expression, request) or _find_other_place(
        expression, request, language
    )


def _find_other_place(expression: str, request: str, language: str) -> str:
    """Return two numbers of a request between which something else stands than their sign."""
    rules = _rules()
    if re.search(r"#|[a-z]", expression) or any(
        shape.fullmatch(expression) and words is not None and words.search(request)
        for shape, words in rules.apart
    ):
        return ""
    for left, sign, right in _JOINED.findall(re.sub(r"[()\s]", "", expression)):
        between, is_turned = _between(left, right, request)
        if between is None:
            continue
        signs = _signs_said(between, is_turned, language, is_share="%" in left + right)
        if signs is not None and sign not in signs:
            return f"{left} {sign} {right}"
    return ""


def _find_other_amounts(expression: str, request: str) -> str:
    """Return two amounts that are added or taken away though the request doesn't say so.

    Added are those side by side ("5 ft 11 in") too.
    """
    for left, unit, sign, right in _AMOUNTS.findall(expression):
        between, is_turned = _between(left, right, request)
        between = (between or "").strip().removeprefix(unit)
        clear = [place.sign for place in _rules().places for _ in place.clear.finditer(between)]
        is_beside = sign == "+" and _BESIDE.fullmatch(between)
        if is_turned or not (is_beside or clear == [sign]):
            return f"{left} {unit} {sign} {right}"
    return ""


_AMOUNTS = re.compile(r"(\d+(?:\.\d+)?) (\S+) ([-+]) \(?(\d+(?:\.\d+)?)")
_BESIDE = re.compile(rf"[ ,]*(?:{request_words('and')}|ed)? *", re.IGNORECASE)


def _signs_said(
    between: str, is_turned: bool, language: str, is_share: bool
) -> Collection[str] | None:
    """Return which signs the words between two numbers may stand for; () for several.

    None where only clear words count, and there are none: one number is a percentage.

    Turned round, numbers are taken from each other or shared ("take 3 from 8", "3 share 48").
    """
    places = _rules().places
    clear = [place.sign for place in places for _ in place.clear.finditer(between)]
    if clear and not (is_share and is_turned):
        return clear if len(clear) == 1 and not (is_turned and clear == ["-"]) else ()
    if is_share:
        return None
    other = {place.sign for place in places if place.other[language].search(between)}
    if is_turned:
        return other & {"-", "/"}
    other -= {"-"}
    other -= {"+"} if len(other) > 1 else set()
    return other if len(other) == 1 or other == {"*", "/"} else ()


_JOINED = re.compile(r"(?=(?<![\d.])(\d+(?:\.\d+)?%?)([-+*/])(\d+(?:\.\d+)?%?))")


def _between(left: str, right: str, request: str) -> tuple[str | None, bool]:
    """Return what stands between two numbers where they are nearest, and whether they are turned.

    None for a number that the request doesn't write.
    """
    ends = [
        (abs(one.start() - other.start()), one.start() > other.start(), one, other)
        for one in re.finditer(rf"(?<![\d.]){re.escape(left)}(?![\d.]*\d)", request)
        for other in re.finditer(rf"(?<![\d.]){re.escape(right)}(?![\d.]*\d)", request)
        if one.start() != other.start()
    ]
    if not ends:
        return None, False
    _, is_turned, *pair = min(ends, key=lambda end: end[:2])
    first, last = reversed(pair) if is_turned else pair
    return request[first.end() : last.start()], is_turned


def _find_lost_fraction(expression: str, request: str) -> str:
    """Return a fraction or mixed number of a request that an expression takes apart."""
    for over, under in _FRACTION.findall(request):
        divides = re.search(rf"{request_words('by')} {over}/{under}", request)
        whole = rf"{over} ?/ ?{under}"
        there = rf"\({whole}\)" if divides else rf"(?<![\d.]){whole}(?![\d.])"
        is_share = over == "1" and not divides and re.search(rf"/ ?{under}(?![\d.])", expression)
        if not is_share and not re.search(there, expression):
            return f"{over}/{under}"
    for whole, part, parts in _MIXED.findall(request):
        decimal = re.escape(f"{int(whole) + int(part) / max(1, int(parts)):g}")
        if not re.search(rf"{whole} ?\+ ?\(?{part} ?/ ?{parts}|{decimal}", expression):
            return f"{whole} {part}/{parts}"
    return ""


def _operations(tool: str, expression: str, request: str) -> Iterator[str]:
    """Yield what an expression does: its signs, functions, and numbers that aren't the request's.

    `+%` adds a percentage, `-%` takes one off, `%*` is a part, `/(1+%` what was there before it.
    """
    if tool == "clock":
        for name in _CLOCK.findall(expression):
            nth = _NTH.search(expression) if name == "nth" else None
            yield f"c:nth {nth[1]}" if nth else f"c:{name}"
        return
    theirs = {_plain(number) for number in _DIGITS.findall(request)}
    numbers = map(_plain, _NUMBER.findall(_REFERENCE.sub(" ", expression)))
    yield from (f"#{number}" for number in numbers if number not in theirs)
    if tool == "calc":
        for pattern, operation in _SHAPES:
            expression, count = pattern.subn(" ", expression)
            if count:
                yield operation
        yield from _FUNCTION.findall(expression)
        yield from _SIGN.findall(expression)


def _plain(number: str) -> str:
    """Return a number without zeros behind its decimal point."""
    return number.rstrip("0").rstrip(".") if "." in number else number


_SHAPES = (
    (re.compile(r"/ ?\(1 ?\+ ?[\d.]+%\)"), "/(1+%"),
    (re.compile(r"/ ?\(1 ?- ?[\d.]+%\)"), "/(1-%"),
    (re.compile(r"\* ?\(1 ?\+ ?[\d.]+%\)(?= ?\^)"), "*"),
    (re.compile(r"\+ ?[\d.]+%"), "+%"),
    (re.compile(r"- ?[\d.]+%"), "-%"),
    (re.compile(r"[\d.]+% ?\*|\* ?[\d.]+%"), "%*"),
)
_FUNCTION = re.compile(r"[a-z]+(?=\()|(?<![\w(,] )(?<!\w)pi(?!\w)")
_CLOCK = re.compile(r"[a-z]+(?=\()|(?<=\S )[-+](?= )")
_NTH = re.compile(r"nth\((-?\d)")
_WORD = re.compile(r"[^\W\d_]+")
_CLEAR = re.compile(r"unroman\(|dec\(|[^*/-]+ -> ")
_SIGN = re.compile(r"(?<=[\w)%!])\s*([-+*/^])")
_REFERENCE = re.compile(r"#\d|0[bxo][\da-f]+")
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_NUMBER = lazy_pattern(r"(?<![\w.])\d+(?:\.\d+)?")
_FRACTION = lazy_pattern(r"(?<!\d )(?<![\w./-])(\d+)/(\d+)(?![\w/-])")
_MIXED = lazy_pattern(r"(?<![\d./])(\d+) (\d+)/(\d+)(?![\d/])")
