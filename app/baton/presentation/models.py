"""Models and the machine that they run on, in words."""

from __future__ import annotations

from baton.core.byte_format import show_memory
from baton.core.machine import Gpu
from baton.core.messages import Card
from baton.core.sanitiser import one_line

_LICENCE_NAMES = {"apache-2.0": "Apache-2.0", "mit": "MIT"}
_PLACES = {"local": "this machine", "lan": "this network", "cloud": "cloud"}


def licence_text(licence: str) -> str:
    """Write a licence's name as it is known."""
    return _LICENCE_NAMES.get(licence.lower(), one_line(licence, 40))


def gpu_text(gpu: Gpu) -> str:
    """Name a GPU with its memory."""
    return f"{one_line(gpu.name, 40)} with {show_memory(gpu.total)}"


def place_text(card: Card) -> str:
    """Say where a worker runs: "this machine", "this network", "cloud"."""
    return _PLACES[card.place.value]
