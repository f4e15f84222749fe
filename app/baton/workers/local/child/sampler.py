"""How the next token is chosen, freely or within a grammar."""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import re
import sys
import threading
import time
from array import array
from typing import Any

from baton.core.sampling_settings import Sampling
from baton.workers.local.child.llama_loader import LlamaError, c

REPETITION_TOKENS = 64
"""How many of the latest tokens count as repetition."""

LIKELIEST_TOKENS = 256
"""How many tokens the grammar is asked about first when it refused the one that was chosen.

Asking about all of a vocabulary of 49,000 takes 3 to 10 ms, as long as computing the token.
"""

MAX_GRAMMAR_BYTES = 64 * 1024
MAX_NESTING = 64
"""Bytes, and parentheses within each other: llama.cpp's parser calls itself for each, and
crashes over some thousands."""

MAX_REPETITIONS = 2000
"""How often llama.cpp repeats a part of a grammar. With a greatest count below the least one it
takes all of the memory."""

MAX_ELEMENTS = 100_000
"""What repetitions may add up to, as llama.cpp unrolls them: in 0.1 s, to 25 MB."""

MAX_SECONDS = 5.0
"""How long a grammar may compute for a token: all others wait, and only the process's end stops it.

Where a text can be read in ever more ways, that doubles from token to token; one of 2,000 values
takes up to 2 s in the rare case that no likely token fits."""

_NONE = float("-inf")
_PART = re.compile(
    r'"(?:\\.|[^"\\])*"?|\[(?:\\.|[^\]\\])*\]?|#[^\r\n]*|<[^>]*>?|\{[^}]*\}?|[()*+?]|[\w.-]+',
    re.DOTALL,
)
_COUNTS = re.compile(r"\{\s*([0-9]{1,9})\s*(?:,\s*([0-9]{0,9})\s*)?\}")


class GrammarRefused(LlamaError):
    """A grammar that can't be used."""


FIRST_TOKENS, TOKEN_INTERVAL = 32, 4
"""How sure a model was is worked out for so many tokens, then for each fourth: in a long text more
would take time and add nothing."""


class BrokenModel(LlamaError):
    """The model's file is broken, though it could be loaded."""


class Confidence:
    """How likely a model held the tokens that were chosen, apart from how they were chosen.

    Of the `first` tokens all count. It takes 0.04 to 0.2 ms a token for a vocabulary of 49,000.
    With the starter model's 490 easy questions, its likeliest words taken, the mean separates
    right from wrong answers with an AUC of .70 among questions of a kind (sums .78 to .94, facts
    .86, yes or no .61); for MMLU-Pro with .55, and where words are drawn at a temperature of 0.7
    with .57.
    """

    def __init__(self, vocabulary: int, first: int = FIRST_TOKENS) -> None:
        import numpy

        self._first = first

        self._numpy = numpy
        self._size = vocabulary
        self._row = numpy.empty(vocabulary, numpy.float32)
        self.reset()

    def reset(self) -> None:
        """Start over: what came so far wasn't part of the answer."""
        self._lines: list[list[float]] = [[]]
        self._seen = 0

    @property
    def log_probabilities(self) -> list[float]:
        """Those of the tokens that counted so far."""
        return list(itertools.chain(*self._lines))

    @property
    def mean(self) -> float | None:
        """The mean log-probability of the tokens so far; None if there was none."""
        return _mean(self.log_probabilities) if any(self._lines) else None

    @property
    def least(self) -> float | None:
        """The least log-probability of a token so far; None if there was none."""
        return min(self.log_probabilities, default=None)

    @property
    def first(self) -> float | None:
        """The log-probability of the first token; None if there was none."""
        return next(iter(self.log_probabilities), None)

    @property
    def lines(self) -> list[float]:
        """The same for each line in which there was one."""
        return [_mean(line) for line in self._lines if line]

    def end_line(self) -> None:
        """Take what comes next for another line."""
        self._lines.append([])

    def check_first(self, ctx: Any, place: int) -> None:
        """Raise BrokenModel before the first token where the model's figures aren't numbers."""
        if not self._seen:
            figures = self._numpy.frombuffer(_logits(ctx, place, self._size), self._numpy.float32)
            if self._numpy.isnan(figures).any():
                raise BrokenModel("what it computes aren't numbers")

    def add(self, ctx: Any, place: int, token: int) -> None:
        """Take the token that was chosen after the one at a place of the latest batch."""
        self._seen += 1
        if self._seen > self._first and self._seen % TOKEN_INTERVAL:
            return
        numbers = _logits(ctx, place, self._size)
        figures = self._numpy.frombuffer(numbers, self._numpy.float32)
        highest = figures.max()
        self._numpy.subtract(figures, highest, out=self._row)
        chosen = float(self._row[token])
        self._numpy.exp(self._row, out=self._row)
        log_probability = chosen - math.log(float(self._row.sum()))
        if math.isfinite(log_probability):  # a broken model's figures may be none
            self._lines[-1].append(log_probability)


class Sampler:
    """Chooses tokens; what it chose counts as written. To be closed.

    `confidence` is of all that it chose, the end too.
    """

    def __init__(self, vocabulary: int, how: Sampling, first: int = FIRST_TOKENS) -> None:
        self._chain = _chain(vocabulary, how)
        self.confidence = Confidence(vocabulary, first)

    def next(self, ctx: Any, place: int) -> int:
        """Return what follows the token at a place of a llama.cpp context's latest batch.

        -1 is the last place.
        """
        self.confidence.check_first(ctx, place)
        token: int = c.llama_sampler_sample(self._chain, ctx, place)
        self.confidence.add(ctx, place, token)
        return token

    def close(self) -> None:
        """Let its memory go."""
        c.llama_sampler_free(self._chain)


class _TimeLimit:
    """Ends the process where what is done within it, which may be native code, takes too long."""

    _since = math.inf
    _watching: threading.Thread | None = None

    def __enter__(self) -> None:
        self._since = time.process_time()
        if self._watching is None:
            self._watching = threading.Thread(target=self._watch, daemon=True)
            self._watching.start()

    def __exit__(self, *_: object) -> None:
        self._since = math.inf

    def _watch(self) -> None:
        while time.process_time() - self._since < MAX_SECONDS:
            time.sleep(0.5)
        print("The form of an answer took too long", file=sys.stderr, flush=True)
        os._exit(1)


_time_limit = _TimeLimit()


class GrammarSampler(Sampler):
    """Chooses only what a GBNF grammar allows, the end only where the text is complete.

    As llama.cpp's own programs do: the token is chosen freely first, and again within the grammar
    only where that refuses it. Raises GrammarRefused.
    """

    def __init__(
        self, vocab: Any, vocabulary: int, how: Sampling, grammar: str, first: int = FIRST_TOKENS
    ) -> None:
        source = _checked_grammar(grammar)
        with _time_limit:
            self._grammar = c.llama_sampler_init_grammar(vocab, source, b"root")
        if not self._grammar:
            raise GrammarRefused("llama.cpp can't read its grammar")
        super().__init__(vocabulary, how, first)
        self._likeliest = c.llama_sampler_init_top_k(LIKELIEST_TOKENS)
        self._size = vocabulary
        self._row = (c.llama_token_data * vocabulary)()
        bytes_of_row = memoryview(self._row).cast("B")
        bytes_of_row.cast("i")[0::3] = array("i", range(vocabulary))
        self._logits = bytes_of_row.cast("f")[1::3]
        self._fresh = bytes(self._row)
        self._one = (c.llama_token_data * 1)()

    def next(self, ctx: Any, place: int) -> int:
        """Return the token that follows. Raises GrammarRefused if nothing that it knows may."""
        self.confidence.check_first(ctx, place)
        with _time_limit:
            row = self._candidates(ctx, place)
            token = self._choose(row)
            if not self._allows(token):
                token = self._choose(self._allowed(ctx, place))
            for sampler in (self._grammar, self._chain):
                c.llama_sampler_accept(sampler, token)
        self.confidence.add(ctx, place, token)
        return token

    def close(self) -> None:
        """Let its memory go."""
        super().close()
        c.llama_sampler_free(self._grammar)
        c.llama_sampler_free(self._likeliest)

    def _candidates(self, ctx: Any, place: int) -> Any:
        """Return all tokens with the model's figures for them."""
        ctypes.memmove(self._row, self._fresh, len(self._fresh))
        self._logits[:] = memoryview(_logits(ctx, place, self._size)).cast("B").cast("f")
        return _array(self._row)

    def _allowed(self, ctx: Any, place: int) -> Any:
        """Return the likeliest tokens that the grammar allows, others with no chance."""
        for narrowing in ([self._likeliest], []):
            row = self._candidates(ctx, place)
            for sampler in (*narrowing, self._grammar):
                c.llama_sampler_apply(sampler, ctypes.byref(row))
            row.sorted = False  # those refused are still where they were
            if any(row.data[index].logit != _NONE for index in range(row.size)):
                return row
        raise GrammarRefused("no word that it knows fits the form")

    def _choose(self, row: Any) -> int:
        c.llama_sampler_apply(self._chain, ctypes.byref(row))
        token: int = row.data[row.selected].id
        return token

    def _allows(self, token: int) -> bool:
        self._one[0] = c.llama_token_data(token, 0.0, 0.0)
        c.llama_sampler_apply(self._grammar, ctypes.byref(_array(self._one)))
        return bool(self._one[0].logit != _NONE)


def _mean(numbers: list[float]) -> float:
    """Return the mean; `statistics` takes a tenth of this process's start to import."""
    return math.fsum(numbers) / len(numbers)


def _chain(vocabulary: int, how: Sampling) -> Any:
    """Return a new llama.cpp sampler chain."""
    chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
    links = []
    penalties = (how.repeat_penalty, how.frequency_penalty, how.presence_penalty)
    if penalties != (1.0, 0.0, 0.0):
        greatest = 1 if how.temperature <= 0 else how.top_k
        if greatest > 0 and how.repeat_penalty >= 1 and min(penalties[1:]) >= 0:
            # They only lower what was written lately, so no more can get among the likeliest than
            # that; looking each word of a vocabulary of 49,000 up takes 0.15 ms a token.
            links.append(c.llama_sampler_init_top_k(greatest + REPETITION_TOKENS))
        links.append(c.llama_sampler_init_penalties(vocabulary, REPETITION_TOKENS, *penalties))
    if how.temperature <= 0:
        links.append(c.llama_sampler_init_greedy())
    else:
        seed = c.LLAMA_DEFAULT_SEED if how.seed is None else how.seed & 0xFFFFFFFF
        links += [
            c.llama_sampler_init_top_k(how.top_k),
            c.llama_sampler_init_top_p(how.top_p, 1),
            c.llama_sampler_init_min_p(how.min_p, 1),
            c.llama_sampler_init_temp(how.temperature),
            c.llama_sampler_init_dist(seed),
        ]
    for link in links:
        c.llama_sampler_chain_add(chain, link)
    return chain


def _logits(ctx: Any, place: int, vocabulary: int) -> Any:
    """Return the model's own figures for the next token, where llama.cpp keeps them."""
    first = c.llama_get_logits_ith(ctx, place)
    if not first:
        raise LlamaError("llama.cpp has no figures for the next word")
    return (ctypes.c_float * vocabulary).from_address(ctypes.addressof(first.contents))


def _array(row: Any) -> Any:
    """Return candidates as llama.cpp takes them: in no order, none chosen."""
    return c.llama_token_data_array(ctypes.cast(row, c.llama_token_data_p), len(row), -1, False)


def _checked_grammar(grammar: str) -> bytes:
    """Return a grammar's bytes. Raises GrammarRefused for what llama.cpp would take wrongly."""
    try:
        source = grammar.encode()
    except UnicodeEncodeError as error:
        raise GrammarRefused("its grammar isn't text") from error
    if not source.strip():
        raise GrammarRefused("its grammar is empty")  # and would allow everything
    if b"\0" in source:
        raise GrammarRefused("its grammar isn't text")  # and would end there
    if len(source) > MAX_GRAMMAR_BYTES:
        raise GrammarRefused(f"its grammar has more than {MAX_GRAMMAR_BYTES:,} bytes")
    parts = [part for part in _PART.findall(grammar) if part[0] != "#"]
    depth = deepest = elements = 0
    for before, part in itertools.pairwise(["", *parts]):
        depth += (part == "(") - (part == ")")
        deepest = max(deepest, depth)
        if part[0] == "{":
            elements += _count_repeated(before, part)
    if deepest > MAX_NESTING:
        raise GrammarRefused(f"its grammar nests more than {MAX_NESTING} parentheses")
    if elements > MAX_ELEMENTS:
        raise GrammarRefused(f"its grammar repeats more than {MAX_ELEMENTS:,} elements")
    return source


def _count_repeated(part: str, counts: str) -> int:
    """Return how many elements a part of a grammar becomes by the counts behind it.

    A group is one, as its content has a rule of its own.
    """
    match = _COUNTS.fullmatch(counts)
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not least <= most <= MAX_REPETITIONS or part[:1] in "*+?{":
        what = f"its grammar repeats a part {counts[:20]} times, not up to {MAX_REPETITIONS:,}"
        raise GrammarRefused(what)
    return most * (len(part) if part[0] in '"[' else 1)
