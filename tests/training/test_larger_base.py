"""An adapter is trained on bases of other architectures, and llama.cpp computes the same with it.

The bases are small and random, so that no weights have to be there: what is looked at is whether
names, shapes and the order of rows are right for each architecture.
"""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs scripts/training/requirements.lock")
pytest.importorskip("gguf.constants", reason="needs scripts/training/requirements.lock")

import learner
import lora
import numpy as np
import torch
import train
from gguf_adapter import BASE_HASH, sha256
from prompt_context import PromptContext

from baton.workers.local.child import llama
from baton.workers.local.child.llama_loader import c
from training import random_base

pytestmark = [pytest.mark.training, pytest.mark.filterwarnings("default")]

PROMPTS = ("what is 17*23", "42 km en miles", "write a poem about rain, and convert 3 lb to kg")
STEPS_LOGGED = 2


@dataclass(frozen=True)
class TrainingRun:
    """A base, a training run on it, and both of them in both frameworks."""

    architecture: str
    base: Path
    out: Path


@pytest.fixture(scope="module", params=random_base.ARCHITECTURES)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> TrainingRun:
    folder = tmp_path_factory.mktemp(request.param)
    random_base.write(folder, request.param)
    out = folder / "run"
    arguments = ["train.py", "--base", str(folder), "--out", str(out), "--rate", "8"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [*arguments, "--examples", "200", "--threads", "1"])
        patch.setattr(train, "POOL", 64)
        patch.setattr(train, "TOKENS_IN_BATCH", 250)
        train.main()
    return TrainingRun(request.param, folder, out)


def in_transformers(trained: TrainingRun, texts: list[str], adapted: bool) -> list[Any]:
    """Return each text's tokens and logits (tokens, vocabulary), in single precision."""
    model, tokenizer = learner.load_base(trained.base)
    model.float()
    if adapted:
        adapter = lora.put_on(model, 0)
        saved = torch.load(trained.out / "checkpoint.pt", weights_only=False)
        # What is written for llama.cpp is in half precision.
        lora.take(adapter, {name: part.half() for name, part in saved["adapter"].items()})
    tokens = [tokenizer.encode(text) for text in texts]
    with torch.inference_mode():
        return [(row, model(torch.tensor([row])).logits[0].numpy()) for row in tokens]


def in_llama(trained: TrainingRun, texts: list[str], adapted: bool) -> list[Any]:
    """Return the same as llama.cpp computes it."""
    llama.start(lambda _: None)
    model = llama.Model(trained.base / "base.gguf")
    context = PromptContext(model, 512, 1, lambda: False)
    if adapted:
        adapter = model.adapter(trained.out / "adapter.gguf")
        assert adapter
        assert model.adapter_metadata(adapter, BASE_HASH) == sha256(trained.base / "base.gguf")
        context.set_adapter(adapter, 1.0)
    found = []
    for text in texts:
        tokens = model.tokenise(text, special=False)
        found.append(
            (tokens, np.stack([_last(context, model, tokens[: n + 1]) for n in range(len(tokens))]))
        )
    return found


def _last(context: Any, model: Any, tokens: list[int]) -> Any:
    """Return the logits after these tokens."""
    context.read(tokens, lambda *_: None)
    row = c.llama_get_logits_ith(context.native, -1)
    return np.array(ctypes.cast(row, ctypes.POINTER(ctypes.c_float * model.vocabulary))[0])


def correlation(one: Any, other: Any) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def test_llama_computes_with_the_adapter_what_transformers_does(trained: TrainingRun) -> None:
    texts = [learner.PROMPT.format(prompt=prompt) for prompt in PROMPTS]
    ours = [in_transformers(trained, texts, adapted) for adapted in (False, True)]
    theirs = [in_llama(trained, texts, adapted) for adapted in (False, True)]
    same = positions = 0
    for plain, adapted, its_plain, its_adapted in zip(*ours, *theirs, strict=True):
        assert plain[0] == its_plain[0]
        assert correlation(plain[1], its_plain[1]) > 0.999
        assert correlation(adapted[1], its_adapted[1]) > 0.999
        # The adapter's own part: with rows in a wrong order, both above may still be alike.
        assert correlation(adapted[1] - plain[1], its_adapted[1] - its_plain[1]) > 0.995
        assert np.abs(adapted[1] - plain[1]).mean() > 0.1
        same += int((adapted[1].argmax(-1) == its_adapted[1].argmax(-1)).sum())
        positions += len(adapted[0])
    assert same / positions > 0.97


def test_every_layer_but_the_first_has_an_adapter_where_it_has_attention(
    trained: TrainingRun,
) -> None:
    saved = torch.load(trained.out / "checkpoint.pt", weights_only=False)["adapter"]
    attention = {name.split(".")[2] for name in saved if "self_attn" in name}
    feed_forward = {name.split(".")[2] for name in saved if "mlp" in name}
    is_mixed = trained.architecture == "qwen35"
    assert attention == ({"1", "3"} if is_mixed else {"0", "1"})
    assert feed_forward == ({"0", "1", "2", "3"} if is_mixed else {"0", "1"})
    assert all(part.abs().max() > 0 for part in saved.values())


def test_the_loss_falls_and_is_drawn(trained: TrainingRun) -> None:
    log = [json.loads(line) for line in (trained.out / "log.jsonl").read_text("utf-8").splitlines()]
    assert len(log) >= STEPS_LOGGED
    assert log[-1]["loss"] < log[0]["loss"]
    assert (trained.out / "curve.svg").read_text("utf-8").startswith("<svg")
