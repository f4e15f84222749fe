"""Tiny model files, and a catalogue of them, for the commands that deal with models."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from baton.models.ports import ModelRecord
from baton.models.store import FolderModelStore
from baton.models.store.model_store import file_stamp
from baton.platform.paths import find_paths
from support.command_line import CallResult
from support.gguf_writer import Tensor, Value, facts, header, vocabulary

WIDTH, WORDS, INSIDE, HEAD = 64, 261, 32, 32

_SMALL = bytes(byte & 0xBF for byte in range(256))
"""Bytes without the exponent's highest bit, so that all that they stand for are numbers."""


def tiny(size: int = 50_000, seed: int = 1, name: str = "Tiny", layers: int = 2) -> bytes:
    """Return a GGUF file of exactly so many bytes that writes; its weights are noise."""
    keys: dict[str, Value] = {
        **facts(block_count=layers, context_length=2048, attention__head_count=2),
        "llama.attention.head_count_kv": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "llama.feed_forward_length": INSIDE,
        "llama.rope.dimension_count": HEAD,
        "general.name": name,
        "general.license": "apache-2.0",
        **vocabulary(WORDS),
    }
    begun = header(keys, _weights(layers))
    return begun + random.Random(seed).randbytes(size - len(begun)).translate(_SMALL)


def _weights(layers: int) -> list[Tensor]:
    shapes = {"token_embd": (WIDTH, WORDS), "output_norm": (WIDTH,)}
    for at in range(layers):
        parts = {
            **dict.fromkeys(("attn_norm", "ffn_norm"), (WIDTH,)),
            **dict.fromkeys(("attn_q", "attn_output"), (WIDTH, WIDTH)),
            **dict.fromkeys(("attn_k", "attn_v"), (WIDTH, HEAD)),
            **dict.fromkeys(("ffn_gate", "ffn_up"), (WIDTH, INSIDE)),
            "ffn_down": (INSIDE, WIDTH),
        }
        shapes |= {f"blk.{at}.{part}": shape for part, shape in parts.items()}
    four_bits = 2
    return [
        Tensor(f"{name}.weight", shape, four_bits if len(shape) > 1 else 0)
        for name, shape in shapes.items()
    ]


def catalogue_entry(
    id: str,
    data: bytes,
    *,
    repo: str = "maker/models",
    revision: str = "",
    licence: str = "apache-2.0",
    roles: Sequence[str] = ("chat",),
    claimed: bytes | None = None,
    parameters: int = 1_000_000,
    kv_bytes: int = 256,
    pinned: bool = True,
) -> str:
    """Return an entry of a catalogue; `claimed` is the content that it speaks of."""
    known = ""
    if pinned:
        claim = data if claimed is None else claimed
        known = (
            f"size = {len(claim)}\n"
            f'sha256 = "{hashlib.sha256(claim).hexdigest()}"\n'
            f'revision = "{revision}"\n'
        )
    return (
        f'[[model]]\nid = "{id}"\nname = "{id.title()}"\nrepo = "{repo}"\nfile = "{id}.gguf"\n'
        f'licence = "{licence}"\nparameters = {parameters}\ncontext = 2048\n'
        f"kv_bytes = {kv_bytes}\nroles = {json.dumps(list(roles))}\n"
        f'scores = [["HumanEval", 12.5, "its maker"]]\nskills = {{ code = 2.5 }}\n{known}\n'
    )


def keep_catalogue(*entries: str) -> Path:
    """Put entries beside the settings, where the user's own models are."""
    file = find_paths().config / "catalogue.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(entries))
    return file


def stock(id: str, data: bytes, file: str = "") -> Path:
    """Put a model on the store as if it had been fetched and verified; return its file."""
    store = FolderModelStore(find_paths().models)
    record = ModelRecord(
        id,
        id.title(),
        file or f"{id}.gguf",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    path = store.save(record).path
    path.write_bytes(data)
    store.save(replace(record, stamp=file_stamp(path)))
    return path


def models(done: CallResult) -> dict[str, dict[str, Any]]:
    """Return what `ls --json` printed, by id."""
    return {one["id"]: one for one in json.loads(done.out)["models"]}
