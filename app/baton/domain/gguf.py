"""The header of a GGUF file: what a model is, before any of its weights are read."""

from __future__ import annotations

from dataclasses import dataclass


class Cut(Exception):
    """The data ends within the header, which needs at least `needed` bytes from the start."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"the header goes on after {needed:,} bytes")
        self.needed = needed


class Malformed(ValueError):
    """This is no header; the text is a part of a sentence saying why."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says. Numbers are 0 and texts "" where it doesn't.

    `kv_heads` counts the heads of keys and values by layer (0 where a layer keeps none: recurrent
    ones). `window` is how far sliding attention looks back, in tokens, and `windowed` says by layer
    whether it is of that kind. `weights` are the bytes of all tensors, `size` those of the whole
    file as its header promises it. `state` is what recurrent layers keep in all, in bytes.
    """

    architecture: str
    name: str = ""
    licence: str = ""
    parameters: int = 0
    context: int = 0
    layers: int = 0
    kv_heads: tuple[int, ...] = ()
    key_length: int = 0
    value_length: int = 0
    window: int = 0
    windowed: tuple[bool, ...] = ()
    state: int = 0
    vocabulary: int = 0
    embedding: int = 0
    experts: int = 0
    weights: int = 0
    size: int = 0
    parts: int = 1
    template: str = ""


def read(data: bytes | memoryview, size: int | None = None) -> Header:
    """Read a header from a file's beginning; `size` is the whole file's, if known.

    Raises Cut when it goes on after `data`, and Malformed.
    """
    raise NotImplementedError
