"""Writes numbers as a language does, with as many digits as say something to a person."""

from __future__ import annotations

import re
from fractions import Fraction

from baton.workers.tools.computation.lexicon import Lexicon

SIGNIFICANT_DIGITS = 10
"""Digits of a number that isn't whole."""

LEAST_DIGITS = 4
"""Of a conversion that doesn't end within those: more than its source has, and at least so many."""

MINUS = "\u2212"


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
