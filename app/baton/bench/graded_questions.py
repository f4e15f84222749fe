"""Questions with known answers: their files, how an answer is graded, and a score's interval.

The kind of a question decides how it is graded: a number by its value, a choice by its letter, a
text by a regular expression, the parts of a request by one each. Code is graded by its tests, which
the bench runs in the sandbox.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec

from baton.core.errors import ConfigError
from baton.core.markdown import blocks

Kind = Literal["number", "choice", "regex", "parts", "python", "text"]
"""How a question may be graded."""


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question, as a line of a file holds it.

    `answer` is a list of regular expressions for the `kind` parts, one for each thing that the
    question asks for. `tests` are Python that fails for wrong code (`kind` python). `choices` are
    shown with letters after the question. `system` None is the worker's own.
    """

    id: str | int
    question: str
    answer: str | int | float | list[str] = ""
    kind: Kind = "text"
    tests: str = ""
    system: str | None = None
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a question that can't be graded."""
        if isinstance(self.answer, list) != (self.kind == "parts"):
            raise ValueError("a list of answers and kind parts go together")
        if self.kind == "python":
            if not self.tests.strip():
                raise ValueError("kind python needs tests")
        elif not (self.patterns if self.kind == "parts" else self.right.strip()):
            raise ValueError("the answer is missing")
        if self.kind == "number" and final_number(self.right) is None:
            raise ValueError(f"{self.answer!r} isn't a number")
        if self.kind == "choice" and not re.fullmatch(r"\(?[A-Za-z][).]?", self.right.strip()):
            raise ValueError(f"{self.answer!r} isn't a letter")
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} isn't a regular expression ({error})") from error

    @property
    def name(self) -> str:
        """Its id as text."""
        return str(self.id)

    @property
    def right(self) -> str:
        """The right answer as text."""
        return str(self.answer)

    @property
    def patterns(self) -> list[str]:
        """The regular expressions that an answer must match."""
        if isinstance(self.answer, list):
            return self.answer
        return [self.right] if self.kind == "regex" else []

    @property
    def prompt(self) -> str:
        """The question, with the choices if there are any."""
        listed = (f"{chr(ord('A') + n)}. {choice}" for n, choice in enumerate(self.choices))
        return "\n".join([self.question, *listed])


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions in their order; `digest` changes with any byte of their file."""

    name: str
    digest: str
    questions: tuple[Question, ...]


def read_dataset(path: Path) -> Dataset:
    """Read a file of JSON Lines, a question in each. Raises ConfigError, naming the line."""
    try:
        raw = path.read_bytes()
        lines = raw.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.", "Check its name.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} isn't UTF-8 text.", "Save it as UTF-8.") from error
    questions: dict[str, Question] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            question = msgspec.json.decode(line, type=Question)
            if question.name in questions:
                raise ValueError(f"there are two questions {question.name!r}")
        except ValueError as error:
            raise ConfigError(
                f"Line {number} of {path.name} isn't a question: {error}.",
                "`baton bench --help` shows how one looks.",
            ) from error
        questions[question.name] = question
    if not questions:
        raise ConfigError(
            f"{path.name} holds no question.", "`baton bench --help` shows how one looks."
        )
    return Dataset(path.name, hashlib.sha256(raw).hexdigest(), tuple(questions.values()))


def grade_answer(question: Question, text: str) -> float:
    """Return how much of the right answer a text holds, from 0 to 1; only parts give shares.

    Code is graded by executing its tests instead.
    """
    match question.kind:
        case "number":
            return float(_same_number(text, question.right))
        case "choice":
            return float(chosen_letter(text) == question.right.strip().strip("().").upper())
        case "regex" | "parts":
            patterns = question.patterns
            return sum(re.search(one, text) is not None for one in patterns) / len(patterns)
        case _:
            return float(_plain_text(_announced_line(text) or text) == _plain_text(question.right))


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
    for match in _NUMBER.finditer(text):
        if len(match[0]) > _MAX_NUMBER_CHARS:
            continue
        upper, lower, sign, digits, exponent, under = match.groups()
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
    number, right = final_number(text), final_number(answer)
    if number is None or right is None:
        return False
    return abs(number - right) <= _MAX_DIFFERENCE * max(Fraction(1), abs(right))


_LETTER = re.compile(r"^\W*(?:option\s+|choice\s+|text\{)?\(?([A-Za-z])(?![\w'\u2019])", re.I)
_ALONE = re.compile(r"(?:^|[\s(\[*])([B-HJ-Z]|[AI](?=[).\]:*]|\s*$))(?![\w'\u2019])", re.MULTILINE)


def chosen_letter(text: str) -> str:
    """Return the letter that a text chooses, or "": the one announced, else the last alone."""
    if match := _LETTER.match(_announced_line(text)):
        return match[1].upper()
    letters = _ALONE.findall(text)
    return letters[-1] if letters else ""


def _plain_text(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .*\"'`}$")


def python_in(text: str) -> str:
    """Return the Python that a text holds: its fenced blocks, or all of it where it has none."""
    code_blocks = [block for block in blocks(text) if block.language in _PYTHON]
    return "\n\n".join(block.text for block in code_blocks) if code_blocks else text


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
