"""Model files for tests: LoRA adapters made of chance, and the starter model with other words."""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Mapping
from pathlib import Path

from baton.adapters.local import starter

_STRING, _FLOAT = 8, 6
_F32 = 0
_ALIGNMENT = 32

WIDTH, LAYERS = 576, 30
"""The starter model's."""


def adapter(
    path: Path,
    *,
    seed: int = 1,
    strength: float = 1.0,
    architecture: str = "llama",
    kind: str = "adapter",
    width: int = WIDTH,
    layer: str = "blk.{}.attn_q.weight",
    alpha: float | str = 1.0,
) -> Path:
    """Write a LoRA adapter of rank 1 for the starter model's queries; return its path."""
    chance = random.Random(seed)

    def numbers(count: int) -> bytes:
        return array("f", (chance.gauss(0, strength) for _ in range(count))).tobytes()

    tensors: dict[str, tuple[tuple[int, int], bytes]] = {}
    for number in range(LAYERS):
        name = layer.format(number)
        tensors[f"{name}.lora_a"] = (width, 1), numbers(width)
        tensors[f"{name}.lora_b"] = (1, width), numbers(width)
    header: dict[str, str | float] = {
        "general.type": kind,
        "general.architecture": architecture,
        "adapter.type": "lora",
        "adapter.lora.alpha": alpha,
    }
    path.write_bytes(_gguf(header, tensors))
    return path


def talking(path: Path, template: str) -> Path:
    """Write the starter model with another chat template, no longer than its own; return its path.

    The rest of the place is filled with a comment, so that nothing else moves.
    """
    data = starter().path.read_bytes()
    key = b"tokenizer.chat_template"
    at = data.index(key) + len(key) + 4
    (size,) = struct.unpack_from("<Q", data, at)
    new = template.encode()
    filling = size - len(new)
    assert filling == 0 or filling >= 4, "the template is too long"
    new += b"{#" + b" " * (filling - 4) + b"#}" if filling else b""
    path.write_bytes(data[: at + 8] + new + data[at + 8 + size :])
    return path


def _gguf(
    header: Mapping[str, str | float], tensors: Mapping[str, tuple[tuple[int, int], bytes]]
) -> bytes:
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(header))]
    for key, value in header.items():
        parts.append(_text(key))
        if isinstance(value, str):
            parts.append(struct.pack("<I", _STRING) + _text(value))
        else:
            parts.append(struct.pack("<If", _FLOAT, value))
    offset = 0
    for name, (shape, numbers) in tensors.items():
        parts.append(_text(name) + struct.pack("<IQQIQ", 2, *shape, _F32, offset))
        offset += len(_padded(numbers))
    return _padded(b"".join(parts)) + b"".join(_padded(n) for _, n in tensors.values())


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
