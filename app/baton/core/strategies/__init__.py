"""Ways to come to an answer: each decides what is played, and all are played alike.

A strategy is asked for a first plan, and after each plan that was played whether there shall be
more. One small file each; a name is the same on the command line, in settings and in `bench`.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from baton.core.errors import ConfigError
from baton.core.ports import Strategy


class Entry(NamedTuple):
    """Where a strategy lives (`module:attribute`, called without arguments), and its help."""

    target: str
    help: str


_HERE = "baton.core.strategies"

STRATEGIES = {
    "single": Entry(f"{_HERE}.single:Single", "One worker answers."),
    "hybrid": Entry(
        f"{_HERE}.hybrid:Hybrid",
        "Baton's own: a draft or a plan, looked at again; help if it pays.",
    ),
    "route": Entry(f"{_HERE}.route:RouteAlone", "The router alone picks who answers."),
    "knn": Entry(f"{_HERE}.knn:Nearest", "Whoever did best with similar questions answers."),
    "conductor": Entry(
        f"{_HERE}.conductor_plan:Conducted",
        "A conductor draws a plan, and mends it once it has seen.",
    ),
    "cascade": Entry(
        f"{_HERE}.cascade:Cascade", "Two workers here; a stronger one where they disagree."
    ),
    "reflect": Entry(f"{_HERE}.reflect:Reflect", "One worker revises its own answer."),
    "vote": Entry(f"{_HERE}.vote:Vote", "One worker answers several times; the majority wins."),
    "majority": Entry(f"{_HERE}.majority:Majority", "Several workers answer; the majority wins."),
    "smoothie": Entry(
        f"{_HERE}.smoothie:Smoothie", "Several workers answer; what is most like the others wins."
    ),
    "moa": Entry(f"{_HERE}.moa:MixtureOfAgents", "Several workers propose, one writes the answer."),
    "trinity": Entry(
        f"{_HERE}.trinity:Trinity", "Thinker, worker and verifier take turns, as a head says."
    ),
    "ultra": Entry(f"{_HERE}.ultra:Ultra", "Plan, verify with another worker, repair once."),
}
"""By name. `--mode` picks one as well: see `by_mode`."""

_MODES = {"auto": "hybrid", "local": "hybrid", "mini": "hybrid", "ultra": "ultra"}


def by_mode(mode: str) -> str:
    """Return the name of the strategy behind a mode; `mini` is a hybrid that never plans."""
    return _MODES[mode]


def strategy(name: str) -> Strategy:
    """Return a strategy, imported now. Raises ConfigError."""
    if (entry := STRATEGIES.get(name)) is None:
        raise ConfigError(f"There is no strategy {name!r}.", f"Known: {', '.join(STRATEGIES)}.")
    module, _, attribute = entry.target.partition(":")
    made: Strategy = getattr(importlib.import_module(module), attribute)()
    return made
