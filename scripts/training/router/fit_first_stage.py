"""Fits the heads, the same ones from the same questions and seed.

Three ways of estimating quality are fitted for each set of questions: a ridge regression on vectors
and figures, one on likeness to some of the questions, and boosted trees. What each is worth there
is found on questions that it wasn't fitted on, by how well it predicts the gain of the set's
stronger workers over the weaker ones: that is what a router pays for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from fit_abilities import fit_abilities
from fit_trees import fit_trees
from numpy.typing import NDArray

from baton.routing.child.first_stage import (
    FIGURE_STEPS,
    STEM_COLUMN,
    Basis,
    FirstStage,
    Floats,
    Points,
    SetHeads,
    Trees,
)
from baton.routing.child.text_features import WIDTH

POINTS = 2000
"""So many questions a new one is compared with, of all sets together at most."""

AXES = 48
"""Directions of the vectors that trees ask for."""

KNOWN = (0.22, 0.38)
"""A text is new, or known, whose likest point is no more, or no less, alike than that."""

PARTS, _ENOUGH = 3, 1500
"""Of so many parts one after the other is held out to weigh the ways, until that is enough."""

_LINEAR, _NEAR, _JITTER, _MEMBER, _TOKENS = 4000.0, 3.0, 1e-3, 300.0, 1000.0
_SLOPES, _MIN_MEAN_GAIN = (0.2, 0.4), 0.05
_FEW, _MANY = 60, 1200
"""With fewer questions length is not used; or ways are not weighed, and no trees are grown."""


@dataclass(frozen=True)
class Sample:
    """A set of questions: the features of their texts, and how good each worker was at them.

    `kinds` is the place of each question's kind, or -1; `lengths` the answers' in characters.
    `shown` says whether questions of it may be among those that the files hold.
    """

    name: str
    vectors: Floats
    figures: Floats
    groups: Sequence[str]
    quality: Mapping[str, Floats]
    lengths: Floats
    kinds: NDArray[np.int64]
    shown: bool = True

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
            self.shown,
        )

    @property
    def workers(self) -> tuple[str, ...]:
        """Return who answered, the worst first."""
        known = [name for name, column in self.quality.items() if not np.isnan(column).all()]
        return tuple(sorted(known, key=lambda name: (np.nanmean(self.quality[name]), name)))

    def table(self, workers: Sequence[str] | None = None) -> Floats:
        """Return a column of qualities for each of the workers; what isn't known is their mean."""
        columns = [self.quality[name] for name in workers or self.workers]
        filled = [np.where(np.isnan(one), np.nanmean(one), one) for one in columns]
        return np.column_stack(filled) if filled else np.zeros((len(self.vectors), 0))


@dataclass(frozen=True)
class Inputs:
    """What the three ways see of some texts."""

    design: Floats
    alike: Floats
    asked: Floats

    def take(self, rows: NDArray[np.bool_]) -> Inputs:
        """Return some of them."""
        return Inputs(self.design[rows], self.alike[rows], self.asked[rows])


def ridge(design: Floats, targets: Floats, penalty: float | Floats) -> Floats:
    """Return what each column of a design is worth; its first column isn't held down."""
    held = np.ones(design.shape[1]) * penalty
    held[0] = 1e-6
    return np.asarray(np.linalg.solve(design.T @ design + np.diag(held), design.T @ targets))


Ways = Mapping[str, tuple[float, float, float]]


FULL_TRUST = np.array([30.0, 0.0, 0.0])
"""The head of trust before anything is known: the others count in full."""


def fit(samples: Sequence[Sample], seed: int = 0, ways: Ways | None = None) -> FirstStage:
    """Fit all heads but that of the kinds, and leave it to others how far they are trusted.

    What each way is worth in each set is found out, which takes as long again, unless it is given.
    """
    samples = [sample for sample in samples if sample.workers]
    random = np.random.default_rng(seed)
    figures = np.vstack([sample.figures for sample in samples])
    basis = Basis(_as_stored(figures.mean(axis=0)), _as_stored(figures.std(axis=0) + 1e-3))
    designs = [basis.design(sample.vectors, sample.figures) for sample in samples]
    whole = np.vstack(designs)
    axes = _axes(whole[:, 1 : 1 + WIDTH])
    points = _points(samples, designs, random)
    own_points, _ = points.similarity(points_design(points))
    blocks, found = [], dict(ways or {})
    for sample, design in zip(samples, designs, strict=True):
        asked = np.hstack([design[:, 1 : 1 + WIDTH] @ axes, design[:, 1 + WIDTH :]])
        inputs = Inputs(design, points.similarity(design)[0], asked)
        fitter = _Fitter(own_points, seed)
        if sample.name not in found:
            found[sample.name] = fitter.weights(inputs, contrast(sample.table()))
        blocks.append(fitter.block(sample, inputs, found[sample.name]))
    which = np.repeat(np.arange(len(samples)), [len(design) for design in designs])
    scores = {sample.name: _scores(sample) for sample in samples}
    return FirstStage(
        basis,
        axes,
        points,
        tuple(blocks),
        ridge(whole, np.eye(len(samples))[which], _MEMBER),
        _tokens(samples, whole),
        KNOWN,
        FULL_TRUST,
        _slope(samples, designs),
        found,
        fit_abilities(scores),
    )


def points_design(points: Points) -> Floats:
    """Return the points as rows of a design."""
    vectors = points.vectors.astype(np.float64)
    vectors *= np.sqrt(WIDTH) / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    figures = points.figures.astype(np.float64) / 32.0
    return np.hstack([np.ones((len(vectors), 1)), vectors, figures])


def _as_stored(numbers: Floats) -> Floats:
    """Return numbers as a file will hold them."""
    return numbers.astype(np.float32).astype(np.float64)


def _axes(vectors: Floats) -> Floats:
    """Return the main directions; each is turned so that its largest part is above 0."""
    middle = vectors - vectors.mean(axis=0)
    _, found = np.linalg.eigh(middle.T @ middle)
    found = found[:, ::-1][:, :AXES]
    largest = np.abs(found).argmax(axis=0)
    return _as_stored(found * np.sign(found[largest, np.arange(found.shape[1])]))


def _points(
    samples: Sequence[Sample], designs: Sequence[Floats], random: np.random.Generator
) -> Points:
    """Draw the points: small sets give more of their questions than large ones."""
    weights = np.array([np.sqrt(len(s.vectors)) if s.shown else 0.0 for s in samples])
    most = max(len(sample.workers) for sample in samples)
    rows, origins, outcomes = [designs[0][:0]], [], [np.zeros((0, most))]
    for place, (sample, design) in enumerate(zip(samples, designs, strict=True)):
        share = float(weights[place]) / max(float(weights.sum()), 1.0)
        drawn = np.sort(random.permutation(len(design))[: round(POINTS * share)])
        table = sample.table()[drawn]
        rows.append(design[drawn])
        origins += [place] * len(drawn)
        outcomes.append(np.pad(table, ((0, 0), (0, most - table.shape[1]))))
    return _as_integers(np.vstack(rows), np.array(origins, np.int64), np.vstack(outcomes))


def _as_integers(design: Floats, origin: NDArray[np.int64], outcomes: Floats) -> Points:
    vectors, figures = design[:, 1 : 1 + WIDTH], design[:, 1 + WIDTH :]
    largest = np.abs(vectors).max(axis=1, keepdims=True) + 1e-9
    return Points(
        np.round(vectors / largest * 127).astype(np.int8),
        np.round(np.clip(figures, -3.9, 3.9) * FIGURE_STEPS).astype(np.int8),
        origin.astype(np.int8),
        np.round(np.clip(outcomes, 0.0, 1.0) * 255).astype(np.uint8),
    )


class _Fitter:
    """Fits the blocks on the same points."""

    def __init__(self, alike: Floats, seed: int) -> None:
        self._held = _NEAR * alike + _JITTER * np.eye(len(alike))
        self._seed = seed

    def block(self, sample: Sample, inputs: Inputs, ways: tuple[float, float, float]) -> SetHeads:
        """Fit the heads of a set, each way as much as it is worth there."""
        table = sample.table()
        mean = table.mean(axis=0)
        linear, near, grown = self._ways(inputs, table - mean, contrast(table), ways)
        linear = linear * ways[0]
        linear[0] += mean
        return SetHeads(
            sample.name,
            sample.workers,
            _as_stored(mean),
            0.0,
            _as_stored(linear),
            _as_stored(near * ways[1]),
            Trees(grown.columns, grown.cuts, _as_stored(grown.values * ways[2])),
        )

    def _ways(
        self, inputs: Inputs, targets: Floats, steer: Floats, ways: tuple[float, float, float]
    ) -> tuple[Floats, Floats, Trees]:
        """Fit those ways that are worth something."""
        linear = np.zeros((inputs.design.shape[1], targets.shape[1]))
        near = np.zeros((inputs.alike.shape[1], targets.shape[1]))
        if ways[0]:
            linear = ridge(inputs.design, targets, _LINEAR * _spread(inputs.design))
        if ways[1]:
            gram = inputs.alike.T @ inputs.alike + self._held
            near = np.asarray(np.linalg.solve(gram, inputs.alike.T @ targets))
        random = np.random.default_rng(self._seed)
        grown = fit_trees(inputs.asked, targets, steer, random, None if ways[2] else 0)
        return linear, near, grown

    def weights(self, inputs: Inputs, steer: Floats) -> tuple[float, float, float]:
        """Return what each way is worth on questions that it wasn't fitted on."""
        count = len(steer)
        if count < _MANY:
            return 1.0, 0.0, 0.0
        ways = (1.0, 1.0, 1.0)
        part = np.random.default_rng(self._seed + 1).permutation(count) % PARTS
        asked = min(PARTS, -(-_ENOUGH * PARTS // count))
        predicted, truth = [], []
        for number in range(asked):
            rest, out = inputs.take(part != number), inputs.take(part == number)
            mean = steer[part != number].mean()
            targets = steer[part != number] - mean
            linear, near, grown = self._ways(rest, targets[:, None], targets, ways)
            own = (out.design @ linear, out.alike @ near, grown.predict(out.asked))
            predicted.append(np.column_stack(own))
            truth.append(steer[part == number] - mean)
        return _worth(np.vstack(predicted), np.concatenate(truth))


def _spread(design: Floats) -> Floats:
    """Return how much each figure varies within a set; 1 for the vectors' columns.

    Held down by that, a figure counts by how unusual it is there: word problems are all of about
    one length, and yet length predicts them best.
    """
    spread = np.ones(design.shape[1])
    spread[1 + WIDTH :] = np.maximum(design[:, 1 + WIDTH :].var(axis=0), 1e-3)
    return spread


def _worth(predicted: Floats, truth: Floats) -> tuple[float, float, float]:
    """Return the weights, none below 0, with which columns predict the truth best."""
    best, found = np.inf, np.zeros(predicted.shape[1])
    for count in range(1, predicted.shape[1] + 1):
        for some in combinations(range(predicted.shape[1]), count):
            own = predicted[:, some]
            gram = own.T @ own
            held = (1e-3 * np.trace(gram) + 1e-9) * np.eye(count)
            weights = np.linalg.solve(gram + held, own.T @ truth)
            error = float(((truth - own @ weights) ** 2).mean())
            if (weights >= 0).all() and error < best:
                best, found = error, np.zeros(predicted.shape[1])
                found[list(some)] = np.minimum(weights, 1.5)
    first, second, third = (round(float(weight), 4) for weight in found)
    return first, second, third


def contrast(table: Floats) -> Floats:
    """Return by how much the stronger half of the workers (the last columns) did better."""
    half = table.shape[1] // 2
    if half == 0:
        return -np.asarray(table.mean(axis=1))
    return np.asarray(table[:, -half:].mean(axis=1) - table[:, :half].mean(axis=1))


def _slope(samples: Sequence[Sample], designs: Sequence[Floats]) -> float:
    """Return by what part of itself the gain grows with a standard deviation of length, usually."""
    slopes = [_SLOPES[0]]
    for sample, design in zip(samples, designs, strict=True):
        gain, length = contrast(sample.table()), design[:, STEM_COLUMN]
        if gain.mean() > _MIN_MEAN_GAIN and len(gain) >= _FEW:
            apart = length - length.mean()
            slopes.append(float(apart @ gain / (apart @ apart + 1e-9) / gain.mean()))
    return float(np.clip(np.median(slopes), *_SLOPES))


def _scores(sample: Sample) -> dict[str, tuple[float, int]]:
    known = {name: own[~np.isnan(own)] for name, own in sample.quality.items()}
    return {name: (float(own.mean()), len(own)) for name, own in known.items() if len(own)}


def _tokens(samples: Sequence[Sample], whole: Floats) -> Floats:
    lengths = np.concatenate([sample.lengths for sample in samples])
    known = ~np.isnan(lengths)
    if not known.any():
        return np.concatenate([[np.log(200.0)], np.zeros(whole.shape[1] - 1)])
    return ridge(whole[known], np.log1p(lengths[known] / 4.0), _TOKENS)
