"""How many tokens a step reads and writes, estimated before it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from baton.core.lazy_loading import lazy_pattern
from baton.core.messages import (
    Card,
    Role,
    estimated_tokens,
    head_and_tail,
    max_text_tokens,
    text_with_files,
)
from baton.core.money import BilledTokens
from baton.core.plan_types import FILE, HISTORY, PROMPT, Material, Step, single_step_plan

if TYPE_CHECKING:
    from baton.core.ports import Route

_USUAL_TOKENS = {"calculation": 64, "code": 1200, "writing": 1000, "math": 800, "reasoning": 800}
_DEFAULT_TOKENS = 500
"""Tokens that an answer of a kind has. Of MMLU-Pro and ZeroEval answers: 250 to 900 in the mean."""

_FRAME_TOKENS = 1024 + 128
"""What templates and providers may put around the texts, as in `messages.max_input_tokens`."""

_ROUNDING_TOKENS = 256
"""Sizes are rounded up to this, so that pieces of one document count as equal."""

_MAX_GROWTH = 2
"""An answer may be so many times as long as the longest before it in its conversation."""


class StepTokens(NamedTuple):
    """Tokens that a step likely reads and writes, and the most that it reads."""

    read: int
    written: int
    bound: int


def step_tokens(step: Step, material: Material | None) -> StepTokens:
    """Return the size of a step; without material, the prompt is taken to be a short one."""
    likely, most = estimated_tokens(step.subtask), max_text_tokens(step.subtask)
    for name in step.access:
        read, bound = _visible_tokens(name, material)
        likely, most = likely + read, most + bound
    return StepTokens(
        _rounded_up(likely),
        _USUAL_TOKENS.get(step.need.kind, _DEFAULT_TOKENS),
        _rounded_up(most + _FRAME_TOKENS),
    )


def likely_cost(card: Card, material: Material, route: Route) -> int:
    """Return what a worker's answer to the whole prompt likely costs, in nano-dollars."""
    [step] = single_step_plan(card.id, material.files, route.need).steps
    return likely_step_cost(card, step, material, route.estimate.tokens if route.estimate else 0)


def likely_step_cost(card: Card, step: Step, material: Material, tokens: int = 0) -> int:
    """Return what a worker likely takes for a step of so many `tokens` (0: as is usual for it)."""
    if card.price is None or card.price.is_free:
        return 0
    size = step_tokens(step, material)
    return card.price.cost(BilledTokens(size.read, min(tokens or size.written, card.max_output)))


def step_tokens_p99(step: Step, material: Material, route: Route, answers: bool) -> int:
    """Return how many tokens a step's text has at most in 99 of 100 cases.

    By what the router expects of the prompt, where the step answers that; else by its kind. What
    may raise that: a number of words that is asked for, a text to rework, and the longest answer of
    the conversation so far.
    """
    expected = route.estimate.tokens_p99 if route.estimate is not None and answers else 0
    read = sum(_visible_tokens(name, material)[0] for name in step.access if name != HISTORY)
    usual = usual_tokens_p99(step.need.kind, read)
    if expected > 0 and step.is_direct:
        usual = max(expected, copied_tokens(step.need.kind, read))
    written = [
        estimated_tokens(turn.text) for turn in material.turns if turn.role is Role.ASSISTANT
    ]
    earlier = max(written, default=0) if HISTORY in step.access else 0
    asked = requested_tokens(head_and_tail(material.question if answers else step.subtask))
    return max(usual, expected, asked, _MAX_GROWTH * earlier)


def _visible_tokens(name: str, material: Material | None) -> tuple[int, int]:
    """Return the likely and the largest number of tokens behind a name of an access list."""
    if name.isdecimal():  # the text of an earlier step
        return _DEFAULT_TOKENS, 4 * _DEFAULT_TOKENS
    if material is None:
        return (0, 0) if name == HISTORY else (_ROUNDING_TOKENS, 4 * _ROUNDING_TOKENS)
    if name == PROMPT:
        texts = [material.prompt]
    elif name == HISTORY:
        texts = [text_with_files(turn.text, turn.files) for turn in material.turns[:-1]]
    else:
        texts = [material.file(name)[1]] if name.startswith(FILE) else []
    return sum(map(estimated_tokens, texts)), sum(map(max_text_tokens, texts))


def _rounded_up(tokens: int) -> int:
    return -(-tokens // _ROUNDING_TOKENS) * _ROUNDING_TOKENS


# Answer lengths by task kind, where nothing better is known of a prompt


TOKENS_P99: Mapping[str, int] = {
    "math": 2100, "calculation": 512, "code": 4096, "knowledge": 2048, "reasoning": 3072,
    "writing": 4096, "rewriting": 2048, "summary": 1536, "extraction": 2048, "translation": 2048,
    "planning": 4096, "chat": 2048,
}  # fmt: skip
"""Tokens that 99 of 100 answers of a kind don't exceed.

That of `math` is measured on the router's visible rows (models/router/README.md). No outcomes with
lengths are known of the other kinds beyond multiple choice: theirs are chosen to cut rarely."""

COPIED_SHARE = {"rewriting": 1.5, "translation": 2.0, "extraction": 1.0}
"""Tokens of an answer for each token of the text that it reworks."""


def usual_tokens_p99(kind: str, read: int = 0) -> int:
    """Return how many tokens 99 of 100 answers of a kind don't exceed that rework so many."""
    return max(TOKENS_P99.get(kind, max(TOKENS_P99.values())), copied_tokens(kind, read))


def copied_tokens(kind: str, read: int) -> int:
    """Return how many tokens an answer has that only reworks a text of so many; 0 of some kinds."""
    return round(COPIED_SHARE.get(kind, 0.0) * max(0, read))


_WORD_COUNT = lazy_pattern(
    r"(\d{1,3}(?:[., ]\d{3}){1,2}|\d{1,7})[ -]{0,2}(?:words?|wörter|mots|palabras|parole)\b",
    re.IGNORECASE,
)
_TOKENS_PER_WORD = 2
"""Tokens of a word, at most: English has 1.3 of them, German about 2."""


def requested_tokens(prompt: str) -> int:
    """Return how many tokens a prompt asks for that names a number of words; else 0."""
    found = (int(re.sub(r"\D", "", match[1])) for match in _WORD_COUNT.finditer(prompt))
    return _TOKENS_PER_WORD * max(found, default=0)
