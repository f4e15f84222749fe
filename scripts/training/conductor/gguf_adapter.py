"""Writes a LoRA adapter as GGUF, for llama.cpp, and reads one, to train it further.

llama.cpp's Llama models rotate pairs of neighbours where transformers rotates halves, so that its
files hold the query and key matrices with permuted rows. `lora_b` of those two has to be permuted
in the same way; left out, the adapter looks plausible and is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gguf

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
ARCHITECTURES = {"qwen3_5_text": "qwen35"}
"""What llama.cpp calls an architecture, where transformers calls it otherwise."""
PERMUTED = {"llama"}
"""Architectures whose query and key rows llama.cpp reorders: Qwen's files have them as they are."""

BASE_HASH = "baton.conductor.base_sha256"
FORMAT = "baton.conductor.format"


def write_adapter(
    path: Path,
    state: Mapping[str, Any],
    config: Any,
    alpha: float,
    base: Path | None,
    note: Mapping[str, str],
) -> None:
    """Write an adapter's tensors (as `lora.state` names them). `config` is the base model's.

    Of a model for pictures too, that of its language model counts.

    The SHA-256 of the base's GGUF file, where there is one, is written along, so that the product
    refuses another one.
    """
    config = config.get_text_config()
    architecture = ARCHITECTURES.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    if base is not None:
        writer.add_string(BASE_HASH, sha256(base))
    for key, value in note.items():
        writer.add_string(key, value)
    for name, tensor in sorted(state.items()):
        layer, module, part = _parts(name)
        values = tensor.float().numpy()
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        if part == "b" and module in heads and architecture in PERMUTED:
            values = permute_rows(values, heads[module])
        writer.add_tensor(f"blk.{layer}.{module}.weight.lora_{part}", values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_adapter(path: Path, names: Iterable[str], config: Any) -> dict[str, np.ndarray]:
    """Return the tensors of these names (as `lora.state` has them) that `write_adapter` wrote.

    Raises KeyError for another model's adapter.
    """
    config = config.get_text_config()
    there = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    state = {}
    for name in names:
        layer, module, part = _parts(name)
        values = there[f"blk.{layer}.{module}.weight.lora_{part}"].astype(np.float32)
        if part == "b" and module in heads and config.model_type in PERMUTED:
            values = unpermute_rows(values, heads[module])
        state[name] = values
    return state


def _parts(name: str) -> tuple[int, str, str]:
    """Return layer, llama.cpp's name of the matrix, and which of the two factors a tensor is."""
    layer, _, rest = name.partition(".layers.")[2].partition(".")
    module, _, part = rest.rpartition(".")
    return int(layer), NAMES[module], part


def permute_rows(rows: np.ndarray, heads: int) -> np.ndarray:
    """Return rows in llama.cpp's order: of each head the two halves interleaved."""
    count, width = rows.shape
    return rows.reshape(heads, 2, count // heads // 2, width).swapaxes(1, 2).reshape(count, width)


def unpermute_rows(rows: np.ndarray, heads: int) -> np.ndarray:
    """Return rows as they were before `permute_rows`."""
    count, width = rows.shape
    return rows.reshape(heads, count // heads // 2, 2, width).swapaxes(1, 2).reshape(count, width)


def sha256(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
