"""GGUF files of real architectures, sizes and quantisation whose weights are chance.

They compute as long as the models they are shaped after, read the starter's words by its chat
template, and say nothing that makes sense. A gigabyte is written in about two seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy
import numpy.typing

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
from baton.gguf.header import BLOCK_SIZES, read_header  # noqa: E402
from baton.workers.local import starter  # noqa: E402
from support.gguf_splitter import typed_values  # noqa: E402
from support.gguf_writer import Tensor, Value, header  # noqa: E402

F32, Q8_0, Q4_K, Q6_K = 0, 8, 12, 14

POOL_BLOCKS = 8192
"""Blocks of chance that a tensor is written from, over and over: speed doesn't depend on them."""


@dataclass(frozen=True)
class Shape:
    """What a model is shaped after; lengths in numbers, `window` in tokens.

    With `experts`, each layer has so many networks of `inside` numbers, `used` of them for a token.
    Where it `is_tied`, words are scored with the numbers that they are read with.
    """

    architecture: str
    like: str
    layers: int
    width: int
    inside: int
    heads: int
    kv_heads: int
    head: int
    experts: int = 0
    used: int = 0
    window: int = 0
    is_tied: bool = False


SHAPES = {
    "1.1b": Shape("llama", "TinyLlama 1.1B", 22, 2048, 5632, 32, 4, 64),
    "3b": Shape("llama", "Llama 3.2 3B", 28, 3072, 8192, 24, 8, 128),
    "window": Shape("gemma3", "Gemma 3 1B", 26, 1152, 6912, 4, 1, 256, window=512, is_tied=True),
    "experts": Shape(
        "qwen3moe",
        "Granite 3.1 1B-A400M",
        24,
        1024,
        512,
        16,
        8,
        64,
        experts=32,
        used=8,
        is_tied=True,
    ),
    "8b": Shape("llama", "Llama 3.1 8B", 32, 4096, 14336, 32, 8, 128),
}
CONTEXT = 32_768


def write_model(name: str, folder: Path) -> Path:
    """Write the model of that name, unless it is there already, and return its file."""
    shape, file = SHAPES[name], folder / f"{name}.gguf"
    if file.exists():
        return file
    data = starter().path.read_bytes()
    words = {key: value for key, value in typed_values(data) if key.startswith("tokenizer.")}
    tensors = list(_tensors(shape, read_header(BytesIO(data).read, len(data)).vocabulary))
    part, pools = file.with_suffix(".part"), dict[int, bytes]()
    with part.open("wb") as out:
        out.write(header({**_keys(name, shape), **words}, tensors))
        for tensor in tensors:
            _write_tensor(out, tensor, pools)
    part.rename(file)
    return file


def _keys(name: str, shape: Shape) -> dict[str, Value]:
    keys: dict[str, Value] = {
        "block_count": shape.layers,
        "context_length": CONTEXT,
        "embedding_length": shape.width,
        "feed_forward_length": shape.inside,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head,
        "attention.value_length": shape.head,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": shape.head,
        "rope.freq_base": 500_000.0,
    }
    if shape.window:
        keys["attention.sliding_window"] = shape.window
    if shape.experts:
        keys["expert_count"], keys["expert_used_count"] = shape.experts, shape.used
        keys["expert_feed_forward_length"] = shape.inside
    general = {"general.architecture": shape.architecture, "general.name": f"random {name}"}
    return {**general, **{f"{shape.architecture}.{key}": value for key, value in keys.items()}}


def _tensors(shape: Shape, words: int) -> Iterator[Tensor]:
    """Yield a model's tensors; as llama.cpp's Q4_K_M, those that matter most have 6 bits."""
    width, q, kv = shape.width, shape.heads * shape.head, shape.kv_heads * shape.head
    yield Tensor("token_embd.weight", (width, words), Q6_K if width % 256 == 0 else Q8_0)
    yield Tensor("output_norm.weight", (width,), F32)
    if not shape.is_tied:
        yield Tensor("output.weight", (width, words), Q6_K)
    for at in range(shape.layers):
        share = shape.layers // 8
        is_fine = at < share or at >= 7 * share or (at - share) % 3 == 2
        fine = Q6_K if is_fine else Q4_K
        parts: dict[str, tuple[tuple[int, ...], int]] = {
            "attn_norm": ((width,), F32),
            "ffn_norm": ((width,), F32),
            "attn_q": ((width, q), Q4_K),
            "attn_k": ((width, kv), Q4_K),
            "attn_v": ((width, kv), fine),
            "attn_output": ((q, width), Q4_K),
        }
        if shape.architecture != "llama":
            parts |= {f"attn_{side}_norm": ((shape.head,), F32) for side in "qk"}
        if shape.architecture == "gemma3":
            parts |= {f"post_{part}_norm": ((width,), F32) for part in ("attention", "ffw")}
        if shape.experts:
            up = (width, shape.inside, shape.experts)
            parts["ffn_gate_inp"] = ((width, shape.experts), F32)
            parts |= {f"ffn_{part}_exps": (up, Q4_K) for part in ("gate", "up")}
            parts["ffn_down_exps"] = ((shape.inside, width, shape.experts), fine)
        else:
            parts |= {f"ffn_{part}": ((width, shape.inside), Q4_K) for part in ("gate", "up")}
            parts["ffn_down"] = ((shape.inside, width), fine)
        for name, (lengths, kind) in parts.items():
            if lengths[0] % BLOCK_SIZES[kind][0]:
                kind = Q8_0  # as llama.cpp does with rows that blocks of 256 don't divide
            yield Tensor(f"blk.{at}.{name}.weight", lengths, kind)


def _write_tensor(out: BinaryIO, tensor: Tensor, pools: dict[int, bytes]) -> None:
    if tensor.type == F32:
        row = numpy.ones(tensor.size // 4, numpy.float32)
        if len(tensor.shape) > 1:  # which experts a token goes to
            row = numpy.random.default_rng(0).normal(0, 0.05, row.size).astype(numpy.float32)
        data = row.tobytes()
    else:
        pool = pools.setdefault(tensor.type, _pool(tensor.type))
        whole, rest = divmod(tensor.size, len(pool))
        for _ in range(whole):
            out.write(pool)
        data = pool[:rest]
    out.write(data)
    out.write(bytes(-tensor.size % 32))


def _pool(kind: int) -> bytes:
    """Return blocks of a type whose numbers are spread evenly about 0, no further off than 0.05."""
    size = BLOCK_SIZES[kind][1]
    chance = numpy.random.default_rng(kind)
    blocks = chance.integers(0, 256, (POOL_BLOCKS, size), numpy.uint8)

    def scale(value: float) -> numpy.typing.NDArray[numpy.uint8]:
        return numpy.frombuffer(numpy.float16(value).tobytes(), numpy.uint8)

    if kind == Q8_0:  # a scale, then 32 numbers of 8 bits
        blocks[:, :2] = scale(0.05 / 128)
    elif kind == Q6_K:  # 256 numbers of 6 bits, then 16 scales, then theirs
        blocks[:, 192:208], blocks[:, 208:] = 16, scale(0.05 / 32 / 16)
    else:  # Q4_K: a scale, that of what is taken off, both for 8 parts, then 256 numbers of 4 bits
        blocks[:, :2], blocks[:, 2:4] = scale(0.05 / 8 / 33), scale(0.05 * 7.5 / 8 / 33)
        blocks[:, 4:16] = numpy.frombuffer(bytes([33] * 12), numpy.uint8)
    return blocks.tobytes()
