"""Recorded answers of real models: tables with a row for each question.

A `.csv` or `.csv.gz` has the columns id, text, answer, qhash and, for each model, m:NAME (1 for
right), p:NAME (the answer found in its text) and l:NAME (the text's length in characters).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from baton.bench.graded_questions import Kind, Question, final_number
from baton.core.errors import ConfigError

HELD_OUT_SHARE = 0.3
"""The share of the questions that a router is tested on and was not trained on."""

_NO_ANSWER = ("", "-")
"""How recordings say that no answer was found in a text."""


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
class Recordings:
    """Questions, and for each model its answers by the questions' ids.

    `keys` has for each question what is the same for it in another file, "" where that isn't known.
    """

    name: str
    questions: tuple[Question, ...]
    keys: Mapping[str, str]
    answers: Mapping[str, Mapping[str, RecordedAnswer]]

    def is_held_out(self, question: Question, salt: str) -> bool:
        """Whether a router that was trained with that salt never saw the question."""
        digest = hashlib.sha256(f"{salt}:{self.keys[question.name]}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64 < HELD_OUT_SHARE


def recorded_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text: recordings hold only its characters."""
    return -(-len(text) // 4)


def read_recordings(path: Path) -> Recordings:
    """Read a table. Of rows with the same text only the first is kept. Raises ConfigError."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} can't be read: {error}.") from error
    table = csv.DictReader(io.StringIO(text, newline=""))
    columns = list(table.fieldnames or ())
    models = [column.removeprefix("m:") for column in columns if column.startswith("m:")]
    if not models or not {"id", "text"} <= set(columns):
        raise ConfigError(f"{path.name} holds no recorded answers: {', '.join(columns[:6])}.")
    rows: dict[str, dict[str, str]] = {}
    try:
        for row in table:
            rows.setdefault(row["text"], row)  # a worker that is asked knows only the text
        return Recordings(
            path.name,
            tuple(map(_question, rows.values())),
            {row["id"]: row.get("qhash") or "" for row in rows.values()},
            {model: {r["id"]: _answer(r, model) for r in rows.values()} for model in models},
        )
    except (csv.Error, ValueError, TypeError) as error:
        raise ConfigError(f"Line {table.line_num} of {path.name}: {error}.") from error


def _question(row: dict[str, str]) -> Question:
    answer = row.get("answer") or _NO_ANSWER[-1]
    kind: Kind = "number" if final_number(answer) is not None else "text"
    return Question(
        row["id"],
        row["text"],
        answer,
        "choice" if re.fullmatch(r"[A-Z]", answer.strip()) else kind,
    )


def _answer(row: dict[str, str], model: str) -> RecordedAnswer:
    answer = (row.get(f"p:{model}") or "").strip()
    length = int(float(row.get(f"l:{model}") or 0))
    return RecordedAnswer(float(row[f"m:{model}"]), "" if answer in _NO_ANSWER else answer, length)
