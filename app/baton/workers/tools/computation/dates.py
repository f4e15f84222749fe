"""Dates and times: the expressions of `clock`.

A day without a year is the coming one, beside a span the nearest (`05-03 + 45 d`).
"""

from __future__ import annotations

import calendar
from calendar import isleap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from dateutil.easter import easter
from dateutil.relativedelta import relativedelta

from baton.workers.tools.computation import CannotCompute, NoResult
from baton.workers.tools.computation.evaluator import (
    NEGATIVE,
    Functions,
    Result,
    Vocabulary,
    evaluate_tree,
)
from baton.workers.tools.computation.expression import parse_expression, token_pattern
from baton.workers.tools.computation.lexicon import WEEKDAYS, city_zone

_FIXED_HOLIDAYS = {
    "christmas": (12, 25),
    "christmaseve": (12, 24),
    "newyear": (1, 1),
    "newyearseve": (12, 31),
    "halloween": (10, 31),
    "valentine": (2, 14),
}
HOLIDAYS = (*_FIXED_HOLIDAYS, "easter")

_FUNCTIONS = (
    "today", "tomorrow", "yesterday", "now", "weekday", "days", "weeks", "months", "age", "week",
    "dayofyear", "leap", "daysin", "nth", "next", "last", "span", "zone", "diff",
)  # fmt: skip
_LITERALS = (
    r"(?<![\w.:-])(?:(?P<time>[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)"
    r"|(?P<date>[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?|[0-9]{2}-[0-9]{2}))(?![\w.:-])"
)
_KNOWN = "|".join((*_FUNCTIONS, *WEEKDAYS, *HOLIDAYS))
_CITY = (
    rf"(?<=[(,])\s*(?P<argument>(?!(?:{_KNOWN})(?=[\s,()]))[^\W\d_](?:[^(),+#\"]*[^(),+#\"\s])?)"
    r"(?=\s*[,)])"
)
_TOKEN = token_pattern(r"(?:bd|mo|min|[dwyhs])(?!\w)", _LITERALS, _CITY)
_UNITS = {"d": "days", "w": "weeks", "mo": "months", "y": "years"}
_SECONDS = {"h": 3600, "min": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class Span:
    """An amount of time as it was written: of days, months or years, working days, or seconds."""

    days: relativedelta = field(default_factory=relativedelta)
    working_days: int = 0
    seconds: Fraction = Fraction(0)

    def plus(self, other: Span, sign: int = 1) -> Span:
        """Return both together, or this less the other."""
        return Span(
            self.days + sign * other.days,
            self.working_days + sign * other.working_days,
            self.seconds + sign * other.seconds,
        )


@dataclass(frozen=True, slots=True)
class DayOfYear:
    """A day without a year."""

    month: int
    day: int

    def in_year(self, year: int) -> date:
        """Return the day in that year. Raises CannotCompute for one that isn't there."""
        return _date(year, self.month, self.day)


@dataclass(frozen=True, slots=True)
class Month:
    """A month of a year."""

    year: int
    month: int


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day, in seconds from midnight; below 0 or past 86,400 on another day."""

    seconds: Fraction

    @property
    def day(self) -> int:
        """How many days later it is."""
        return int(self.seconds // 86400)

    def text(self) -> str:
        """Return it as HH:MM, with seconds where there are any."""
        left = int(self.seconds % 86400)
        hours, minutes, seconds = left // 3600, left // 60 % 60, left % 60
        return f"{hours:02}:{minutes:02}" + (f":{seconds:02}" if seconds else "")


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time, in seconds."""

    seconds: Fraction


@dataclass(frozen=True, slots=True)
class CityTime:
    """What time it is in a place; the date where it isn't the same day here."""

    city: str
    moment: datetime
    day: int = 0


def evaluate_dates(text: str, names: Mapping[str, Any], now: datetime | None) -> Result:
    """Return the value of a `clock` expression. Raises CannotCompute."""
    calendar_ = Calendar(now or datetime.now().astimezone())
    operators: Functions = {
        "+": lambda left, right: calendar_.shift(left, right, 1),
        "-": lambda left, right: calendar_.shift(left, right, -1),
        NEGATIVE: lambda value: -value,
    }
    words = Vocabulary(calendar_.functions, calendar_.names | dict(names), operators)
    return evaluate_tree(parse_expression(text, _TOKEN), words)


def _date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError as error:
        raise NoResult("no_day", f"{year}-{month:02}-{day:02}") from error


class Calendar:
    """The functions of `clock`, seen from one moment."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._today = now.date()
        self.names: dict[str, Any] = {
            "today": self._today,
            "tomorrow": self._today + timedelta(1),
            "yesterday": self._today - timedelta(1),
            "now": now,
            **{name: name for name in WEEKDAYS},
            **{name: self.holiday(name) for name in HOLIDAYS},
        }
        self.functions: dict[str, Callable[..., Any]] = {
            "date": self._written_date,
            "time": self._written_time,
            "quantity": self._span,
            "today": lambda: self._today,
            "tomorrow": lambda: self._today + timedelta(1),
            "yesterday": lambda: self._today - timedelta(1),
            "now": self.now_in,
            "weekday": lambda day: WEEKDAYS[self._coming_date(day).weekday()],
            "days": self._days_between,
            "weeks": lambda start, end: self._days_between(start, end) / 7,
            "months": self._months,
            "age": self._age,
            "week": lambda day: Fraction(self._coming_date(day).isocalendar().week),
            "dayofyear": lambda day: Fraction(self._coming_date(day).timetuple().tm_yday),
            "leap": lambda year: isleap(self._year(year)),
            "daysin": self._days_in,
            "nth": self._nth,
            "next": lambda weekday: self._weekday_near(weekday, 1),
            "last": lambda weekday: self._weekday_near(weekday, -1),
            "span": self._time_between,
            "zone": self._in_zone,
            "diff": self._difference,
            **{
                name: (lambda year, name=name: self.holiday(name, self._year(year)))
                for name in HOLIDAYS
            },
        }

    def holiday(self, name: str, year: int | None = None) -> date:
        """Return a holiday's date, without a year the coming one's."""
        if year is None:
            this = self.holiday(name, self._today.year)
            return this if this >= self._today else self.holiday(name, self._today.year + 1)
        if name == "easter":
            return easter(year)
        return _date(year, *_FIXED_HOLIDAYS[name])

    def _written_date(self, text: str) -> date | DayOfYear | Month:
        numbers = [int(part) for part in text.split("-")]
        if len(numbers) == 3:
            return _date(*numbers)
        if len(text) == 7:
            if not 1 <= numbers[1] <= 12:
                raise CannotCompute("There is no such month.")
            return Month(*numbers)
        _date(2024, *numbers)
        return DayOfYear(*numbers)

    @staticmethod
    def _written_time(text: str) -> ClockTime:
        hours, minutes, *seconds = (int(part) for part in text.split(":"))
        if hours > 24 or minutes > 59 or any(s > 59 for s in seconds):
            raise CannotCompute(f"There is no such time as {text}.")
        return ClockTime(Fraction(hours * 3600 + minutes * 60 + sum(seconds)))

    @staticmethod
    def _span(number: Fraction, unit: str) -> Span:
        if unit in _SECONDS:
            return Span(seconds=number * _SECONDS[unit])
        if number.denominator != 1:
            raise CannotCompute("Days, weeks, months and years are counted in whole numbers.")
        if unit == "bd":
            return Span(working_days=number.numerator)
        return Span(relativedelta(**{_UNITS[unit]: number.numerator}))  # type: ignore[arg-type]

    def _coming_date(self, day: Any) -> date:
        """Return a day as a date; without a year, the coming one."""
        match day:
            case datetime():
                return day.date()
            case date():
                return day
            case DayOfYear():
                this = day.in_year(self._today.year)
                return this if this >= self._today else day.in_year(self._today.year + 1)
            case CityTime():
                return day.moment.date()
        raise CannotCompute("A date is needed here.")

    def _nearest(self, day: DayOfYear) -> date:
        """Return a day without a year as the one nearest to today."""
        years = range(self._today.year - 1, self._today.year + 2)
        there = [day.in_year(y) for y in years if (day.month, day.day) != (2, 29) or isleap(y)]
        return min(there or [day.in_year(self._today.year)], key=lambda d: abs(d - self._today))

    def _date_pair(self, start: Any, end: Any) -> tuple[date, date]:
        """Return two days as dates, those without a year the nearest in that order."""
        if isinstance(start, DayOfYear) and isinstance(end, DayOfYear):
            first, second = start.in_year(self._today.year), end.in_year(self._today.year)
            return (first, second) if first <= second else (first, end.in_year(first.year + 1))
        if isinstance(start, DayOfYear):
            second = self._coming_date(end)
            first = start.in_year(second.year)
            return (first if first <= second else start.in_year(second.year - 1)), second
        if isinstance(end, DayOfYear):
            first = self._coming_date(start)
            second = end.in_year(first.year)
            return first, second if second >= first else end.in_year(first.year + 1)
        return self._coming_date(start), self._coming_date(end)

    def _days_between(self, start: Any, end: Any) -> Fraction:
        first, second = self._date_pair(start, end)
        return Fraction(abs((second - first).days))

    def _months(self, start: Any, end: Any) -> Fraction:
        first, second = self._date_pair(start, end)
        between = relativedelta(second, first)
        return Fraction(between.years * 12 + between.months)

    def _age(self, born: Any, at: Any = None) -> Fraction:
        end = self._today if at is None else self._year_or_date(at)
        start = self._year_or_date(born)
        if isinstance(start, int) or isinstance(end, int):
            first = start if isinstance(start, int) else start.year
            last = end if isinstance(end, int) else end.year
            return Fraction(last - first)
        if start > end:
            raise CannotCompute("This day of birth is in the future.")
        return Fraction(relativedelta(end, start).years)

    def _year_or_date(self, value: Any) -> int | date:
        return self._year(value) if isinstance(value, Fraction) else self._coming_date(value)

    @staticmethod
    def _year(value: Any) -> int:
        if not isinstance(value, Fraction) or value.denominator != 1 or not 1 <= value <= 9999:
            raise CannotCompute("A year from 1 to 9999 is needed here.")
        return value.numerator

    def _days_in(self, month: Any) -> Fraction:
        match month:
            case Month():
                return Fraction(calendar.monthrange(month.year, month.month)[1])
            case Fraction():
                return Fraction(366 if isleap(self._year(month)) else 365)
        raise CannotCompute("A month is needed here.")

    def _nth(self, number: Any, weekday: Any, month: Any) -> date:
        if not isinstance(number, Fraction) or not isinstance(month, Month):
            raise CannotCompute("A number, a weekday and a month are needed here.")
        n, index = int(number), _weekday_index(weekday)
        days = [
            week[index]
            for week in calendar.Calendar().monthdatescalendar(month.year, month.month)
            if week[index].month == month.month
        ]
        if not (1 <= n <= len(days) or -len(days) <= n <= -1):
            raise CannotCompute("This month has no such weekday.")
        return days[n - 1] if n > 0 else days[n]

    def _weekday_near(self, weekday: Any, sign: int) -> date:
        index = _weekday_index(weekday)
        away = (sign * (index - self._today.weekday())) % 7 or 7
        return self._today + timedelta(sign * away)

    def shift(self, left: Any, right: Any, sign: int) -> Any:
        """Return a moment moved by a span, or two spans together."""
        if isinstance(left, Span) and isinstance(right, Span):
            return left.plus(right, sign)
        is_date = isinstance(left, date) and not isinstance(left, datetime)
        if is_date and isinstance(right, date) and sign < 0:
            return Fraction((left - right).days)
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return left + sign * right
        if not isinstance(right, Span):
            raise CannotCompute("Only a length of time can be added to a date or a time.")
        if isinstance(left, (datetime, CityTime)):
            moment = left.moment if isinstance(left, CityTime) else left
            return ClockTime(self._seconds(moment) + sign * _in_seconds(right))
        if isinstance(left, ClockTime):
            return ClockTime(left.seconds + sign * _in_seconds(right))
        day = self._nearest(left) if isinstance(left, DayOfYear) else self._coming_date(left)
        if right.seconds:
            raise CannotCompute("Hours can be added to a time, not to a date.")
        try:
            moved = day + right.days if sign > 0 else day - right.days
            return _working_days(moved, sign * right.working_days)
        except (ValueError, OverflowError) as error:
            raise CannotCompute("This date is too far away.") from error

    def _time_between(self, start: Any, end: Any) -> Duration:
        between = self._seconds(end) - self._seconds(start)
        return Duration(between if between >= 0 else between + 86400)

    def _seconds(self, value: Any) -> Fraction:
        match value:
            case ClockTime():
                return value.seconds
            case datetime():
                return Fraction(value.hour * 3600 + value.minute * 60)
        raise CannotCompute("A time of day is needed here.")

    def now_in(self, city: Any = None) -> CityTime:
        """Return the time now, in a place."""
        if city is None:
            return CityTime("", self._now)
        there = self._now.astimezone(_zone(city))
        return CityTime(str(city), there, (there.date() - self._today).days)

    def _in_zone(self, time: Any, start: Any, end: Any = None) -> CityTime:
        """Return what a time in the first place is in the second one; with one place, from here."""
        if not isinstance(time, ClockTime):
            raise CannotCompute("A time of day is needed here.")
        here = self._now.tzinfo if end is None else _zone(start)
        there = _zone(start if end is None else end)
        day = datetime.combine(self._now.astimezone(here).date(), datetime.min.time(), here)
        moment = day + timedelta(seconds=float(time.seconds))
        moved = moment.astimezone(there)
        return CityTime(
            str(start if end is None else end), moved, (moved.date() - moment.date()).days
        )

    def _difference(self, first: Any, second: Any) -> Duration:
        here, there = (self._now.astimezone(_zone(city)).utcoffset() for city in (first, second))
        between = (there or timedelta()) - (here or timedelta())
        return Duration(Fraction(between.total_seconds()))


def _weekday_index(weekday: Any) -> int:
    if weekday not in WEEKDAYS:
        raise CannotCompute("A weekday is needed here.")
    return WEEKDAYS.index(weekday)


def _in_seconds(span: Span) -> Fraction:
    if span.working_days or span.days.months or span.days.years:
        raise CannotCompute("Only hours, minutes and seconds can be added to a time.")
    return span.seconds + 86400 * span.days.days


def _working_days(day: date, count: int) -> date:
    """Return the day so many working days (Monday to Friday) later, or earlier."""
    step = timedelta(1 if count > 0 else -1)
    while count and day.weekday() > 4:  # those of a weekend begin with the day before it
        day -= step
    weeks, days = divmod(abs(count), 5)
    day += weeks * 7 * step
    for _ in range(days):
        day += step
        while day.weekday() > 4:
            day += step
    return day


def _zone(city: Any) -> ZoneInfo:
    """Return the time zone of a place: as a lexicon names it, or by its IANA name."""
    iana_name = str(city).strip().lower().replace(" ", "_")
    name = city_zone(str(city)) or _zones_by_city().get(iana_name, "")
    if not name:
        raise CannotCompute(f"The time zone of {city} isn't known here.")
    return ZoneInfo(name)


@cache
def _zones_by_city() -> Mapping[str, str]:
    zones = sorted(available_timezones(), key=lambda zone: (zone.count("/"), zone), reverse=True)
    return {zone.rpartition("/")[2].lower(): zone for zone in zones if "/" in zone} | {"utc": "UTC"}
