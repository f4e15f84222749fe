"""What a tool can answer alone: plain sums, conversions and questions of date and time.

Whatever is caught here never reaches a model, so only what is nothing else is caught.
"""

from __future__ import annotations

import re
from functools import cache

_LONGEST = 200
"""A longer text is a task in words, whatever numbers it holds."""

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?%?"
_SIGNED = (
    rf"[-+]?\s*\(*\s*[-+]?\s*(?:(?:sqrt|square root of|the square root of)\s*\(?)?\s*{_NUMBER}\)*"
)
_BETWEEN = (
    r"(?:\s*(?:\*\*|[-+*/\u00d7\u00f7\u00b7^\u2212])\s*|"
    r"\s+(?:plus|minus|times|mod|modulo|divided by|multiplied by|to the power of|over|mal|"
    r"geteilt durch|fois|por|dividido por|per|diviso|más|menos|mais|più)\s+)"
)
_AFTER = r"(?:\s*(?:squared|cubed|!))?\)*"
_SUM = rf"{_SIGNED}{_AFTER}(?:{_BETWEEN}{_SIGNED}{_AFTER})+"
_OTHER_SUMS = (
    rf"{_NUMBER}\s*(?:%|percent|per cent|prozent)?\s*(?:of|von|de|di)\s+{_NUMBER}",
    rf"(?:the\s+)?(?:sqrt|square root of|cube root of)\s*\(?\s*{_NUMBER}\s*\)?",
    rf"{_NUMBER}\s*(?:squared|cubed|!)",
)
_LEAD = (
    r"(?:(?:please|bitte)\s+)?(?:what\s*(?:is|'s|are)|how much is|calculate|compute|work out|"
    r"evaluate|was (?:ist|sind|ergibt|macht)|wie ?viel (?:ist|sind|ergibt)|berechne|rechne|"
    r"combien (?:font|fait)|calcule[rz]?|(?:cuanto|cuánto) (?:es|son)|calcula|"
    r"quanto (?:[eé]|è|fa)|calcola)"
    r"\s*:?\s+"
)
_TAIL = r"\s*(?:=\s*\??|\?|\.|!|please|bitte)*\s*"
_ASKED_SUM = rf"{_LEAD}(?:{_SUM}|{'|'.join(_OTHER_SUMS)}){_TAIL}"
_BARE_SUM = rf"{_SUM}{_TAIL}"
_LIKE_A_SUM = r"[+*\u00d7\u00f7^=]|\d\s+[-/\u2212]\s+\d|\d\s*\)|\b(?:plus|minus|times)\b"
"""What a bare line needs to be no date, no telephone number and no 24/7."""

_NAME = (
    r"(?:9[-/]11|24/7|7[-/]11|50[-/]50|80/20|20/20|4/20|9-1-1|0-60|"
    r"4-4-2|4-3-3|4-2-3-1|3-5-2|3-4-3|5-3-2|3-2-1|"
    r"(?:1\d|20)\d\d-(?:1\d|20)\d\d|\d{4}-\d\d?-\d\d?|1-800(?:-\d+)*|\d{3}-\d{3}-\d{4})"
)
"""Sums to the eye, but whoever asks what they *are* means something else: a day, a shop, a ratio, a
way to play football, some years, a date, a number to call."""
_THOUSANDS = r"(?<![\d.,])[1-9]\d{0,2}\.\d{3}(?!\d)"
_ELSEWHERE = (
    r"\b(?:was|wie ?viel|(?:be)?rechne|mal|geteilt|combien|calcule[rz]?|fois|cuanto|cuánto|por|"
    r"calcula|quanto|calcola|per|m[aá]s|menos|mais|più)\b"
)
"""A point between thousands, and words in whose languages that is what it is."""
_DAY = r"(?<![\d.-])[12]\d{3}-\d\d?-\d\d?(?![\d.-])"
_IS = r"what\s*(?:is|'s|are)|was (?:ist|sind)"

_UNIT = (
    r"(?:°\s?[cfk]|(?:degrees?\s+)?(?:celsius|fahrenheit|kelvin)|"
    r"(?:milli|centi|kilo)?(?:met(?:er|re)s?|grams?|lit(?:er|re)s?|watts?|joules?)|"
    r"inch(?:es)?|feet|foot|yards?|miles?|nautical miles?|ounces?|pounds?|tons?|tonnes?|stones?|"
    r"gallons?|pints?|quarts?|cups?|tablespoons?|teaspoons?|acres?|hectares?|"
    r"seconds?|minutes?|hours?|days?|weeks?|(?:kilo|mega|giga|tera)?(?:bytes?|bits?)|"
    r"mm|cm|km|m|mi|ft|in|yd|mg|kg|g|lbs?|oz|ml|l|kb|mb|gb|tb|mph|km/h|m/s|kwh|wh|j|kj|cal|kcal)"
)
_CONVERSION = (
    rf"(?:(?:{_LEAD})?(?:convert\s+)?{_NUMBER}\s*{_UNIT}\s+(?:to|into|in|as)\s+{_UNIT}|"
    rf"how many {_UNIT} (?:are |is )?(?:there )?(?:in|make(?: up)?) (?:an?|{_NUMBER})\s*{_UNIT})"
    rf"{_TAIL}"
)

_DATE = (
    r"(?:\d{4}-\d\d?-\d\d?|\d{1,2}(?:[snrt][tdh])?\s+(?:of\s+)?[a-z]{3,9}\.?,?\s+\d{4}|"
    r"[a-z]{3,9}\.?\s+\d{1,2}(?:[snrt][tdh])?,?\s+\d{4}|"
    r"today|now|tomorrow|yesterday|christmas|new year)"
)
_CLOCK = (
    r"(?:what(?:'s| is) the (?:current )?(?:time|date)(?: and (?:time|date))?(?: (?:right )?now|"
    r" today)?|what time is it(?: (?:right )?now)?|what(?:'s| is) today'?s date|"
    r"what (?:date|day|year|month) is it(?: today| now)?|"
    r"what(?:'s| is) (?:the )?(?:day|date) (?:today|tomorrow)|"
    r"(?:what|which) (?:day of the week|weekday) (?:is|was|will be) " + _DATE + r"(?: be)?|"
    r"how many days (?:are |is )?(?:there )?(?:(?:from|between) " + _DATE + r" (?:to|and|until) "
    + _DATE + r"|until " + _DATE + r"|since " + _DATE + r")|"
    r"wie (?:spät|viel uhr) ist es(?: jetzt)?|welche[rs]? (?:tag|datum) (?:ist|haben wir) heute|"
    r"quelle heure est[- ]il|quel jour (?:sommes[- ]nous|est[- ]on)(?: aujourd'hui)?|"
    r"qu[eé] hora es|qu[eé] d[ií]a es(?: hoy)?|que horas s[aã]o|che (?:ore|ora) (?:sono|è)|"
    r"今何時(?:ですか)?|今日は何日(?:ですか)?|现在几点(?:了)?|今天几号)"
    r"[\s?.!\uff1f。]*"
)  # fmt: skip

_OF_NUMBERS = r"\d|how many"
_OF_TIME = r"time|date|day|year|month|uhr|spät|tag|datum|heure|jour|hora|d[ií]a|or[ae]|何|几"
"""What a text must hold before it is worth to read the long patterns: that takes 10 ms, once."""


def computes(tool: str, text: str) -> bool:
    """Tell whether a tool can answer a text alone: a whole sum, conversion or date question."""
    if len(text) > _LONGEST or "\n" in text.strip():
        return False
    plain = " ".join(text.split()).replace("\u2019", "'").lstrip("\u00bf")
    if tool == "calculator" and _pattern(_OF_NUMBERS).search(plain):
        return _is_sum(plain) or _pattern(_CONVERSION).fullmatch(plain) is not None
    if tool == "clock" and _pattern(_OF_TIME).search(plain):
        return _pattern(_CLOCK).fullmatch(plain) is not None
    return False


def _is_sum(text: str) -> bool:
    if text.count("(") != text.count(")"):
        return False
    if _pattern(_DAY).search(text):
        return False
    if _pattern(_THOUSANDS).search(text) and _pattern(_ELSEWHERE).search(text):
        return False
    if _pattern(_ASKED_SUM).fullmatch(text):
        return not _pattern(rf"(?:{_IS})\s+{_NAME}{_TAIL}").fullmatch(text)
    return bool(_pattern(_BARE_SUM).fullmatch(text) and _pattern(_LIKE_A_SUM).search(text))


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source, re.IGNORECASE)
