"""Will it fit? What models take of memory together, against what is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from baton.domain.catalogue import Entry
from baton.domain.gguf import Header
from baton.domain.machine import Machine


class Fit(StrEnum):
    """How well models fit a machine."""

    FITS = "fits"
    TIGHT = "tight"  # it works, with little left for other programs
    SPILLS = "spills"  # a part of it runs on the processor, more slowly
    WONT = "won't"  # it would swap, or be killed


@dataclass(frozen=True, slots=True)
class Load:
    """What one model takes, in bytes: weights, and `kv` for `context` tokens.

    `layers` is how many layers the weights are spread over (0: unknown).
    """

    name: str
    weights: int
    kv: int
    context: int
    overhead: int
    layers: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.kv + self.overhead


@dataclass(frozen=True, slots=True)
class Verdict:
    """How well models fit together: `needed` of `room` bytes, `why` in a sentence, and a `mend`.

    `mend` is "" where nothing needs mending.
    """

    fit: Fit
    needed: int
    room: int
    why: str
    mend: str = ""


def judge(loads: Sequence[Load], machine: Machine) -> Verdict:
    """Tell whether models fit this machine together, as it is right now."""
    raise NotImplementedError


def load_of(header: Header, size: int, context: int, kv_bits: float = 16) -> Load:
    """Return what a model takes, by its file's header and size in bytes."""
    raise NotImplementedError


def load_of_entry(entry: Entry, context: int) -> Load:
    """Return what a model of the catalogue takes, as far as that tells."""
    raise NotImplementedError
