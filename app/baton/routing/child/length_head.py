"""The length that 99 of 100 answers to a prompt don't exceed, in tokens.

A linear quantile regression on the design of the heads, of the logarithm of the length. It is
fitted by pinball loss and then calibrated on answers to questions that it wasn't fitted on, because
a fit of so many columns is too sure of the 1 % that it has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.routing.child import RouterFileError
from baton.routing.child.encoder import WIDTH
from baton.routing.child.features import NAMES

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

FILE = "lengths.npz"

SHARE = 0.99
"""The share of answers that are no longer than the head says."""

PARTS = 5
"""Parts of the questions, each of which is held out once for the calibration."""

COLUMNS = 1 + WIDTH + len(NAMES)
_LOG_TOKENS = (np.log1p(16.0), np.log1p(8192.0))

_HOLD = 0.01
"""Ridge penalty beside a mean square of 1. Of .001, .01, .1 and 1 it had the least pinball loss
on held-out questions (.0229, .0224, .0229, .0268)."""

_SMOOTHING = (0.4, 0.2, 0.1, 0.05)
"""Widths over which the kink of the loss is rounded, one after the other, in log-tokens."""

_ROUNDS = 120


@dataclass(frozen=True)
class LengthHead:
    """What each column of a design adds to the logarithm of the length."""

    worth: Floats

    def p99(self, design: Floats) -> Floats:
        """Return how many tokens 99 of 100 answers to each text don't exceed: 16 to 8,192."""
        return np.expm1(np.clip(np.nan_to_num(design @ self.worth, nan=np.inf), *_LOG_TOKENS))

    def save(self, folder: Path) -> None:
        """Write the file."""
        np.savez(folder / FILE, worth=self.worth.astype(np.float32))

    @classmethod
    def load(cls, folder: Path) -> LengthHead:
        """Read the file. Raises RouterFileError."""
        try:
            with (folder / FILE).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                worth = np.asarray(file["worth"], np.float64)
        except Exception as error:  # numpy raises many kinds of errors for a broken file
            raise RouterFileError(f"{folder / FILE}: {error}") from error
        if worth.shape != (COLUMNS,) or not np.isfinite(worth).all():
            raise RouterFileError(f"{folder / FILE} is of another format, or broken.")
        return cls(worth)


def fit(design: Floats, questions: Places, tokens: Floats, parts: Places) -> LengthHead:
    """Fit the head on answers, and calibrate it.

    `design` has a row for each question and `parts` says in which of PARTS it is. `questions` and
    `tokens` have an entry for each answer: the row of its question, and its length.
    """
    logs = np.log1p(tokens)
    if not len(logs):
        worth = np.zeros(design.shape[1])
        worth[0] = _LOG_TOKENS[1]
        return LengthHead(worth)
    worth = _regression(design, questions, logs)
    worth[0] += _shortfall(design, questions, logs, parts)
    return LengthHead(worth.astype(np.float32).astype(np.float64))


def _shortfall(design: Floats, questions: Places, logs: Floats, parts: Places) -> float:
    """Return by how much a fit must be raised to be right of SHARE of the answers it never saw."""
    missed = []
    for part in range(PARTS):
        out = (parts == part)[questions]
        if out.any() and not out.all():
            worth = _regression(design, questions[~out], logs[~out])
            missed.append(logs[out] - (design @ worth)[questions[out]])
    if not missed:
        return 0.0
    return float(np.quantile(np.concatenate(missed), SHARE, method="higher"))


def _regression(design: Floats, questions: Places, logs: Floats) -> Floats:
    """Return the columns' worth that has the least pinball loss, by Nesterov's steps.

    The loss is rounded so that it has a curvature, whose bound scales the steps.
    """
    count = np.bincount(questions, minlength=len(design)).astype(np.float64)
    square = (design * count[:, None]).T @ design / len(logs)
    held = np.ones(design.shape[1]) * _HOLD
    held[0] = 1e-9
    worth = np.zeros(design.shape[1])
    worth[0] = np.quantile(logs, SHARE)
    for width in _SMOOTHING:
        step = np.linalg.inv(square / (4.0 * width) + np.diag(held))
        ahead, pace = worth, 1.0
        for _ in range(_ROUNDS):
            missed = np.clip((logs - (design @ ahead)[questions]) / width, -50.0, 50.0)
            pull = 1.0 / (1.0 + np.exp(missed)) - SHARE
            slope = design.T @ np.bincount(questions, pull, len(design)) / len(logs)
            then = ahead - step @ (slope + held * ahead)
            faster = (1.0 + np.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
            ahead = then + (pace - 1.0) / faster * (then - worth)
            worth, pace = then, faster
    return np.asarray(worth, np.float64)
