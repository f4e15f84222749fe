"""The keys and values of a model file, checked for type and range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from baton.core.sampling_settings import recommended_sampling

MAX_COUNT = 2**31 - 1
"""No count in a header is larger."""

MAX_LAYERS = 512
"""llama.cpp holds no more."""


class MalformedHeader(ValueError):
    """This is no header; the text is a part of a sentence saying why."""


class Series(NamedTuple):
    """An array: how long it is, and its values where they are wanted."""

    length: int
    values: tuple[int, ...] | None = None


Value = int | float | bool | str | Series


class Metadata:
    """The keys of a header. Those of the model's architecture are asked for without its name."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values
        self.architecture = self.text("general.architecture")
        if not self.architecture:
            raise MalformedHeader("it doesn't say what kind of model it is")
        self.layers = self.own("block_count", most=MAX_LAYERS)

    def text(self, key: str) -> str:
        """Return a text, "" if there is none."""
        value = self._values.get(key, "")
        if not isinstance(value, str):
            raise MalformedHeader(f"its {key} isn't a text")
        return value

    def count(self, key: str, default: int = 0, most: int = MAX_COUNT) -> int:
        """Return a count; the default if there is none."""
        value = self._values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise MalformedHeader(f"its {key} isn't a number that it can be")
        return value

    def recommended_sampling(self) -> dict[str, float]:
        """Return how the file recommends that the model's words are chosen."""
        return recommended_sampling(self._values.get)

    def length(self, key: str) -> int:
        """Return how long an array is, 0 if there is none."""
        value = self._values.get(key)
        return value.length if isinstance(value, Series) else 0

    def has(self, key: str) -> bool:
        """Whether a key of the model's own kind is there."""
        return self._key(key) in self._values

    def own(self, key: str, default: int = 0, most: int = MAX_COUNT) -> int:
        """Return a count of the model's own kind."""
        return self.count(self._key(key), default, most)

    def own_series(self, key: str, short: bool = False) -> tuple[int, ...] | None:
        """Return a number for each layer, None unless the key holds an array.

        Where it may be `short`, the last layers have 0.
        """
        value = self._values.get(self._key(key))
        if not isinstance(value, Series):
            return None
        if value.values is None or (len(value.values) < self.layers and not short):
            raise MalformedHeader(f"its {self._key(key)} doesn't have a number for each layer")
        if not all(0 <= number <= MAX_COUNT for number in value.values):
            raise MalformedHeader(f"its {self._key(key)} has numbers that it can't have")
        return (value.values + (0,) * self.layers)[: self.layers]

    def by_layer(self, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Return a number for each layer; a single one holds for all."""
        if not self.has(key):
            return default
        series = self.own_series(key)
        return series if series is not None else (self.own(key),) * self.layers

    def _key(self, key: str) -> str:
        return f"{self.architecture}.{key}"
