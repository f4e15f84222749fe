"""What several answers to one question say of each other.

Whoever is right says the same; whoever is wrong says something of its own, more or less. A question
has a difficulty that nobody knows, and a worker is right with a chance that falls with it. Summing
over all difficulties and over which answer may be true gives the chance that each answer is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from baton.core.plan.short_answer import normal

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

DRAFTS_MOST = 8
"""More drafts say nothing more."""


# Whether two answers are the same

_NUMBER = re.compile(r"-?\d{1,80}(?:/[1-9]\d{0,80}|\.\d{1,80})?")
_LETTER = re.compile(r"\(?([A-Za-z])\)?")
_JUDGED = frozenset({"yes", "no", "true", "false"})
_ANSWER_CHARS = 2000


def grouped(answers: Sequence[str]) -> list[int]:
    """Return a number from 1 for each answer, the same for those that agree; 0 where there is none.

    Numbers agree by value, whatever else but for spaces, the kind of quotes, and a capital before
    small letters.
    """
    keys = [key(answer) for answer in answers]
    found: list[int] = []
    for place, one in enumerate(keys):
        alike = next((found[p] for p in range(place) if one is not None and keys[p] == one), 0)
        found.append(alike or (0 if one is None else place + 1))
    return found


@lru_cache(maxsize=65536)
def key(answer: str) -> str | Fraction | None:
    """Return what an answer is compared by, or None where it is none."""
    text = answer[:_ANSWER_CHARS].strip().strip("$*`").strip()
    if text.strip(" .-_") == "":
        return None
    if number := _number(text):
        return number
    text = re.sub(r"\s+", "", text).replace('"', "'").rstrip(".") or text
    if len(text) > 2 and text[0] == text[-1] == "'" and "'" not in text[1:-1]:
        text = text[1:-1]
    if text[1:] == text[1:].lower():
        text = text[0].lower() + text[1:]
    return text


def _number(text: str) -> Fraction | None:
    if not any(sign.isdigit() for sign in text) or text[0] in "[{(\"'" or len(text) > 200:
        return None
    plain = normal(text, exact=True)
    if not _NUMBER.fullmatch(plain):
        return None
    value = Fraction(plain)
    return Fraction(f"{float(value):.6g}") if abs(value) < 10**15 else value


# What kind of an answer it is

KINDS = ("letter", "judged", "number", "other")
_CHANCE_ALIKE = {"letter": 0.3, "judged": 0.9, "number": 0.2, "other": 0.15}
"""How likely two wrong answers are the same; measured for letters and numbers (.36, .31, .14)."""

_SELF_ALIKE = 0.6
"""The same of two answers by one worker: it errs the same way again."""


def kind(answer: str) -> str:
    """Return what kind of an answer it is."""
    text = answer.strip()
    if _LETTER.fullmatch(text):
        return "letter"
    if text.casefold() in _JUDGED:
        return "judged"
    return "number" if isinstance(key(answer), Fraction) else "other"


def kind_of(answers: Sequence[str]) -> str:
    """Return what kind of answers they are: the first's that is one."""
    return next((kind(answer) for answer in answers if key(answer) is not None), "other")


def chances_alike(answers: Sequence[str], workers: Sequence[str]) -> list[float]:
    """Return for each answer how likely it is the same as another wrong one."""
    alike = _CHANCE_ALIKE[kind_of(answers)]
    return [
        max(alike, _SELF_ALIKE if worker in workers[:place] else 0.0)
        for place, worker in enumerate(workers)
    ]


# Which one is right

_SPREAD = 1.5
"""How much difficulties differ beyond what was expected, in log-odds."""

_POINTS, _SHARES = np.polynomial.hermite_e.hermegauss(21)
_DIFFICULTY = _SPREAD * _POINTS
_LOG_SHARES = np.log(_SHARES / _SHARES.sum())
_STRETCH = float(np.sqrt(1.0 + np.pi * _SPREAD**2 / 8.0))
"""By which log-odds grow once the difficulty is known."""


def posterior(
    groups: Counts, prior: Floats, asked: Floats, alike: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return how likely each answer is right, another worker would be, and no answer is.

    Questions are rows. `groups` says which answers agree (0: there is none), `prior` the log-odds
    that each worker was expected to be right by, `asked` those of the other one, `alike` how likely
    each answer, if wrong, is the same as an earlier wrong one.
    """
    count = groups.shape[1]
    odds = _STRETCH * prior[:, :, None] - _DIFFICULTY
    right, wrong = -np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds)
    given = groups > 0
    same = (groups[:, :, None] == groups[:, None, :]) & given[:, :, None]
    cases = []
    truths = []
    for place in range(count):
        first = given[:, place] & ~same[:, place, :place].any(axis=1)
        true = same[:, place]
        chance = np.where(true[:, :, None], right, wrong).sum(axis=1)
        chance += _scattered(~true & given, same, alike)[:, None]
        cases.append(np.where(first[:, None], chance, -1e9))
        truths.append(true)
    cases.append(wrong.sum(axis=1) + _scattered(given, same, alike)[:, None])
    truths.append(np.zeros_like(given))
    weighed = np.stack(cases, axis=1) + _LOG_SHARES
    weighed = np.exp(weighed - weighed.max(axis=(1, 2), keepdims=True))
    weighed /= weighed.sum(axis=(1, 2), keepdims=True)
    by_case = weighed.sum(axis=2)
    each = (by_case[:, :, None] * np.stack(truths, axis=1)).sum(axis=1)
    difficulty = weighed.sum(axis=1)
    other = (difficulty / (1.0 + np.exp(_DIFFICULTY - _STRETCH * asked[:, None]))).sum(axis=1)
    return each, other, by_case[:, -1]


def _scattered(wrong: NDArray[np.bool_], same: NDArray[np.bool_], alike: Floats) -> Floats:
    """Return the log-chance that wrong answers agree among themselves as they do."""
    found = np.zeros(len(wrong))
    for place in range(1, wrong.shape[1]):
        earlier = wrong[:, :place].sum(axis=1)
        joined = (wrong[:, :place] & same[:, place, :place]).sum(axis=1)
        chance = np.where(
            joined > 0, alike[:, place] * joined / np.maximum(earlier, 1), 1.0 - alike[:, place]
        )
        found += np.where(wrong[:, place] & (earlier > 0), np.log(chance), 0.0)
    return found
