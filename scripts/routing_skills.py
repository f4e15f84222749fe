"""How good models were at each kind of task, put on one scale though they were asked other things.

Who was only asked the hardest questions of a kind must not look worse than who was only asked the
easy ones. So by kind an ability is fitted for each model and a difficulty for each set of
questions, and the table shows what a model would have reached on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from fit_abilities import canonical_name, fit_abilities

from baton.core.plan_types import KINDS
from baton.routing.child.first_stage import Floats

Table = dict[str, dict[str, list[float]]]
Reached = Mapping[str, tuple[float, int]]
"""By worker, how good its answers were on average, and how many."""


def skill_table(
    names: Sequence[str],
    kinds: Sequence[np.typing.NDArray[np.int64]],
    quality: Sequence[Mapping[str, Floats]],
) -> Table:
    """Return by model and kind how good its answers would be on average, and on how many it rests.

    Of each set of questions: its name, the questions' kinds (places in KINDS, or -1), and by worker
    how good its answers were (NaN where that isn't known).
    """
    table: Table = {}
    for place, kind in enumerate(KINDS):
        scores = {
            name: reached
            for name, own, columns in zip(names, kinds, quality, strict=True)
            if (reached := _mean_quality(columns, own == place))
        }
        for worker, (mean, count) in _common_quality(scores).items():
            table.setdefault(worker, {})[kind] = [round(mean, 4), count]
    return dict(sorted(table.items()))


def _mean_quality(columns: Mapping[str, Floats], wanted: np.typing.NDArray[np.bool_]) -> Reached:
    """Return how good workers were on the wanted questions, and on how many that is known."""
    found = {worker: column[wanted & ~np.isnan(column)] for worker, column in columns.items()}
    return {worker: (float(own.mean()), len(own)) for worker, own in found.items() if len(own)}


def _common_quality(
    scores: Mapping[str, Mapping[str, tuple[float, int]]],
) -> Reached:
    """Return what each model would reach on the sets together, and on how many that rests."""
    if not scores:
        return {}
    fitted = fit_abilities(scores)
    sizes = {name: max(count for _, count in reached.values()) for name, reached in scores.items()}
    level = sum(fitted.level[name] * size for name, size in sizes.items()) / sum(sizes.values())
    counts: dict[str, int] = {}
    for reached in scores.values():
        for worker, (_, count) in reached.items():
            name = canonical_name(worker)
            counts[name] = counts.get(name, 0) + count
    return {
        worker: (1 / (1 + math.exp(level - ability)), counts[worker])
        for worker, ability in fitted.workers.items()
    }
