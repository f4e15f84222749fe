"""Checks that a plan holds the request's numbers, dates, units and names: all of them, no others.

The small conductor copies literals well and sometimes leaves one out or makes one up; such a part
isn't computed. Of wrong operations only those are found that it was seen to choose: the expression
is shown beside the answer.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from baton.core.lazy_loading import lazy_pattern
from baton.workers.tools.computation.lexicon import (
    WEEKDAYS,
    Lexicon,
    alternatives,
    is_language_sure,
    lexicon,
    request_words,
)
from baton.workers.tools.computation.marked_text import unit_code
from baton.workers.tools.computation.quantities import PINT_NAMES
from baton.workers.tools.messages import MarkedText

_HALVES_AND_DOZENS = "1 2 3 4 5 6 7 8 9 10 12 16 24 30 52 60 100 365 1000"
CONSTANTS = frozenset(_HALVES_AND_DOZENS.split(" "))
"""Numbers that an expression may hold though the request doesn't: halves, dozens, months..."""

_LITERAL = re.compile(
    r"(?P<based>0[bxo][\da-f]+)|(?P<date>\d{4}-\d\d-\d\d|\d{4}-\d\d|\d\d-\d\d(?![\d.]))"
    r"|(?P<time>\d\d?:\d\d(?::\d\d)?)|(?P<result>#\d)"
    r"|(?P<number>(?<![\w.])\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_CODES = "|".join(sorted(map(re.escape, PINT_NAMES), key=len, reverse=True))
_CODE = re.compile(rf"(?<=[\d\s(>/])({_CODES})(?![\w(])")
_SHAPE = re.compile(r"\d{4}-\d\d-\d\d|\d{4}-\d\d|\d\d-\d\d|\d\d:\d\d(?::\d\d)?|\d+(?:\.\d+)?")
_TIME_UNITS = frozenset({"ms", "s", "min", "h", "d", "w", "mo", "y", "bd"})


def find_problem(tool: str, expression: str, request: MarkedText) -> str:
    """Return what is foreign to the request in an expression, "" where nothing is."""
    is_sure = is_language_sure(request.text, request.language)
    for literal in () if is_sure else request.literals:
        if _ONE_MARK.match(literal.written):
            return f"one reading of {literal.written}"
    expression = expression.replace("l/100km", "")
    foreign = (
        _find_lost_sign(expression, request.text)
        or _find_invented_number(expression, request.text)
        or _find_foreign_literal(expression, request)
    )
    if foreign:
        return foreign
    match tool:
        case "calc":
            return (
                _find_repeated_number(expression, request.text)
                or _find_other_operation(expression, request.text)
                or _find_mixed_units(expression, request)
            )
        case "units":
            return _find_foreign_unit(expression, request)
    return (
        _find_other_count(expression, request)
        or _find_foreign_span(expression, request)
        or _find_foreign_name(expression, request)
    )


def find_lost_name(tool: str, expression: str, words: MarkedText, request: str) -> str:
    """Return a unit, weekday, holiday or day of a part's words that its expression lacks.

    Or a city that the marked request names anywhere.
    """
    match tool:
        case "units":
            if words.language in ("de", "fr") and re.search(r"\blb\b", expression):
                is_sure = re.search(request_words("which_pound"), words.text, re.IGNORECASE)
                return "" if is_sure else "which pound it is"
            return _find_lost_unit(expression, words)
        case "clock":
            return _find_lost_day(expression, words) or _find_lost_city(
                expression, replace(words, text=request)
            )
    return ""


def _find_lost_unit(expression: str, words: MarkedText) -> str:
    """Return a unit that no part of an expression has; a rate's time often stands in no word."""
    named = {code for _, code in _MEASURED.findall(words.text) if code != "%"}
    units = lexicon(words.language).units.values()
    long = alternatives(form for forms in units for form in forms if len(form) > MIN_WORD_CHARS)
    for match in re.finditer(rf"(?<!\w){long}(?!\w)", words.text, re.IGNORECASE):
        named.add(unit_code(match[0], words.language))
    used = {*_CODE.findall(expression), *(("s", "min", "h", "d") if "/" in expression else ())}
    lost = (c for c in named if c not in expression and not used.issuperset(c.split("/")))
    return next(lost, "")


def _find_lost_day(expression: str, words: MarkedText) -> str:
    """Return a day by its name; one beside a date says nothing more."""
    if expression.startswith(("zone(", "now(", "diff(")):
        return ""
    known = lexicon(words.language)
    text = words.text.casefold()
    days = {"tomorrow": known.tomorrow, "yesterday": known.yesterday}
    if not re.search(r"\d-\d\d", expression):
        days |= dict(zip(WEEKDAYS, known.weekdays, strict=True))
    days |= {name: known.holidays[name] for name in named_holidays(words.text, known)}
    for name, forms in days.items():
        match = re.search(rf"(?<!la )(?<!\w){alternatives(map(str.casefold, forms))}(?!\w)", text)
        if match and name not in expression:
            return name
    return ""


def _find_lost_city(expression: str, words: MarkedText) -> str:
    cities = alternatives(city.casefold() for city in lexicon(words.language).cities)
    named = set(re.findall(rf"(?<!\w){cities}(?!\w)", words.text.casefold()))
    used = expression.casefold()
    is_about_time = _TIME_OF_DAY.search(expression) is not None
    lost = [city for city in named if city not in used]
    if lost and (is_about_time or len(named) > 1):
        return str(lost[0])
    there = _FROM_HERE.fullmatch(expression)
    asked = _ASKED_THERE % re.escape(there[1]) if there else ""
    return "from where to where" if there and not re.search(asked, words.text, re.I) else ""


_TIME_OF_DAY = re.compile(r"^(?:zone|diff)\(|(?<!\w)(?:now|today)(?!\w)|\d:\d")
_FROM_HERE = re.compile(r"zone\([\d:]+, ([^,)]+)\)")
_ASKED_THERE = (
    rf"{request_words('time_of_day')}(?!\w)[^,.;?\d]{{0,24}}"
    rf"(?<!\w){request_words('in_a_place')}\s+%s"
)
"""How a request asks for the time in a place when it is so late here."""

_ONE_MARK = re.compile(r"[1-9]\d{0,2}[.,]\d{3}(?![\d.,])")
"""A number whose only mark may stand between thousands, or before decimals."""


def _find_foreign_literal(expression: str, request: MarkedText) -> str:
    """Return a number, date or time that a request doesn't hold."""
    there = request_literals(request.text)
    for match in _LITERAL.finditer(expression):
        value = match[0]
        match match.lastgroup:
            case "based":
                if value[2:].lower() not in request.text.lower():
                    return value
            case "number" if _plain_number(value) not in there and value not in CONSTANTS:
                return value
            case "date" if value not in there and not _is_completed(value, there, request):
                return value
            case "time" if value not in there:
                return value
    return ""


def _find_words(name: str, text: str) -> bool:
    """Whether a text has any of the words of a name in `requests.toml`."""
    return bool(re.search(rf"(?<!\w){request_words(name)}(?!\w)", text, re.IGNORECASE))


def _find_lost_sign(expression: str, request: str) -> str:
    """Return a negative number of the request that an expression has without its sign."""
    for match in _NEGATIVE.finditer(request):
        is_taken = request[: match.start(1) - 1].rstrip()[-1:] in {*"0123456789)%"}
        if is_taken or request[match.end() :].lstrip().startswith("%"):
            continue  # "10 -3" takes 3 away, as does "160, -35%"
        number = re.escape(match[1])
        is_there = re.search(rf"(?<![\d.]){number}(?![\d.])", expression)
        if is_there and not re.search(rf"(?:^|[-+*/^(,;])\s*-\s*{number}(?![\d.])", expression):
            return f"-{match[1]}"
    return ""


def _find_invented_number(expression: str, request: str) -> str:
    """Return a percentage, or a quantity of more than one, that a request doesn't hold as such.

    The 8 of 08:15 isn't 8 h, and "75 por 16" isn't 75%.
    """
    there = {"".join(pair).replace(" ", "") for pair in _MEASURED.findall(request)}
    bare = request_literals(_MEASURED.sub(" ", request))
    for number, unit in _MEASURED.findall(expression):
        is_said = f"{number}{unit}" in there or (unit != "%" and number in bare)
        if not (is_said or _plain_number(number) == "1"):
            return f"{number}{'' if unit == '%' else ' '}{unit}"
    return ""


_MEASURED = re.compile(rf"(?<![\w.#:])(\d+(?:\.\d+)?) ?(%|(?:{_CODES})(?![\w(]))")


_NEGATIVE = re.compile(r"(?:^|[\s(])[-\u2212](\d+(?:\.\d+)?)(?![\d.]|-\d)")


def find_unused_numbers(
    expressions: Iterable[str], texts: Sequence[str], words: str
) -> Iterator[str]:
    """Yield the numbers, dates and times of some marked words that no part of a plan holds.

    Not looked for: the 1 of a fraction, the base of a decimal logarithm, the number of a list's
    point, how many things are asked for, the hundred that a percentage is of ("por 100").
    """
    plan_text = " ; ".join([*expressions, *texts])
    held = Counter(map(_plain_number, _SHAPE.findall(plan_text)))
    dates = [date for date in _SHAPE.findall(plan_text) if date[4:5] == "-"]
    held.update(date[5:] if len(date) == 10 else date[:4] for date in dates)
    for literal in map(_plain_number, _SHAPE.findall(_UNSAID.sub(" ", words))):
        if held[literal] <= 0 and literal not in "".join(texts):
            yield literal
        held[literal] -= 1


_UNSAID = re.compile(
    rf"(?<![\w.])1(?=/\d)|base 10\b|\b{request_words('per')} 100\b"
    rf"|(?:^|(?<=\s))\d{{1,2}}[.)](?=\s)|\b\d (?:\w+ )?{request_words('things')}\b",
    re.IGNORECASE,
)


def find_foreign_word(text: str, request: MarkedText) -> str:
    """Return the first word of a part's text that the request holds in no form, "" for none.

    Short words may be put otherwise, and other words bent.
    """
    there = set(_WORD.findall(request.text.casefold()))
    for word in _WORD.findall(text.casefold()):
        if word in there or (len(word) < MIN_WORD_CHARS and not word.isdecimal()):
            continue
        if not difflib.get_close_matches(word, there, n=1, cutoff=MIN_WORD_LIKENESS):
            return str(word)
    return ""


MIN_WORD_CHARS = 4
MIN_WORD_LIKENESS = 0.75
"""How alike two words are that count as forms of one, by difflib's ratio."""

_WORD = re.compile(r"\w+")


def request_literals(text: str) -> frozenset[str]:
    """Return the literals in a marked text."""
    return frozenset(map(_plain_number, _SHAPE.findall(text)))


def _plain_number(literal: str) -> str:
    """Return a number without zeros at its end: 312.00 is 312."""
    if "." not in literal:
        return literal
    return literal.rstrip("0").rstrip(".")


def _is_completed(date: str, there: frozenset[str], request: MarkedText) -> bool:
    """Whether a date is a day or month of the request with a year from another place in it."""
    day = date[5:]
    is_there = day in there or (len(day) == 2 and day == named_month(request))
    return is_there and any(literal.startswith(date[:4]) for literal in there)


def _find_foreign_unit(expression: str, request: MarkedText) -> str:
    """Return a unit that the request names in no form."""
    units = _unit_words(request)
    for match in _CODE.finditer(expression):
        code = match[1]
        if (
            code not in units
            and (code not in _TIME_UNITS or _ONE_TO_ANOTHER.fullmatch(expression))
            and code not in ("m2", "m3")
        ):
            return code
    return ""


def _find_foreign_span(expression: str, request: MarkedText) -> str:
    """Return the unit of a length of time that the request doesn't name."""
    units = _unit_words(request) | ({"min"} if _HOURS_AND_MINUTES.search(request.text) else set())
    codes = (code for _, code in _MEASURED.findall(expression))
    return next((code for code in codes if code in _TIME_UNITS and code not in units), "")


_HOURS_AND_MINUTES = re.compile(rf"\d h (?:{request_words('and')} )?\d")


_ONE_TO_ANOTHER = re.compile(r"[\d.]+ \S+ -> \S+")


def _find_mixed_units(expression: str, request: MarkedText) -> str:
    """Return two units of a request that measure the same: a calculator takes them for one.

    Or two currencies that are added or taken away.
    """
    units = {unit for _, unit in _MEASURED.findall(request.text)}
    money = _named_currencies(request) if _IS_SUM.fullmatch(expression) else frozenset()
    if len(money) > 1:
        return " as ".join(sorted(money)[:2])
    for code, forms in lexicon(request.language).units.items():
        words = alternatives(form for form in forms if len(form) > MIN_WORD_CHARS - 1)
        if words and re.search(rf"(?<!\w){words}(?!\w)", request.text, re.IGNORECASE):
            units.add(code)
    for family in _FAMILIES:
        if len(found := [unit for unit in family if unit in units]) > 1:
            return f"{found[0]} as {found[1]}"
    return ""


_IS_SUM = re.compile(r"[^*/]*[-+][^*/]*")


def _named_currencies(request: MarkedText) -> frozenset[str]:
    """Return the currencies that a request names by a word or sign."""
    found = set()
    for code, forms in lexicon(request.language).currencies.items():
        words = alternatives(map(str.casefold, forms))
        if words and re.search(rf"(?<![^\W\d_]){words}(?![^\W\d_])", request.text.casefold()):
            found.add(code)
    return frozenset(found)


_FAMILIES = (
    ("mg", "g", "kg", "t", "oz", "lb", "st"),
    ("ml", "cl", "dl", "l", "m3"),
    ("mm", "cm", "m", "km", "in", "ft", "yd", "mi"),
    ("s", "min", "h"),
    ("kB", "MB", "GB", "TB"),
    ("C", "F", "K"),
)


def _find_repeated_number(expression: str, request: str) -> str:
    """Return a number that an expression has more often than a request that holds it."""
    held = Counter(map(_plain_number, _SHAPE.findall(request)))
    used = Counter(
        _plain_number(m[0]) for m in _LITERAL.finditer(expression) if m.lastgroup == "number"
    )
    more = (number for number, count in used.items() if count > held[number] > 0)
    return next((f"a second {number}" for number in more), "")


def _find_other_operation(expression: str, request: str) -> str:
    """Say what an expression gives that its request doesn't ask for, "" where nothing is known."""
    taken = _TAKEN.fullmatch(expression)
    if taken and re.search(
        rf"(?<![\d.]){taken[2]}(?![\d.]).*(?<![\d.]){taken[1]}(?![\d.])", request
    ):
        return "a division the other way round" if not _find_words("into", request) else ""
    if "factors(" in expression and not re.search(
        request_words("prime_factors"), request, re.IGNORECASE
    ):
        return "prime factors"
    if _WITHOUT_TAX.search(expression) and _NET_AMOUNT.search(request):
        return "an amount without tax"
    if _PRODUCT.match(expression) and _ANGLE.search(request):
        return "a product of angles"
    share = _SHARE.fullmatch(expression)
    if share and float(share[1]) > float(share[2]) and not _MORE_THAN_ALL.search(request):
        return "more than all of it"
    if share and re.search(_PARTS.format(*share.groups()), request, re.IGNORECASE):
        return "a share of another part"
    return ""


_TAKEN = re.compile(r"(?:mod|quot)\((\d+)[;,] ?(\d+)\)")
_WITHOUT_TAX = re.compile(r"/ ?\(1 \+ \d+(?:\.\d+)?%\)")
_NET_AMOUNT = re.compile(rf"\d ?(?:[^\W\d_]+ |[$€£] ?)?{request_words('net')}(?!\w)", re.IGNORECASE)
_PRODUCT = re.compile(r"\d+(?:\.\d+)? \* \d")
_ANGLE = re.compile(r"\d deg(?!\w)")
_SHARE = re.compile(r"pct\((\d+(?:\.\d+)?)[;,] ?(\d+(?:\.\d+)?)\)")
_MORE_THAN_ALL = re.compile(
    rf"{request_words('percentage')} {request_words('of', 'of_the')} \d", re.IGNORECASE
)
_PARTS = rf"(?<![\w.]){{}} [^\W\d_]+ {request_words('and')} {{}} [^\W\d_]"
"""Two numbers side by side, as in "12 boys and 18 girls": neither is a share of the other."""


def _find_other_count(expression: str, request: MarkedText) -> str:
    """Return the unit in which a request wants a time counted that an expression counts otherwise.

    So many years are not computed as days.
    """
    if (counted := _COUNTED.fullmatch(expression)) is None:
        return ""
    units = lexicon(request.language).units
    for code in _COUNTS.values():
        forms = "|".join(map(re.escape, units[code]))
        if re.search(rf"{_HOW_MANY}(?:{forms})(?!\w)", request.text, re.IGNORECASE):
            return "" if code == _COUNTS[counted[1]] else code
    return ""


_COUNTS = {"days": "d", "weeks": "w", "months": "mo", "age": "y"}
_COUNTED = re.compile(rf"({'|'.join(_COUNTS)})\(.*\)")
_HOW_MANY = rf"(?<!\w){request_words('how_many')}\s*(?:[^\W\d_]+ ){{0,1}}"


def _find_foreign_name(expression: str, request: MarkedText) -> str:
    """Return a holiday, weekday, city or time difference that the request doesn't name."""
    is_journey = not _find_words("time", request.text) or _find_words("journey", request.text)
    if expression.startswith("diff(") and is_journey:
        return "a time difference"
    words = lexicon(request.language)
    text = request.text.casefold()
    weekdays = alternatives(form.casefold() for forms in words.weekdays for form in forms)
    if _FROM_TODAY.match(expression) and re.search(rf"(?<!\w)(?:{weekdays})(?!\w)", text):
        return "today"  # "if today is Tuesday": not the clock's today
    if expression.startswith("week(") and not re.search(request_words("week"), text):
        return "the number of a week"
    known = {
        **dict(zip(WEEKDAYS, words.weekdays, strict=True)),
        "tomorrow": words.tomorrow,
        "yesterday": words.yesterday,
    }
    named = named_holidays(request.text, words)
    for name in _NAME.findall(expression):
        if name in words.holidays and name not in named:
            return str(name)
        forms = known.get(name, (name,) if name[0].isupper() else ())
        if forms and not any(form.casefold() in text for form in forms):
            return str(name)
    return ""


_FROM_TODAY = re.compile(r"weekday\(today [+-]")


def named_holidays(text: str, words: Lexicon) -> frozenset[str]:
    """Return the holidays that a text names: of New Year's Eve, New Year isn't one."""
    names = {form.casefold(): name for name, forms in words.holidays.items() for form in forms}
    found = re.findall(rf"(?<!\w)(?:{alternatives(names)})(?!\w)", text.casefold())
    return frozenset(names[form] for form in found)


def correct_expression(tool: str, expression: str, request: MarkedText) -> str:
    """Return an expression with the holiday or month that the request names instead of another.

    Only where it names one, so that none other can be meant: Christmas for Christmas Eve, or the
    days of a year for those of its February. And a request that asks what something is a share of,
    and nothing else, is a division, also where something else was written.
    """
    if tool == "calc" and (asked := _SHARE_OF_WHAT.fullmatch(request.text.strip(" ?.!¿¡"))):
        part, share = asked["part1"] or asked["part2"], asked["share1"] or asked["share2"]
        return f"{part} / {share}%"
    if tool != "clock":
        return expression
    words = lexicon(request.language)
    named = named_holidays(request.text, words)
    foreign = [n for n in _NAME.findall(expression) if n in words.holidays and n not in named]
    if len(foreign) == 1 and len(named) == 1:
        return expression.replace(foreign[0], min(named))
    year, month = _YEAR_DAYS.fullmatch(expression), named_month(request)
    return f"daysin({year[1]}-{month})" if year and month else expression


_OF_WHAT = (
    rf"(?:{request_words('of')} {request_words('what')}|wovon)(?: {request_words('amount')})?"
)
_PART = r"(?P<part%s>\d+(?:\.\d+)?)(?: ?[€$£]| euros?| dollars?)?"
_RATE = rf"(?:{request_words('the')} )?(?P<share%s>\d+(?:\.\d+)?)%%"
_SHARE_OF_WHAT = lazy_pattern(
    rf"(?i){_PART % 1} {request_words('is')} {_RATE % 1} {_OF_WHAT}"
    rf"|{_RATE % 2} {_OF_WHAT} {request_words('is')} {_PART % 2}"
)


def named_month(request: MarkedText) -> str:
    """Return the month, from 01 to 12, that is the only one a request names apart from a year."""
    forms = enumerate(lexicon(request.language).months, start=1)
    named = [
        month
        for month, (name, *_) in forms
        if len(name) >= MIN_WORD_CHARS
        and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", request.text, re.IGNORECASE)
    ]
    return f"{named[0]:02}" if len(named) == 1 else ""


_YEAR_DAYS = re.compile(r"daysin\((\d{4})\)")


_NAME = re.compile(r"[^\W\d_](?:[^\W\d_]|[ .'-](?=[^\W\d_]))*")


def _unit_words(request: MarkedText) -> frozenset[str]:
    """Return the codes of all units that a marked request names, each part of `km/h` too."""
    codes = set()
    words = lexicon(request.language)
    text = request.text
    for code, forms in words.units.items():
        for form in (code, *forms):
            if re.search(
                rf"(?<![^\W\d_]){re.escape(form)}(?![^\W\d_])",
                text,
                re.IGNORECASE if len(form) > 2 else 0,
            ):
                codes |= {code, *code.split("/")}
                break
    return frozenset(codes)
