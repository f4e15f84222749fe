"""What a text claims that can be recomputed: sums such as 17 + 25 = 42, conversions of units.

What stands in prose is rarely all of a sum: a unit is left out, a number rounded, a date looks like
a difference. So each claimed sum has several readings and holds if one of them does; and where the
words around it leave a doubt, it is never called wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.lazy_loading import lazy_pattern
from baton.core.reading.bare_expressions import MATH_SIGNS, UNIT

MAX_SUMS = 40
MAX_LINE_CHARS = 2000
"""A longer line isn't prose."""

_MAX_SIDE_CHARS = 80


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SIGNS = str.maketrans({**MATH_SIGNS, **dict.fromkeys("\u00a0\u202f\u2009", " ")})
_LATEX = (
    (lazy_pattern(r"\\(?:times|cdot)(?![a-z])"), "*"),
    (lazy_pattern(r"\\div(?![a-z])"), "/"),
    (lazy_pattern(r"\\approx(?![a-z])"), "\u2248"),
    (lazy_pattern(r"\\[td]?frac\{(\d{1,9})\}\{(\d{1,9})\}"), r"(\1/\2)"),
    (lazy_pattern(r"\\\*"), "*"),
    (lazy_pattern(r"\\(?:left|right|[,;!()\[\]$%])|\$\$"), ""),
    # Bold type, but no power.
    (lazy_pattern(r"(?<![\w)])\*\*(?=\S)|(?<=[^\s*])\*\*(?![\w(\s*-])|(?<=[^\s*])\*\*$"), ""),
    (lazy_pattern(r"(?<=[^\s*])\*\* (?![\d(])"), " "),
    (lazy_pattern(r"`"), ""),
    (lazy_pattern(r"(?<=\d) (?=\d{3}(?!\d))"), ""),
    (lazy_pattern(r"(?<=[\d)%])\s*[xX]\s*(?=[$\u20ac\u00a3]?[\d(])"), "*"),
)
_MATH = "0123456789-+*/^().,%$\u20ac\u00a3 \t"
_OPERATION = lazy_pattern(r"[\d)%]\s*[-+*/^]+\s*[-(]?\s*[$\u20ac\u00a3]?[\d(]")
_RELATION = lazy_pattern(r"[!<>:=~]=|=[>=<~]|[<>\u2260\u2264\u2265]")
_OPERATORS_TOO = tuple("\u221a\u221b\u2211\u222b\u00b1|!_\\}]{[~")
_UNSURE = lazy_pattern(r"\.\d{13}|\d,\d{1,2}(?!\d)")
"""What a computer printed, and 2,5 or the next sum: 1+2=3,3+3=6."""
_LIST_MARK = lazy_pattern(r"^\s*(?:(?:\(?\d{1,2}[.)]|[-+*|>\u2022])\s+)+")
_DOUBT = lazy_pattern(
    r"n't\b|\b(?:not|never|wrong|incorrect|false|instead|if|suppose|assume|mod|modulo|binary|hex"
    r"|hexadecimal|octal|base|claims?|mistakes?|errors?|typo|should|would|unlike|versus|vs|clock"
    r"|o'clock|string|strings|concatenat\w*|joke|remainder|nicht|falsch|kein\w*|pas|faux|incorrecto"
    r"|non|sbagliato|let|where|odds|ratio|score|chapters?|pages?|between|range|from"
    r"|boolean|logic\w*|xor|ring|vectors?|matri\w+|modular|fails?|contradict\w*|impossible|no"
    r"|says?|said|novels?|slogans?|carry|gross|about|roughly|around|approx\w*|nearly"
    r"|cannot)\b",
    re.IGNORECASE,
)
_AMBIGUOUS = lazy_pattern(
    r"\d\.\d{3}(?!\d)|(?<![\d.,])0,\d"  # thousands to some, decimals to others
    r"|\s[\u2013\u2014]\s|\b(?:step|day|week|option|item|case|part|question|example|method|problem"
    r"|round|level|phase|section|exercise|rule|figure|table)\s\d+\s[-\u2212]\s"  # a dash
    r"|\d/\d+\s-\s\d+/\d",  # dates
    re.IGNORECASE,
)
_WORDS_BEFORE = _word_set(
    "of times plus minus by over mod sqrt root log ln sin cos tan exp squared cubed half double"
    " twice triple to per than with thousand million billion dozen hundred a an"
)
_SCALES = _word_set(
    "hundred thousand million billion trillion dozen k m b bn mio mrd percent per point"
    " points remainder r rest am pm st th o noon mod base in hours hour hrs hr h minutes"
    " minute mins min seconds second secs sec s days day weeks week months month years year km"
    " cm mm meters metres meter metre mi miles mile feet foot ft inches inch yards yard kg g"
    " mg grams gram lb lbs pounds pound oz ounces ounce tons ton tonnes l ml liters litres"
    " liter litre gallons gallon kb mb gb tb bytes bits cents cent degrees radians times to or"
    " x y z a p"
)


@frozen_dataclass
class ClaimedSum:
    """One claimed sum: its text, its readings (`left`, `right`), and whether they are doubtful."""

    written: str
    readings: tuple[tuple[str, str], ...]
    doubtful: bool


def claimed_sums(text: str) -> list[ClaimedSum]:
    """Return the sums that a text claims, at most MAX_SUMS."""
    found: list[ClaimedSum] = []
    for line in text.splitlines():
        if len(found) >= MAX_SUMS:
            break
        if len(line) <= MAX_LINE_CHARS and ("=" in line or "\u2248" in line):
            found += _sums_in_line(line)
    return found[:MAX_SUMS]


def _sums_in_line(line: str) -> Iterator[ClaimedSum]:
    doubtful = bool(_DOUBT.search(line) or _AMBIGUOUS.search(line))
    for pattern, replacement in _LATEX:
        line = pattern.sub(replacement, line.translate(_SIGNS))
    if _RELATION.search(line):
        return
    marked = _LIST_MARK.match(line)
    plain = line[marked.end() :] if marked else line
    signs = re.findall("[=\u2248]", plain)
    sides = re.split("[=\u2248]", plain)
    for n, ((before, after), sign) in enumerate(zip(pairwise(sides), signs, strict=True)):
        left, right = _left_side(before), _right_side(after)
        if left is None or right is None:
            continue
        doubt = doubtful or sign != "=" or left.doubtful or right.doubtful
        readings = [(a, b) for a in left.readings for b in right.readings]
        if marked and n == 0 and "-" in marked[0]:
            readings += [(f"-{a}", b) for a, b in readings]  # a sign, or a mark of a list
        yield ClaimedSum(f"{left.readings[0]} = {right.readings[0]}", tuple(readings), doubt)


@frozen_dataclass
class _Side:
    readings: tuple[str, ...]
    doubtful: bool


def _left_side(text: str) -> _Side | None:
    """Read the expression that ends before an equals sign."""
    words = text.rstrip(_MATH)
    math = text[len(words) :]
    # A number that ends a sentence, or a part of one, isn't part of the sum.
    *earlier, last = re.split(r"[.,]\s+", math)
    if words and not earlier and not math[:1].isspace() and words[-1] not in "*_\"'":
        return None
    if not earlier and words.rstrip()[-1:] in _OPERATORS_TOO:
        return None
    math = last.strip()
    if (
        not math
        or math[0] in "+*/^%)"
        or not _OPERATION.search(math)
        or len(math) > _MAX_SIDE_CHARS
    ):
        return None
    if math.count("(") != math.count(")"):
        return None
    word = "" if earlier else (re.findall(r"[^\W\d_]+", words) or [""])[-1].lower()
    doubtful = (
        word in _WORDS_BEFORE
        or (len(word) == 1 and word.isalpha())
        or (math[0] == "-" and bool(words))
        or _is_like_a_date(math)
    )
    return _Side((math,), doubtful)


def _right_side(text: str) -> _Side | None:
    """Read the number, or the expression, that begins after an equals sign."""
    rest = text.lstrip(_MATH)
    all_math = text[: len(text) - len(rest)]
    whole, *more = re.split(r"[.,]\s", all_math)
    math = whole.strip().rstrip(".,+*/^(-$").rstrip()
    while math.endswith(")") and math.count("(") < math.count(")"):
        math = math[:-1].rstrip()
    number = re.match(r"-?\s*[$\u20ac\u00a3]?\s*\d[\d.,]*%?", math)
    if number is None or len(math) > _MAX_SIDE_CHARS:
        return None
    first = number[0].rstrip(".,")
    readings = dict.fromkeys((math, first, first.rstrip("%")))
    # 7th and 13:15 aren't 7 and 13, and what is asked isn't claimed.
    adjacent = bool(rest) and not more and not all_math[-1:].isspace()
    adjacent = adjacent and (rest[0] not in ";:!\"'_]" or rest[1:2].isdigit())
    word = "" if more else (re.match(r"[^\W\d_]*", rest) or [""])[0].lower()
    doubtful = adjacent or word in _SCALES or "^" in math or "10" in math.split("*")[1:]
    doubtful = doubtful or bool(_UNSURE.search(math))
    return _Side(tuple(r for r in readings if r.count("(") == r.count(")")), doubtful)


def _is_like_a_date(math: str) -> bool:
    """Whether an expression may be a date, a range or a fraction: 3-4, 2024-01-15, 1/2."""
    return not re.search(r"[*^+()]|\s[-/]\s", math) or bool(re.search(r"(?<![\d.,])0\d", math))


# Conversions of units, such as 5 km are 3.1 miles


MAX_CONVERSIONS = 10

MAX_CONVERSION_ERROR = 0.03
"""A claimed value that is off by a larger share is wrong: prose rounds, seldom by more."""

_NUMBER = r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?"
_CONVERSION = lazy_pattern(
    rf"(?<![\d.,/$\u20ac\u00a3^*+-])(?P<amount>{_NUMBER})\s?(?P<unit>{UNIT})\s*"
    r"(?:=|\u2248|\b(?:is|are|equals?|makes?|(?:is|are) equal to)\b)\s*"
    r"(?:(?:about|approximately|roughly|around|exactly|approx\.)\s)?"
    rf"(?P<value>{_NUMBER})\s?(?P<target>{UNIT})(?![\w/^])",
    re.IGNORECASE,
)
_ABOUT = lazy_pattern(r"\b(?:about|roughly|around|approx\w*|exactly)\b", re.IGNORECASE)


@frozen_dataclass
class ClaimedConversion:
    """One claimed conversion: what to ask of the units tool, and the value that is claimed."""

    written: str
    question: str
    value: float


def claimed_conversions(text: str) -> list[ClaimedConversion]:
    """Return the conversions of units that a text claims, at most MAX_CONVERSIONS."""
    found: list[ClaimedConversion] = []
    for line in text.splitlines():
        if len(line) > MAX_LINE_CHARS or _DOUBT.search(_ABOUT.sub("", line)):
            continue
        for match in _CONVERSION.finditer(line):
            if len(found) == MAX_CONVERSIONS:
                return found
            question = f"{match['amount']} {match['unit']} in {match['target']}"
            value = float(match["value"].replace(",", ""))
            found.append(ClaimedConversion(match[0], question, value))
    return found


def is_conversion_right(answer: str, claimed: float) -> bool | None:
    """Whether a claimed value is what the units tool says; None where it gives no number."""
    numbers = re.findall(_NUMBER, re.split(r"\s(?:is|are)\s", answer, maxsplit=1)[-1])
    if not numbers:
        return None
    right = float(numbers[0].replace(",", ""))
    tolerance = max(MAX_CONVERSION_ERROR * abs(right), 0.5 * _last_digit(claimed))
    return abs(claimed - right) <= tolerance


def _last_digit(value: float) -> float:
    """Return the worth of the last digit that is written of a number: 0.1 of 26.1."""
    _, _, decimals = f"{value:g}".partition(".")
    return float(10 ** -len(decimals)) if "e" not in f"{value:g}" else 0.0
