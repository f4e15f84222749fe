"""Fits the linear heads: task kinds by logistic regression, lengths by quantile regression.

The length head is fitted by pinball loss on the logarithm of the length, then calibrated on answers
to questions that it wasn't fitted on, because a fit of so many columns is too sure of the 1 % that
it has seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from baton.core.plan_types import KINDS
from baton.routing.child.first_stage import Floats, Places
from baton.routing.child.router_model import (
    LOG_TOKENS_RANGE,
    KindHead,
    LengthHead,
    kind_design,
    softmax,
    standardise,
)

_KIND_PENALTY, _KIND_ROUNDS = 1.0, 300

QUANTILE = 0.99
"""The share of answers that are no longer than the head says."""

FOLDS = 5
"""Parts of the questions, each of which is held out once for the calibration."""

_LENGTH_PENALTY = 0.01
"""Ridge penalty beside a mean square of 1. Of .001, .01, .1 and 1 it had the least pinball loss
on held-out questions (.0229, .0224, .0229, .0268)."""

_SMOOTHING_WIDTHS = (0.4, 0.2, 0.1, 0.05)
"""Widths over which the kink of the loss is rounded, one after the other, in log-tokens."""

_LENGTH_ROUNDS = 120


def fit_kind_head(
    texts: Sequence[str], vectors: Floats, figures: Floats, kinds: NDArray[np.int64]
) -> KindHead:
    """Fit the head on texts whose kinds (places in KINDS) are known; each kind weighs the same."""
    # As the file holds them, so that what is fitted is what will be used.
    centre = figures.mean(axis=0).astype(np.float32).astype(np.float64)
    scale = (figures.std(axis=0) + 1e-3).astype(np.float32).astype(np.float64)
    design = kind_design(texts, vectors, standardise(figures, centre, scale))
    counts = np.bincount(kinds, minlength=len(KINDS))
    weight = (len(kinds) / len(KINDS) / np.maximum(counts, 1))[kinds]
    return KindHead(centre, scale, _fit_logistic(design, np.eye(len(KINDS))[kinds], weight))


def _fit_logistic(design: Floats, wanted: Floats, weight: Floats) -> Floats:
    """Return what each column is worth for each kind: logistic regression, by Nesterov's steps.

    What it is worth is always a sum over the texts, and those are fewer than the columns: so what
    each text adds to it is looked for.
    """
    count = len(design)
    alike = design @ design.T
    steep = np.linalg.eigvalsh(alike * np.sqrt(np.outer(weight, weight)))[-1]
    step = 1.0 / (steep / (2.0 * count) + _KIND_PENALTY / count)
    added = ahead = np.zeros_like(wanted)
    pace = 1.0
    for _ in range(_KIND_ROUNDS):
        missed = (softmax(alike @ ahead) - wanted) * weight[:, None]
        then = ahead - step * (missed + _KIND_PENALTY * ahead) / count
        faster = (1.0 + np.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
        ahead = then + (pace - 1.0) / faster * (then - added)
        added, pace = then, faster
    return np.asarray(design.T @ added, np.float64)


def fit_length_head(design: Floats, questions: Places, tokens: Floats, parts: Places) -> LengthHead:
    """Fit the head on answers, and calibrate it.

    `design` has a row for each question and `parts` says in which of FOLDS it is. `questions` and
    `tokens` have an entry for each answer: the row of its question, and its length.
    """
    logs = np.log1p(tokens)
    if not len(logs):
        worth = np.zeros(design.shape[1])
        worth[0] = LOG_TOKENS_RANGE[1]
        return LengthHead(worth)
    worth = _fit_quantile(design, questions, logs)
    worth[0] += _calibration_shift(design, questions, logs, parts)
    return LengthHead(worth.astype(np.float32).astype(np.float64))


def _calibration_shift(design: Floats, questions: Places, logs: Floats, parts: Places) -> float:
    """Return by how much to raise a fit so that it holds for QUANTILE of the held-out answers."""
    missed = []
    for part in range(FOLDS):
        out = (parts == part)[questions]
        if out.any() and not out.all():
            worth = _fit_quantile(design, questions[~out], logs[~out])
            missed.append(logs[out] - (design @ worth)[questions[out]])
    if not missed:
        return 0.0
    return float(np.quantile(np.concatenate(missed), QUANTILE, method="higher"))


def _fit_quantile(design: Floats, questions: Places, logs: Floats) -> Floats:
    """Return the columns' worth that has the least pinball loss, by Nesterov's steps.

    The loss is rounded so that it has a curvature, whose bound scales the steps.
    """
    count = np.bincount(questions, minlength=len(design)).astype(np.float64)
    square = (design * count[:, None]).T @ design / len(logs)
    held = np.ones(design.shape[1]) * _LENGTH_PENALTY
    held[0] = 1e-9
    worth = np.zeros(design.shape[1])
    worth[0] = np.quantile(logs, QUANTILE)
    for width in _SMOOTHING_WIDTHS:
        step = np.linalg.inv(square / (4.0 * width) + np.diag(held))
        ahead, pace = worth, 1.0
        for _ in range(_LENGTH_ROUNDS):
            missed = np.clip((logs - (design @ ahead)[questions]) / width, -50.0, 50.0)
            pull = 1.0 / (1.0 + np.exp(missed)) - QUANTILE
            slope = design.T @ np.bincount(questions, pull, len(design)) / len(logs)
            then = ahead - step @ (slope + held * ahead)
            faster = (1.0 + np.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
            ahead = then + (pace - 1.0) / faster * (then - worth)
            worth, pace = then, faster
    return np.asarray(worth, np.float64)
