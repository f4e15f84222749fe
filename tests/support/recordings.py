"""Made-up recordings of three models: two small ones that differ, and one that costs money."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

SMALL, OTHER, BIG = "tiny-1b-it", "wee-2b-it", "grand-1"
COLUMNS = ["id", "group", "qhash", "text", "answer"] + [
    f"{column}:{model}" for model in (SMALL, OTHER, BIG) for column in "mpl"
]


def row(name: str, right: int, answers: tuple[str, str, str], length: int = 200) -> dict[str, str]:
    """Return one question with what each model answered ("" for nothing)."""
    cells = {"id": name, "group": "made up", "text": f"What is the value of {name}?"}
    cells["qhash"] = f"hash-{name}"
    cells["answer"] = str(right)
    for model, answer in zip((SMALL, OTHER, BIG), answers, strict=True):
        cells |= {
            f"m:{model}": str(int(answer == str(right))),
            f"p:{model}": answer,
            f"l:{model}": str(length),
        }
    return cells


def rows(count: int, seed: int = 7) -> list[dict[str, str]]:
    """Return questions that the small models get right half the time, the big one nearly always."""
    dice = random.Random(seed)

    def said(right: int, chance: float) -> str:
        return str(right) if dice.random() < chance else str(right + dice.randint(1, 99))

    made = []
    for number in range(count):
        right = dice.randint(100, 999)
        answers = (said(right, 0.6), said(right, 0.6), said(right, 0.95))
        made.append(row(f"q{number}", right, answers))
    return made


def write(path: Path, table: list[dict[str, str]]) -> Path:
    """Write recordings as Baton reads them."""
    text = io.StringIO(newline="")
    written = csv.DictWriter(text, COLUMNS)
    written.writeheader()
    written.writerows(table)
    raw = text.getvalue().encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path
