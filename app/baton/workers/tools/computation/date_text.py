"""Says dates and times as people do, in the language of the request."""

from __future__ import annotations

import re
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from baton.workers.tools.computation.dates import CityTime, ClockTime, DayOfYear, Duration, Span
from baton.workers.tools.computation.evaluator import Result
from baton.workers.tools.computation.lexicon import (
    LEAST_DIGITS,
    MINUS,
    WEEKDAYS,
    Lexicon,
    is_rounded,
    number_text,
)


def clock_text(expression: str, result: Result, words: Lexicon) -> str:
    """Say a date or a time; the expression stands behind all that doesn't explain itself."""
    value, answers = result.value, words.answers
    match result.function, value:
        case "leap", bool():
            year = expression.partition("(")[2].rpartition(")")[0].strip()
            return answers["leap" if value else "not_leap"].format(value=year)
        case "today", date():
            return answers["today"].format(date=date_text(value, words))
        case _, datetime():
            return answers["now"].format(time=f"{value:%H:%M}")
        case "now", CityTime(city=""):
            return answers["now"].format(time=f"{value.moment:%H:%M}")
        case _, CityTime():
            time = f"{value.moment:%H:%M}" + _day_note(value.day, words)
            return answers["time_in"].format(city=value.city, time=time)
    note = _convention(expression, value, words)
    return f"{_clock_value(result, words)} ({expression}{f'; {note}' if note else ''})"


def _convention(expression: str, value: Any, words: Lexicon) -> str:
    """Say by which of two conventions it was counted, "" where there is only one."""
    if re.search(r"\dbd|\d bd", expression):
        return words.answers["working_days"]
    if "02-29" in expression:
        return words.answers["leap_day"]
    moved = re.fullmatch(r"(?:\d{4}-)?\d\d-(\d\d) [-+] .*(?:mo|y)\)?", expression)
    is_clipped = moved and isinstance(value, date) and value.day < int(moved[1])
    return words.answers["last_day"] if is_clipped else ""


def _clock_value(result: Result, words: Lexicon) -> str:
    value, answers = result.value, words.answers
    match value:
        case str() if value in WEEKDAYS:
            return words.weekdays[WEEKDAYS.index(value)][0] + "."
        case date():
            return answers["date"].format(date=date_text(value, words))
        case DayOfYear():
            return f"{value.day} {words.months[value.month - 1][0]}"
        case ClockTime():
            return answers["time"].format(time=value.text() + _day_note(value.day, words))
        case Duration() | Span():
            return duration_text(value.seconds, words)
        case Fraction() if result.function in _COUNTS:
            key = _COUNTS[result.function]
            key = "days_one" if key == "days" and value == 1 else key
            sign = "≈ " if is_rounded(value, LEAST_DIGITS) else ""
            return answers[key].format(value=sign + number_text(value, words, LEAST_DIGITS))
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


def date_text(day: date, words: Lexicon) -> str:
    """Return a date with its weekday as the language writes it."""
    return words.answers["date_format"].format(
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
    amounts = [f"{value} {code}" for value, code in parts if value]
    return (MINUS if seconds < 0 else "") + (" ".join(amounts) or "0 min")
