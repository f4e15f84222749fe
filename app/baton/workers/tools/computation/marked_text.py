"""Marks the literals of a request before the small conductor reads it.

Number words become digits, separators go, dates become ISO, clock times HH:MM, and a number with a
unit a number with a unit code. What stands in quotation marks or code stays as it is. So the model
only copies, and code can check afterwards what it copied.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from baton.workers.tools.computation.lexicon import Lexicon, alternatives, guess_language, lexicon
from baton.workers.tools.messages import MarkedLiteral, MarkedText

_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`|(?<!\d)\"[^\"]{1,2000}\"|“[^”]{1,2000}”|„[^“”]{1,2000}[“”]|«[^»]{1,2000}»"
    r"|(?<!\w)'[^'\n]{2,400}'(?!\w)|(?<!\w)\u2018[^\u2019\n]{2,400}\u2019(?!\w)|https?://\S+",
    re.DOTALL,
)
_NEVER_UNITS = frozenset({"a", "d", "w", "y", "st", "K", "B", "t", "mo", "in", "pt", "'", '"', "°"})


def mark(text: str, language: str = "") -> MarkedText:
    """Mark a request's literals; its language is guessed unless given."""
    language = language or guess_language(text)
    words = lexicon(language)
    parts: list[str] = []
    literals: list[MarkedLiteral] = []
    at = 0
    for quoted in [*_QUOTED.finditer(text), None]:
        end = quoted.start() if quoted else len(text)
        for piece in _pieces(text[at:end], words):
            if isinstance(piece, MarkedLiteral):
                literals.append(piece)
                parts.append(piece.marked)
            else:
                parts.append(piece)
        if quoted:
            parts.append(quoted[0])
            at = quoted.end()
    return MarkedText("".join(parts), language, tuple(literals))


def _pieces(text: str, words: Lexicon) -> Iterator[str | MarkedLiteral]:
    """Yield a text's literals, and what stands between them."""
    digits, origin = _with_digits(text, words)
    at = 0
    for match in _pattern(words.language).finditer(digits):
        marked = _READERS[match.lastgroup or ""](match[0], words)
        if marked is None:
            continue
        yield digits[at : match.start()]
        written = text[origin[match.start()] : origin[match.end()]]
        trailing = len(match[0]) - len(match[0].rstrip())
        yield MarkedLiteral(written.rstrip(), marked)
        if trailing:
            yield match[0][-trailing:]
        at = match.end()
    yield digits[at:]


def _with_digits(text: str, words: Lexicon) -> tuple[str, Sequence[int]]:
    """Return a text with its number words as digits, and where each character came from."""
    tokens = [(m[0], m.start(), m.end()) for m in re.finditer(r"\s+|\w+|[^\w\s]", text)]
    replaced = _number_words(tokens, words)
    if not replaced:
        return text, range(len(text) + 1)
    parts: list[str] = []
    origin: list[int] = []
    index = 0
    while index < len(tokens):
        word, start, end = tokens[index]
        is_behind_digit = index > 1 and tokens[index - 2][0][-1:].isdigit()
        if index in replaced and not is_behind_digit:  # "5 hundred" is neither 5 nor 100
            until, digits = replaced[index]
            parts.append(digits)
            origin += [start] * len(digits)
            after = "".join(written for written, *_ in tokens[until : until + 2])
            if re.match(r" \d{3}", after):  # "at eight 372.80": not one number
                parts.append(" ")
                origin.append(tokens[until][1])
            index = until
        else:
            parts.append(word)
            origin += range(start, end)
            index += 1
    origin.append(len(text))
    return "".join(parts), origin


class _Token:
    """A word as text_to_num takes it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self) -> str:
        return self._text

    def nt_separated(self, previous: _Token) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        return any(character.isdigit() for character in self._text)


def _number_words(tokens: list[tuple[str, int, int]], words: Lexicon) -> dict[int, tuple[int, str]]:
    """Return which tokens are number words: first token -> (token after the last, digits)."""
    from text_to_num import find_numbers

    if not any(word[0].isalpha() for word, *_ in tokens):
        return {}
    found = {
        place: (place + 1, words.marks.halves[word.lower()])
        for place, (word, *_) in enumerate(tokens)
        if word.lower() in words.marks.halves
    }
    for occurrence in find_numbers([_Token(word) for word, *_ in tokens], words.language, 0.0):
        start, end = occurrence.start, occurrence.end
        written = [word.lower() for word, *_ in tokens[start:end] if not word.isspace()]
        if occurrence.is_ordinal or (
            len(written) == 1
            and (written[0] in words.articles | words.marks.ones or len(written[0]) == 1)
        ):
            continue
        before = tokens[start - 2][0].lower() if start > 1 else ""
        after = tokens[start + 2][0].lower() if start + 2 < len(tokens) else ""
        if written == ["sei"] and (before in words.marks.before_verb or after in words.articles):
            continue
        found[start] = (end, occurrence.text.replace(",", "."))
    return found


_NUMBERS = {
    "en": r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,]*\d)|\d+(?:\.\d+)?",
    "": r"\d+\.5(?!\d)|\d{1,3}(?:[.'\u2019\u00a0\u202f]\d{3})+(?:,\d+)?(?!\d)"
    r"|\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?: \d{3})+(?:,\d+)?(?!\d)|\d+,\d+|\d+(?:\.\d+)?",
}


@cache
def _pattern(language: str) -> re.Pattern[str]:
    """Return what finds a language's literals; the groups' names are their kinds."""
    words = lexicon(language)
    number = rf"(?:{_NUMBERS.get(language, _NUMBERS[''])})"
    units = alternatives(form for form in _unit_forms(language) if form not in _NEVER_UNITS)
    rules = {
        "list": r"(?<=\w\()\d+(?:,\d+)+(?=\))",
        "height": r"\d{1,2}\s?['\u2019\u2032]\s?\d{1,2}(?:\.\d+)?\s?(?:\"|\u201d|\u2033|'')(?!\w)",
        "fraction": rf"(?:\d+\s)?[1-7]/[2458]\s*(?:{units})(?![\w/])"
        rf"|\d*\s?[{_VULGAR}](?:\s*(?:{units})(?![\w/]))?",
        "half": _half_rule(words, number, units),
        "past": _past_rule(words),
        "hour": _hour_rule(words),
        "date": _date_rule(words),
        "month": rf"(?:{_months(words)}){_YEAR}(?!\d)",
        "time": _time_rule(words),
        "quantity": rf"{number}(?:\s*|-)(?:{units})(?![\w/])",
        "percent": rf"{number}\s*(?:{alternatives(words.numbers['percent'])})(?!\w)",
        "number": number,
    }
    source = "|".join(rf"(?P<{kind}>(?:{rule}))" for kind, rule in rules.items() if rule)
    return re.compile(rf"(?<![\w#])(?<!\d[.,:/])(?:{source})", re.IGNORECASE)


_VULGAR = "½¼¾⅛⅜⅝⅞⅕⅖⅗⅘"
_CLOCK = r"(?:[01]?\d|2[0-4])"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?:(?:,|\s+(?:de|del|of))?\s+(?:1\d|20|21)\d\d)"
_ORDINAL_ENDS = ("st", "nd", "rd", "th", "er", "ère", "º", "ª", "°", ".", "ro")


def _half_rule(words: Lexicon, number: str, units: str) -> str:
    one = rf"(?:{number}|{alternatives(words.articles)})"
    unit = rf"(?:\s*(?:{units}))?"
    and_a_half = rf"\s+(?:{words.marks.and_a_half})(?:\s+(?:{units}))?(?!\w)"
    return rf"{one}{unit}{and_a_half}|(?:{words.marks.half_a})\s*(?:{units})(?!\w)"


def _past_rule(words: Lexicon) -> str:
    if not words.marks.past:
        return ""
    hour = rf"(?:[1-9]|1[0-2])(?!\w|[.,:]\d)(?:\s*(?:{_half_days(words)})(?!\w))?"
    return rf"(?:{'|'.join(words.marks.past)})\s+{hour}"


def _hour_rule(words: Lexicon) -> str:
    at = "|".join(f"(?<={before})" for before in words.marks.at)
    hours = alternatives(words.units["h"])
    return rf"(?:{at}){_CLOCK}\s*(?:{hours})(?:\s*[0-5]\d)?(?!\w)" if at else ""


def _date_rule(words: Lexicon) -> str:
    months, first = _months(words), words.marks.first
    ordinal = rf"(?:{alternatives(_ORDINAL_ENDS)})?"
    day = rf"(?:{_DAY}{ordinal}|(?:{first}))(?:\s+(?:of|de|di|del)\s+|\s+|(?<=\.)|-)"
    no_time = rf"(?![\d:])(?!\s*(?:{_half_days(words)})\b)"
    forms = [
        r"\d{4}-\d\d?-\d\d?",
        r"\d\d?[./-]\d\d?[./-](?:\d{4}|\d\d)(?!\d)",
        rf"{day}(?:{months})(?!\w){_YEAR}?",
        rf"(?:{months})\s+{_DAY}{ordinal}{no_time}(?:,?\s+(?:1\d|20|21)\d\d)?(?!\d)",
    ]
    if words.language == "de":
        forms.append(r"\d\d?\.\d\d?\.(?=\W|$)")
    return "|".join(forms)


def _time_rule(words: Lexicon) -> str:
    hours = {form.lower() for form in words.units["h"]}  # "3 ore" is a time only after "alle"
    clock_words = (form for form in words.oclock if form.lower() not in hours)
    oclock = alternatives((*clock_words, "o'clock", "o\u2019clock"))
    after = rf"\s*(?:{_half_days(words)})(?!\w)"
    forms = (
        rf"{_CLOCK}:\d\d(?::\d\d)?(?:\s*(?:{oclock})(?!\w))?(?:{after})?",
        rf"{_CLOCK}h\d\d(?!\w)",
        rf"{_CLOCK}\.\d\d(?:{after}|\s*uhr(?!\w))",
        rf"{_CLOCK}\s*(?:{oclock})\s+\d\d(?!\w)",
        rf"{_CLOCK}(?:\s*(?:{oclock}))?{after}",
        rf"{_CLOCK}\s*(?:{oclock})(?!\w)",
    )
    return "|".join(forms)


def _months(words: Lexicon) -> str:
    return alternatives(form for forms in words.months for form in forms)


def _half_days(words: Lexicon) -> str:
    return alternatives((*words.am, *words.pm, "a.m.", "p.m."))


@cache
def _unit_forms(language: str) -> dict[str, str]:
    """Return unit codes by form; money wins where a word names both."""
    words = lexicon(language)
    money = {form.lower() for forms in words.currencies.values() for form in forms}
    forms = {code: code for code in words.units}
    for code, names in words.units.items():
        for name in names:
            if name.lower() not in money:
                forms.setdefault(name, code)
    return forms


def unit_code(form: str, language: str) -> str:
    """Return a unit's code, "" for a word that names none. Capitals count in short forms."""
    forms = _unit_forms(language)
    form = form.strip()
    if form in forms:
        return forms[form]
    lower = {name.lower(): code for name, code in forms.items() if len(name) > 2}
    return lower.get(form.lower(), "")


def _plain_number(text: str, words: Lexicon) -> str:
    """Return a written number with a decimal point and nothing between thousands."""
    text = text.replace("\u00a0", " ").replace("\u202f", " ")
    if words.language == "en" or re.fullmatch(r"\d{1,3}(?:,\d{3})+\.\d+", text):
        return text.replace(",", "").replace(" ", "")
    if re.fullmatch(r"\d{1,3}(?:[.'\u2019 ]\d{3})+(?:,\d+)?", text):
        return re.sub(r"[.'\u2019 ]", "", text).replace(",", ".")
    return text.replace(",", ".")


def _match_number(text: str, words: Lexicon) -> re.Match[str] | None:
    return re.match(_NUMBERS.get(words.language, _NUMBERS[""]), text)


def _read_quantity(text: str, words: Lexicon) -> str | None:
    match = _match_number(text, words)
    if match is None:
        return None
    code = unit_code(text[match.end() :].lstrip("- \u00a0\u202f"), words.language)
    return f"{_plain_number(match[0], words)} {code}" if code else None


def _read_percent(text: str, words: Lexicon) -> str | None:
    match = _match_number(text, words)
    return f"{_plain_number(match[0], words)}%" if match else None


def _read_date(text: str, words: Lexicon) -> str | None:
    text = text.strip()
    numbers = [int(part) for part in re.findall(r"\d+", text)]
    if named := _month_number(text, words):
        if re.search(rf"(?:{words.marks.first})\b", text, re.IGNORECASE) and (
            not numbers or numbers[0] > 31
        ):
            numbers.insert(0, 1)
        day = next((n for n in numbers if n <= 31), 0)
        year = next((n for n in numbers if n > 31), 0)
        return _iso(year, named, day)
    if len(numbers) == 2:
        return _iso(0, numbers[1], numbers[0])
    if numbers[0] > 31:
        return _iso(*numbers)
    day, month, year = numbers
    if words.language == "en" and "." not in text and not day > 12:
        day, month = month, day
    year += 2000 if year < 50 else 1900 if year < 100 else 0
    return _iso(year, month, day)


def _iso(year: int, month: int, day: int) -> str | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return f"{year:04}-{month:02}-{day:02}" if year else f"{month:02}-{day:02}"


def _month_number(text: str, words: Lexicon) -> int:
    names = {word.lower().rstrip(".") for word in re.findall(r"[^\W\d_]+", text)}
    for number, forms in enumerate(words.months, start=1):
        if names & {form.lower().rstrip(".") for form in forms}:
            return number
    return 0


def _read_month(text: str, words: Lexicon) -> str | None:
    year = re.search(r"\d{4}", text)
    number = _month_number(text, words)
    return f"{year[0]}-{number:02}" if year and number else None


def _read_time(text: str, words: Lexicon) -> str | None:
    numbers = [int(part) for part in re.findall(r"\d+", text)]
    hours, minutes = numbers[0], numbers[1] if len(numbers) > 1 else 0
    if minutes > 59 or hours > 24:
        return None
    after = re.sub(r"^[\d:.h\s]+", "", text.lower())
    is_late, is_early = (
        any(re.search(rf"(?<!\w){re.escape(form.lower())}(?!\w)", after) for form in (*forms, dots))
        for forms, dots in ((words.pm, "p.m."), (words.am, "a.m."))
    )
    if is_late and hours < 12:
        hours += 12
    elif is_early and not is_late and hours == 12:
        hours = 0
    seconds = f":{numbers[2]:02}" if len(numbers) > 2 else ""
    return f"{hours:02}:{minutes:02}{seconds}"


def _read_half(text: str, words: Lexicon) -> str | None:
    """Read "2 litres and a half", "half an hour"."""
    match = _match_number(text, words)
    half_a = re.match(words.marks.half_a, text, re.IGNORECASE)
    if match is None and half_a is None:  # "a mile and a half"
        match = re.match(r"\S+", text)
    number = (
        float(_plain_number(match[0], words))
        if match and match[0][0].isdigit()
        else float(bool(match))
    )
    rest = text[match.end() :] if match else text
    half = re.search(words.marks.and_a_half if match else words.marks.half_a, rest, re.IGNORECASE)
    if half is None:
        return None
    unit = unit_code((rest[: half.start()] + " " + rest[half.end() :]).strip(), words.language)
    value = f"{number + 0.5:g}"
    return f"{value} {unit}" if unit else (value if match else None)


def _read_height(text: str, words: Lexicon) -> str:
    """Read 5'11"."""
    feet, inches = re.findall(r"\d+(?:\.\d+)?", text)
    return f"{feet} ft {inches} in"


def _read_fraction(text: str, words: Lexicon) -> str | None:
    """Read "1 1/2 cups", "3½"."""
    match = re.match(rf"(?:(\d+)\s?)??(?:(\d)/(\d)|([{_VULGAR}]))", text)
    if match is None:
        return None
    share = int(match[2]) / int(match[3]) if match[2] else unicodedata.numeric(match[4])
    value = f"{int(match[1] or 0) + share:g}"
    unit = text[match.end() :].strip()
    if not unit:
        return value
    code = unit_code(unit, words.language)
    return f"{value} {code}" if code else None


def _read_past(text: str, words: Lexicon) -> str | None:
    """Read "quarter to five"."""
    known = (form for form in words.marks.past if text.lower().startswith(form))
    phrase = max(known, key=len, default="")
    hour = _read_time(text[len(phrase) :].strip(), words)
    if not phrase or hour is None:
        return None
    minutes = (int(hour[:2]) * 60 + words.marks.past[phrase]) % 1440
    return f"{minutes // 60:02}:{minutes % 60:02}"


_READERS: dict[str, Callable[[str, Lexicon], str | None]] = {
    "list": lambda text, _: text.replace(",", ", "),  # of gcd(48,180)
    "height": _read_height,
    "fraction": _read_fraction,
    "half": _read_half,
    "past": _read_past,
    "hour": _read_time,
    "date": _read_date,
    "month": _read_month,
    "time": _read_time,
    "quantity": _read_quantity,
    "percent": _read_percent,
    "number": _plain_number,
}
