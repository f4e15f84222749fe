"""Intervals of a mean by drawing its values again."""

from __future__ import annotations

import random
from collections.abc import Sequence

RESAMPLES = 2000
"""How often a mean is drawn again for its interval."""


def bootstrap_interval(points: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the interval that holds the mean in 95 of 100 draws of as many points."""
    if not points:
        return 0.0, 0.0
    chance = random.Random(seed)
    count = len(points)
    means = sorted(sum(chance.choices(points, k=count)) / count for _ in range(RESAMPLES))
    return means[RESAMPLES // 40], means[-1 - RESAMPLES // 40]
