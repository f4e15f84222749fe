"""Offsets fitted on a person's own answers: how far off the first stage is, by worker and where.

For each worker a ridge regression on what was missed: on a level, on the task kind, on the first
stage's own expectation (so that it is dropped where it says nothing), on the text's figures and on
its vector. Few labels move little, because all of it is held to nothing. A text counts three times
at most, opinions that contradict each other average out, and what was learned moves a chance by a
bounded amount: no history sends everything to the cloud, or nothing ever.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.model_names import canonical_name
from baton.core.routing_types import Candidate, RatedAnswer, RefitResult
from baton.platform.durable_files import open_replacement
from baton.routing.child import RouterFileError
from baton.routing.child.second_stage import Floats

FORMAT = 1

MIN_TEXTS = 12
"""So many different texts of one worker are worth a fit."""

LEVEL_MOST, LEVEL_MORE, APART_MOST = 0.08, 0.12, 0.25
"""By how much a chance is moved at most: for all prompts alike (and by how much more where there
were good answers and bad ones), and for one unlike others."""

_MAX_TEXT_WEIGHT = 2.0
"""The weight of a text at most, however often it was rated."""

_HELD_LEVEL, _HELD_KIND, _HELD_EXPECTED, _HELD_FIGURE, _HELD_VECTOR = 8.0, 10.0, 10.0, 500.0, 10.0
"""How strongly each part is held to nothing: as by so many answers."""

_FULL_VARIANCE = 0.15
"""With less variance, labels say little of which prompts are answered better than others."""

_FOLDS = 5
_MIN_IMPROVEMENT = 1e-4
"""By how much the error on answers held out must fall."""


@frozen_dataclass
class SeenTexts:
    """Texts as the first stage sees them: vectors, figures (usually near 0) and kinds."""

    vectors: Floats
    figures: Floats
    kinds: Floats

    def rows(self, places: Sequence[int]) -> SeenTexts:
        """Return those at these places."""
        at = np.array(places, np.int64)
        return SeenTexts(self.vectors[at], self.figures[at], self.kinds[at])

    def design(self, expected: Floats) -> Floats:
        """Return what the regression sees, a row for each."""
        return np.column_stack([
            np.ones(len(expected)), self.kinds, expected - 0.5, self.figures, self.vectors
        ])  # fmt: skip

    def penalties(self) -> Floats:
        """Return how strongly each column is held."""
        return np.concatenate(
            [
                [_HELD_LEVEL],
                np.full(self.kinds.shape[1], _HELD_KIND),
                [_HELD_EXPECTED],
                np.full(self.figures.shape[1], _HELD_FIGURE),
                np.full(self.vectors.shape[1], _HELD_VECTOR),
            ]
        )


class UnpersonalisedRouter(Protocol):
    """Stage A without what was learned."""

    def read_texts(self, texts: Sequence[str]) -> SeenTexts:
        """Return what it sees of texts."""
        ...

    def expected_quality(self, texts: SeenTexts, candidate: Candidate) -> Floats:
        """Return the chance of a good answer by a worker to each text."""
        ...


@frozen_dataclass
class PersonalOffsets:
    """What was learned: by worker how much lower or higher, and what each input is worth."""

    workers: tuple[str, ...] = ()
    level: Floats = field(default_factory=lambda: np.zeros(0))
    worth: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def adjusted_quality(self, expected: Floats, texts: SeenTexts, candidate: Candidate) -> Floats:
        """Return the chances of a good answer by a worker, as they are after what was learned."""
        name = _canonical_name(candidate)
        if name not in self.workers:
            return expected
        place = self.workers.index(name)
        inputs = texts.design(expected)
        if inputs.shape[1] != self.worth.shape[1]:
            return expected  # learned on another encoder
        return _apply_offsets(expected, inputs, self.level[place], self.worth[place])

    def save(self, target: Path) -> None:
        """Write a file, all of it or nothing. Raises OSError."""
        arrays: dict[str, Any] = {
            "format": np.array(FORMAT), "workers": np.array(self.workers or ("",)),
            "level": self.level.astype(np.float32), "worth": self.worth.astype(np.float32),
        }  # fmt: skip
        with open_replacement(target) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, file: Path) -> PersonalOffsets:
        """Read what `save` wrote. Raises RouterFileError."""
        try:
            with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as arrays:
                if int(arrays["format"]) != FORMAT:
                    raise RouterFileError(f"{file} is of another format.")
                names = tuple(str(name) for name in arrays["workers"] if str(name))
                level, worth = (np.asarray(arrays[k], np.float64) for k in ("level", "worth"))
        except RouterFileError:
            raise
        except Exception as error:  # numpy raises many kinds of errors for a broken file
            raise RouterFileError(f"{file}: {error}") from error
        sizes = (level.shape, worth.shape[:1], worth.ndim)
        if sizes != ((len(names),), (len(names),), 2) or not np.isfinite(level.sum() + worth.sum()):
            raise RouterFileError(f"{file} is broken.")
        return cls(names, level, worth)


def learn_offsets(
    stage: UnpersonalisedRouter, rated: Sequence[RatedAnswer], target: Path
) -> RefitResult:
    """Refit on a person's labels; write `target` if that predicts the held-out answers better."""
    labels = _merge_labels(rated)
    texts = sorted({label.text for label in labels})
    by_worker = {
        name: found
        for name in sorted({label.name for label in labels})
        if len(found := [label for label in labels if label.name == name]) >= MIN_TEXTS
    }
    if not by_worker:
        few = f"A fit takes {MIN_TEXTS} different prompts for one model, and there are fewer."
        return RefitResult(len(labels), 0, 0.0, 0.0, False, (few,))
    seen = stage.read_texts(texts)
    place = {text: number for number, text in enumerate(texts)}
    fits = [
        _fit_worker(stage, seen.rows([place[label.text] for label in found]), found)
        for found in by_worker.values()
    ]
    kept = [fit for fit in fits if fit.is_better] or fits
    weight = np.concatenate([fit.weight for fit in kept])
    before = float(np.average(np.concatenate([fit.before for fit in kept]), weights=weight))
    after = float(np.average(np.concatenate([fit.after for fit in kept]), weights=weight))
    used = len(weight)
    if not any(fit.is_better for fit in fits):
        note = "What was learned would not have predicted better which answers are good."
        return RefitResult(used, used, before, after, False, (note,))
    PersonalOffsets(
        tuple(fit.name for fit in kept),
        np.array([fit.level for fit in kept]),
        np.vstack([fit.worth for fit in kept]),
    ).save(target)
    return RefitResult(used, used, before, after, True, tuple(fit.note for fit in kept))


# Labels


@frozen_dataclass
class _Label:
    text: str
    name: str
    worker: Candidate
    good: float
    weight: float


def _merge_labels(rated: Sequence[RatedAnswer]) -> list[_Label]:
    """Return one label for each text and worker: the mean, and no heavier than a few are."""
    found: dict[tuple[str, str], list[RatedAnswer]] = {}
    for one in rated:
        sound = math.isfinite(one.good) and math.isfinite(one.weight) and one.weight > 0
        if sound and one.text.strip():
            found.setdefault((one.text, _canonical_name(one.worker)), []).append(one)
    labels = []
    for (text, name), ones in sorted(found.items(), key=lambda item: item[0]):
        weights = [min(one.weight, _MAX_TEXT_WEIGHT) for one in ones]
        goods = [min(1.0, max(0.0, one.good)) for one in ones]
        total = math.fsum(weights)
        mean = math.fsum(g * w for g, w in zip(goods, weights, strict=True)) / total
        labels.append(_Label(text, name, ones[0].worker, mean, min(total, _MAX_TEXT_WEIGHT)))
    return labels


def _canonical_name(worker: Candidate) -> str:
    return canonical_name(worker.model or worker.id)


# Fitting


@frozen_dataclass
class _WorkerFit:
    """What was fitted for a worker, and the squared errors on its answers when held out."""

    name: str
    level: float
    worth: Floats
    before: Floats
    after: Floats
    weight: Floats
    note: str

    @property
    def is_better(self) -> bool:
        """Whether the held-out answers are predicted better."""
        return float(np.average(self.before - self.after, weights=self.weight)) > _MIN_IMPROVEMENT


def _fit_worker(
    stage: UnpersonalisedRouter, texts: SeenTexts, labels: Sequence[_Label]
) -> _WorkerFit:
    expected = stage.expected_quality(texts, labels[0].worker)
    inputs, held = texts.design(expected), texts.penalties()
    good = np.array([label.good for label in labels])
    weight = np.array([label.weight for label in labels])
    parts = np.array([_fold_of(label.text) for label in labels])
    after = expected.copy()
    for part in range(_FOLDS):
        out = parts == part
        if out.any() and not out.all():
            known = _fit_ridge(
                inputs[~out], (good - expected)[~out], good[~out], weight[~out], held
            )
            after[out] = _apply_offsets(expected[out], inputs[out], *known)
    level, worth = _fit_ridge(inputs, good - expected, good, weight, held)
    now = _apply_offsets(expected, inputs, level, worth)
    return _WorkerFit(
        labels[0].name,
        level,
        worth,
        (good - expected) ** 2,
        (good - after) ** 2,
        weight,
        _change_note(labels[0].worker, len(labels), *(
            float(np.average(column, weights=weight)) for column in (expected, now)
        )),
    )  # fmt: skip


def _fold_of(text: str) -> int:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[0] % _FOLDS


def _fit_ridge(
    inputs: Floats, missed: Floats, good: Floats, weight: Floats, held: Floats
) -> tuple[float, Floats]:
    """Return the mean error over all answers, and the weight of each input beyond that."""
    weighted = inputs * weight[:, None]
    worth = np.linalg.solve(weighted.T @ inputs + np.diag(held), weighted.T @ missed)
    level = float(np.average(inputs @ worth, weights=weight))
    # Where all answers were good, or none, nothing was said of which are better.
    mean = np.average(good, weights=weight)
    apart = min(1.0, float(np.average((good - mean) ** 2, weights=weight)) / _FULL_VARIANCE)
    worth[0] -= level
    most = LEVEL_MOST + LEVEL_MORE * apart
    return float(np.clip(level, -most, most)), np.asarray(worth * apart, np.float64)


def _apply_offsets(expected: Floats, inputs: Floats, level: float, worth: Floats) -> Floats:
    apart = np.clip(inputs @ worth, -APART_MOST, APART_MOST)
    return np.asarray(np.clip(expected + level + apart, 0.0, 1.0), np.float64)


def _change_note(worker: Candidate, count: int, expected: float, now: float) -> str:
    """Say in words what changed."""
    before, after = (f"{10 * share:.1f}".removesuffix(".0") for share in (expected, now))
    change = "as many as" if before == after else ("fewer than" if now < expected else "more than")
    return (
        f"{worker.id}: {after} of 10 answers are expected to be good, {change} the {before} before"
        f" ({count:,} of your prompts)."
    )
