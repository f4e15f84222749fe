"""Says a computed result as a person would, in the language of the request.

What the sentence doesn't show itself stands behind it: a wrong expression is the worst failure of
this way of computing, and a reader sees it at once.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from baton.workers.tools.computation.dates import (
    WEEKDAYS,
    CityTime,
    ClockTime,
    DayOfYear,
    Duration,
    Span,
)
from baton.workers.tools.computation.expression import Result
from baton.workers.tools.computation.lexicon import Lexicon, lexicon
from baton.workers.tools.computation.quantities import Amount

SIGNIFICANT_DIGITS = 10
"""Digits of a number that isn't whole."""

UNIT_DIGITS = 4
"""The same for a conversion: more say nothing to a person."""

_TIMES, _DIVIDED, _MINUS = "\u00d7", "\u00f7", "\u2212"
_SIGNS = {"*": _TIMES, "/": _DIVIDED, "-": _MINUS}


def result_text(tool: str, expression: str, result: Result, language: str) -> str:
    """Return a sentence with the result."""
    words = lexicon(language)
    match tool:
        case "calc":
            return _calc(expression, result, words)
        case "units":
            return _units(expression, result, words)
    return _clock(expression, result, words)


def number_text(value: Fraction, words: Lexicon, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Return a number with the language's separators, rounded to so many significant digits.

    The whole part is never rounded.
    """
    whole = len(str(abs(int(value))))
    places = max(0, digits - whole) if int(value) else digits
    while not int(value) and value and places < 30 and not round(value, places):
        places += 1
    rounded = round(value, places)
    text = f"{abs(int(rounded)):,}"
    rest = abs(rounded) - abs(int(rounded))
    decimals = f"{int(rest * 10**places):0{places}}".rstrip("0") if places and rest else ""
    separator = "\u202f" if words.language in ("fr", "es", "pt", "it") else words.thousands[0]
    text = text.replace(",", separator if abs(rounded) >= 10_000 or words.language == "en" else "")
    sign = _MINUS if rounded < 0 else ""
    return f"{sign}{text}{words.decimal + decimals if decimals else ''}"


def is_rounded(value: Fraction, digits: int = SIGNIFICANT_DIGITS) -> bool:
    """Whether a number has more digits than are shown."""
    whole = len(str(abs(int(value))))
    return round(value, max(0, digits - whole)) != value


def _readable_expression(expression: str, words: Lexicon) -> str:
    """Return an expression with a mathematician's signs and the language's decimal sign."""
    text = re.sub(
        r"(?<=[\d)%\s])\s*([*/-])\s*(?=[\d(\s#a-z])", lambda m: f" {_SIGNS[m[1]]} ", expression
    )
    text = re.sub(r"\s*\+\s*", " + ", text)
    if words.decimal == ",":
        text = (
            re.sub(r"(?<=\d)\.(?=\d)", ",", text).replace(", ", "; ")
            if "(" in text
            else re.sub(r"(?<=\d)\.(?=\d)", ",", text)
        )
    return re.sub(r"  +", " ", text).strip()


def _calc(expression: str, result: Result, words: Lexicon) -> str:
    value, answers = result.value, words.answers
    inside = expression.partition("(")[2].rpartition(")")[0]
    match result.function, value:
        case "isprime", bool():
            return answers["prime" if value else "not_prime"].format(
                value=_readable_expression(inside, words)
            )
        case "factors", list():
            return f"{_readable_expression(inside, words)} = {f' {_TIMES} '.join(map(str, value))}"
        case "pct", Fraction():
            return (
                answers["percent"].format(value=number_text(value, words))
                + f" ({_readable_expression(expression, words)})"
            )
        case "change", Fraction():
            key = "percent_up" if value >= 0 else "percent_down"
            return (
                answers[key].format(value=number_text(abs(value), words))
                + f" ({_readable_expression(expression, words)})"
            )
    text = number_text(value, words) if isinstance(value, Fraction) else str(value)
    sign = "≈" if isinstance(value, Fraction) and is_rounded(value) else "="
    return f"{_readable_expression(expression, words)} {sign} {text}"


def _units(expression: str, result: Result, words: Lexicon) -> str:
    if not isinstance(result.value, Amount):
        return f"{_readable_expression(expression, words)} = {number_text(result.value, words)}"
    amount = result.value
    to = " ".join(quantity_text(value, code, words) for value, code in amount.parts)
    source = _SOURCE.fullmatch(amount.source)
    if source is None:
        return f"{_readable_expression(amount.source, words)} = {to}"
    value = Fraction(source[1])
    key = "convert_one" if value == 1 else "convert"
    return (
        words.answers[key]
        .replace("{from}", quantity_text(value, source[2], words))
        .replace("{to}", to)
    )


def scaled_amount_text(expression: str, amount: Amount, result: Result, language: str) -> str:
    """Return a sentence with a multiple or share of `#1`, an amount, in its unit."""
    words = lexicon(language)
    value, code = amount.parts[-1]
    text = re.sub(
        r"#\d", quantity_text(value, code, words), _readable_expression(expression, words)
    )
    sign = "≈" if is_rounded(result.value, UNIT_DIGITS) else "="
    return f"{text} {sign} {quantity_text(result.value, code, words)}"


_SOURCE = re.compile(r"(-?\d+(?:\.\d+)?) (\S+)")


def quantity_text(value: Fraction, code: str, words: Lexicon) -> str:
    """Return a number with its unit: the word for what people say, else the code."""
    forms = words.units.get(code, (code, code))
    name = (
        code if code not in _IN_WORDS else forms[0] if value == 1 else forms[min(1, len(forms) - 1)]
    )
    name = {"C": "°C", "F": "°F", "deg": "°"}.get(code, name)
    name = _SUPERSCRIPT.sub(lambda m: "²³"[int(m[0]) - 2], name)
    return f"{number_text(value, words, UNIT_DIGITS)} {name}"


_IN_WORDS = frozenset({"d", "w", "mo", "y", "ft", "in", "yd", "mi", "nmi", "oz", "lb", "st"})
_IN_WORDS |= {"tsp", "tbsp", "cup", "floz", "pt", "qt", "gal", "acre", "ft2", "yd2", "mi2", "kn"}
_IN_WORDS |= {"t", "a", "hp", "cal", "B", "bit"}
"""Units that are written as a word; the others are, by their code, the same everywhere."""
_SUPERSCRIPT = re.compile(r"(?<=[a-z])[23](?!\d)")


def date_text(day: date, words: Lexicon, *, weekday: bool = False) -> str:
    """Return a date as the language writes it."""
    key = "weekday_date_format" if weekday else "date_format"
    return words.answers[key].format(
        weekday=words.weekdays[day.weekday()][0],
        day=day.day,
        month=words.months[day.month - 1][0],
        year=day.year,
    )


def duration_text(seconds: Fraction, words: Lexicon) -> str:
    """Return a length of time in hours and minutes."""
    minutes, rest = divmod(abs(seconds), 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [(hours, "h"), (minutes, "min"), (int(rest), "s")]
    said = [f"{value} {code}" for value, code in parts if value]
    return (_MINUS if seconds < 0 else "") + (" ".join(said) or "0 min")


def _clock(expression: str, result: Result, words: Lexicon) -> str:
    """Say a date or a time; the expression stands behind all that doesn't explain itself."""
    value, answers = result.value, words.answers
    match result.function, value:
        case "leap", bool():
            year = expression.partition("(")[2].rpartition(")")[0].strip()
            return answers["leap" if value else "not_leap"].format(value=year)
        case "today", date():
            return answers["today"].format(date=date_text(value, words, weekday=True))
        case _, datetime():
            return answers["now"].format(time=f"{value:%H:%M}")
        case "now", CityTime(city=""):
            return answers["now"].format(time=f"{value.moment:%H:%M}")
        case _, CityTime():
            time = f"{value.moment:%H:%M}" + _day_note(value.day, words)
            return answers["time_in"].format(city=value.city, time=time)
    return f"{_clock_value(result, words)} ({expression})"


def _clock_value(result: Result, words: Lexicon) -> str:
    value, answers = result.value, words.answers
    match value:
        case str() if value in WEEKDAYS:
            return words.weekdays[WEEKDAYS.index(value)][0] + "."
        case date():
            return answers["date"].format(date=date_text(value, words, weekday=True))
        case DayOfYear():
            return f"{value.day} {words.months[value.month - 1][0]}"
        case ClockTime():
            return answers["time"].format(time=value.text() + _day_note(value.day, words))
        case Duration() | Span():
            return duration_text(value.seconds, words)
        case Fraction() if result.function in _COUNTS:
            key = _COUNTS[result.function]
            key = "days_one" if key == "days" and value == 1 else key
            return answers[key].format(value=number_text(value, words, UNIT_DIGITS))
        case Fraction():
            return number_text(value, words)
    return str(value)


_COUNTS = {
    "days": "days",
    "weeks": "weeks",
    "months": "months",
    "week": "week",
    "age": "years",
    "dayofyear": "day_of_year",
    "daysin": "days",
}
"""The functions that count, and how what they count is said."""


def _day_note(days: int, words: Lexicon) -> str:
    if not days:
        return ""
    known = {1: words.answers["next_day"], -1: words.answers["previous_day"]}
    return f" ({known.get(days, f'{days:+} d')})"


def plain_value(result: Result) -> Any:
    """Return a result as other expressions can use it: a number, or None."""
    value = result.value
    if isinstance(value, Amount) and len(value.parts) == 1:
        return value.parts[0][0]
    return value if isinstance(value, Fraction) else None
