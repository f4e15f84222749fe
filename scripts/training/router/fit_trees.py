"""Fits boosted trees of one question per level, in plain numpy."""

from __future__ import annotations

import numpy as np

from baton.routing.child.first_stage import LEAF_BITS, TREE_DEPTH, Floats, Places, Trees

_ROUNDS, _PACE, _HELD = 120, 0.07, 20.0
_BINS, _COLUMNS, _ROWS = 16, 0.2, 0.5


def fit_trees(
    inputs: Floats,
    targets: Floats,
    steer: Floats,
    random: np.random.Generator,
    rounds: int | None = None,
) -> Trees:
    """Fit trees for some targets (columns) that all ask what predicts `steer` best."""
    if rounds == 0:
        none = np.zeros((0, TREE_DEPTH))
        return Trees(none.astype(np.int64), none, np.zeros((0, 1 << TREE_DEPTH, targets.shape[1])))
    cuts = [_thresholds(column) for column in inputs.T]
    codes = np.stack(
        [np.searchsorted(own, column) for own, column in zip(cuts, inputs.T, strict=True)], axis=1
    )
    rest = np.column_stack([steer - steer.mean(), targets - targets.mean(axis=0)])
    rest[:, 0] /= rest[:, 0].std() + 1e-9
    asked, bounds, values = [], [], []
    width = max(1, int(codes.shape[1] * _COLUMNS))
    for _ in range(rounds or _ROUNDS):
        some = np.sort(random.choice(codes.shape[1], width, replace=False))
        rows = np.flatnonzero(random.random(len(codes)) < _ROWS)
        questions = _grow_tree(codes[np.ix_(rows, some)], rest[rows, 0])
        columns = some[[column for column, _ in questions]]
        at = np.array([code for _, code in questions])
        leaves = (codes[:, columns] > at) @ LEAF_BITS
        worth = _leaf_values(leaves[rows], rest[rows]) * _PACE
        rest -= worth[leaves]
        asked.append(columns)
        bounds.append(
            [_threshold(cuts[column], code) for column, code in zip(columns, at, strict=True)]
        )
        values.append(worth[:, 1:])
    return Trees(np.array(asked, np.int64), np.array(bounds), np.array(values))


def _thresholds(column: Floats) -> Floats:
    found = np.unique(np.quantile(column, np.linspace(0, 1, _BINS + 1)[1:-1]))
    # As a file holds them.
    return found.astype(np.float32).astype(np.float64)


def _threshold(cuts: Floats, code: int) -> float:
    return float(cuts[code]) if code < len(cuts) else 1e30


def _grow_tree(codes: Places, rest: Floats) -> list[tuple[int, int]]:
    """Return for each level the column and the code above which it goes right."""
    count, width = codes.shape
    leaves = np.zeros(count, np.int64)
    spread = np.repeat(rest, width)
    places = np.arange(width) * _BINS + codes
    questions = []
    for level in range(TREE_DEPTH):
        index = (leaves[:, None] * (width * _BINS) + places).ravel()
        shape = (1 << level, width, _BINS)
        size = int(np.prod(shape))
        counts = np.bincount(index, minlength=size).reshape(shape).cumsum(axis=2)
        sums = np.bincount(index, spread, size).reshape(shape).cumsum(axis=2)
        left = sums**2 / (counts + _HELD)
        right = (sums[:, :, -1:] - sums) ** 2 / (counts[:, :, -1:] - counts + _HELD)
        best = int(np.argmax((left + right).sum(axis=0)[:, :-1]))
        column, code = divmod(best, _BINS - 1)
        questions.append((column, code))
        leaves = leaves * 2 + (codes[:, column] > code)
    return questions


def _leaf_values(leaves: Places, rest: Floats) -> Floats:
    counts = np.bincount(leaves, minlength=1 << TREE_DEPTH) + _HELD
    sums = [np.bincount(leaves, column, 1 << TREE_DEPTH) for column in rest.T]
    return np.asarray(np.stack(sums, axis=1) / counts[:, None], np.float64)
