"""How much a step reads and writes, guessed before it is played."""

from __future__ import annotations

from typing import NamedTuple

from baton.core.messages import Card, Role, about_tokens, text_bound, with_files
from baton.core.plan.kind_lengths import asked_tokens, copied_tokens, usual_tokens_p99
from baton.core.plan.plan import FILE, HISTORY, PROMPT, Material, Step, single
from baton.core.ports import Route
from baton.core.prices import Used

_WRITTEN = {"calculation": 64, "code": 1200, "writing": 1000, "math": 800, "reasoning": 800}
_ELSE = 500
"""Tokens that an answer of a kind has. Of MMLU-Pro and ZeroEval answers: 250 to 900 in the mean."""

_FRAME = 1024 + 128
"""What templates and providers may put around the texts, as `chat.input_bound` counts it."""

_STEP = 256
"""Sizes are rounded up to this, so that pieces of one document count as equal."""

_LONGER = 2
"""An answer may be so many times as long as the longest before it in its conversation."""


class Size(NamedTuple):
    """In tokens: what is likely read and written, and what is read at most."""

    read: int
    written: int
    bound: int


def step_size(step: Step, material: Material | None) -> Size:
    """Return the size of a step; without material, the prompt is taken to be a short one."""
    likely, most = about_tokens(step.subtask), text_bound(step.subtask)
    for name in step.access:
        read, bound = _visible(name, material)
        likely, most = likely + read, most + bound
    return Size(_up(likely), _WRITTEN.get(step.need.kind, _ELSE), _up(most + _FRAME))


def likely_cost(card: Card, material: Material, route: Route) -> int:
    """Return what a worker's answer to the whole prompt likely costs, in nano-dollars."""
    if card.price is None or card.price.is_free:
        return 0
    [step] = single(card.id, material.files, route.need).steps
    size = step_size(step, material)
    written = (route.estimate.tokens if route.estimate else 0) or size.written
    return card.price.cost(Used(size.read, min(written, card.max_output)))


def tokens_p99(step: Step, material: Material, route: Route, answers: bool) -> int:
    """Return how many tokens a step's text has at most in 99 of 100 cases.

    By what the router expects of the prompt, where the step answers that; else by its kind. What
    may raise that: a number of words that is asked for, a text to rework, and the longest answer of
    the conversation so far.
    """
    expected = route.estimate.tokens_p99 if route.estimate is not None and answers else 0
    read = sum(_visible(name, material)[0] for name in step.access if name != HISTORY)
    usual = usual_tokens_p99(step.need.kind, read)
    if expected > 0 and step.is_direct:
        usual = max(expected, copied_tokens(step.need.kind, read))
    written = [about_tokens(turn.text) for turn in material.turns if turn.role is Role.ASSISTANT]
    earlier = max(written, default=0) if HISTORY in step.access else 0
    asked = asked_tokens(material.prompt if answers else step.subtask)
    return max(usual, expected, asked, _LONGER * earlier)


def _visible(name: str, material: Material | None) -> tuple[int, int]:
    """Return the likely and the largest number of tokens behind a name of an access list."""
    if name.isdecimal():  # the text of an earlier step
        return _ELSE, 4 * _ELSE
    if material is None:
        return (0, 0) if name == HISTORY else (_STEP, 4 * _STEP)
    if name == PROMPT:
        texts = [material.prompt]
    elif name == HISTORY:
        texts = [with_files(turn.text, turn.files) for turn in material.turns[:-1]]
    else:
        texts = [material.file(name)[1]] if name.startswith(FILE) else []
    return sum(map(about_tokens, texts)), sum(map(text_bound, texts))


def _up(tokens: int) -> int:
    return -(-tokens // _STEP) * _STEP
