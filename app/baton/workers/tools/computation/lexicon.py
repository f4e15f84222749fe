"""The words of a language that code needs to know, and how the language writes numbers.

One TOML file a language stands beside this module, in `lexicon/`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from importlib.resources import files

import msgspec

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""The names of the weekdays in expressions."""

SIGNIFICANT_DIGITS = 10
"""Digits of a number that isn't whole."""

LEAST_DIGITS = 4
"""Of a conversion that doesn't end within those: more than its source has, and at least so many."""

MINUS = "\u2212"

LANGUAGES = ("en", "de", "fr", "es", "it", "pt")

_WORD = re.compile(r"(?<!\d)[^\W\d_]+")
_HALF_DAY = re.compile(r"(?<=\d)\s?[ap]\.?m(?!\w)\.?", re.IGNORECASE)
"""English after a number, though "am" is German as a word."""
_DECIMAL_COMMA = re.compile(r"\d,\d{1,2}(?![\d,])")


class MarkForms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the marking of literals needs: regular expressions, and words with what they stand for.

    `at` stands before a full hour, after which that isn't a length of time; `past` is how many
    minutes a word adds to the hour after it; `ones` count only inside larger numbers. Behind
    `before_verb` an Italian "sei" is "you are", not 6.
    """

    first: str
    and_a_half: str
    half_a: str
    at: tuple[str, ...]
    ones: frozenset[str]
    past: Mapping[str, int]
    halves: Mapping[str, str]
    before_verb: frozenset[str] = frozenset()


class Lexicon(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One language's words; forms are as people write them, the first two singular and plural.

    `letters` are those that speak for the language.
    """

    language: str
    units: Mapping[str, tuple[str, ...]]
    months: tuple[tuple[str, ...], ...]
    weekdays: tuple[tuple[str, ...], ...]
    holidays: Mapping[str, tuple[str, ...]]
    cities: Mapping[str, str]
    numbers: Mapping[str, tuple[str, ...]]
    operations: Mapping[str, tuple[str, ...]]
    currencies: Mapping[str, tuple[str, ...]]
    answers: Mapping[str, str]
    marks: MarkForms
    am: tuple[str, ...]
    pm: tuple[str, ...]
    oclock: tuple[str, ...]
    today: tuple[str, ...]
    tomorrow: tuple[str, ...]
    yesterday: tuple[str, ...]
    now: tuple[str, ...]
    stopwords: frozenset[str]
    articles: frozenset[str]
    letters: str
    decimal: str
    thousands: tuple[str, ...]


@cache
def lexicon(language: str) -> Lexicon:
    """Return a language's words. Raises KeyError for a language that isn't there."""
    if language not in LANGUAGES:
        raise KeyError(language)
    source = files("baton.workers.tools.computation") / "lexicon" / f"{language}.toml"
    return msgspec.toml.decode(source.read_bytes(), type=Lexicon)


def request_words(*names: str) -> str:
    """Return a regular expression for what `requests.toml` has under names, in all languages."""
    return f"(?:{'|'.join(part for name in names for part in _request_words()[name].values())})"


@cache
def _request_words() -> Mapping[str, Mapping[str, str]]:
    source = files("baton.workers.tools.computation") / "lexicon" / "requests.toml"
    return tomllib.loads(source.read_text("utf-8"))


def guess_language(text: str, otherwise: str = "en") -> str:
    """Return the language whose words a text has most of; its function words count double."""
    counts = _language_counts(text)
    best = max(LANGUAGES, key=lambda language: (counts[language], language == otherwise))
    return best if counts[best] else otherwise


def is_language_sure(text: str, language: str) -> bool:
    """Whether a text's words speak for one language that writes numbers in its own way.

    Those of sums in several languages don't: "1,500 plus 500" isn't French.
    """
    counts = _language_counts(_SHARED.sub(" ", text))
    others = max(counts[other] for other in LANGUAGES if (other == "en") != (language == "en"))
    return counts[language] > others


_SHARED = re.compile(r"(?<!\w)(?:plus|minus)(?!\w)", re.IGNORECASE)


def _language_counts(text: str) -> Mapping[str, int]:
    rest, half_days = _HALF_DAY.subn(" ", text[:2000])
    words = [word.lower() for word in _WORD.findall(rest)]
    return {
        language: 2 * half_days * (language == "en")
        + sum(_weights(language).get(word, 0) for word in words)
        + 2 * sum(letter in lexicon(language).letters for letter in text[:2000].lower())
        + (language != "en" and _DECIMAL_COMMA.search(text) is not None)
        for language in LANGUAGES
    }


@cache
def _weights(language: str) -> Mapping[str, int]:
    """Return what each word says for a language."""
    words = lexicon(language)
    groups = (words.units, words.numbers, words.operations, words.holidays, words.currencies)
    forms = [form for group in groups for names in group.values() for form in names]
    forms += [form for names in (*words.months, *words.weekdays) for form in names]
    forms += [*words.today, *words.tomorrow, *words.yesterday, *words.now, *words.oclock]
    forms += words.marks.halves
    known = {word.lower(): 1 for form in forms for word in _WORD.findall(form) if len(word) > 2}
    return known | dict.fromkeys(words.stopwords, 2)


@cache
def city_zone(city: str) -> str:
    """Return a city's IANA zone, "" where no lexicon knows it."""
    named = (item for language in LANGUAGES for item in lexicon(language).cities.items())
    zones = {known.lower(): zone for known, zone in named}
    return zones.get(" ".join(city.lower().split()), "")


def alternatives(forms: Iterable[str]) -> str:
    """Return a regular expression for any of these forms, the longest first.

    What can't be the first letter of any is seen at once: without that, marking takes four times
    as long.
    """
    ordered = sorted(filter(None, set(forms)), key=len, reverse=True)
    first = "".join(sorted({re.escape(form[0]) for form in ordered}))
    return f"(?=[{first}])(?:{'|'.join(map(re.escape, ordered))})" if ordered else ""


def number_text(value: Fraction, words: Lexicon, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Return a number with the language's separators, rounded to so many significant digits.

    The whole part is never rounded.
    """
    places = _places(value, digits)
    rounded = round(value, places)
    text = f"{abs(int(rounded)):,}"
    rest = abs(rounded) - abs(int(rounded))
    decimals = f"{int(rest * 10**places):0{places}}".rstrip("0") if places and rest else ""
    separator = "\u202f" if words.language in ("fr", "es", "pt", "it") else words.thousands[0]
    text = text.replace(",", separator if abs(rounded) >= 10_000 or words.language == "en" else "")
    sign = MINUS if rounded < 0 else ""
    return f"{sign}{text}{words.decimal + decimals if decimals else ''}"


def is_rounded(value: Fraction, digits: int = SIGNIFICANT_DIGITS) -> bool:
    """Whether a number has more digits than are shown."""
    return round(value, _places(value, digits)) != value


def digits_beside(value: Fraction, source: str) -> int:
    """Return how many digits a number is shown with that was made of another, as it was written.

    All of them, if they end within the usual ones, else more than the source has.
    """
    written = len(re.sub(r"\D", "", source).lstrip("0"))
    return max(LEAST_DIGITS, written + 1) if is_rounded(value) else SIGNIFICANT_DIGITS


def _places(value: Fraction, digits: int) -> int:
    """Return how many decimal places show so many significant digits."""
    if int(value):
        return max(0, digits - len(str(abs(int(value)))))
    zeros = 0
    while value and zeros < 30 and abs(value) * 10 ** (zeros + 1) < 1:
        zeros += 1
    return digits + zeros
