"""The ability of a worker without measurements: read from its name, its size and its price.

One number says how able a worker is: on the questions of any set, the log-odds of a good answer are
its ability less how hard that set is. The abilities of the workers that were measured are fitted
together with what size, age and tuning make of one, which then stands in for all the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label
from baton.core.model_names import matching_model, parse_model_name, plain_name
from baton.core.planning.skill_estimates import UNKNOWN_BILLIONS, billions_by_price
from baton.core.routing_types import Candidate

Floats = NDArray[np.float64]

_Asked = TypeVar("_Asked")
_Known = TypeVar("_Known")


# What that makes of it

_RELEASE_YEARS = {
    "chatqa": ((1.5, 24.35),),
    "nemotron": ((3, 24.35), (3.1, 24.8), (3.3, 25.2)),
    "codellama": ((0, 23.65),),
    "tinyllama": ((0, 24.0),),
    "llama": (
        (1, 23.15), (2, 23.55), (3, 24.3), (3.1, 24.55), (3.2, 24.75), (3.3, 24.9), (4, 25.3)
    ),
    "codegemma": ((1, 24.25),),
    "gemma": ((1, 24.15), (2, 24.5), (3, 25.2)),
    "gemini": ((1, 23.95), (1.5, 24.4), (2, 24.95), (2.5, 25.3), (3, 25.9)),
    "qwq": ((0, 25.1),),
    "qwen": ((1, 23.7), (1.5, 24.1), (2, 24.45), (2.5, 24.7), (3, 25.3), (3.5, 26.0)),
    "mathstral": ((0, 24.55),),
    "codestral": ((0, 24.4),),
    "ministral": ((0, 24.8),),
    "magistral": ((0, 25.45),),
    "mixtral": ((0, 23.95),),
    "mistral": ((0.1, 23.75), (0.2, 23.95), (0.3, 24.4), (2, 24.55), (3, 25.2)),
    "mistral-nemo": ((0, 24.55),),
    "phi": ((1, 23.7), (2, 23.95), (3, 24.3), (3.5, 24.65), (4, 24.95)),
    "command": ((0, 24.2),),
    "claude": ((2, 23.55), (3, 24.2), (3.5, 24.6), (3.7, 25.15), (4, 25.4), (4.5, 25.75)),
    "gpt-oss": ((0, 25.6),),
    "gpt": ((3.5, 23.2), (4, 23.8), (4.1, 25.3), (5, 25.6)),
    "gpt-o": ((4, 24.4),),
    "gpt-mini-o": ((4, 24.55),),
    "grok": ((1, 23.9), (2, 24.6), (3, 25.1), (4, 25.5)),
    "reka": ((0, 24.3),),
    "smollm": ((1, 24.55), (2, 24.85), (3, 25.5)),
    "granite": ((3, 24.8), (4, 25.7)),
    "olmo": ((1, 24.1), (2, 24.9), (3, 25.9)),
    "glm": ((3, 23.8), (4, 24.45), (4.5, 25.6)),
    "deepseek": ((1, 24.0), (2, 24.5), (2.5, 24.7), (3, 25.0)),
    "deepseek-r": ((1, 25.05),),
    "yi": ((1, 23.85), (1.5, 24.35)),
    "o": ((1, 24.7), (3, 25.3), (4, 25.3)),
}  # fmt: skip
"""When a family's versions came out, in years since 2000. A later one does more with its size."""

_DEFAULT_YEAR = 24.5
_YEAR_RANGE = (23.0, 26.0)

_KNOWN_BILLIONS = {
    "phi-mini": 3.8, "phi-small": 7.0, "phi-medium": 14.0, "mistral-nemo": 12.0,
    "mistral-small": 22.0, "mistral-large": 123.0, "gpt-3.5-turbo": 30.0,
    "command-r": 35.0, "command-plus-r": 104.0,
    "mathstral": 7.0, "codestral": 22.0, "mixtral": 19.8, "deepseek": 236.0, "qwq": 32.0,
}  # fmt: skip
_TIER_BILLIONS = {
    "nano": 5.0, "mini": 15.0, "lite": 10.0, "flash": 25.0, "haiku": 20.0,
    "small": 20.0, "medium": 70.0, "core": 67.0, "sonnet": 150.0, "pro": 150.0, "plus": 100.0,
    "large": 120.0, "opus": 300.0, "max": 300.0,
}  # fmt: skip
_FRONTIER_FAMILIES = {"gpt", "claude", "gemini", "grok", "o"}
_REASONING_PATTERN = re.compile(
    r"(?<![a-z])(?:o[134](?![a-z0-9])|r1|qwq|magistral|thinking|reason)|gpt-?oss|gpt-5"
)


def likely_billions(candidate: Candidate) -> float:
    """Return how many billions of parameters a worker likely has, or its like."""
    seen = parse_model_name(candidate.model or candidate.id)
    if seen.billions or candidate.billions > 0:
        return seen.billions or min(candidate.billions, 2000.0)
    tiers = [_TIER_BILLIONS[word] for word in seen.variant.split("-") if word in _TIER_BILLIONS]
    named = (f"{seen.family}-{seen.version:g}-{seen.variant}", f"{seen.family}-{seen.variant}")
    known = next(
        (_KNOWN_BILLIONS[name] for name in (*named, seen.family) if name in _KNOWN_BILLIONS), 0.0
    )
    if known or tiers:
        return known or min(tiers)
    if candidate.dollars > 0:
        return billions_by_price(candidate.dollars)
    is_cloud = candidate.outside or seen.family in _FRONTIER_FAMILIES
    return UNKNOWN_BILLIONS[Label.CLOUD if is_cloud else Label.LOCAL]


def likely_release_year(candidate: Candidate) -> float:
    """Return when a worker likely came out, in years since 2000."""
    seen = parse_model_name(candidate.model or candidate.id)
    made = _RELEASE_YEARS.get(f"{seen.family}-{seen.variant}") or _RELEASE_YEARS.get(seen.family)
    if made is None:
        return _DEFAULT_YEAR
    # Who names no version is of the first.
    return max((v, year) for v, year in (*made, (0.0, made[0][1])) if v <= seen.version)[1]


TRAIT_COUNT = 6
"""How many numbers `model_traits` gives."""


def model_traits(candidate: Candidate) -> Floats:
    """Return what of a worker bears on its ability, each near 0 for a usual one."""
    name = candidate.model or candidate.id
    seen, size = parse_model_name(name), max(0.05, likely_billions(candidate))
    year = min(max(likely_release_year(candidate), _YEAR_RANGE[0]), _YEAR_RANGE[1])
    log = math.log2(size / 8.0)
    narrow = "coder" in seen.variant or seen.family in ("codegemma", "codellama", "chatqa")
    return np.array([
        1.0,
        log,
        min(log, 0.0),  # a small one loses more by each halving
        year - 24.5,
        float(bool(_REASONING_PATTERN.search(plain_name(name)))),
        float(not seen.tuned) + float(narrow),
    ])  # fmt: skip


_MAX_CACHED_WORKERS = 1000
"""So many answers about workers are remembered."""

_TINY_PENALTY = 1.2
"""What each halving below a billion parameters costs besides; no model so small was measured here.

SmolLM2's own card has 1.4 % of GSM8K for 135M and 7 % for 360M, where the line of the larger ones
would reach 40 % and more."""

_ABILITY_AT_3, _ABILITY_A_LEVEL = 0.4, 0.9
"""The ability that the levels of a card mean: 3 is what 8 billion master (core/planning)."""


@frozen_dataclass
class Abilities:
    """What was fitted: the abilities of those measured, and the worth of `model_traits` for others.

    `level` says by set of questions how hard it is; `error` is how far the ability of a worker is
    missed when it is left out of the fit (root mean square, in log-odds).
    """

    workers: Mapping[str, float]
    worth: Floats
    level: Mapping[str, float]
    error: float = 1.0
    _near_cache: dict[tuple[Candidate, tuple[str, ...]], tuple[Mapping[str, float], float]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """A cache: the workers are the same from prompt to prompt, and looking their names up took 28
    of an estimate's 34 ms of processor time (2 cores under load)."""
    _ability_cache: dict[Candidate, float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def expected_ability(self, candidate: Candidate) -> float:
        """Return what ability to expect of a worker by its name, size, price and card alone."""
        seen = float(model_traits(candidate) @ self.worth)
        seen -= _TINY_PENALTY * max(0.0, -math.log2(max(0.05, likely_billions(candidate))))
        levels = [level for level in candidate.skills.values() if math.isfinite(level)]
        if levels:
            mean = sum(min(5.0, max(1.0, level)) for level in levels) / len(levels)
            seen = (seen + _ABILITY_AT_3 + _ABILITY_A_LEVEL * (mean - 3.0)) / 2.0
        return min(6.0, max(-6.0, seen))

    def ability(self, candidate: Candidate) -> float:
        """Return a worker's ability: as measured, else as expected."""
        cache = self._ability_cache
        if candidate not in cache:
            known = self.measured_name(candidate)
            found = self.workers[known] if known else self.expected_ability(candidate)
            _remember(cache, candidate, found)
        return cache[candidate]

    def measured_name(self, candidate: Candidate) -> str | None:
        """Return which measured worker it is, or None."""
        names = [candidate.model, candidate.id] if candidate.model else [candidate.id]
        return next(
            (found for name in names if (found := matching_model(name, self.workers))), None
        )

    def nearest_workers(self, candidate: Candidate, among: Sequence[str]) -> Mapping[str, float]:
        """Return the weight of each measured worker in an estimate of this one; they sum to 1.

        The closer its ability, the more; one of its family more still. It alone, if it is there.
        """
        return self._near(candidate, among)[0]

    def ability_gap(self, candidate: Candidate, among: Sequence[str]) -> float:
        """Return by how much a worker is abler, in log-odds, than what `nearest` makes of them."""
        return self._near(candidate, among)[1]

    def _near(
        self, candidate: Candidate, among: Sequence[str]
    ) -> tuple[Mapping[str, float], float]:
        """Return the nearest workers with their weights, and the gap to them."""
        asked = candidate, tuple(among)
        if asked not in self._near_cache:
            nearest = self._compute_nearest(candidate, among)
            theirs = sum(
                weight * self.ability(Candidate(worker)) for worker, weight in nearest.items()
            )
            _remember(self._near_cache, asked, (nearest, self.ability(candidate) - theirs))
        return self._near_cache[asked]

    def _compute_nearest(self, candidate: Candidate, among: Sequence[str]) -> Mapping[str, float]:
        if known := matching_model(candidate.model or candidate.id, among):
            return {known: 1.0}
        target, family = (
            self.ability(candidate),
            parse_model_name(candidate.model or candidate.id).family,
        )
        weights = {}
        for worker in among:
            gap = self.ability(Candidate(worker)) - target
            kin = 2.0 if family and parse_model_name(worker).family == family else 1.0
            weights[worker] = kin * math.exp(-0.5 * (gap / 0.5) ** 2) + 1e-9
        total = sum(weights.values())
        return {worker: weight / total for worker, weight in weights.items()}

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, object]) -> Abilities:
        """Return the abilities of a file. Raises KeyError, TypeError, ValueError."""
        workers, worth = numbers["workers"], numbers["worth"]
        level, error = numbers["level"], numbers["error"]
        if not (isinstance(workers, dict) and isinstance(level, dict) and isinstance(worth, list)):
            raise TypeError("No abilities.")
        found = cls(
            {str(worker): float(a) for worker, a in workers.items()},
            np.array([float(value) for value in worth]),
            {str(name): float(a) for name, a in level.items()},
            float(str(error)),
        )
        if found.worth.shape != (TRAIT_COUNT,) or not np.isfinite(found.worth).all():
            raise ValueError("No abilities.")
        return found


def _remember(cache: dict[_Asked, _Known], asked: _Asked, known: _Known) -> None:
    if len(cache) >= _MAX_CACHED_WORKERS:
        cache.clear()
    cache[asked] = known
