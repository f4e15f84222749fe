"""The learner that `baton learn` had: how far off the router is, by worker and where.

For each worker a ridge regression on what was missed: on a level, on the task kind, on the router's
own expectation, on the text's figures and on its vector, all held to nothing. It is kept where it
predicts answers better that were held out. scripts/lab/compare_learners.py compares it with the
table of skills (docs/lab/learning.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from routing_rows import Floats

from baton.routing.child.router_model import SeenTexts

MIN_TEXTS = 12
"""So many different texts of one worker are worth a fit."""

LEVEL_MOST, LEVEL_MORE, APART_MOST = 0.08, 0.12, 0.25
"""By how much a chance is moved at most: for all prompts alike (and by how much more where there
were good answers and bad ones), and for one unlike others."""

_HELD_LEVEL, _HELD_KIND, _HELD_EXPECTED, _HELD_FIGURE, _HELD_VECTOR = 8.0, 10.0, 10.0, 500.0, 10.0
"""How strongly each part is held to nothing: as by so many answers."""

_FULL_VARIANCE = 0.15
"""With less variance, labels say little of which prompts are answered better than others."""

_FOLDS = 5
_MIN_IMPROVEMENT = 1e-4
"""By how much the squared error on answers held out must fall."""


@dataclass(frozen=True)
class Offsets:
    """How much lower or higher the chances of one worker are, and what each input is worth."""

    level: float
    worth: Floats

    def adjusted(self, expected: Floats, texts: SeenTexts) -> Floats:
        """Return the chances after what was learned."""
        return _adjusted(expected, _design(texts, expected), self.level, self.worth)


def fit_offsets(texts: SeenTexts, expected: Floats, good: Floats) -> Offsets | None:
    """Fit the offsets of one worker; None where they don't predict held-out answers better."""
    if len(good) < MIN_TEXTS:
        return None
    inputs, penalties = _design(texts, expected), _penalties(texts)
    after = expected.copy()
    for fold in range(_FOLDS):
        out = np.arange(len(good)) % _FOLDS == fold
        level, worth = _fit(inputs[~out], expected[~out], good[~out], penalties)
        after[out] = _adjusted(expected[out], inputs[out], level, worth)
    if float(np.mean((good - expected) ** 2 - (good - after) ** 2)) <= _MIN_IMPROVEMENT:
        return None
    return Offsets(*_fit(inputs, expected, good, penalties))


def rows_of(texts: SeenTexts, places: Sequence[int]) -> SeenTexts:
    """Return the texts at some places."""
    at = np.array(places, np.int64)
    return SeenTexts(texts.vectors[at], texts.figures[at], texts.kinds[at])


def _design(texts: SeenTexts, expected: Floats) -> Floats:
    return np.column_stack(
        [np.ones(len(expected)), texts.kinds, expected - 0.5, texts.figures, texts.vectors]
    )


def _penalties(texts: SeenTexts) -> Floats:
    return np.concatenate(
        [
            [_HELD_LEVEL],
            np.full(texts.kinds.shape[1], _HELD_KIND),
            [_HELD_EXPECTED],
            np.full(texts.figures.shape[1], _HELD_FIGURE),
            np.full(texts.vectors.shape[1], _HELD_VECTOR),
        ]
    )


def _fit(inputs: Floats, expected: Floats, good: Floats, penalties: Floats) -> tuple[float, Floats]:
    """Return the mean error over all answers, and the weight of each input beyond that."""
    worth = np.linalg.solve(inputs.T @ inputs + np.diag(penalties), inputs.T @ (good - expected))
    level = float((inputs @ worth).mean())
    # Where all answers were good, or none, the labels don't say which are better.
    apart = min(1.0, float(good.var()) / _FULL_VARIANCE)
    worth[0] -= level
    most = LEVEL_MOST + LEVEL_MORE * apart
    return float(np.clip(level, -most, most)), np.asarray(worth * apart, np.float64)


def _adjusted(expected: Floats, inputs: Floats, level: float, worth: Floats) -> Floats:
    apart = np.clip(inputs @ worth, -APART_MOST, APART_MOST)
    return np.asarray(np.clip(expected + level + apart, 0.0, 1.0), np.float64)
