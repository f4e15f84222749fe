"""The first stage: what is expected of each worker before there is a draft.

Every set of questions has heads of its own for the workers that answered it, because what an
outcome means differs between sets. How similar a new question is to each set weighs its heads.

What the heads say of single questions holds in the domains that they were fitted on: with subjects
left out, the gain of one pair of workers on MMLU-Pro didn't rise with theirs (slope -0.4 to 0.1;
1.3 to 1.9 in domain). So a text's heads are trusted as far as it is likely from such a domain, by a
head that was fitted on left-out domains. What they are not trusted with goes back to the mean of
the sets, and to the length of the question without its options, the one figure that ranked gains
on subjects and sets that were left out. A set whose heads hold on its own left-out subjects keeps
that much of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.routing_types import Candidate
from baton.routing.child import RouterFileError
from baton.routing.child.text_features import FEATURE_NAMES, WIDTH
from baton.routing.child.unseen_models import Abilities

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

TREE_DEPTH = 3


@frozen_dataclass
class Trees:
    """In each row a tree: the columns it asks for, the thresholds, what its leaves are worth."""

    columns: Places
    cuts: Floats
    values: Floats

    def predict(self, inputs: Floats) -> Floats:
        """Return the sums of all trees for each row of inputs: a column for each target."""
        total = np.zeros((len(inputs), self.values.shape[2]))
        for columns, cuts, values in zip(self.columns, self.cuts, self.values, strict=True):
            total += values[(inputs[:, columns] > cuts) @ LEAF_BITS]
        return total

    def predict_row(self, inputs: Floats) -> Floats:
        """Return the same for a single row, quickly."""
        leaves = (inputs[self.columns] > self.cuts) @ LEAF_BITS
        return np.asarray(self.values[np.arange(len(leaves)), leaves].sum(axis=0), np.float64)


LEAF_BITS = 1 << np.arange(TREE_DEPTH)[::-1]


FORMAT = 3
"""Raised whenever a file of an older one can't be used."""

ARRAYS_FILE, METADATA_FILE = "heads.npz", "heads.json"

STEM_COLUMN = 1 + WIDTH + FEATURE_NAMES.index("stem")
"""The column of a design that says how long a question is without its options.

On subjects of MMLU-Pro that were left out its APGR was .558, that of the whole text's length .532,
and those of regressions on all figures .512 to .526."""

TRUST_COLUMNS = 3
"""What the head of trust sees of a text: 1, and of the likest of a set's points the cosine and the
logarithm of the likeness."""

_MIN_LIKENESS = 1e-6

SHARP_VECTORS, SHARP_FIGURES = 1.5, 1.0
"""How fast likeness falls with the distance of two texts' vectors, and of their figures."""

_UNMET_WEIGHT = 0.05
"""What a set says of two workers that didn't both answer it, beside one that they did."""

_MIN_LEVEL_GAP = 0.4
"""Length separates two workers as if their levels were at least so far apart."""

_MAX_UNADJUSTED_GAP = 0.25
"""Log-odds up to which a worker counts as one of those that are most like it."""

_STEM_GAIN = 0.01
"""What a standard deviation of the stem's length adds to a gain, however well a text is known."""

_MEMBERSHIP_POWER = 2.0
"""Exponent that sharpens the head that assigns texts to sets."""

_NEIGHBOUR_COUNT = 30

POINT_ARRAYS = ("vectors", "figures", "origin", "outcomes")

FIGURE_STEPS = 32.0
_BATCH_ROWS = 1000


@frozen_dataclass
class Basis:
    """Makes of a text's vector and figures what the heads are linear in."""

    centre: Floats
    scale: Floats

    def design(self, vectors: Floats, figures: Floats) -> Floats:
        """Return a row for each text; the first column is 1."""
        usual = np.clip((figures - self.centre) / self.scale, -4.0, 4.0)
        ones = np.ones((len(vectors), 1))
        return np.hstack([ones, vectors * np.sqrt(vectors.shape[1]), usual])


@dataclass(frozen=True)
class Points:
    """Some of the questions, as 8-bit integers: a new text is compared with each."""

    vectors: NDArray[np.int8]
    figures: NDArray[np.int8]
    origin: NDArray[np.int8]
    """The place of the set that each is from."""
    outcomes: NDArray[np.uint8]
    """How good the set's workers were, in their order, from 0 to 255."""

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        exact = self.vectors.astype(np.float32)
        return np.asarray(exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-9))

    @cached_property
    def _figures(self) -> NDArray[np.float32]:
        return self.figures.astype(np.float32) / np.float32(FIGURE_STEPS)

    @cached_property
    def _squares(self) -> NDArray[np.float32]:
        return np.asarray((self._figures**2).sum(axis=1))

    def similarity(self, design: Floats) -> tuple[Floats, Floats]:
        """Return how alike each text is to each point (from 0 to 1), and the cosines."""
        vectors = (design[:, 1 : 1 + WIDTH] / np.sqrt(WIDTH)).astype(np.float32)
        figures = design[:, 1 + WIDTH :].astype(np.float32)
        cosines = vectors @ self._vectors.T
        apart = (figures**2).sum(axis=1)[:, None] + self._squares - 2 * figures @ self._figures.T
        apart *= SHARP_FIGURES / figures.shape[1]
        return np.exp(2 * SHARP_VECTORS * (cosines - 1) - apart).astype(np.float64), cosines


@frozen_dataclass
class SetHeads:
    """The heads of one set: what a design, the points and trees are worth for each worker."""

    name: str
    workers: tuple[str, ...]
    means: Floats
    """What each worker reached on average."""
    transfer: float
    """From 0 to 1 how far the heads hold on groups of questions that they weren't fitted on."""
    linear: Floats
    likeness: Floats
    trees: Trees

    def qualities(self, design: Floats, alike: Floats, inputs: Floats) -> Floats:
        """Return the quality of each worker's answer to each text."""
        by_trees = (
            self.trees.predict_row(inputs[0])[None]
            if len(inputs) == 1
            else self.trees.predict(inputs)
        )
        return np.clip(design @ self.linear + alike @ self.likeness + by_trees, 0.0, 1.0)


@frozen_dataclass
class TextReading:
    """What the heads see in texts: each set's table of qualities, and how much it has to say.

    The last of the shares is that of what none of them knows. `trust` says by set, from 0 to 1, how
    far its heads are believed where they differ from its mean. `length` is near 0 for a usual one.
    `nearest` are the places of the points that are most alike, `nearness` how much each counts.
    """

    tables: tuple[Floats, ...]
    shares: Floats
    trust: Floats
    length: Floats
    nearest: NDArray[np.int64]
    nearest_weights: Floats

    @property
    def without_trust(self) -> TextReading:
        """Return the same with no belief in any heads."""
        return replace(self, trust=np.zeros_like(self.trust))

    @property
    def novelty(self) -> Floats:
        """Return from 0 to 1 how little of the heads is in the estimates of each text."""
        return np.asarray(1.0 - (self.trust * self.shares[:, :-1]).sum(axis=1), np.float64)


@frozen_dataclass
class FirstStage:
    """All that was fitted."""

    basis: Basis
    axes: Floats
    points: Points
    sets: tuple[SetHeads, ...]
    membership: Floats
    """The head that assigns a text to the sets: a column for each."""
    tokens: Floats
    known_range: tuple[float, float]
    """Whose likest point is no more alike than the first is new, than the second is known."""
    trust: Floats
    """The head that says whether a text is from a domain that the sets hold: TRUST_COLUMNS."""
    slope: float
    """By what part of itself a gain grows with a standard deviation of length, where all is new."""
    ways: Mapping[str, tuple[float, float, float]]
    """By set what each way of telling was found to be worth: regression, likeness, trees."""
    abilities: Abilities

    def inputs(self, design: Floats) -> Floats:
        """Return what the trees ask for: the main directions of the vectors, and the figures."""
        return np.hstack([design[:, 1 : 1 + WIDTH] @ self.axes, design[:, 1 + WIDTH :]])

    def read(self, design: Floats) -> TextReading:
        """Return what the heads see in texts."""
        parts = [
            self._read_batch(design[at : at + _BATCH_ROWS])
            for at in range(0, len(design), _BATCH_ROWS)
        ] or [self._read_batch(design)]
        return TextReading(
            tuple(np.vstack(tables) for tables in zip(*(p.tables for p in parts), strict=True)),
            np.vstack([part.shares for part in parts]),
            np.vstack([part.trust for part in parts]),
            np.concatenate([part.length for part in parts]),
            np.vstack([part.nearest for part in parts]),
            np.vstack([part.nearest_weights for part in parts]),
        )

    def _read_batch(self, design: Floats) -> TextReading:
        alike, cosines = self.points.similarity(design)
        inputs = self.inputs(design)
        member = np.clip(design @ self.membership, 1e-3, None) ** _MEMBERSHIP_POWER
        member *= self._familiarity(cosines) / member.sum(axis=1, keepdims=True)
        new = np.clip(1.0 - member.sum(axis=1), 0.0, 1.0)
        tables = tuple(block.qualities(design, alike, inputs) for block in self.sets)
        count = min(_NEIGHBOUR_COUNT, cosines.shape[1])
        likest = np.argpartition(-cosines, max(0, count - 1), axis=1)[:, :count]
        nearness = np.exp(10.0 * np.take_along_axis(cosines, likest, axis=1).astype(np.float64))
        nearness /= np.maximum(nearness.sum(axis=1, keepdims=True), 1e-12)
        shares = np.column_stack([member, new])
        trust = self._trust(alike, cosines, shares)
        length = np.clip(design[:, STEM_COLUMN], -3.0, 3.0)
        return TextReading(tables, shares, trust, length, likest.astype(np.int64), nearness)

    def _familiarity(self, cosines: Floats) -> Floats:
        """Return how far each set knows what is like each text, from 0 to 1."""
        low, high = self.known_range
        likest = np.repeat(cosines.max(axis=1, initial=-1.0)[:, None], len(self.sets), axis=1)
        for place in range(len(self.sets)):
            own = self.points.origin == place
            if own.any():  # what may not be shipped is judged by the others
                likest[:, place] = cosines[:, own].max(axis=1)
        return np.asarray(np.clip((likest - low) / (high - low), 0.0, 1.0), np.float64)

    def _trust(self, alike: Floats, cosines: Floats, shares: Floats) -> Floats:
        """Return how far each set's heads are believed where they differ from its mean.

        What may not be shipped has no points: it is judged by the others', and by its share.
        """
        known = chances_known(
            set_inputs(alike, cosines, self.points.origin, len(self.sets)), self.trust
        )
        hidden = ~np.isin(np.arange(len(self.sets)), self.points.origin)
        known[:, hidden] *= shares[:, :-1][:, hidden]
        transfer = np.array([block.transfer for block in self.sets])
        return np.asarray(known + (1.0 - known) * transfer, np.float64)

    def quality(self, reading: TextReading, candidate: Candidate) -> Floats:
        """Return the chance of a good answer by a worker to each text."""
        level = self.level(candidate)
        total = reading.shares[:, -1] * level
        for place in range(len(self.sets)):
            total += reading.shares[:, place] * self._set_quality(reading, place, candidate)
        longer = self.slope * (1.0 - level) * reading.novelty * reading.length
        return np.clip(total - longer, 0.0, 1.0)

    def _set_quality(self, reading: TextReading, place: int, candidate: Candidate) -> Floats:
        """Return what a set says of a worker: what those of it do that are most like it.

        As far as the heads aren't trusted that is their mean. Where they are all abler, or less
        able, so much less or more.
        """
        workers = self.sets[place].workers
        weights = self.abilities.nearest_workers(candidate, workers)
        column = np.array([weights.get(worker, 0.0) for worker in workers])
        mean = float(self.sets[place].means @ column)
        quality = mean + reading.trust[:, place] * (reading.tables[place] @ column - mean)
        beyond = self.abilities.ability_gap(candidate, workers)
        if abs(beyond) < _MAX_UNADJUSTED_GAP:
            return np.asarray(quality, np.float64)
        odds = np.clip(quality, 0.02, 0.98)
        return np.asarray(1.0 / (1.0 + (1.0 / odds - 1.0) * np.exp(-beyond)))

    def gain(self, reading: TextReading, local: Candidate, other: Candidate) -> Floats:
        """Return how much likelier a good answer by another worker is than by the local one.

        Not just the difference: where heads differ from their set's mean, those of sets that both
        of them answered have the most to say. (Had they as much to say of the mean, a text's
        likeness to such a set would decide: MMLU-Pro, left out, .540 instead of .554.)
        """
        here, there = self.level(local), self.level(other)
        apart = there - here
        # Who is outside is asked because it should know more, though it may look the same.
        sign = float(np.sign(apart) if local.outside == other.outside else other.outside * 2 - 1)
        weights, means, apart_from_means = [], [], []
        for place, block in enumerate(self.sets):
            near = [self.abilities.nearest_workers(one, block.workers) for one in (local, other)]
            met = all(len(one) == 1 for one in near)
            weights.append(reading.shares[:, place] * (1.0 if met else _UNMET_WEIGHT))
            gain, mean = (
                self._set_quality(one, place, other) - self._set_quality(one, place, local)
                for one in (reading, reading.without_trust)
            )
            means.append(mean)
            apart_from_means.append(gain - mean)
        held = np.array(weights)
        known = 1.0 - reading.shares[:, -1]
        held *= known / np.maximum(held.sum(axis=0), 1e-12)
        # Length has as much to say as is believed of none of the sets that speak for this pair.
        new = 1.0 - (held * reading.trust.T).sum(axis=0)
        longer = self.slope * max(abs(apart), _MIN_LEVEL_GAP) * new + _STEM_GAIN
        total = reading.shares[:, -1] * apart + longer * sign * reading.length
        total += (reading.shares[:, :-1].T * np.array(means)).sum(axis=0)
        total += (held * np.array(apart_from_means)).sum(axis=0)
        return np.asarray(np.clip(total, -1.0, 1.0), np.float64)

    def nearby_quality(self, reading: TextReading, candidate: Candidate) -> Floats:
        """Return the quality of a worker's answers to the questions most like each text."""
        quality = np.full(len(self.points.origin), self.level(candidate))
        for place, block in enumerate(self.sets):
            weights = self.abilities.nearest_workers(candidate, block.workers)
            column = np.array([weights.get(worker, 0.0) for worker in block.workers])
            own = self.points.origin == place
            quality[own] = self.points.outcomes[own, : len(column)] / 255.0 @ column
        if not len(quality):
            return np.full(len(reading.shares), self.level(candidate))
        return np.asarray((quality[reading.nearest] * reading.nearest_weights).sum(axis=1))

    def level(self, candidate: Candidate) -> float:
        """Return what a worker reaches on the sets on average."""
        hard = np.array([self.abilities.level[block.name] for block in self.sets])
        odds = np.clip(self.abilities.ability(candidate) - hard, -30.0, 30.0)
        return float((1.0 / (1.0 + np.exp(-odds))).mean())

    def expected_tokens(self, design: Floats) -> Floats:
        """Return how many tokens an answer to each text likely has."""
        return np.expm1(np.clip(design @ self.tokens, 0.7, 9.0))

    @classmethod
    def load(cls, folder: Path) -> FirstStage:
        """Read both files. Raises RouterFileError."""
        try:
            words = json.loads((folder / METADATA_FILE).read_text("utf-8"))
            if words["format"] != FORMAT or words["figures"] != list(FEATURE_NAMES):
                raise RouterFileError(f"{folder / METADATA_FILE} is of another format.")
            with (folder / ARRAYS_FILE).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            return cls._from_arrays(words, arrays)
        except RouterFileError:
            raise
        except Exception as error:  # numpy and json raise many kinds of errors for broken files
            raise RouterFileError(f"{folder}: {error}") from error

    @classmethod
    def _from_arrays(cls, words: Mapping[str, Any], arrays: Mapping[str, Any]) -> FirstStage:
        points = Points(*(arrays[f"point_{name}"] for name in POINT_ARRAYS))
        exact = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
        if not all(np.isfinite(array).all() for array in exact.values()):
            raise RouterFileError("Some numbers are missing.")
        if exact["trust"].shape != (TRUST_COLUMNS,):
            raise RouterFileError("The head of trust is of another size.")
        low, high = map(float, words["known"])
        ways = words["ways"].items()
        heads = cls(
            Basis(exact["centre"], exact["scale"]),
            exact["axes"],
            points,
            tuple(
                _set_heads(place, one, arrays, exact) for place, one in enumerate(words["blocks"])
            ),
            exact["member"],
            exact["tokens"],
            (low, high),
            exact["trust"],
            float(words["slope"]),
            {str(name): (float(a), float(b), float(c)) for name, (a, b, c) in ways},
            Abilities.from_numbers(words["abilities"]),
        )
        heads.quality(heads.read(np.zeros((1, 1 + WIDTH + len(FEATURE_NAMES)))), Candidate("any"))
        return heads


def set_inputs(alike: Floats, cosines: Floats, origin: NDArray[np.int8], count: int) -> Floats:
    """Return what the head of trust sees: for each text and each of `count` sets TRUST_COLUMNS.

    `alike` and `cosines` compare each text (rows) with each point, as Points.similarity does, and
    `origin` says of which set a point is. A set without points is seen by those of all others.
    """
    found = np.ones((len(alike), count, TRUST_COLUMNS))
    for place in range(count):
        own = origin == place
        own = own if own.any() else np.ones(len(origin), bool)
        found[:, place, 1] = cosines[:, own].max(axis=1, initial=0.0)
        likest = alike[:, own].max(axis=1, initial=0.0)
        found[:, place, 2] = np.log(np.maximum(likest, _MIN_LIKENESS))
    return found


def chances_known(inputs: Floats, head: Floats) -> Floats:
    """Return how likely each text is from a domain that the sets hold."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(inputs @ head, -30.0, 30.0))), np.float64)


def _set_heads(
    place: int, one: Mapping[str, Any], arrays: Mapping[str, Any], exact: Mapping[str, Floats]
) -> SetHeads:
    columns = np.asarray(arrays[f"columns{place}"], np.int64)
    trees = Trees(columns, exact[f"cuts{place}"], exact[f"values{place}"])
    own = (exact[f"linear{place}"], exact[f"near{place}"])
    means, transfer = exact[f"means{place}"], float(one["transfer"])
    return SetHeads(str(one["name"]), tuple(map(str, one["workers"])), means, transfer, *own, trees)
