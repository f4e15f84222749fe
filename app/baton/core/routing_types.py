"""The types of the router, shared with the child process that computes it.

Plain values only: they cross a pipe. Qualities and gains are chances from 0 to 1 (a gain from -1),
so that they can be compared with a price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from baton.core.frozen_dataclass import frozen_dataclass


@frozen_dataclass
class Candidate:
    """A worker as the router sees it: enough to place one that it never met.

    `model` is its maker's name for it, `billions` its parameters (0: unknown), `dollars` what a
    million tokens of answer cost. `skills` says how difficult a task of a kind may be, from 1 to 5.
    """

    id: str
    model: str = ""
    billions: float = 0.0
    dollars: float = 0.0
    outside: bool = False
    skills: Mapping[str, float] = field(default_factory=dict, hash=False)


VECTOR_WIDTH = 384
"""How many numbers the encoder's vectors have."""

MAX_VECTOR_TOKENS = 8_192
"""Of a text with more tokens no vector is made: it takes a second, in which no prompt is routed."""


@frozen_dataclass
class TextVector:
    """A text's meaning: VECTOR_WIDTH numbers as 32-bit floats, little-endian, of length 1.

    Of a text with more than MAX_VECTOR_TOKENS there are none. `tokens` is how many it has.
    """

    values: bytes
    tokens: int


@frozen_dataclass
class Estimate:
    """Stage A: what is expected of each candidate before anything is written.

    `kinds` are the probabilities of the twelve task kinds, `quality` by candidate the chance of a
    good answer, `gain` by candidate how much likelier it is than by the first one (predicted by
    itself, so not just the difference). `nearby` is the quality among the most similar questions
    with known outcomes. `tokens` is how long the answer likely gets, `tokens_p99` what 99 of 100
    answers don't exceed (0: unknown). `novelty` goes from 0 (like what the heads were fitted on) to
    1 (nothing like it): the heads have yielded that much to length and kind.
    """

    kinds: Mapping[str, float]
    quality: Mapping[str, float]
    gain: Mapping[str, float]
    nearby: Mapping[str, float] = field(default_factory=dict)
    tokens: int = 0
    novelty: float = 1.0
    tokens_p99: int = 0


@frozen_dataclass
class Draft:
    """An answer that a candidate has written, and what is known of it.

    `answer` is the short answer in it ("" where there is none to compare). `length` is in
    characters. `confidence` is the mean log-probability of its tokens, `least` and `first` are
    those of the unlikeliest and the first, `wrong` is the number of checks by computing that it
    failed; None where they aren't known.
    """

    worker: str
    text: str = ""
    answer: str = ""
    length: int = 0
    cut: bool = False
    refused: bool = False
    confidence: float | None = None
    least: float | None = None
    first: float | None = None
    wrong: int | None = None


@frozen_dataclass
class Judgement:
    """Stage B: what is expected now that there are drafts.

    `quality` is the chance that each draft is good, in their order, `best` the index of the one to
    show, `gain` by candidate how much likelier a good answer is than by that one. `agreement` is
    how far the drafts say the same, from 0 to 1; None where there was only one.
    """

    quality: tuple[float, ...]
    best: int
    gain: Mapping[str, float]
    agreement: float | None = None
