"""Grades answers to questions with known answers, and the confidence interval of a score.

The kind of a question decides how: a number by its value, a choice by its letter, a text by a
regular expression, the parts of a request by one each. Code is graded by its tests, which the bench
runs in the sandbox.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from baton.core.code_blocks import blocks

NUMBER, CHOICE, REGEX, PARTS = "number", "choice", "regex", "parts"
PYTHON, TEXT = "python", "text"
KINDS = (NUMBER, CHOICE, REGEX, PARTS, PYTHON, TEXT)
"""How a question may be graded."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a dataset. `tests` are Python that fails for wrong code (`kind` python).

    `choices` are shown with letters after the question. `parts` are regular expressions, one for
    each thing that the question asks for (`kind` parts). `system` None is the worker's own. `key`
    is the same for the same question in another file, "" where that isn't known.
    """

    id: str
    text: str
    answer: str
    kind: str
    tests: str = ""
    system: str | None = None
    choices: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    key: str = ""

    @property
    def prompt(self) -> str:
        """The question, with the choices if there are any."""
        if not self.choices:
            return self.text
        listed = (f"{choice_letter(n)}. {choice}" for n, choice in enumerate(self.choices))
        return "\n".join([self.text, *listed])


HELD_OUT_SHARE = 0.3
"""The share of the questions that a router is tested on and was not trained on."""


def is_held_out(question: Question, salt: str) -> bool:
    """Whether a router that was trained with that salt never saw the question."""
    digest = hashlib.sha256(f"{salt}:{question.key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < HELD_OUT_SHARE


def choice_letter(place: int) -> str:
    """Return the letter of a choice, counted from 0."""
    return chr(ord("A") + place)


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A recorded answer of a model: the short answer found in it ("": none), and its score.

    `score` is 1 for right and 0 for wrong, `length` the characters of the whole answer.
    """

    score: float
    answer: str = ""
    length: int = 0

    @property
    def tokens(self) -> int:
        """How many tokens the whole answer had, about."""
        return -(-self.length // 4)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions in their order; `digest` changes with any byte of their file.

    `recorded` has, for each model, its answers by the questions' ids; it is empty where there are
    none, so that real workers must answer.
    """

    name: str
    digest: str
    questions: tuple[Question, ...]
    recorded: Mapping[str, Mapping[str, RecordedAnswer]] = field(default_factory=dict)


def recorded_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text: recordings hold only its characters."""
    return -(-len(text) // 4)


def grade_answer(question: Question, text: str) -> float:
    """Return how much of the right answer a text holds, from 0 to 1; only parts give shares.

    Code is graded by executing its tests instead.
    """
    match question.kind:
        case "number":
            return float(_same_number(text, question.answer))
        case "choice":
            return float(chosen_letter(text) == question.answer.strip().strip("().").upper())
        case "regex":
            return float(re.search(question.answer, text) is not None)
        case "parts":
            found = [re.search(part, text) is not None for part in question.parts]
            return sum(found) / len(found)
        case _:
            return float(_plain_text(_announced_line(text) or text) == _plain_text(question.answer))


# Finding the answer in a text


_CUE = re.compile(
    r"####|\\boxed\s*\{|\b(?:final\s+)?answer\s*(?:is|are|:|=)\s*:?"
    r"|\b(?:the\s+)?(?:result|total)\s+is\b",
    re.IGNORECASE,
)


def _announced_line(text: str) -> str:
    """Return the line after the last words that announce an answer, or ""."""
    plain = text.replace("*", "")
    cues = list(_CUE.finditer(plain))
    rest = plain[cues[-1].end() :].lstrip() if cues else ""
    return rest.splitlines()[0] if rest else ""


_SIGN = "-\u2212"
_NUMBER = re.compile(
    r"\\[dt]?frac\s*\{\s*(-?\d+)\s*\}\s*\{\s*(\d+)\s*\}"
    rf"|(?<![\w.])([{_SIGN}]?)\s?[$€£]?\s?(\d[\d,]*(?:\.\d+)?|\.\d+)(e[+-]?\d+)?"
    r"(?:\s?/\s?(\d[\d,]*))?",
    re.IGNORECASE,
)


_MAX_DIFFERENCE = Fraction(1, 10**6)
"""A number is right to six decimals, a large one to a millionth: 0.083333 for 1/12."""

_MAX_EXPONENT_CHARS = 5  # "e-999": more would make a Fraction that fills the memory
_MAX_NUMBER_CHARS = 400  # a model that repeats a digit without end has not answered


def final_number(text: str) -> Fraction | None:
    """Return the number that a text announces as the answer, else its last one."""
    announced = next(_numbers_in(_announced_line(text)), None)
    if announced is not None:
        return announced
    numbers = list(_numbers_in(text))
    return numbers[-1] if numbers else None


def _numbers_in(text: str) -> Iterator[Fraction]:
    for found in _NUMBER.finditer(text):
        if len(found[0]) > _MAX_NUMBER_CHARS:
            continue
        upper, lower, sign, digits, exponent, under = found.groups()
        if upper is not None:
            value, divisor = Fraction(upper), lower
        elif len(exponent or "") > _MAX_EXPONENT_CHARS:
            continue
        else:
            plain = Fraction(digits.replace(",", "") + (exponent or ""))
            value, divisor = -plain if sign else plain, (under or "1").replace(",", "")
        if int(divisor):
            yield value / int(divisor)


def _same_number(text: str, answer: str) -> bool:
    said, right = final_number(text), final_number(answer)
    if said is None or right is None:
        return False
    return abs(said - right) <= _MAX_DIFFERENCE * max(Fraction(1), abs(right))


_LETTER = re.compile(r"^\W*(?:option\s+|choice\s+|text\{)?\(?([A-Za-z])(?![\w'\u2019])", re.I)
_ALONE = re.compile(r"(?:^|[\s(\[*])([B-HJ-Z]|[AI](?=[).\]:*]|\s*$))(?![\w'\u2019])", re.MULTILINE)


def chosen_letter(text: str) -> str:
    """Return the letter that a text chooses, or "": the one announced, else the last alone."""
    if found := _LETTER.match(_announced_line(text)):
        return found[1].upper()
    letters = _ALONE.findall(text)
    return letters[-1] if letters else ""


def _plain_text(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .*\"'`}$")


def python_in(text: str) -> str:
    """Return the Python that a text holds: its fenced blocks, or all of it where it has none."""
    found = [block for block in blocks(text) if block.language in _PYTHON]
    return "\n\n".join(block.text for block in found) if found else text


_PYTHON = ("", "python", "py", "python3")


# Confidence


Z_95 = 1.959963984540054
"""A normal variable is within so many deviations in 95 % of all cases."""


def wilson_interval(right: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson's), (0, 1) where nothing was counted."""
    if count == 0:
        return 0.0, 1.0
    share, square = right / count, Z_95**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    root = math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    half = Z_95 * root / (1 + square / count)
    return max(0.0, middle - half), min(1.0, middle + half)
