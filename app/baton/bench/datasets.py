"""Files of questions with checkable answers: JSON Lines, or CSV of what models once answered."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from baton.core.errors import ConfigError
from baton.core.plan.answer_grades import (
    CHOICE,
    KINDS,
    NUMBER,
    PARTS,
    PYTHON,
    REGEX,
    TEXT,
    Dataset,
    Question,
    RecordedAnswer,
    final_number,
)

_NO_ANSWER = ("", "-")
"""How recordings say that no answer was found in a text."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """One question as it stands in a file."""

    id: str | int
    question: str
    answer: str | int | float | list[str] = ""
    kind: str = TEXT
    tests: str = ""
    system: str | None = None
    choices: list[str] = []


def read_dataset(path: Path) -> Dataset:
    """Read a dataset: `.csv` and `.csv.gz` are recorded answers, all else is JSON Lines.

    Raises ConfigError, naming the line.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.", "Check its name.") from error
    digest = hashlib.sha256(raw).hexdigest()
    try:
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} can't be unpacked: it is broken.", "Fetch it again.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text.", "Save it as UTF-8.") from error
    if ".csv" in path.suffixes[-2:]:
        return _read_recordings(path.name, digest, text)
    questions = tuple(_read_lines(path.name, text))
    _check_ids(path.name, questions)
    return Dataset(path.name, digest, questions)


def _check_ids(name: str, questions: tuple[Question, ...]) -> None:
    if not questions:
        raise ConfigError(f"{name} holds no question.", "`baton bench --help` shows how one looks.")
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise ConfigError(f"{name} has two questions {question.id!r}.", "Give each its own id.")
        seen.add(question.id)


def _read_lines(name: str, text: str) -> Iterator[Question]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield _read_question(msgspec.json.decode(line, type=_Line))
        except (msgspec.DecodeError, ValueError) as error:
            raise ConfigError(
                f"Line {number} of {name} is no question: {error}.",
                "A line is a JSON object with id, question, answer and kind "
                f"({', '.join(KINDS)}); python has tests instead of an answer.",
            ) from error


def _read_question(line: _Line) -> Question:
    """Return the question in a line. Raises ValueError for one that can't be graded."""
    is_list = isinstance(line.answer, list)
    parts = tuple(line.answer) if isinstance(line.answer, list) else ()
    answer = "" if is_list else str(line.answer)
    if line.kind not in KINDS:
        raise ValueError(f"there is no kind {line.kind!r}")
    if is_list != (line.kind == PARTS):
        raise ValueError("a list of answers and kind parts go together")
    if line.kind == PYTHON and not line.tests.strip():
        raise ValueError("kind python needs tests")
    if line.kind != PYTHON and not (answer.strip() or parts):
        raise ValueError("the answer is missing")
    if line.kind == NUMBER and final_number(answer) is None:
        raise ValueError(f"{answer!r} is no number")
    if line.kind == CHOICE and not re.fullmatch(r"\(?[A-Za-z][).]?", answer.strip()):
        raise ValueError(f"{answer!r} is no letter")
    for pattern in parts or ([answer] if line.kind == REGEX else []):
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression ({error})") from error
    return Question(
        str(line.id),
        line.question,
        answer,
        line.kind,
        line.tests,
        line.system,
        tuple(line.choices),
        parts,
    )


def _read_recordings(name: str, digest: str, text: str) -> Dataset:
    """Read a table with a row for each question, and columns `m:`, `p:` and `l:` for each model.

    Of rows with the same text only the first is kept.
    """
    table = csv.DictReader(io.StringIO(text, newline=""))
    columns = list(table.fieldnames or ())
    models = [column.removeprefix("m:") for column in columns if column.startswith("m:")]
    if not models or not {"id", "text"} <= set(columns):
        raise ConfigError(
            f"{name} holds no recorded answers: its columns are {', '.join(columns[:6])}.",
            "It needs id, text and, for each model, m:NAME (1 for right); p:NAME, the answer found "
            "in its text, and l:NAME, the text's length, may be there.",
        )
    questions: list[Question] = []
    recorded: dict[str, dict[str, RecordedAnswer]] = {model: {} for model in models}
    texts: set[str] = set()
    try:
        for row in table:
            if row["text"] in texts:
                continue  # a worker that is asked knows only the text
            texts.add(row["text"])
            questions.append(_read_row(row))
            for model in models:
                recorded[model][row["id"]] = _read_answer(row, model)
    except (csv.Error, ValueError, TypeError) as error:
        raise ConfigError(
            f"Line {table.line_num} of {name} can't be read: {error}.", "Fetch it again."
        ) from error
    _check_ids(name, tuple(questions))
    return Dataset(name, digest, tuple(questions), recorded)


def _read_row(row: dict[str, str]) -> Question:
    answer = row.get("answer") or ""
    if re.fullmatch(r"[A-Z]", answer.strip()):
        kind = CHOICE
    else:
        kind = NUMBER if final_number(answer) is not None else TEXT
    return Question(row["id"], row["text"], answer, kind, key=row.get("qhash") or "")


def _read_answer(row: dict[str, str], model: str) -> RecordedAnswer:
    answer = (row.get(f"p:{model}") or "").strip()
    length = int(float(row.get(f"l:{model}") or 0))
    return RecordedAnswer(float(row[f"m:{model}"]), "" if answer in _NO_ANSWER else answer, length)
