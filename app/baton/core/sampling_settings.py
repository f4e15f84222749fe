"""Sampling settings: as configured, else as the model file recommends, else Baton's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple


class Sampling(NamedTuple):
    """How the next token is chosen; temperature 0 takes the likeliest. `seed` None is random.

    With `top_k` 0 all tokens count; `top_p` 1, `min_p` 0, `repeat_penalty` 1 and the other
    penalties at 0 do nothing.
    """

    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0


TINY_MODEL_PARAMETERS = 1_000_000_000
TINY_MODEL_PENALTY = 1.1
"""A model with fewer parameters is kept from repeating itself, unless its file says otherwise: it
soon does where it takes the likeliest word."""

_HEADER_KEYS = {
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "penalty_repeat",
}
"""The keys of these settings in a model file's header, after `general.sampling.`."""


def recommended_sampling(value: Callable[[str], Any]) -> dict[str, float]:
    """Return what a model file recommends; `value` gives what its header has under a key, or None.

    What can't be a number of that kind is left out.
    """
    found = {}
    for name, key in _HEADER_KEYS.items():
        with suppress(TypeError, ValueError):
            number = float(value(f"general.sampling.{key}"))
            if 0 <= number < 1000:
                found[name] = number
    return found


def default_sampling(parameters: int) -> dict[str, float]:
    """Return what suits a model with so many parameters of which nothing else is known."""
    own = {
        name: float(number) for name, number in Sampling()._asdict().items() if name in _HEADER_KEYS
    }
    if parameters < TINY_MODEL_PARAMETERS:
        own["repeat_penalty"] = TINY_MODEL_PENALTY
    return own


def effective_values(*layers: Mapping[str, Any]) -> dict[str, tuple[float, int]]:
    """Return for each name what holds, and who said so: the first of those who say anything."""
    return {
        name: next(
            (float(one[name]), by) for by, one in enumerate(layers) if one.get(name) is not None
        )
        for name in _HEADER_KEYS
    }


def resolve_sampling(
    asked: Mapping[str, Any], file: Mapping[str, float], parameters: int
) -> Sampling:
    """Return what was asked for, else what the model file recommends, else what is ours."""
    numbers = {
        name: number
        for name, (number, _) in effective_values(asked, file, default_sampling(parameters)).items()
    }
    return Sampling(
        numbers["temperature"],
        int(numbers["top_k"]),
        numbers["top_p"],
        numbers["min_p"],
        numbers["repeat_penalty"] or 1.0,
        asked.get("seed"),
        asked.get("frequency_penalty") or 0.0,
        asked.get("presence_penalty") or 0.0,
    )
