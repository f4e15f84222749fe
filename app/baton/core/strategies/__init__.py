"""Strategies: each decides which plans are executed to answer a prompt.

A strategy proposes a first plan, and after each executed plan whether there are more steps. One
file each; a name is the same on the command line, in settings and in `bench`.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from baton.core.errors import ConfigError
from baton.core.ports import Strategy


class StrategyEntry(NamedTuple):
    """The factory of a strategy (`module:attribute`, called without arguments), and its help."""

    target: str
    help: str


_PACKAGE = "baton.core.strategies"

STRATEGIES = {
    "single": StrategyEntry(f"{_PACKAGE}.route:Single", "One worker answers."),
    "hybrid": StrategyEntry(
        f"{_PACKAGE}.hybrid:Hybrid",
        "Baton's own: a draft or a plan, looked at again; help if it pays.",
    ),
    "route": StrategyEntry(f"{_PACKAGE}.route:RouteAlone", "The router alone picks who answers."),
    "knn": StrategyEntry(
        f"{_PACKAGE}.literature:NearestNeighbours",
        "The worker that did best with similar questions answers.",
    ),
    "conductor": StrategyEntry(
        f"{_PACKAGE}.conductor_plan:ConductorStrategy",
        "A conductor draws a plan, and corrects it after its results.",
    ),
    "cascade": StrategyEntry(
        f"{_PACKAGE}.cascade:Cascade", "Two workers here; a stronger one where they disagree."
    ),
    "reflect": StrategyEntry(
        f"{_PACKAGE}.literature:Reflect", "One worker revises its own answer."
    ),
    "vote": StrategyEntry(
        f"{_PACKAGE}.literature:Vote", "One worker answers several times; the majority wins."
    ),
    "majority": StrategyEntry(
        f"{_PACKAGE}.literature:Majority", "Several workers answer; the majority wins."
    ),
    "smoothie": StrategyEntry(
        f"{_PACKAGE}.literature:Smoothie",
        "Several workers answer; what is most like the others wins.",
    ),
    "moa": StrategyEntry(
        f"{_PACKAGE}.literature:MixtureOfAgents", "Several workers propose, one writes the answer."
    ),
    "trinity": StrategyEntry(
        f"{_PACKAGE}.trinity:Trinity", "Thinker, worker and verifier take turns, as a head says."
    ),
    "ultra": StrategyEntry(
        f"{_PACKAGE}.ultra:Ultra", "Plan, verify with another worker, repair once."
    ),
}
"""By name. `--mode` picks one as well: see `strategy_of_mode`."""

_MODE_STRATEGIES = {"auto": "hybrid", "local": "hybrid", "mini": "hybrid", "ultra": "ultra"}


def strategy_of_mode(mode: str) -> str:
    """Return the name of the strategy behind a mode; `mini` is a hybrid that never plans."""
    return _MODE_STRATEGIES[mode]


def make_strategy(name: str) -> Strategy:
    """Return a strategy, imported now. Raises ConfigError."""
    if (entry := STRATEGIES.get(name)) is None:
        raise ConfigError(f"There is no strategy {name!r}.", f"Known: {', '.join(STRATEGIES)}.")
    module, _, attribute = entry.target.partition(":")
    made: Strategy = getattr(importlib.import_module(module), attribute)()
    return made
