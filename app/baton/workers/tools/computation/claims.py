"""Judges claims such as `17 + 25 = 43`, one a line: the engine's checks ask the calculator so."""

from __future__ import annotations

import re
from fractions import Fraction

from baton.workers.tools.computation import CannotCompute
from baton.workers.tools.computation.expression import evaluate
from baton.workers.tools.computation.lexicon import lexicon
from baton.workers.tools.computation.result_text import is_rounded, number_text
from baton.workers.tools.computation.written_expression import sum_expression

MAX_CLAIMS = 500
MAX_CLAIM_CHARS = 600

_CLAIM = re.compile(
    r"(?:(?:is|does|check(?: whether| that| if)?)\s)?"
    r"(?P<left>[^=\u2248]+)(?P<sign>[=\u2248])(?P<right>[^=\u2248?]*\d[^=\u2248?]*)\??",
    re.IGNORECASE,
)
_CURRENCY = re.compile(r"[$€£]\s?(?=[\d.])|(?<=\d)\s?[€£]")
_NUMBER = re.compile(r"[-\u2212]?[$€£]?[\d.,']*?(?:[.,](\d+))?\s*(%?)")
_GROUPED = re.compile(r"[1-9]\d{0,2}(,\d{3})+%?\s*$|(\.\d{3}){2,}%?\s*$")


def judge_claims(text: str) -> str:
    """Return for each line "Yes: LEFT = VALUE", "No: LEFT = VALUE" or "Unreadable".

    Raises CannotCompute where a line is no claim, or the only one can't be read.
    """
    lines = text.strip().splitlines()
    claims = [_CLAIM.fullmatch(line[:MAX_CLAIM_CHARS].strip()) for line in lines[: MAX_CLAIMS + 1]]
    if not 0 < len(claims) <= MAX_CLAIMS or not all(claims):
        raise CannotCompute("There is no claim in this that can be judged.")
    if len(claims) == 1 and claims[0]:
        return _verdict(**claims[0].groupdict())
    return "\n".join(_line_verdict(**claim.groupdict()) for claim in claims if claim)


def _line_verdict(left: str, sign: str, right: str) -> str:
    try:
        return _verdict(left, sign, right)
    except CannotCompute:
        return "Unreadable"


def _verdict(left: str, sign: str, right: str) -> str:
    """Say whether two sides are the same number; with ≈ as far as the right one goes."""
    value, claimed = _value(left), _value(right)
    step = _last_digit(right.strip())
    same = value == claimed
    if not same and step is not None and (step < 1 or sign == "\u2248"):
        # Rounded or cut off, but a whole number needs neither.
        same = value.denominator != 1 and abs(value - claimed) < step
    equals = "\u2248" if is_rounded(value) else "="
    shown = number_text(value, lexicon("en"))
    return f"{'Yes' if same else 'No'}: {left.strip()} {equals} {shown}"


def _value(side: str) -> Fraction:
    value = evaluate("calc", sum_expression(_CURRENCY.sub("", side), "en")).value
    if not isinstance(value, Fraction):
        raise CannotCompute("A claim is about numbers.")
    return value


def _last_digit(written: str) -> Fraction | None:
    """Return what one more in the last digit of a written number adds; None for no number."""
    if (match := _NUMBER.fullmatch(written)) is None:
        return None
    places = len(match[1]) if match[1] and not _GROUPED.search(written) else 0
    return Fraction(1, 10**places) / (100 if match[2] else 1)
