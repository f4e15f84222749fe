"""What a local worker's own draft says of whether it is right.

Measured on 1,056 questions of our own that a rule can judge, each answered by SmolLM2-135M with its
likeliest words and with drawn ones (scripts/training/router/draft_signals.csv). With whole kinds of
questions left out the line here ranks right answers above wrong ones with an AUROC of .765 for
likeliest words and .733 for drawn ones; the mean log-probability alone reaches .718 and .697.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import field

import msgspec

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.model_names import parse_model_name
from baton.core.routing_types import Candidate, Draft

DRAFT_FEATURES = ("confidence", "least", "first", "length", "copied")
"""The log-probability of a draft's tokens: the mean, the least and the first one's; the logarithm
of its characters; and which share of its words stand in the prompt."""

_MAX_CHARS = 160
"""Answers of more characters count as of so many: no longer ones were measured."""

_MAX_SHIFT = 2.0
"""By how much a draft moves the log-odds at most."""

_OTHER_TRUST = 0.5
"""How much of the line for the log-probability alone counts for models that were not measured."""

_WORD = re.compile(r"\w+")


@frozen_dataclass
class SignalLine:
    """What a figure above its usual value is worth in log-odds; `level` is where none is."""

    usual: tuple[float, ...]
    worth: tuple[float, ...]
    level: float = 0.0

    def shift(self, figures: tuple[float, ...]) -> float:
        """Return by how much figures move the log-odds that a draft is right."""
        found = math.fsum(
            worth * (figure - usual)
            for figure, usual, worth in zip(figures, self.usual, self.worth, strict=False)
        )
        return min(_MAX_SHIFT, max(-_MAX_SHIFT, found))


@frozen_dataclass
class DraftSignals:
    """By family of models a line of all DRAFT_FEATURES; for others `alone`, the log-probability's.

    `texts` has, by family, the log-odds of a good answer to everyday prompts of the kinds that want
    a text: the lines were measured on questions with one short answer, and take a copy for sure.
    """

    families: Mapping[str, SignalLine]
    alone: SignalLine
    texts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def unfitted(cls) -> DraftSignals:
        """Return lines by which nothing moves."""
        return cls({}, SignalLine((0.0,), (0.0,)))

    def shift(
        self,
        prompt: str,
        draft: Draft,
        worker: Candidate,
        *,
        expected: float = 0.0,
        novelty: float = 0.0,
        kind: str = "",
    ) -> float:
        """Return by how much a draft's signals move the log-odds that it is right; 0 if unknown.

        As far as the prompt is new, `expected` (log-odds, before the draft) gives way to the level
        that was measured with the signals; not for long drafts, which weren't measured. Of a `kind`
        in `texts` the level there counts instead.
        """
        if draft.confidence is None or not math.isfinite(draft.confidence):
            return 0.0
        family = parse_model_name(worker.model or worker.id).family
        if (level := self.texts.get(family, {}).get(kind)) is not None:
            return level - expected + self.alone.shift((draft.confidence,))
        if (line := self.families.get(family)) is not None:
            known = [draft.confidence, draft.least, draft.first]
            usual = (one if one is not None and math.isfinite(one) else mean
                     for one, mean in zip(known, line.usual, strict=False))  # fmt: skip
            moved = line.shift((*usual, *text_figures(prompt, draft.text)))
            is_short = len(draft.text) <= _MAX_CHARS
            return moved + is_short * novelty * (2.0 - novelty) * (line.level - expected)
        return _OTHER_TRUST * self.alone.shift((draft.confidence,))

    @classmethod
    def from_numbers(cls, numbers: object) -> DraftSignals:
        """Return the lines of a file. Raises ValueError."""
        found = msgspec.convert(numbers, cls)
        size = len(DRAFT_FEATURES)
        lines = [(size, line) for line in found.families.values()] + [(1, found.alone)]
        figures = [one for _, line in lines for one in (*line.usual, *line.worth, line.level)]
        figures += [level for levels in found.texts.values() for level in levels.values()]
        is_sized = all(len(line.usual) == len(line.worth) == count for count, line in lines)
        if not is_sized or not all(map(math.isfinite, figures)):
            raise ValueError("No signals.")
        return found


def text_figures(prompt: str, text: str) -> tuple[float, float]:
    """Return the last two of DRAFT_FEATURES, which a draft's text shows."""
    known = {word.casefold() for word in _WORD.findall(prompt)}
    words = [word.casefold() for word in _WORD.findall(text[: 4 * _MAX_CHARS])]
    copied = sum(word in known for word in words) / len(words) if words else 0.0
    return math.log1p(min(len(text), _MAX_CHARS)), copied
