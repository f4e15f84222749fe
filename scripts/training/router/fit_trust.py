"""Fits how far the heads of a set are believed, on domains that were left out.

A router is fitted several times without some groups of questions. What it makes of those shows two
things: how texts of a domain that it knows differ from others (the head of trust), and by set
whether what the heads say holds on groups that they never saw (its transfer).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from baton.routing.child.first_stage import TRUST_COLUMNS, Floats, chances_known

_PENALTY, _ROUNDS = 0.1, 50
_MASS = 2000.0
"""Known and new texts count as so many each, however many there are."""


@dataclass(frozen=True)
class Trust:
    """The head of trust, and by set how far its heads hold on groups that were left out."""

    head: Floats
    transfer: Mapping[str, float]


@dataclass(frozen=True)
class HeldOut:
    """What a router makes of questions of a set that it wasn't fitted on.

    `inputs` are those of the head of trust. Where the router was fitted on other groups of the
    set, `predicted` and `actual` are by how much its stronger workers do better, and `length` how
    long the questions are; all are empty else.
    """

    name: str
    inputs: Floats
    predicted: Floats = field(default_factory=lambda: np.zeros(0))
    actual: Floats = field(default_factory=lambda: np.zeros(0))
    length: Floats = field(default_factory=lambda: np.zeros(0))


def fit_trust(known: Sequence[HeldOut], new: Sequence[HeldOut]) -> Trust:
    """Fit on questions of known domains, and of domains that were left out."""
    if not known or not new:
        return Trust(np.zeros(TRUST_COLUMNS), {})
    names = {one.name for one in new if len(one.predicted)}
    transfer = {
        name: _transfer([one for one in new if one.name == name and len(one.predicted)])
        for name in sorted(names)
    }
    return Trust(_fit_head(known, new), transfer)


def _fit_head(known: Sequence[HeldOut], new: Sequence[HeldOut]) -> Floats:
    """Return a logistic regression; a set counts by the root of its size."""
    inputs, wanted, weights = [], [], []
    for label, held in ((1.0, known), (0.0, new)):
        sizes: dict[str, int] = {}
        for one in held:
            sizes[one.name] = sizes.get(one.name, 0) + len(one.inputs)
        whole = sum(size**0.5 for size in sizes.values())
        for one in held:
            inputs.append(one.inputs)
            wanted.append(np.full(len(one.inputs), label))
            weights.append(np.full(len(one.inputs), _MASS / whole / sizes[one.name] ** 0.5))
    design, target, weight = np.vstack(inputs), np.concatenate(wanted), np.concatenate(weights)
    held_down = np.array([1e-6, *[_PENALTY] * (TRUST_COLUMNS - 1)])
    head = np.zeros(TRUST_COLUMNS)
    for _ in range(_ROUNDS):
        chance = chances_known(design, head)
        slope = design.T @ (weight * (target - chance)) - held_down * head
        curve = (design * (weight * chance * (1.0 - chance))[:, None]).T @ design
        step = np.linalg.solve(curve + np.diag(held_down), slope)
        head = head + step
        if np.abs(step).max() < 1e-8:
            break
    return head


def _transfer(held: Sequence[HeldOut]) -> float:
    """Return by how much the gain rises with the predicted one: less a standard error, 0 to 1.

    What both owe to the questions' length is taken off, since length counts by itself.
    """
    square = product = total = 0.0
    count = 0
    for one in held:
        length = one.length - one.length.mean()
        predicted, actual = (
            _without(column - column.mean(), length) for column in (one.predicted, one.actual)
        )
        square += float(predicted @ predicted)
        product += float(predicted @ actual)
        total += float(actual @ actual)
        count += len(length)
    slope = product / (square + 1e-9)
    error = (max(total - slope * product, 0.0) / max(count, 1) / (square + 1e-9)) ** 0.5
    return round(float(np.clip(slope - error, 0.0, 1.0)), 4)


def _without(column: Floats, other: Floats) -> Floats:
    return np.asarray(column - other * (column @ other) / (other @ other + 1e-9), np.float64)
