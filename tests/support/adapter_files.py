"""Model files for tests: LoRA adapters made of chance, and the starter model with other words."""

from __future__ import annotations

import struct
from pathlib import Path

from baton.workers.local import starter
from support.gguf_writer import Tensor, Value, whole

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
    layers: int = LAYERS,
    alpha: float | str = 1.0,
    prompt: str = "",
    base: str = "",
) -> Path:
    """Write a LoRA adapter of rank 1, for the starter model's queries by default; return its path.

    `prompt` is the form of its prompt, unless that is a chat; `base` the SHA-256 of the only model
    that it is for.
    """
    tensors = []
    for number in range(layers):
        name = layer.format(number)
        tensors += [Tensor(f"{name}.lora_a", (width, 1)), Tensor(f"{name}.lora_b", (1, width))]
    keys: dict[str, Value] = {
        "general.type": kind,
        "general.architecture": architecture,
        "adapter.type": "lora",
        "adapter.lora.alpha": alpha,
    }
    if prompt:
        keys["baton.conductor.prompt"] = prompt
    if base:
        keys["baton.conductor.base_sha256"] = base
    path.write_bytes(whole(keys, tensors, seed, strength))
    return path


def write_with_template(path: Path, template: str) -> Path:
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
