"""Fits the heads of the second stage on random sets of workers, so that they know none by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from fit_draft_signals import fit_draft_signals
from numpy.typing import NDArray

from baton.core.routing_types import Candidate
from baton.routing.child.second_stage import (
    VOTE_FEATURES,
    Counts,
    Floats,
    SecondStage,
    Votes,
    chances_alike,
    chances_from_log_odds,
    combined_log_odds,
    group_answers,
    kind_of_answers,
    log_odds,
)
from baton.routing.child.unseen_models import Abilities

_OF_ASKED = [VOTE_FEATURES.index(name) for name in ("asked", "expected_asked", "gap")]
"""What says nothing of a draft."""


_BEFORE = [VOTE_FEATURES.index(name) for name in ("expected", "expected_asked", "gap")]
"""What was known before there was a draft."""


class Outcomes(Protocol):
    """Questions whose outcomes are known, as scripts/routing_rows.py reads them."""

    @property
    def name(self) -> str:
        """What the set is called."""
        ...

    @property
    def quality(self) -> Mapping[str, Floats]:
        """How good each worker's answer was, from 0 to 1, NaN where unknown."""
        ...

    @property
    def answers(self) -> Mapping[str, tuple[str, ...]]:
        """The short answers."""
        ...

    @property
    def lengths(self) -> Mapping[str, Floats]:
        """The answers' characters."""
        ...


_DRAWN = 10000
_COUNTS = (1, 2, 3, 3, 4)
"""How many drafts are drawn together, and how often."""

_PENALTY = 500.0
_ASKED_TRUST = 0.5
"""How much counts of what the drafts say of another worker, beside what was expected of it.

Halved it put questions in a better order on every set and subject that was tried, with six sets
of mates: MMLU-Pro +.006 to +.009, MATH +.004 to +.013, GSM8K +.001."""

_SHIFT, _BLUR = 0.7, 0.3
"""By how much the first stage may be wrong on an unknown task, for all workers and for each."""


def fit_second_stage(
    sets: Sequence[Outcomes],
    expected: Mapping[str, Mapping[str, Floats]] | None = None,
    seed: int = 0,
    abilities: Abilities | None = None,
) -> SecondStage:
    """Fit both heads on random sets of workers of all sets that hold answers.

    `expected` is, by set and worker, the quality that the first stage expects of each question
    when it wasn't fitted on it; without it (and for half of the draws, so that the heads don't lean
    on it where a task is new) it is the worker's mean, and off by some chance. `abilities` says how
    able they generally are.
    """
    random = np.random.default_rng(seed)
    drawn = [
        part
        for one in sorted(sets, key=lambda one: one.name)
        for table in [_Table.of(one, (expected or {}).get(one.name, {}), abilities)]
        if table is not None
        for count in _COUNTS
        for part in [table.draw(count, random)]
        if part is not None
    ]
    if not drawn:
        return replace(SecondStage.unfitted(), signals=fit_draft_signals())
    seen = np.vstack([figures for figures, _, _ in drawn])
    centre, scale = seen.mean(axis=0), seen.std(axis=0) + 1e-6
    design = np.column_stack([np.ones(len(seen)), (seen - centre) / scale])
    own = design.copy()
    own[:, [1 + place for place in _OF_ASKED]] = 0.0
    right = _logistic(own, np.concatenate([good for _, good, _ in drawn]))
    asked = _logistic(design, np.concatenate([better for _, _, better in drawn]))
    asked[[1 + place for place in range(len(VOTE_FEATURES)) if place not in _BEFORE]] *= (
        _ASKED_TRUST
    )
    return SecondStage(right, asked, centre, scale, fit_draft_signals())


@dataclass(frozen=True)
class _Table:
    """A set's workers as columns: which answers agree, how long they are, how good they were."""

    groups: Counts
    lengths: Floats
    quality: Floats
    expected: Floats
    alike: Floats
    able: Floats
    choices: NDArray[np.bool_]

    @classmethod
    def of(
        cls, one: Outcomes, expected: Mapping[str, Floats], abilities: Abilities | None
    ) -> _Table | None:
        names = [name for name in sorted(one.answers) if name in one.quality]
        if len(names) < 2:
            return None
        rows = list(zip(*(one.answers[name] for name in names), strict=True))
        quality = np.column_stack([one.quality[name] for name in names])
        means = np.broadcast_to(np.nanmean(quality, axis=0), quality.shape)
        unknown = np.full(len(quality), np.nan)
        lengths = np.column_stack([one.lengths.get(name, unknown) for name in names])
        return cls(
            np.array([group_answers(row) for row in rows], np.int64),
            np.nan_to_num(lengths),
            quality,
            np.column_stack([expected.get(name, means[:, k]) for k, name in enumerate(names)]),
            np.array([chances_alike(row, names) for row in rows]),
            np.array([abilities.ability(Candidate(name)) if abilities else 0.0 for name in names]),
            np.array([abilities is None or kind_of_answers(row) == "letter" for row in rows]),
        )

    def draw(self, count: int, random: np.random.Generator) -> tuple[Floats, Floats, Floats] | None:
        """Return figures, whether the first draft was right and whether who was asked was."""
        means = np.nanmean(self.quality, axis=0)
        usual = log_odds(means)
        modest = np.flatnonzero(means <= np.quantile(means, 0.75))
        if len(modest) < count:
            return None
        rows = random.integers(0, len(self.quality), _DRAWN)
        order = random.random((_DRAWN, len(modest))).argsort(axis=1)
        drafts = modest[order[:, :count]]
        asked = random.integers(0, len(means), _DRAWN)
        good, better = self.quality[rows, drafts[:, 0]], self.quality[rows, asked]
        use = usual[asked] > usual[drafts[:, 0]] + 0.3
        use &= (drafts != asked[:, None]).all(axis=1) & ~np.isnan(good) & ~np.isnan(better)
        if not use.any():
            return None
        rows, drafts, asked = rows[use], drafts[use], asked[use]
        all_of_them = np.column_stack([drafts, asked])
        shift = random.normal(0.0, _SHIFT, (len(rows), 1))
        guessed = usual[all_of_them] + shift + random.normal(0.0, _BLUR, all_of_them.shape)
        predicted = log_odds(self.expected[rows[:, None], all_of_them])
        odds = np.where(random.random((len(rows), 1)) < 0.5, predicted, guessed)
        odds = combined_log_odds(odds, self.able[all_of_them], count, self.choices[rows, None])
        votes = Votes(
            self.groups[rows[:, None], drafts],
            odds[:, :count],
            odds[:, count],
            self.alike[rows[:, None], drafts],
            self.lengths[rows[:, None], drafts],
        )
        return votes.features(), good[use], better[use]


def _logistic(design: Floats, target: Floats) -> Floats:
    """Return the weights of a logistic regression; the first isn't held down."""
    weights = np.zeros(design.shape[1])
    held = np.full(design.shape[1], _PENALTY)
    held[0] = 1e-6
    for _ in range(30):
        chance = chances_from_log_odds(design @ weights)
        slope = design.T @ (target - chance) - held * weights
        curve = (design * (chance * (1.0 - chance))[:, None]).T @ design + np.diag(held)
        step = np.linalg.solve(curve, slope)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return weights
