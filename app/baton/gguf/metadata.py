"""The keys and values of a model file, checked for type and range, and what its layers keep.

What is said here of single architectures stands in llama.cpp's `src/models`: files often leave it
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MAX_COUNT = 2**31 - 1
"""No count in a header is larger."""

MAX_LAYERS = 512
"""llama.cpp holds no more."""


class MalformedHeader(ValueError):
    """This isn't a header; the text is part of a sentence saying why, `hint` what to do, or ""."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


_OTHER_KINDS = {
    "adapter": "a LoRA adapter",
    "imatrix": "an importance matrix, with which models are quantised",
    "mmproj": "a projector, with which a model sees or hears",
}
"""Types of GGUF files that no text is written with, in words."""


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
        kind = "mmproj" if self.architecture == "clip" else self.text("general.type")
        if what := _OTHER_KINDS.get(kind):
            hint = "Choose the model's own file: this one is of use only together with it."
            raise MalformedHeader(f"it is {what}", hint)
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


PERIODS = {
    **dict.fromkeys(("gemma2", "gpt-oss"), 2),
    **dict.fromkeys(("afmoe", "cohere2", "exaone-moe", "exaone4", "llama4"), 4),
    **dict.fromkeys(("mellum", "muse-glimmer", "olmo2"), 4),
    **dict.fromkeys(("lfm2", "lfm2moe"), 0),
    "gemma3": 6,
    "gemma3n": 5,
    "plamo3": 8,
}
"""Architectures of which every n-th layer looks back without end, and the others through a
window."""

FIRST_PERIODS = {"cohere2moe": 4, "laguna": 4, "smallthinker": 4}
"""The same, where the first of each n is the one without end."""

WINDOWS = {"gemma2": 4096, "llama4": 8192}
"""Windows of kinds whose files needn't name theirs."""

NO_WINDOWS = frozenset({"phi3"})
"""Architectures whose windows llama.cpp leaves unused."""

ATTENTION_INTERVALS = frozenset({"minimax-01", "qwen3next", "qwen35", "qwen35moe", "qwen4exp"})
"""Architectures of which every n-th layer attends, and the others are recurrent."""

RECURRENT = frozenset({"arwkv7", "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7"})
"""Architectures without any attention."""

RECURRENT_AND_ATTENDING = frozenset({"falcon-h1"})
"""Architectures of which every layer attends and is recurrent."""

FIRST_SHARED = {"gemma3n": 20}
"""Architectures whose later layers use the keys and values of these first ones."""


class LayerMemory(NamedTuple):
    """What a model's layers keep; the numbers are those of `gguf.Header`."""

    kv_heads: tuple[int, ...]
    key_length: int
    value_length: int
    window: int
    windowed: tuple[bool, ...]
    window_key_length: int
    window_value_length: int
    state: int


def layer_memory(data: Metadata) -> LayerMemory:
    """Return what a model's layers keep."""
    heads = data.by_layer("attention.head_count", (0,) * data.layers)
    kv_heads = data.by_layer("attention.head_count_kv", heads)
    attending = data.layers - min(data.own("nextn_predict_layers"), data.layers)
    recurrent = tuple(
        is_so and at < attending for at, is_so in enumerate(_recurrent_layers(data, kv_heads))
    )
    if data.architecture not in RECURRENT_AND_ATTENDING:
        kv_heads = tuple(0 if r else n for n, r in zip(kv_heads, recurrent, strict=True))
    shared = min(data.own("attention.shared_kv_layers"), data.layers)
    kept = min(attending, FIRST_SHARED.get(data.architecture, data.layers - shared))
    kv_heads = tuple(n if at < kept else 0 for at, n in enumerate(kv_heads))
    window = data.own("attention.sliding_window", WINDOWS.get(data.architecture, 0))
    windowed = _windowed_layers(data) if window else (False,) * data.layers
    head = data.own("embedding_length") // heads[0] if heads and heads[0] else 0
    key = data.own("attention.key_length", head)
    value = data.own("attention.value_length", head)
    compressed = data.has("attention.key_length_mla")  # the values are found within the keys
    return LayerMemory(
        kv_heads,
        key,
        0 if compressed else value,
        window if any(windowed) else 0,
        windowed,
        data.own("attention.key_length_swa", key),
        0 if compressed else data.own("attention.value_length_swa", value),
        sum(recurrent) * _state_bytes(data, heads),
    )


def _recurrent_layers(data: Metadata, kv_heads: tuple[int, ...]) -> tuple[bool, ...]:
    """Whether, by layer, it keeps a state instead of keys and values."""
    if data.architecture in RECURRENT | RECURRENT_AND_ATTENDING:
        return (True,) * data.layers
    if data.architecture in ATTENTION_INTERVALS:
        series = data.own_series("attention.recurrent_layers")
        if series is not None:
            return tuple(map(bool, series))
        every = max(data.own("full_attention_interval", 4), 1)
        return tuple((at + 1) % every != 0 for at in range(data.layers))
    sizes = data.by_layer("feed_forward_length", (0,) * data.layers)
    mixed = data.architecture.startswith("nemotron_h")  # there, some layers are neither
    return tuple(n == 0 and not (mixed and s) for n, s in zip(kv_heads, sizes, strict=True))


def _windowed_layers(data: Metadata) -> tuple[bool, ...]:
    """Whether, by layer, it looks back through a window."""
    kind = data.architecture
    if kind in NO_WINDOWS:
        return (False,) * data.layers
    pattern = data.own_series("attention.sliding_window_pattern", short=True)
    if pattern is not None:
        return tuple(map(bool, pattern))
    if kind in FIRST_PERIODS:
        period = data.own("attention.sliding_window_pattern", FIRST_PERIODS[kind])
        return tuple(not period or at % period != 0 for at in range(data.layers))
    if kind in PERIODS:
        period = data.own("attention.sliding_window_pattern", PERIODS[kind])
        return tuple(not period or at % period < period - 1 for at in range(data.layers))
    return (False,) * data.layers


def _state_bytes(data: Metadata, heads: tuple[int, ...]) -> int:
    """Return the bytes that one recurrent layer keeps, in numbers of 32 bits."""
    embedding = data.own("embedding_length")
    head = heads[0] if heads else 0
    if size := data.own("wkv.head_size"):
        return 4 * embedding * (data.own("token_shift_count", 2) + size)
    if cache := data.own("shortconv.l_cache"):
        return 4 * embedding * (cache - 1)
    kernel = data.own("ssm.conv_kernel")
    if size := data.own("kda.head_dim"):
        return 4 * head * size * (3 * ((kernel or 4) - 1) + size)
    inner, kept = data.own("ssm.inner_size"), data.own("ssm.state_size")
    shifted = max(kernel - 1, 0) * (inner + 2 * data.own("ssm.group_count") * kept)
    return 4 * (shifted + kept * inner)
