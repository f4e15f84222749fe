"""Trains the small conductor: a LoRA adapter that reads a marked request and writes its plan.

    scripts/train_conductor --out DIR --seed N [--base MODEL] [--examples N] [--minutes M]

MODEL is a GGUF file or a folder in transformers' format (default: the starter model). DIR gets a
checkpoint every few minutes, from which the same command continues, `log.jsonl` with the loss,
`curve.svg` that shows it, and in the end `adapter.gguf`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import history_examples
import learning_curve
import real_texts
import torch
from learner import PROMPT, Learner, starter
from request_generator import Example, Generator
from torch.nn import functional

from baton.core.errors import BatonError
from baton.core.planning.plan_lines import TOOL_HEADS
from baton.platform.paths import find_paths

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


@dataclass(frozen=True)
class EncodedExample:
    """One example's tokens; `weights` is 0 for the prompt.

    `soft` names, by place, the tokens that may stand there and each one's share of the target.
    """

    tokens: tuple[int, ...]
    weights: tuple[float, ...]
    soft: Mapping[int, Mapping[int, float]] = field(default_factory=dict)


Piece = tuple[str, float]
"""A piece of a plan's line, and what its tokens count for."""


def pieces(line: str) -> list[Piece]:
    """Return a plan line's pieces: head and first letter, which isn't copied; body; inputs."""
    head, _, body = line.partition(": ")
    is_text = head not in TOOL_HEADS and body != "*"
    text, arrow, inputs = body.partition(" <- ")
    after = f" <- {inputs}" if arrow else ""
    counts = COPIED_WEIGHT if is_text else 1.0
    return [(f"{head}: {text[:1]}", 1.0), (text[1:], counts), (after, 1.0)]


def encode(tokenizer: Any, prompt: str, lines: Sequence[Sequence[Piece]]) -> EncodedExample:
    """Return the tokens of a prompt, of the plan's lines behind it, and of their end."""
    read = tokenizer.encode(prompt)
    tokens, weights = list(read), [0.0] * len(read)
    for number, line in enumerate(lines):
        line = [*line, ("\n" if number < len(lines) - 1 else "", 1.0)]
        of_character = [weight for piece, weight in line for _ in piece]
        encoded = tokenizer(
            "".join(piece for piece, _ in line),
            return_offsets_mapping=True,
            add_special_tokens=False,
        )
        tokens += encoded["input_ids"]
        weights += [of_character[start] for start, _ in encoded["offset_mapping"]]
    return EncodedExample((*tokens, tokenizer.eos_token_id), (*weights, 1.0))


def encode_example(tokenizer: Any, example: Example) -> EncodedExample:
    """Return an example's tokens and what each counts for."""
    lines = [pieces(line) for line in example.plan]
    return encode(tokenizer, PROMPT.format(prompt=example.prompt), lines)


def batches(
    examples: Iterator[EncodedExample], rng: random.Random
) -> Iterator[list[EncodedExample]]:
    """Yield batches of examples of about the same length."""
    while True:
        pool = [next(examples) for _ in range(POOL)]
        pool = sorted((e for e in pool if len(e.tokens) <= LONGEST), key=lambda e: len(e.tokens))
        cut: list[list[EncodedExample]] = [[]]
        for encoded in pool:
            if (len(cut[-1]) + 1) * len(encoded.tokens) > TOKENS_IN_BATCH and cut[-1]:
                cut.append([])
            cut[-1].append(encoded)
        rng.shuffle(cut)
        yield from cut


def loss_of(model: Any, batch: Sequence[EncodedExample]) -> tuple[torch.Tensor, float]:
    """Return the weighted cross entropy of a batch's plans, and the weight it was divided by."""
    longest = max(len(e.tokens) for e in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.long)
    weights = torch.zeros(len(batch), longest)
    for row, e in enumerate(batch):
        tokens[row, : len(e.tokens)] = torch.tensor(e.tokens)
        weights[row, : len(e.tokens)] = torch.tensor(e.weights)
    tokens, weights = tokens.to(model.device), weights.to(model.device)
    # Padding stands at the end, so that causal attention alone keeps it out.
    hidden = model.model(tokens).last_hidden_state[:, :-1]
    wanted = weights[:, 1:] > 0
    logits = model.lm_head(hidden[wanted])
    losses = functional.cross_entropy(logits.float(), tokens[:, 1:][wanted], reduction="none")
    for row, e in enumerate(batch):
        for place, shares in e.soft.items():
            at = int(wanted.view(-1)[: row * (longest - 1) + place].sum()) - 1
            share = torch.tensor(list(shares.values()), device=logits.device)
            chances = functional.log_softmax(logits[at].float(), -1)[list(shares)]
            losses[at] = -(share * chances).sum()
    total = weights[:, 1:][wanted]
    return (losses * total).sum() / total.sum(), float(total.sum())


class Training:
    """A run in a folder: continues from its checkpoint, and draws the same with the same seed."""

    def __init__(self, args: argparse.Namespace, own: Sequence[Example] = ()) -> None:
        args.out.mkdir(parents=True, exist_ok=True)
        self._args = args
        self._learner = Learner(args.base, args.seed, args.threads)
        real = real_texts.read_texts(args.data) if args.data else ()
        self._generator = Generator(args.seed, everything=args.everything, real=real, own=own)
        self._rng = random.Random(args.seed)
        self._done = self._seen = self._step = 0
        self._spent = 0.0
        self._checkpoint, self._stable = args.out / "checkpoint.pt", args.out / "stable.pt"
        if self._checkpoint.is_file():
            self._take(self._learner.resume(self._checkpoint))
        elif args.start:
            self._learner.begin(args.start)
        self._start = time.monotonic()

    def _take(self, saved: dict[str, Any]) -> None:
        self._generator.state = saved["generator"]
        self._rng.setstate(saved["rng"])
        self._done, self._seen, self._step = saved["done"], saved["seen"], saved["step"]
        self._spent = saved["spent"]

    @property
    def _seconds(self) -> float:
        return self._spent + time.monotonic() - self._start

    def _save(self, path: Path) -> None:
        self._learner.save(
            path,
            generator=self._generator.state,
            rng=self._rng.getstate(),
            done=self._done,
            seen=self._seen,
            step=self._step,
            spent=self._seconds,
        )

    def run(self) -> None:
        """Train until the examples or the minutes are used up."""
        args = self._args
        saved_at = time.monotonic()
        average = 0.0
        with (args.out / "log.jsonl").open("a") as log:
            examples = (encode_example(self._learner.tokenizer, e) for e in self._generator)
            for batch in batches(examples, self._rng):
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
                    learning_curve.write(args.out / "log.jsonl")
                    saved_at = time.monotonic()
        self._save(self._checkpoint)
        learning_curve.write(args.out / "log.jsonl")
        self._learner.export(args.out / "adapter.gguf")

    def _line(self, loss: float) -> dict[str, float]:
        return {
            "step": self._step,
            "examples": self._done,
            "tokens": self._seen,
            "loss": round(loss, 4),
            "seconds": round(self._seconds, 1),
        }

    def _learn(self, batch: Sequence[EncodedExample], share: float) -> float:
        """Take one step; return the loss before it."""
        rate = min(1, share / WARM_UP + 0.02, (1 - share) / DECAY)
        loss, _ = loss_of(self._learner.model, batch)
        loss.backward()
        self._learner.step(rate * self._args.rate)
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
    parser.add_argument(
        "--from-history",
        type=Path,
        nargs="?",
        const=find_paths().database,
        metavar="FILE",
        help="learn from your own runs that you marked good, too (default: Baton's history)",
    )
    args = parser.parse_args()
    try:
        own = history_examples.read_examples(args.from_history) if args.from_history else ()
    except BatonError as error:
        sys.exit(str(error))
    if own:
        print(f"Learning from {len(own)} of your own requests as well.", flush=True)
    Training(args, own).run()


if __name__ == "__main__":
    main()
