"""Tiny models with weights by chance, which llama.cpp loads like real ones of their kind."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from baton.core.messages import Card
from baton.workers.local import LocalWorker
from baton.workers.local.child.llama_loader import c
from baton.workers.local.child.model_context import Context
from support.adapter_files import adapter
from support.gguf_writer import Tensor, Value, facts, vocabulary, whole
from support.local_worker_calls import local_worker

WIDTH, WORDS, INSIDE, HEAD = 64, 300, 128, 32
FIRST_WORD = 259
"""The first token that is more than a byte."""

HEADS, KV_HEADS, LAYERS, WINDOW = 4, 2, 4, 256

_SSM = {"conv_kernel": 4, "inner_size": 128, "state_size": 32, "time_step_rank": 4}
_OWN: dict[str, dict[str, Value]] = {
    "llama": {"rope.dimension_count": HEAD},
    "gemma3": {"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": 2},
    "qwen35": {
        "rope.dimension_sections": [4, 4, 4, 0],
        "full_attention_interval": 2,
        "ssm.group_count": 2,
        **{f"ssm.{key}": value for key, value in _SSM.items()},
    },
}


def tiny(folder: Path, kind: str, seed: int = 0, template: str = "") -> Path:
    """Write a tiny model of a kind of which every second layer is an ordinary one.

    `template` is its chat template.
    """
    file = folder / f"{kind}.gguf"
    file.write_bytes(_bytes_of(kind, seed, template))
    return file


@cache
def _bytes_of(kind: str, seed: int, template: str) -> bytes:
    usual: dict[str, Value] = {
        "attention.key_length": HEAD,
        "attention.value_length": HEAD,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    keys = facts(kind, block_count=LAYERS, context_length=8192, **usual | _OWN[kind])
    tensors = [Tensor("token_embd.weight", (WIDTH, WORDS)), Tensor("output_norm.weight", (WIDTH,))]
    for at in range(LAYERS):
        recurrent = kind == "qwen35" and at % 2 == 0
        parts = {**_always(kind), **(_recurrent() if recurrent else _attention_shapes(kind))}
        tensors += [Tensor(f"blk.{at}.{name}", shape) for name, shape in parts.items()]
    own: dict[str, Value] = {"tokenizer.chat_template": template} if template else {}
    return whole(keys | vocabulary(WORDS) | own, tensors, seed)


def tiny_worker(folder: Path, **process: Any) -> LocalWorker:
    """Return a worker with a tiny model: a token is a byte, an answer without a form is chance."""
    return local_worker(
        Card("tiny", "local", "Tiny", context=8192), tiny(folder, "llama"), **process
    )


def tiny_adapter(folder: Path) -> Path:
    """Write a LoRA adapter for a tiny model of the kind "llama"."""
    keys = "blk.{}.attn_k.weight"
    return adapter(folder / "chance.gguf", width=WIDTH, layer=keys, layers=LAYERS, strength=30)


def scores(ctx: Context) -> list[float]:
    """Return what a tiny model thinks of each word, after what it has read."""
    found = c.llama_get_logits_ith(ctx.native, -1)[:WORDS]
    assert max(found) - min(found) > 0.03, "or else everything would be alike"
    return list(found)


def _always(kind: str) -> dict[str, tuple[int, ...]]:
    norms = {
        "llama": ("attn_norm", "ffn_norm"),
        "gemma3": ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"),
        "qwen35": ("attn_norm", "post_attention_norm"),
    }
    return {
        **{f"{norm}.weight": (WIDTH,) for norm in norms[kind]},
        "ffn_gate.weight": (WIDTH, INSIDE),
        "ffn_up.weight": (WIDTH, INSIDE),
        "ffn_down.weight": (INSIDE, WIDTH),
    }


def _attention_shapes(kind: str) -> dict[str, tuple[int, ...]]:
    gated = 2 if kind == "qwen35" else 1
    norms = () if kind == "llama" else ("attn_q_norm", "attn_k_norm")
    return {
        "attn_q.weight": (WIDTH, HEADS * HEAD * gated),
        "attn_k.weight": (WIDTH, KV_HEADS * HEAD),
        "attn_v.weight": (WIDTH, KV_HEADS * HEAD),
        "attn_output.weight": (HEADS * HEAD, WIDTH),
        **{f"{norm}.weight": (HEAD,) for norm in norms},
    }


def _recurrent() -> dict[str, tuple[int, ...]]:
    keys, values = 2 * 32, 4 * 32
    return {
        "attn_qkv.weight": (WIDTH, 2 * keys + values),
        "attn_gate.weight": (WIDTH, values),
        "ssm_conv1d.weight": (4, 2 * keys + values),
        "ssm_dt.bias": (4,),
        "ssm_a": (4,),
        "ssm_beta.weight": (WIDTH, 4),
        "ssm_alpha.weight": (WIDTH, 4),
        "ssm_norm.weight": (32,),
        "ssm_out.weight": (values, WIDTH),
    }
