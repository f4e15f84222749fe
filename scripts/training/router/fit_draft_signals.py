"""Fits what a draft's own signals say, and judges it on kinds of questions that were left out.

    .venv/bin/python scripts/training/router/fit_draft_signals.py

prints the table of the router's card. The figures were recorded by record_draft_signals.py.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.routing.child.draft_signals import DRAFT_FEATURES, DraftSignals, SignalLine

Floats = NDArray[np.float64]

RECORDED = Path(__file__).with_name("draft_signals.csv")
EVERYDAY = Path(__file__).with_name("everyday_outcomes.jsonl")
FAMILY = "smollm"
TEXT_KINDS = ("writing", "rewriting", "summary", "extraction", "translation", "planning")
"""What is asked for is a text: the checkable questions have none of these at length."""

_PENALTY, _ROUNDS = 3.0, 30
_RESAMPLES = 500


@dataclass(frozen=True)
class Recorded:
    """Answers of the starter model: their figures as columns, and whether each was right."""

    figures: Floats
    right: Floats
    kinds: NDArray[np.str_]
    words: NDArray[np.str_]

    @classmethod
    def read(cls, file: Path = RECORDED) -> Recorded:
        """Read a file that was recorded."""
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        return cls(
            np.array([[float(row[name]) for name in DRAFT_FEATURES] for row in rows]),
            np.array([float(row["right"]) for row in rows]),
            np.array([row["kind"] for row in rows]),
            np.array([row["words"] for row in rows]),
        )

    def chosen(self, names: Sequence[str]) -> Floats:
        """Return some of the figures."""
        return self.figures[:, [DRAFT_FEATURES.index(name) for name in names]]


def fit_draft_signals(recorded: Recorded | None = None) -> DraftSignals:
    """Fit the lines on all that was recorded."""
    known = recorded or Recorded.read()
    own = fit_line(known.chosen(DRAFT_FEATURES), known.right)
    alone = fit_line(known.chosen(DRAFT_FEATURES[:1]), known.right)
    return DraftSignals({FAMILY: own}, alone, {FAMILY: text_levels()})


def text_levels(file: Path = EVERYDAY) -> dict[str, float]:
    """Return by kind of text the log-odds that the starter model does an everyday prompt well.

    One more right and three more wrong ones are taken to have been there, so that no kind is sure.
    """
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    levels = {}
    for kind in TEXT_KINDS:
        right = [
            row["right"] for row in rows if row["kind"] == kind and row["workers"] == ["small"]
        ]
        levels[kind] = math.log((sum(right) + 1) / (len(right) - sum(right) + 3))
    return levels


def fit_line(figures: Floats, right: Floats) -> SignalLine:
    """Return a logistic regression as what each figure above its mean is worth."""
    worth, level = _logistic(figures, right)
    return SignalLine(tuple(figures.mean(axis=0).tolist()), tuple(worth.tolist()), level)


def _logistic(figures: Floats, right: Floats) -> tuple[Floats, float]:
    """Return the weights of figures less their mean, and the intercept."""
    scale = figures.std(axis=0) + 1e-9
    design = np.column_stack([np.ones(len(figures)), (figures - figures.mean(axis=0)) / scale])
    held = np.array([1e-6, *[_PENALTY] * figures.shape[1]])
    weights = np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        chance = 1.0 / (1.0 + np.exp(-design @ weights))
        slope = design.T @ (right - chance) - held * weights
        curve = (design * (chance * (1.0 - chance))[:, None]).T @ design + np.diag(held)
        weights = weights + np.linalg.solve(curve, slope)
    return weights[1:] / scale, float(weights[0])


# Judging


def left_out_chances(figures: Floats, right: Floats, kinds: NDArray[np.str_]) -> Floats:
    """Return the chance of each answer by a fit on all other kinds."""
    found = np.zeros(len(right))
    for kind in sorted(set(kinds)):
        out = kinds == kind
        worth, level = _logistic(figures[~out], right[~out])
        odds = level + (figures[out] - figures[~out].mean(axis=0)) @ worth
        found[out] = 1.0 / (1.0 + np.exp(-odds))
    return found


def auroc(scores: Floats, right: Floats) -> float:
    """Return how often a right answer scores higher than a wrong one; a tie counts half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    good = int(right.sum())
    return float((ranks[right > 0].sum() - good * (good + 1) / 2) / (good * (len(right) - good)))


def calibration_error(chances: Floats, right: Floats) -> float:
    """Return the mean distance of chances and outcomes in ten bins of one width."""
    places = np.clip((chances * 10).astype(int), 0, 9)
    apart = [abs(float((chances - right)[places == place].sum())) for place in range(10)]
    return sum(apart) / len(right)


def table(recorded: Recorded) -> Iterator[str]:
    """Return the rows of the card's table."""
    yield "| signals | words | answers | AUROC, kinds left out | 95 % | within kinds | ECE |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for words in ("drawn", "likeliest"):
        own = recorded.words == words
        right, kinds = recorded.right[own], recorded.kinds[own]
        hand = np.clip(1.5 * (recorded.chosen(DRAFT_FEATURES[:1])[own, 0] + 0.4), -1.0, 0.4)
        yield _row("the line set by hand", words, hand, right, kinds, is_chance=False)
        for names in (
            DRAFT_FEATURES[:1],
            (*DRAFT_FEATURES[:1], *DRAFT_FEATURES[3:]),
            DRAFT_FEATURES,
        ):
            chances = left_out_chances(recorded.chosen(names)[own], right, kinds)
            yield _row(", ".join(names), words, chances, right, kinds)


def _row(
    name: str,
    words: str,
    scores: Floats,
    right: Floats,
    kinds: NDArray[np.str_],
    *,
    is_chance: bool = True,
) -> str:
    dice = np.random.default_rng(0)
    drawn = (dice.integers(0, len(right), len(right)) for _ in range(_RESAMPLES))
    low, high = np.quantile([auroc(scores[one], right[one]) for one in drawn], [0.025, 0.975])
    mixed = [kinds == kind for kind in sorted(set(kinds)) if 0 < right[kinds == kind].mean() < 1]
    within = np.average(
        [auroc(scores[own], right[own]) for own in mixed], weights=[own.sum() for own in mixed]
    )
    error = f"{calibration_error(scores, right):.3f}" if is_chance else ""
    return (
        f"| {name} | {words} | {len(right)} | **{auroc(scores, right):.3f}** | "
        f"{low:.3f} to {high:.3f} | {within:.3f} | {error} |"
    )


if __name__ == "__main__":
    sys.stdout.write("\n".join(table(Recorded.read())) + "\n")
