"""Which models suit a machine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from baton.domain.catalogue import Entry, Role
from baton.domain.fit import Load, Verdict
from baton.domain.machine import Machine


@dataclass(frozen=True, slots=True)
class Pick:
    """One model of a recommended set: what it is for, and about how fast it writes here.

    `speed` is in tokens/s, None if nothing was measured; `here` is whether it is on this machine.
    """

    entry: Entry
    roles: tuple[Role, ...]
    load: Load
    speed: float | None = None
    here: bool = False


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A set of models for a machine; no picks where not even the smallest fits beside the rest.

    `download` is what would be fetched and `memory` what they take together, in bytes; `why` is a
    sentence for people.
    """

    picks: tuple[Pick, ...]
    download: int
    memory: int
    verdict: Verdict
    why: str


def recommend(
    entries: Sequence[Entry],
    machine: Machine,
    *,
    speed: float | None = None,
    here: Collection[str] = (),
    context: int = 8192,
) -> Recommendation:
    """Return the set that suits a machine best, of those models that need no agreement.

    `speed` is how many tokens/s the starter model makes here, `here` the ids of what is there.
    """
    raise NotImplementedError


def expected_speed(entry: Entry, machine: Machine, starter: float) -> float:
    """Return about how many tokens/s a model will make, by how many the starter model does."""
    raise NotImplementedError
