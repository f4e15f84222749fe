"""An adapter that is read from its GGUF file is the one that was written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("gguf.constants", reason="only scripts/train_conductor installs gguf")

import gguf_adapter


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_what_is_written_is_read(tmp_path: Path, architecture: str) -> None:
    config = SimpleNamespace(model_type=architecture, num_attention_heads=3, num_key_value_heads=1)
    config.get_text_config = lambda: config
    rng = np.random.default_rng(1)
    state = {
        f"model.layers.6.{module}.{factor}": rng.normal(size=size).astype(np.float16)
        for module, rows in (("self_attn.q_proj", 24), ("self_attn.k_proj", 8), ("mlp.up_proj", 9))
        for factor, size in (("a", (4, 24)), ("b", (rows, 4)))
    }
    path = tmp_path / "adapter.gguf"
    gguf_adapter.write_adapter(path, {k: Tensor(v) for k, v in state.items()}, config, 32, None, {})
    found = gguf_adapter.read_adapter(path, state, config)
    assert found.keys() == state.keys()
    assert all(np.array_equal(found[name], values) for name, values in state.items())


class Tensor:
    """What the writer asks of a tensor of torch."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def float(self) -> Tensor:
        return Tensor(self._values.astype(np.float32))

    def numpy(self) -> np.ndarray:
        return self._values
