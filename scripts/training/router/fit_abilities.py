"""Fits the abilities of models together with what size, age and tuning make of one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from baton.core.model_names import parse_model_name, plain_name
from baton.core.routing_types import Candidate
from baton.routing.child.unseen_models import TRAIT_COUNT, Abilities, Floats, model_traits


def canonical_name(model: str) -> str:
    """Return a model's name in Baton's form, `llama-3.1-8b`; its own name if it is unknown.

    The result parses to the same ModelName.
    """
    seen = parse_model_name(model)
    if not seen.family:
        return plain_name(model)
    version = f"{seen.version:g}" if seen.version else ""
    words = seen.variant.split("-")
    head = seen.family + ("" if seen.family == "o" or not version else "-") + version
    if "o" in words:
        head, words = head + "o", [word for word in words if word != "o"]
    size = f"{seen.billions:g}b" if seen.billions else ""
    return "-".join(filter(None, (head, *words, size, "" if seen.tuned else "base")))


def fit_abilities(scores: Mapping[str, Mapping[str, tuple[float, int]]]) -> Abilities:
    """Fit abilities on what workers reached: by set and worker the mean quality and on how many."""
    cells = [
        (name, canonical_name(worker), quality, count)
        for name, workers in sorted(scores.items())
        for worker, (quality, count) in sorted(workers.items())
        if count
    ]
    # The names as they are written there, since one may say more than its result.
    written = {canonical_name(worker): worker for workers in scores.values() for worker in workers}
    workers, worth, level = _fit_ridge(cells, written)
    missed = []
    for worker, ability in workers.items():
        rest = [cell for cell in cells if cell[1] != worker]
        if len({cell[1] for cell in rest}) > TRAIT_COUNT:
            _, without, other = _fit_ridge(rest, written)
            shift = np.mean([level[name] - other[name] for name in other])  # the scale may move
            missed.append(
                float(model_traits(Candidate(written[worker])) @ without) + shift - ability
            )
    error = float(np.sqrt(np.mean(np.square(missed)))) if missed else 1.0
    return Abilities(workers, worth, level, error)


_Cell = tuple[str, str, float, int]


def _fit_ridge(
    cells: Sequence[_Cell], written: Mapping[str, str]
) -> tuple[dict[str, float], Floats, dict[str, float]]:
    """Return abilities, what each sight is worth, and the sets' levels: one ridge regression."""
    names = sorted({cell[0] for cell in cells})
    workers = sorted({cell[1] for cell in cells})
    seen = {worker: model_traits(Candidate(written[worker])) for worker in workers}
    size = TRAIT_COUNT + len(workers) + len(names)
    design, target, weight = (
        np.zeros((len(cells), size)),
        np.zeros(len(cells)),
        np.zeros(len(cells)),
    )
    for row, (name, worker, quality, count) in enumerate(cells):
        design[row, :TRAIT_COUNT] = seen[worker]
        design[row, TRAIT_COUNT + workers.index(worker)] = 1.0
        design[row, TRAIT_COUNT + len(workers) + names.index(name)] = -1.0
        smooth = (quality * count + 1.0) / (count + 2.0)
        target[row] = math.log(smooth / (1.0 - smooth))
        weight[row] = min(count, 500) / 500.0
    penalty = np.concatenate([
        [1e-3] + [0.3] * (TRAIT_COUNT - 1), np.full(len(workers), 0.5), np.full(len(names), 1e-2)
    ])  # fmt: skip
    weighted = design * weight[:, None]
    found = np.linalg.solve(weighted.T @ design + np.diag(penalty), weighted.T @ target)
    worth = np.asarray(found[:TRAIT_COUNT], np.float64)
    own = {
        worker: float(seen[worker] @ worth + found[TRAIT_COUNT + place])
        for place, worker in enumerate(workers)
    }
    return own, worth, dict(zip(names, found[TRAIT_COUNT + len(workers) :].tolist(), strict=True))
