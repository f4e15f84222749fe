"""Writes numbers as a language does, with as many digits as say something to a person."""

from __future__ import annotations

from fractions import Fraction

from baton.workers.tools.computation.lexicon import Lexicon

SIGNIFICANT_DIGITS = 10
"""Digits of a number that isn't whole."""

UNIT_DIGITS = 4
"""The same for a conversion: more say nothing to a person."""

MINUS = "\u2212"


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
    sign = MINUS if rounded < 0 else ""
    return f"{sign}{text}{words.decimal + decimals if decimals else ''}"


def is_rounded(value: Fraction, digits: int = SIGNIFICANT_DIGITS) -> bool:
    """Whether a number has more digits than are shown."""
    whole = len(str(abs(int(value))))
    return round(value, max(0, digits - whole)) != value
