"""The clock: what day and what time it is, and how dates lie to each other."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from baton.children.asked import questions
from baton.children.exact import CannotCompute

MOST_QUESTION = 300


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ISO = r"\d{4}-\d{1,2}-\d{1,2}"
_NUMBER = {
    word: number
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
} | {"a": 1, "an": 1}
_SPAN = r"(?P<count>\d{1,6}|" + "|".join(_NUMBER) + r")\s+(?P<unit>day|week|month|year)s?"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = (
    r"(?:" + _ISO + r"|today|tomorrow|yesterday|now"
    r"|(?:\d{1,2}(?:[snrt][tdh])?\.? (?:of )?"
    + _MONTH
    + r"\b\.?|"
    + _MONTH
    + r"\.? \d{1,2}(?:[snrt][tdh])?)"
    r"(?:,? \d{4})?|(?:christmas(?: eve| day)?|new year(?:'s eve|'s day)?))"
)
_BETWEEN = re.compile(
    rf"\b(?P<unit>day|week|month|year)s?\b.*?\b(?:between|from)\s+(?:the )?(?P<a>{_DATE})"
    rf"\s+(?:and|to|until|till)\s+(?:the )?(?P<b>{_DATE})\b"
)
_UNTIL = re.compile(
    rf"\b(?P<unit>day|week|month|year)s?\b.*?\b(?:until|till|before|to|since)"
    rf"\s+(?:the )?(?P<b>{_DATE})\b"
)
_SHIFT = re.compile(
    rf"\b(?:{_SPAN}\s+(?P<way>from|after|before)\s+(?:the )?(?P<a>{_DATE})"
    rf"|in {_SPAN.replace('count', 'count2').replace('<unit', '<unit2')}"
    rf"|{_SPAN.replace('count', 'count3').replace('<unit', '<unit3')}\s+(?P<ago>ago)"
    rf"|(?P<a4>{_DATE})\s*(?P<sign>\+|-|plus|minus)\s*"
    rf"{_SPAN.replace('count', 'count4').replace('<unit', '<unit4')})"
)
_WEEKDAY = re.compile(
    rf"\b(?:day of the week|weekday|wochentag|(?:what|which) day)\b.*?\b(?P<a>{_DATE})\b"
)
_IN = re.compile(
    r"\b(?:in|at|for) (?:the )?([a-z][a-z_/+\- ]{1,40}?[a-z])(?: (?:right )?now)?\s*[?.!]*$"
)
_TIME_WORDS = _words(
    "time clock uhrzeit uhr spät spat heure hora ora ore laat now jetzt ahora horas"
    " 今何時 今何時ですか 现在几点 现在几点了"
)
_DATE_WORDS = _words(
    "date day weekday today tomorrow yesterday month year week datum wochentag heute tag jour"
    " fecha día dia hoy oggi data giorno aujourd hui"
    " 今日は何日 今日は何日ですか 今天几号"
)
_NOW_WORDS = _TIME_WORDS | _DATE_WORDS
_SPAN_WORDS = _words(
    "how many long much there between from until till to and since before after ago passed left go"
    " days weeks months years did does has have on fall falls calculate compute find count"
    " number difference plus minus dates wochentag compute as iso format"
)
_SMALL_WORDS = _words(
    "what s is are the it right current currently tell me please give show and of do you know can"
    " could which exact local was will be in a at this hi hello hey i need have got to use answer"
    " on viel são"
    " wie ist es das der welcher welches welche den haben wir bitte que qué est elle il l quel"
    " quelle sommes nous es cuál cual la el son che è sono hoe is het si me"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FEASTS = {
    "christmas": (12, 25),
    "christmas day": (12, 25),
    "christmas eve": (12, 24),
    "new year": (1, 1),
    "new year's day": (1, 1),
    "new year's eve": (12, 31),
}
_PLACES = {
    "germany": "Europe/Berlin",
    "munich": "Europe/Berlin",
    "hamburg": "Europe/Berlin",
    "frankfurt": "Europe/Berlin",
    "france": "Europe/Paris",
    "spain": "Europe/Madrid",
    "barcelona": "Europe/Madrid",
    "italy": "Europe/Rome",
    "milan": "Europe/Rome",
    "england": "Europe/London",
    "uk": "Europe/London",
    "geneva": "Europe/Zurich",
    "switzerland": "Europe/Zurich",
    "san francisco": "America/Los_Angeles",
    "seattle": "America/Los_Angeles",
    "california": "America/Los_Angeles",
    "boston": "America/New_York",
    "washington": "America/New_York",
    "miami": "America/New_York",
    "houston": "America/Chicago",
    "dallas": "America/Chicago",
    "beijing": "Asia/Shanghai",
    "china": "Asia/Shanghai",
    "japan": "Asia/Tokyo",
    "india": "Asia/Kolkata",
    "delhi": "Asia/Kolkata",
    "new delhi": "Asia/Kolkata",
    "mumbai": "Asia/Kolkata",
    "bangalore": "Asia/Kolkata",
    "pst": "America/Los_Angeles",
    "est": "America/New_York",
    "gmt": "UTC",
    "rio": "America/Sao_Paulo",
    "rio de janeiro": "America/Sao_Paulo",
    "rome": "Europe/Rome",
    "wien": "Europe/Vienna",
    "cape town": "Africa/Johannesburg",
}


def tell(text: str, now: datetime | None = None) -> str:
    """Answer a question about dates and times; `now` is this moment. Raises CannotCompute."""
    now = now or datetime.now().astimezone()
    reason = CannotCompute("This is no question about dates or times that the clock can read.")
    for question in questions(text):
        if len(question) > MOST_QUESTION:
            continue
        line = " ".join(question.lower().replace("\u2019", "'").split())
        try:
            for answer in (_between, _shifted, _until, _weekday, _now):
                if (found := answer(line, now)) is not None:
                    return found
        except CannotCompute as error:
            reason = error
        except (ValueError, OverflowError) as error:
            reason = CannotCompute("There is no such date.")
            reason.__cause__ = error
    raise reason


def _between(line: str, now: datetime) -> str | None:
    if (match := _understood(_BETWEEN, line)) is None:
        return None
    a, b = _date(match["a"], now), _date(match["b"], now)
    if b < a and not re.search(r"\d{4}|today|now|terday|tomorrow", match["b"]):
        b = b.replace(year=b.year + 1)  # from Christmas to New Year
    return _span(a, b, match["unit"])


def _understood(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    """Find a pattern, where all other words of the question are the usual ones."""
    if (match := pattern.search(line)) is None:
        return None
    inner = match[0]
    for known in filter(None, match.groups()):
        inner = inner.replace(known, " ", 1)
    words = re.findall(r"\w+", f"{line[: match.start()]} {inner} {line[match.end() :]}")
    return match if set(words) <= _NOW_WORDS | _SMALL_WORDS | _SPAN_WORDS else None


def _until(line: str, now: datetime) -> str | None:
    if (match := _understood(_UNTIL, line)) is None:
        return None
    coming = "since" not in match[0]
    a, b = now.date(), _date(match["b"], now, way=1 if coming else -1)
    return _span(a, b, match["unit"]) if coming else _span(b, a, match["unit"])


def _span(a: date, b: date, unit: str) -> str:
    from dateutil.relativedelta import relativedelta

    days = (b - a).days
    if unit == "day":
        return _counted(days, "day")
    if unit == "week":
        weeks, rest = divmod(abs(days), 7)
        text = _counted(weeks, "week") + (f" and {_counted(rest, 'day')}" if rest else "")
    else:
        parts = relativedelta(max(a, b), min(a, b))
        months = parts.years * 12 + parts.months
        first = _counted(parts.years, "year") if unit == "year" else _counted(months, "month")
        rests = [_counted(parts.months, "month")] if unit == "year" and parts.months else []
        rests += [_counted(parts.days, "day")] if parts.days else []
        text = (
            " and ".join([first, *rests]) if len(rests) < 2 else f"{first}, {' and '.join(rests)}"
        )
    return text if days >= 0 else f"-({text})"


def _shifted(line: str, now: datetime) -> str | None:
    from dateutil.relativedelta import relativedelta

    if (match := _understood(_SHIFT, line)) is None:
        return None
    groups = match.groupdict()
    count, unit = next(
        (groups["count" + n], groups["unit" + n])
        for n in ("", "2", "3", "4")
        if groups["count" + n]
    )
    backward = groups["ago"] or groups["way"] == "before" or groups["sign"] in ("-", "minus")
    number = (int(count) if count.isdecimal() else _NUMBER[count]) * (-1 if backward else 1)
    start = _date(groups["a"] or groups["a4"] or "today", now)
    moved = start + (
        relativedelta(years=number)
        if unit == "year"
        else relativedelta(months=number)
        if unit == "month"
        else timedelta(days=number * (7 if unit == "week" else 1))
    )
    return _dated(moved)


def _weekday(line: str, now: datetime) -> str | None:
    if (match := _understood(_WEEKDAY, line)) is None or match["a"] == "now":
        return None
    way = -1 if re.search(r"\bwas\b", line) else 1
    return _dated(_date(match["a"], now, way=way))


def _now(line: str, now: datetime) -> str | None:
    """Say what time or date it is, where nothing else is asked."""
    place = _IN.search(line)
    words = set(re.findall(r"[^\W_]+", line[: place.start()] if place else line))
    if not words & _NOW_WORDS or words - _NOW_WORDS - _SMALL_WORDS:
        return None
    zone = _zone(place[1]) if place else None
    if place and zone is None:
        raise CannotCompute(f"The clock knows no time zone for {place[1]}.")
    there = now.astimezone(zone) if zone else now
    day = there.date()
    if not words & _TIME_WORDS and words & _DATE_WORDS:
        return _dated(day + timedelta(days=("tomorrow" in words) - ("yesterday" in words)))
    return f"{_dated(day)}, {there:%H:%M} {there:%Z} (UTC{there:%z})"


def _zone(place: str) -> tzinfo | None:
    name = place.strip()
    if name in ("utc", "gmt"):
        return UTC
    known = _PLACES.get(name) or _cities().get(name.replace(" ", "_"))
    return ZoneInfo(known) if known else None


@cache
def _cities() -> dict[str, str]:
    """All zones by their own name and by their city's, in lower case."""
    names = sorted(available_timezones(), reverse=True)
    return {name.rpartition("/")[2].lower(): name for name in names} | {
        name.lower(): name for name in names
    }


def _date(text: str, now: datetime, *, way: int = 0) -> date:
    """Read a date; without a year it is this year's; with `way` the next (1), or the last (-1)."""
    today = now.date()
    words = text.replace(",", " ").replace(".", " ").replace(" of ", " ").split()
    if text in ("today", "now"):
        return today
    if text in ("tomorrow", "yesterday"):
        return today + timedelta(days=1 if text == "tomorrow" else -1)
    if re.fullmatch(_ISO, text):
        return date(*map(int, text.split("-")))
    if text in _FEASTS:
        month, day, year = *_FEASTS[text], None
    else:
        month, day, year = _named(words)
    if year:
        return date(year, month, day)
    this = date(today.year, month, day)
    passed = (today > this) - (today < this)
    return this.replace(year=this.year + way) if way and passed == way else this


def _named(words: list[str]) -> tuple[int, int, int | None]:
    """Read `21 november 2026` and `november 21st`."""
    names = [w for w in words if w.isalpha()]
    numbers = [int(re.sub(r"\D", "", w)) for w in words if not w.isalpha()]
    year = numbers[1] if len(numbers) > 1 else None
    return _MONTHS.index(names[0][:3]) + 1, numbers[0], year


def _dated(day: date) -> str:
    weekdays = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return f"{weekdays[day.weekday()]}, {day.isoformat()}"


def _counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if abs(number) == 1 else 's'}"
