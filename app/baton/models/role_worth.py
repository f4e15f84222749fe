"""What a model is worth in a role before it was ever asked: its level, less what slowness costs."""

from __future__ import annotations

import math
from functools import lru_cache

from baton.core.catalogue_types import CatalogueEntry, ModelRole, ThinkingMode
from baton.core.plan.skill_estimates import skill_by_size

ROLE_KINDS = {
    ModelRole.CHAT: ("chat", "knowledge", "reasoning", "writing"),
    ModelRole.CONDUCTOR: ("planning",),
    ModelRole.CODER: ("code",),
    ModelRole.REASONING: ("reasoning", "math"),
}
"""The kinds of tasks that a role is about."""

ROLE_WEIGHTS = {
    ModelRole.CHAT: 1.0,
    ModelRole.CONDUCTOR: 1.0,
    ModelRole.CODER: 0.7,
    ModelRole.REASONING: 0.7,
}
"""How much a role counts in a set."""

SLOW_MACHINE_PATIENCE = 3.0
"""How many times slower than the slowest a model may be where all are slow."""

_MIN_SPEEDS = {
    ModelRole.CHAT: 5.0,
    ModelRole.CONDUCTOR: 8.0,
    ModelRole.CODER: 5.0,
    ModelRole.REASONING: 5.0,
}
"""Tokens/s below which a model isn't recommended."""

_FAST_SPEEDS = {
    ModelRole.CHAT: 15.0,
    ModelRole.CONDUCTOR: 25.0,
    ModelRole.CODER: 15.0,
    ModelRole.REASONING: 15.0,
}
"""Tokens/s from which on more is of no use."""

_HALVING_COSTS = {
    ModelRole.CHAT: 0.25,
    ModelRole.CONDUCTOR: 0.35,
    ModelRole.CODER: 0.25,
    ModelRole.REASONING: 0.25,
}
"""What each halving below that costs, in levels. Everybody waits for the conductor."""

_THINKING_COST = 0.3
"""What it costs that whoever chats thinks before each answer."""


def role_worth(entry: CatalogueEntry, role: ModelRole, pace: float) -> float:
    """Return what a model is worth in a role if it writes so many tokens/s."""
    halvings = math.log2(_FAST_SPEEDS[role] / max(_useful_speed(entry, role, pace), 0.01))
    return ROLE_WEIGHTS[role] * (
        role_level(entry, role) - _HALVING_COSTS[role] * max(0.0, halvings)
    )


@lru_cache(maxsize=1024)
def role_level(entry: CatalogueEntry, role: ModelRole) -> float:
    """Return how difficult a role's tasks may be for a model: as published, else by its size."""
    parameters = entry.parameters or entry.size * 5 // 3
    size = math.sqrt(parameters * (entry.active or parameters)) / 1e9 or 1.0
    levels = [entry.skills.get(kind) or skill_by_size(size, kind) for kind in ROLE_KINDS[role]]
    thinks = role is ModelRole.CHAT and entry.thinking is ThinkingMode.ALWAYS
    return sum(levels) / len(levels) - (_THINKING_COST if thinks else 0.0)


def is_fast_enough(
    entry: CatalogueEntry, role: ModelRole, pace: float, patience: float = 1.0
) -> bool:
    """Tell whether one can live with so many tokens/s, perhaps with patience."""
    return _useful_speed(entry, role, pace) * patience >= _MIN_SPEEDS[role]


def _useful_speed(entry: CatalogueEntry, role: ModelRole, pace: float) -> float:
    """Return the tokens/s that are of use: thoughts come before the answer."""
    return (
        pace / 2
        if entry.thinking is ThinkingMode.ALWAYS and role is not ModelRole.REASONING
        else pace
    )
