"""Fits the heads: closed-form, so the same questions always make the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baton.children.routing import workers
from baton.children.routing.heads import Basis, Block, Floats, Heads

GROUP_LEAST = 20
"""Smaller groups don't say what a task is like."""


@dataclass(frozen=True)
class Sample:
    """A set of questions: what their texts come to, and how good each worker was at them.

    `kinds` is the place of each question's kind, or -1; `lengths` the answers' in characters.
    """

    name: str
    vectors: Floats
    figures: Floats
    groups: Sequence[str]
    quality: Mapping[str, Floats]
    lengths: Floats
    kinds: NDArray[np.int64]

    def take(self, rows: NDArray[np.bool_]) -> Sample:
        """Return some of the questions."""
        return Sample(
            self.name,
            self.vectors[rows],
            self.figures[rows],
            [group for group, taken in zip(self.groups, rows, strict=True) if taken],
            {worker: column[rows] for worker, column in self.quality.items()},
            self.lengths[rows],
            self.kinds[rows],
        )


def ridge(design: Floats, targets: Floats, penalty: float, weight: Floats | None = None) -> Floats:
    """Return what each column of a design is worth; its first column isn't held down."""
    weighted = design if weight is None else design * weight[:, None]
    gram = weighted.T @ design
    held = np.full(len(gram), penalty)
    held[0] = 1e-6
    return np.asarray(np.linalg.solve(gram + np.diag(held), weighted.T @ targets), np.float64)


def fit(samples: Sequence[Sample]) -> Heads:
    """Fit all heads but that of the kinds."""
    figures = np.vstack([sample.figures for sample in samples])
    basis = Basis(figures.mean(axis=0), figures.std(axis=0) + 1e-3)
    designs = [basis.design(sample.vectors, sample.figures) for sample in samples]
    whole = np.vstack(designs)
    which = np.repeat(np.arange(len(samples)), [len(design) for design in designs])
    blocks = tuple(map(_block, samples, designs))
    centres, near = _seen(samples)
    difficulty = np.concatenate([_difficulty(sample) for sample in samples])
    return Heads(
        basis,
        blocks,
        ridge(whole, np.eye(len(samples))[which], 300.0),
        ridge(whole, difficulty, 3000.0),
        _tokens(samples, designs),
        centres,
        near,
        workers.fit({sample.name: _scores(sample) for sample in samples}),
    )


def _block(sample: Sample, design: Floats) -> Block:
    names = tuple(sorted(sample.quality))
    worth = np.zeros((design.shape[1], len(names)))
    for place, name in enumerate(names):
        known = ~np.isnan(sample.quality[name])
        worth[:, place] = ridge(design[known], sample.quality[name][known], 1000.0)
    return Block(sample.name, names, worth)


def _scores(sample: Sample) -> dict[str, tuple[float, int]]:
    known = {name: column[~np.isnan(column)] for name, column in sample.quality.items()}
    return {
        name: (float(column.mean()), len(column)) for name, column in known.items() if len(column)
    }


def _difficulty(sample: Sample) -> Floats:
    table = np.column_stack([sample.quality[name] for name in sorted(sample.quality)])
    mean = np.nanmean(table, axis=1)
    return np.asarray(-(mean - mean.mean()) / (mean.std() + 1e-6), np.float64)


def _tokens(samples: Sequence[Sample], designs: Sequence[Floats]) -> Floats:
    whole = np.vstack(list(designs))
    lengths = np.concatenate([sample.lengths for sample in samples])
    known = ~np.isnan(lengths)
    if not known.any():
        return np.concatenate([[np.log(200.0)], np.zeros(whole.shape[1] - 1)])
    return ridge(whole[known], np.log1p(lengths[known] / 4.0), 1000.0)


def _seen(samples: Sequence[Sample]) -> tuple[Floats, tuple[float, float]]:
    centres, likest = [], []
    for sample in samples:
        for group in sorted(set(sample.groups)):
            rows = np.array([own == group for own in sample.groups], bool)
            if rows.sum() >= GROUP_LEAST:
                mean = sample.vectors[rows].mean(axis=0)
                centres.append(mean / (np.linalg.norm(mean) + 1e-9))
    table = np.vstack(centres)
    for sample in samples:
        likest.append((sample.vectors @ table.T).max(axis=1))
    low, high = np.percentile(np.concatenate(likest), [2, 40])
    return table, (float(low) - 0.1, float(high))
