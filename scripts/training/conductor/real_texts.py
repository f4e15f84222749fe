"""Reads the questions of the routing data, with how difficult models found them.

The folder is `../shared/data/routing`: 0/1 outcomes of many models per question, MIT and
Apache-2.0. MATH is left out: its licence is in doubt. None of it is copied into the repository.
"""

from __future__ import annotations

import csv
import gzip
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCES = (
    "routellm/routellm_mmlu.csv.gz",
    "routellm/routellm_gsm8k.csv.gz",
    "mmlupro/mmlupro.csv.gz",
    "llmrouter/llmrouter.csv.gz",
)
LONGEST_CHARACTERS = 700
EXCLUDED_GROUPS = ("commongen", "humaneval", "mbpp", "boolq", "squad", "quac", "natural_qa")
_MATH = ("math", "gsm", "algebra", "statistics", "econometrics", "physics", "engineering")
_REASONING = ("logic", "fallac", "puzzle", "hellaswag", "winogrande", "openbook", "commonsense",
              "reason")  # fmt: skip
_CODE = ("code", "human_eval", "computer science")


@dataclass(frozen=True)
class RealText:
    """A question of a public set: its task kind, and its difficulty from 1 to 5."""

    prompt: str
    kind: str
    difficulty: int
    group: str


def read_texts(folder: Path) -> list[RealText]:
    """Return the questions in a folder. Raises OSError."""
    csv.field_size_limit(1 << 26)
    found: list[RealText] = []
    for source in SOURCES:
        with gzip.open(folder / source, "rt", encoding="utf-8", newline="") as file:
            found += _questions(list(csv.DictReader(file)))
    return found


def _questions(rows: Sequence[Mapping[str, str]]) -> list[RealText]:
    columns = [name for name in rows[0] if name.startswith("m:")]
    right = [statistics.fmean(float(row[name] or 0) for name in columns) for row in rows]
    groups: dict[str, list[float]] = {}
    for row, share in zip(rows, right, strict=True):
        groups.setdefault(row["group"], []).append(share)
    mean = {group: statistics.fmean(shares) for group, shares in groups.items()}
    return [
        RealText(row["text"].strip(), kind_of(group), _difficulty(share, mean[group]), group)
        for row, share in zip(rows, right, strict=True)
        if (group := row["group"])
        and len(row["text"]) <= LONGEST_CHARACTERS
        and not any(excluded in group for excluded in EXCLUDED_GROUPS)
    ]


def _difficulty(share: float, of_group: float) -> int:
    """Return the difficulty: half the question's own outcomes, half its group's."""
    return round(1 + 4 * (1 - (share + of_group) / 2))


def kind_of(group: str) -> str:
    """Return the task kind of a group of questions."""
    group = group.lower().replace("_", " ")
    for kind, words in (("code", _CODE), ("math", _MATH), ("reasoning", _REASONING)):
        if any(word in group for word in words):
            return kind
    return "knowledge"
