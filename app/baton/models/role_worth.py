"""What a model is worth in a role before it was ever asked: its level, less what slowness costs."""

from __future__ import annotations

import math
from functools import lru_cache

from baton.core.catalogue_types import Entry, Role, Thinking
from baton.core.plan.skill_estimates import skill_by_size

KINDS = {
    Role.CHAT: ("chat", "knowledge", "reasoning", "writing"),
    Role.CONDUCTOR: ("planning",),
    Role.CODER: ("code",),
    Role.REASONING: ("reasoning", "math"),
}
"""The kinds of tasks that a role is about."""

WEIGHTS = {Role.CHAT: 1.0, Role.CONDUCTOR: 1.0, Role.CODER: 0.7, Role.REASONING: 0.7}
"""How much a role counts in a set."""

PATIENCE = 3.0
"""How many times slower than the slowest a model may be where all are slow."""

_SLOWEST = {Role.CHAT: 5.0, Role.CONDUCTOR: 8.0, Role.CODER: 5.0, Role.REASONING: 5.0}
"""Tokens/s below which a model isn't recommended."""

_QUICK = {Role.CHAT: 15.0, Role.CONDUCTOR: 25.0, Role.CODER: 15.0, Role.REASONING: 15.0}
"""Tokens/s from which on more is of no use."""

_SLOW = {Role.CHAT: 0.25, Role.CONDUCTOR: 0.35, Role.CODER: 0.25, Role.REASONING: 0.25}
"""What each halving below that costs, in levels. Everybody waits for the conductor."""

_THINKS = 0.3
"""What it costs that whoever chats thinks before each answer."""


def worth(entry: Entry, role: Role, pace: float) -> float:
    """Return what a model is worth in a role if it writes so many tokens/s."""
    halvings = math.log2(_QUICK[role] / max(_useful(entry, role, pace), 0.01))
    return WEIGHTS[role] * (level(entry, role) - _SLOW[role] * max(0.0, halvings))


@lru_cache(maxsize=1024)
def level(entry: Entry, role: Role) -> float:
    """Return how difficult a role's tasks may be for a model: as published, else by its size."""
    parameters = entry.parameters or entry.size * 5 // 3
    size = math.sqrt(parameters * (entry.active or parameters)) / 1e9 or 1.0
    levels = [entry.skills.get(kind) or skill_by_size(size, kind) for kind in KINDS[role]]
    thinks = role is Role.CHAT and entry.thinking is Thinking.ALWAYS
    return sum(levels) / len(levels) - (_THINKS if thinks else 0.0)


def enough(entry: Entry, role: Role, pace: float, patience: float = 1.0) -> bool:
    """Tell whether one can live with so many tokens/s, perhaps with patience."""
    return _useful(entry, role, pace) * patience >= _SLOWEST[role]


def _useful(entry: Entry, role: Role, pace: float) -> float:
    """Return the tokens/s that are of use: thoughts come before the answer."""
    return pace / 2 if entry.thinking is Thinking.ALWAYS and role is not Role.REASONING else pace
