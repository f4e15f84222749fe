"""Says of each question how much it should rather go to the cloud worker than to the local one.

    scripts/score_router --model DIR --rows FILE.csv.gz --local ID --cloud ID --out FILE.csv
    scripts/score_router ... --mates ID,ID

Without mates that is stage A: nothing but the question is known. With them it is stage B: the local
worker and its mates have each written a draft, whose short answer (`p:ID`) and length (`l:ID`) are
known. Nothing else of a row is read, so its outcome can't be. Each question is scored by itself,
as if it came alone. Workers that the model never met are placed by their name.

Writes the columns `id` and `score`; a higher score means cloud. Ends with 2 where something that is
needed is missing.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import routing_rows
from routing_rows import Floats, Rows

from baton.core.routing_types import Candidate, Draft, Estimate
from baton.routing.child.router_model import RouterFileError, RouterModel

AT_ONCE = 500
"""So many questions are read at once; that is faster, and changes nothing."""


class MissingFile(Exception):
    """Something isn't there: a sentence for the user."""


def main() -> None:
    """Score a file."""
    options = argparse.ArgumentParser(description="Scores questions: a higher score means cloud.")
    options.add_argument("--model", type=Path, required=True, help="what train_router wrote")
    options.add_argument("--rows", type=Path, required=True, help="the questions, FILE.csv.gz")
    options.add_argument("--local", required=True, help="the worker that answers first")
    options.add_argument("--cloud", required=True, help="the worker that may be asked instead")
    options.add_argument("--mates", default="", help="others that wrote a draft: ID,ID")
    options.add_argument("--out", type=Path, required=True, help="the file to write")
    chosen = options.parse_args()
    mates = [mate.strip() for mate in chosen.mates.split(",") if mate.strip()]
    try:
        rows = read_known(chosen.rows, [chosen.local, *mates] if mates else [])
        model = RouterModel.load(chosen.model)
        found = scores(model, rows, chosen.local, chosen.cloud, mates)
        write(chosen.out, rows.ids, found)
    except (MissingFile, RouterFileError, OSError) as error:
        print(f"score_router: {error}", file=sys.stderr)
        raise SystemExit(2) from error


def read_known(path: Path, drafted: Sequence[str]) -> Rows:
    """Read what may be known of each question, and no other column. Raises MissingFile, OSError."""
    wanted = {"id", "text"}
    wanted |= {f"{what}:{worker}" for worker in drafted for what in "pl"}
    csv.field_size_limit(1 << 30)
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            table = csv.reader(file)
            header = next(table, [])
            places = [place for place, heading in enumerate(header) if heading in wanted]
            cells = [[row[place] for place in places] for row in table]
    except (zlib.error, EOFError, UnicodeDecodeError, csv.Error, IndexError) as error:
        raise MissingFile(f"{path} isn't a table of questions: {error}.") from error
    columns = {header[place]: [row[k] for row in cells] for k, place in enumerate(places)}
    if "text" not in columns:
        raise MissingFile(f"{path} has no column `text`.")
    absent = [worker for worker in drafted if f"p:{worker}" not in columns]
    if absent:
        raise MissingFile(f"{path} has no answers of {', '.join(absent)} (columns `p:ID`).")
    try:
        return routing_rows.from_columns(path.name, columns)
    except ValueError as error:
        raise MissingFile(f"{path} has a length that isn't a number: {error}.") from error


def rank(model: RouterModel, texts: Sequence[str], local: Candidate, cloud: Candidate) -> Floats:
    """Return how much each text should rather go to the cloud worker: its expected gain."""
    return np.array([one.gain[cloud.id] for one in model.estimates(texts, [local, cloud])])


@dataclass(frozen=True)
class Expected:
    """What is expected of each question: the gain, and how likely each worker answers well."""

    gain: Floats
    local: Floats
    cloud: Floats


def scores(
    model: RouterModel, rows: Rows, local: str, cloud: str, mates: Sequence[str] = ()
) -> Floats:
    """Return the expected gain of the cloud worker over the local one on each question."""
    return expected(model, rows, local, cloud, mates).gain


def expected(
    model: RouterModel, rows: Rows, local: str, cloud: str, mates: Sequence[str] = ()
) -> Expected:
    """Return what is expected of both workers on each question."""
    here, there = candidate(local), candidate(cloud, outside=True)
    everyone = [here, *(candidate(mate) for mate in mates), there]
    found = []
    for start in range(0, len(rows), AT_ONCE):
        texts = rows.texts[start : start + AT_ONCE]
        for place, one in enumerate(model.estimates(texts, everyone), start=start):
            if mates:
                found.append(_after_drafts(model, rows, place, everyone, one))
            else:
                found.append((one.gain[cloud], one.quality[local], one.quality[cloud]))
    return Expected(*np.array(found, np.float64).reshape(-1, 3).T)


def candidate(worker: str, outside: bool = False) -> Candidate:
    """Return a worker of which nothing is known but its name."""
    return Candidate(worker, worker, outside=outside)


def _after_drafts(
    model: RouterModel,
    rows: Rows,
    place: int,
    everyone: Sequence[Candidate],
    before: Estimate,
) -> tuple[float, float, float]:
    """Return the gain and both chances of a question once there are drafts."""
    written = [_draft(rows, place, worker.id) for worker in everyone[:-1]]
    judgement = model.judge(rows.texts[place], everyone, written, before)
    asked = judgement.gain[everyone[-1].id] + judgement.quality[judgement.best]
    return asked - judgement.quality[0], judgement.quality[0], asked


def _draft(rows: Rows, place: int, worker: str) -> Draft:
    length = float(rows.lengths[worker][place]) if worker in rows.lengths else np.nan
    return Draft(
        worker, answer=rows.answers[worker][place], length=int(length) if length > 0 else 0
    )


def write(path: Path, ids: Sequence[str], found: Floats) -> None:
    """Write the scores. Raises OSError."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("id", "score"))
        table.writerows((id_, f"{score:.7f}") for id_, score in zip(ids, found, strict=True))


if __name__ == "__main__":
    main()
