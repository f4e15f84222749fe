"""Questions with the known outcomes of many workers, and how good a router is on them.

A folder holds any number of files `NAME.csv.gz`, at any depth. A row is a question: `id`, `group`
(its task or subject), `qhash` (the same for the same question in two files), `text`, and for each
worker `m:WORKER` (how good its answer was, from 0 to 1), `p:WORKER` (the short answer in it) and
`l:WORKER` (its length in characters). What is missing is missing: a file without one, a cell
without a value.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Column = TypeVar("Column")


@dataclass(frozen=True)
class Rows:
    """The questions of one file. A quality or length that is not known is NaN, an answer ""."""

    name: str
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    qhash: tuple[str, ...]
    texts: tuple[str, ...]
    quality: Mapping[str, Floats]
    answers: Mapping[str, tuple[str, ...]]
    lengths: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, places: Places) -> Rows:
        """Return the rows at those places."""

        def of(column: Sequence[str]) -> tuple[str, ...]:
            return tuple(column[place] for place in places)

        return Rows(
            self.name,
            of(self.ids),
            of(self.groups),
            of(self.qhash),
            of(self.texts),
            {worker: column[places] for worker, column in self.quality.items()},
            {worker: of(column) for worker, column in self.answers.items()},
            {worker: column[places] for worker, column in self.lengths.items()},
        )

    def without(self, workers: Collection[str]) -> Rows:
        """Return the rows without what is known of some workers."""

        return replace(
            self,
            quality=_rest(self.quality, workers),
            answers=_rest(self.answers, workers),
            lengths=_rest(self.lengths, workers),
        )

    def known(self, *workers: str) -> Rows:
        """Return the rows where the quality of all those workers is known."""
        known = np.ones(len(self), bool)
        for worker in workers:
            known &= ~np.isnan(self.quality[worker])
        return self if known.all() else self.take(np.flatnonzero(known))


def _rest(columns: Mapping[str, Column], workers: Collection[str]) -> dict[str, Column]:
    return {worker: column for worker, column in columns.items() if worker not in workers}


# Reading


def read_folder(folder: Path) -> tuple[Rows, ...]:
    """Read every file of a folder, in the order of their names. Raises OSError, ValueError."""
    return tuple(read_rows(path) for path in sorted(folder.rglob("*.csv.gz"), key=lambda p: p.name))


def read_rows(path: Path) -> Rows:
    """Read one file. Raises OSError, and ValueError where it isn't such a file."""
    csv.field_size_limit(1 << 30)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        table = list(reader)
    if "text" not in header:
        raise ValueError(f"{path.name} has no column `text`.")
    for number, row in enumerate(table, start=1):
        if len(row) != len(header):
            raise ValueError(f"Row {number} of {path.name} has {len(row)} cells.")
    cells: Iterable[Sequence[str]] = zip(*table, strict=True) if table else [()] * len(header)
    return from_columns(path.name.removesuffix(".csv.gz"), dict(zip(header, cells, strict=True)))


def from_columns(name: str, columns: Mapping[str, Sequence[str]]) -> Rows:
    """Return the rows that a table's columns hold, by their headings."""
    texts = tuple(columns["text"])
    numbered = tuple(str(number) for number in range(len(texts)))
    return Rows(
        name,
        tuple(columns.get("id", numbered)),
        tuple(columns.get("group", ("",) * len(texts))),
        tuple(columns["qhash"]) if "qhash" in columns else tuple(map(hash_of, texts)),
        texts,
        {worker: _numbers(column) for worker, column in _of(columns, "m:")},
        {worker: tuple(column) for worker, column in _of(columns, "p:")},
        {worker: _numbers(column) for worker, column in _of(columns, "l:")},
    )


def hash_of(text: str) -> str:
    """Return what a question is known by: its letters and digits."""
    plain = "".join(sign for sign in text.casefold() if sign.isalnum())
    return hashlib.sha256(plain.encode()).hexdigest()[:12]


def _of(columns: Mapping[str, Sequence[str]], prefix: str) -> Iterable[tuple[str, Sequence[str]]]:
    for heading, column in columns.items():
        if heading.startswith(prefix):
            yield heading.removeprefix(prefix), column


def _numbers(column: Sequence[str]) -> Floats:
    return np.array([float(cell) if cell.strip() else np.nan for cell in column], np.float64)


# Splitting


@dataclass(frozen=True)
class Holdout:
    """What is hidden beside a share of the questions.

    Whole `files`, `groups` (`GROUP`, or `FILE:GROUP`), and what is known of some `workers`.
    """

    share: float = 0.3
    files: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    workers: frozenset[str] = frozenset()


def split(
    data: Sequence[Rows], salt: str, holdout: Holdout = Holdout()
) -> tuple[tuple[Rows, ...], tuple[Rows, ...]]:
    """Return what may be trained on and what is hidden; no question is on both sides.

    Which questions are hidden depends on the salt alone. The hidden part keeps all workers; files
    of which nothing is left on a side are not on it.
    """
    hidden = {
        key for rows in data for key in rows.qhash if _chance(salt, key) < holdout.share
    }  # fmt: skip
    hidden |= {key for rows in data for key in _held_out_keys(rows, holdout)}
    visible: list[Rows] = []
    rest: list[Rows] = []
    for rows in data:
        out = np.array([key in hidden for key in rows.qhash], bool)
        visible.append(rows.take(np.flatnonzero(~out)).without(holdout.workers))
        rest.append(rows.take(np.flatnonzero(out)))
    return tuple(filter(len, visible)), tuple(filter(len, rest))


def _chance(salt: str, key: str) -> float:
    digest = hashlib.sha256(f"{salt}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _held_out_keys(rows: Rows, holdout: Holdout) -> Iterable[str]:
    for key, group in zip(rows.qhash, rows.groups, strict=True):
        named = {group, f"{rows.name}:{group}"} & holdout.groups
        if named or rows.name in holdout.files:
            yield key


# Measuring. `score` says how much a question should go to the strong worker; `weak` and `strong`
# are the qualities of both workers on it.


def curve(score: Floats, weak: Floats, strong: Floats) -> tuple[Floats, Floats]:
    """Return the share of strong calls and the mean quality at every threshold.

    Questions of the same score come in a random order, so a straight line joins both ends.
    """
    _, inverse = np.unique(-score, return_inverse=True)
    counts = np.bincount(inverse)
    gains = np.bincount(inverse, weights=strong - weak)
    share = np.concatenate([[0.0], np.cumsum(counts)]) / len(score)
    quality = weak.mean() + np.concatenate([[0.0], np.cumsum(gains)]) / len(score)
    return share, quality


def apgr(score: Floats, weak: Floats, strong: Floats) -> float:
    """Return the mean share of the gap between both workers that is closed, over all thresholds.

    A random order gets one half, and an order by the true gain the most.
    """
    share, quality = curve(score, weak, strong)
    closed = (quality - weak.mean()) / (strong.mean() - weak.mean())
    return float(((closed[1:] + closed[:-1]) / 2) @ np.diff(share))


def calls_for(score: Floats, weak: Floats, strong: Floats, part: float) -> float:
    """Return the smallest share of strong calls that closes that part of the gap (CPT)."""
    share, quality = curve(score, weak, strong)
    closed = (quality - weak.mean()) / (strong.mean() - weak.mean())
    at = int(np.argmax(closed >= part - 1e-12))
    if at == 0:
        return 0.0
    rest = (part - closed[at - 1]) / (closed[at] - closed[at - 1])
    return float(share[at - 1] + rest * (share[at] - share[at - 1]))


def quality_at(score: Floats, weak: Floats, strong: Floats, calls: float) -> float:
    """Return the mean quality when that share of the questions goes to the strong worker."""
    return float(np.interp(calls, *curve(score, weak, strong)))


def bootstrap(
    scores: Sequence[Floats], weak: Floats, strong: Floats, rounds: int = 1000, seed: int = 0
) -> Floats:
    """Return the APGR of each score (columns) on each of many resamples of the questions (rows).

    Every score is measured on the same resamples, so their differences are paired.
    """
    dice = np.random.default_rng(seed)
    ranked = [_rank(score) for score in scores]
    found = np.empty((rounds, len(scores)))
    for number in range(rounds):
        counts = np.bincount(dice.integers(0, len(weak), len(weak)), minlength=len(weak))
        for place, (groups, size) in enumerate(ranked):
            found[number, place] = _weighted_apgr(groups, size, counts.astype(float), weak, strong)
    return found


def _rank(score: Floats) -> tuple[Places, int]:
    values, inverse = np.unique(-score, return_inverse=True)
    return inverse.astype(np.int64), len(values)


def _weighted_apgr(
    groups: Places, size: int, counts: Floats, weak: Floats, strong: Floats
) -> float:
    """Return the APGR where each question counts so many times."""
    calls = np.bincount(groups, weights=counts, minlength=size)
    gains = np.cumsum(np.bincount(groups, weights=counts * (strong - weak), minlength=size))
    if gains[-1] == 0.0:
        return float("nan")
    before = np.concatenate([[0.0], gains[:-1]])
    return float(((gains + before) / 2) @ calls / calls.sum() / gains[-1])
