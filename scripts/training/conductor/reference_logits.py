"""Writes what the training framework computes with an adapter, for a test to compare with.

    python scripts/training/conductor/reference_logits.py --run DIR [--base MODEL] > FILE

For each prompt: its tokens, and of every position from the plan on the likeliest token, and the
logits of every 97th of the vocabulary at the last one. DIR is a training run's.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import lora
import torch
from learner import PROMPT, load_base, starter

EVERY = 97
CASES = (
    ("what is 17*23", "calc: 17 * 23"),
    ("wie viele Tage sind es noch bis Weihnachten?", "clock: days(today, christmas)"),
    ("42 km en miles", "units: 42 km -> mi"),
    ("write a poem about rain and translate it to Italian",
     "writing2: write a poem about rain\ntranslation1: translate it to Italian <- 1"),
    ("qual é a capital do Peru?", "knowledge1: *"),
    ("quanto fa 480 - 15%, diviso per 12", "calc: 480 - 15%\ncalc: #1 / 12 <- 1"),
)  # fmt: skip


def main() -> None:
    """Read the arguments, compute and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--base", type=Path, default=starter())
    args = parser.parse_args()
    model, tokenizer = load_base(args.base)
    adapter = lora.put_on(model, 0)
    lora.take(adapter, torch.load(args.run / "checkpoint.pt", weights_only=False)["adapter"])
    with torch.inference_mode():
        print(json.dumps([_case(model, tokenizer, *case) for case in CASES]))


def _case(model: Any, tokenizer: Any, prompt: str, plan: str) -> dict[str, Any]:
    head = tokenizer.encode(PROMPT.format(prompt=prompt))
    tokens = head + tokenizer.encode(plan, add_special_tokens=False)
    logits = model(torch.tensor([tokens])).logits[0].float()
    return {
        "text": PROMPT.format(prompt=prompt) + plan,
        "tokens": tokens,
        "plan_from": len(head) - 1,
        "likeliest": logits[len(head) - 1 :].argmax(-1).tolist(),
        "logits": [round(value, 3) for value in logits[-1, ::EVERY].tolist()],
    }


if __name__ == "__main__":
    main()
