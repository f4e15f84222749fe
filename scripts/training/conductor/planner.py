"""The conductor as the product runs it: llama.cpp, the base model and the adapter, greedy."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy  # noqa: F401 - before pint, which keeps it out of the tools' process
from plan_format import plan_grammar
from prompt_context import PromptContext

from baton.core.plan_types import KINDS
from baton.core.planning import request_parts
from baton.core.planning.plan_lines import is_repeating
from baton.core.sampling_settings import Sampling
from baton.workers.local.child import llama
from baton.workers.local.child.llama_loader import c
from baton.workers.tools.computation.marked_text import mark
from baton.workers.tools.messages import MarkedText

PROMPT = "Task: {prompt}\nPlan:\n"
MAX_TOKENS = 160
MAX_CONTEXT = 2048


@dataclass(frozen=True)
class WrittenPlan:
    """A plan as it was written, and how long that took."""

    prompt: str
    request: MarkedText
    text: str
    seconds: float
    confidence: float
    spreads: tuple[tuple[float, ...], ...] = ()
    """How likely each difficulty from 1 to 5 is, for each part that no tool does."""
    lines: tuple[float, ...] = ()
    """The mean log-probability of each line's tokens."""

    @property
    def plan(self) -> request_parts.WrittenPlan:
        """The same as the product's engine takes it."""
        return request_parts.WrittenPlan(self.text, self.confidence, self.lines)


class Planner:
    """Writes plans with one model; `adapter` None is the base alone."""

    def __init__(
        self, base: Path, adapter: Path | None, threads: int = 2, grammar: bool = False
    ) -> None:
        llama.start(lambda _: None)
        self._model = llama.Model(base)
        self._context = PromptContext(self._model, MAX_CONTEXT, threads, lambda: False)
        if adapter is not None:
            self._context.set_adapter(self._model.adapter(adapter), 1.0)
        self._grammar = grammar
        self._numbers = [self._model.tokenise(str(n), special=False)[-1] for n in range(1, 6)]

    def plan(self, prompt: str, grammar: bool = False) -> WrittenPlan:
        """Return the plan for a request; with a `grammar` it can be nothing else."""
        start = time.perf_counter()
        request = mark(prompt)
        tokens = self._model.tokenise(PROMPT.format(prompt=request.text), special=False)
        pieces: list[bytes] = []
        spreads: list[tuple[float, ...]] = []
        with contextlib.closing(
            self._model.sampler(
                Sampling(temperature=0.0),
                plan_grammar() if grammar or self._grammar else None,
                MAX_TOKENS,
            )
        ) as sampler:
            self._context.read(tokens, lambda *_: None)
            with contextlib.closing(self._context.write(sampler)) as new:
                for token in new:
                    written = b"".join(pieces).rpartition(b"\n")[2].decode("utf-8", "replace")
                    if written in KINDS:  # this token is its difficulty
                        spreads.append(self._digits())
                    pieces.append(self._model.piece(token))
                    if b"\n" in pieces[-1]:
                        sampler.confidence.end_line()
                    text = b"".join(pieces).decode("utf-8", "replace")
                    if len(pieces) >= MAX_TOKENS or is_repeating(text):
                        break
            confidence = sampler.confidence.mean or 0.0
            lines = tuple(sampler.confidence.lines)
        text = b"".join(pieces).decode("utf-8", "replace")
        seconds = time.perf_counter() - start
        return WrittenPlan(prompt, request, text, seconds, confidence, tuple(spreads), lines)

    def _digits(self) -> tuple[float, ...]:
        """Return how likely the digits from 1 to 5 are, among themselves, as the next token."""
        logits = c.llama_get_logits_ith(self._context.native, -1)
        weights = [math.exp(logits[token] - logits[self._numbers[0]]) for token in self._numbers]
        return tuple(weight / sum(weights) for weight in weights)
