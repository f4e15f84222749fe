"""The learned router: all that the scorer child and the scripts ask of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from baton.core.plan_types import KINDS
from baton.core.planning.token_estimates import TOKENS_P99
from baton.core.routing_types import (
    Candidate,
    Draft,
    Estimate,
    Judgement,
    RatedAnswer,
    RefitResult,
    TextVector,
)
from baton.routing.child import RouterFileError, personal_offsets
from baton.routing.child.first_stage import FirstStage, Floats, TextReading
from baton.routing.child.linear_heads import KindHead, LengthHead, TurnHead
from baton.routing.child.personal_offsets import PersonalOffsets, SeenTexts
from baton.routing.child.second_stage import SecondStage
from baton.routing.child.text_features import FEATURE_NAMES, WIDTH, Encoder, Vectors, text_features

__all__ = ["RouterFileError", "RouterModel"]


_TYPICAL_TOKENS = {
    "math": 350, "calculation": 60, "code": 400, "knowledge": 150, "reasoning": 250,
    "writing": 500, "rewriting": 200, "summary": 180, "extraction": 120, "translation": 120,
    "planning": 500, "chat": 60,
}  # fmt: skip
"""Tokens of an answer where nothing like the question was seen: estimates, not measured."""

_OPTIONS_COLUMN = FEATURE_NAMES.index("options")
_MIN_CHOICE_OPTIONS = np.log1p(1.5)
"""With more options than that (as a figure) a prompt is a multiple-choice question."""

_MEASURED_KINDS = [KINDS.index("math"), KINDS.index("calculation")]
"""Kinds of which answers to free questions were measured. Others were to multiple choice only."""


class RouterModel:
    """An encoder with the heads fitted on it."""

    def __init__(
        self,
        encoder: Encoder,
        heads: FirstStage,
        kinds: KindHead,
        lengths: LengthHead,
        agreement: SecondStage | None = None,
        personal: PersonalOffsets | None = None,
        turns: TurnHead | None = None,
    ) -> None:
        self._encoder, self.first_stage, self._kinds, self._lengths = encoder, heads, kinds, lengths
        self._turns = turns or TurnHead.by_rule()
        self._second_stage = agreement or SecondStage.unfitted()
        self._offsets = personal or PersonalOffsets()

    @classmethod
    def load(
        cls,
        folder: Path,
        learned: Path | None = None,
        threads: int = 1,
        providers: Sequence[str] | None = None,
    ) -> RouterModel:
        """Read a folder that `train_router` wrote. Raises RouterFileError."""
        personal = PersonalOffsets.load(learned) if learned else None
        heads, kinds, agreement = (
            FirstStage.load(folder),
            KindHead.load(folder),
            SecondStage.load(folder),
        )
        lengths = LengthHead.load(folder)
        turns = TurnHead.load(folder)
        encoder = Encoder(folder, threads, providers)
        return cls(encoder, heads, kinds, lengths, agreement, personal, turns)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return what each text is about: a row of length 1."""
        return self._encoder.vectors(texts)

    def embed(self, text: str) -> TextVector:
        """Return the vector of a whole text."""
        return self._encoder.embed(text)

    def likeness(self, texts: Sequence[str]) -> list[list[float]]:
        """Return how alike each two texts are in meaning, from 0 to 1."""
        vectors = self.vectors(texts).astype(np.float64)
        table: list[list[float]] = np.clip(vectors @ vectors.T, 0.0, 1.0).tolist()
        return table

    def estimate(self, text: str, candidates: Sequence[Candidate]) -> Estimate:
        """Return what is expected of each candidate; the first is the local default."""
        return self.estimates([text], candidates)[0]

    def estimates(self, texts: Sequence[str], candidates: Sequence[Candidate]) -> list[Estimate]:
        """Return what is expected of each candidate for each text, as if it came alone."""
        seen = self.read_texts(texts)
        reading = self._read(seen)
        first = candidates[0] if candidates else Candidate("")
        quality = {c.id: self._personal_quality(seen, reading, c).tolist() for c in candidates}
        gain = {c.id: self._expected_gain(seen, reading, first, c).tolist() for c in candidates}
        nearby = {c.id: self.first_stage.nearby_quality(reading, c).tolist() for c in candidates}
        tokens = self._tokens(seen, reading).tolist()
        longest = self._tokens_p99(seen, reading).tolist()
        novelty = reading.novelty.tolist()
        return [
            Estimate(
                kinds=dict(zip(KINDS, seen.kinds[row].tolist(), strict=True)),
                quality={id_: column[row] for id_, column in quality.items()},
                gain={id_: column[row] for id_, column in gain.items()},
                nearby={id_: column[row] for id_, column in nearby.items()},
                tokens=round(tokens[row]),
                novelty=novelty[row],
                tokens_p99=math.ceil(longest[row]),
            )
            for row in range(len(texts))
        ]

    def judge(
        self,
        text: str,
        candidates: Sequence[Candidate],
        drafts: Sequence[Draft],
        estimate: Estimate | None,
    ) -> Judgement:
        """Return what is expected now that there are drafts."""
        expected = estimate or self.estimate(text, candidates)
        return self._second_stage.judge(
            candidates,
            drafts,
            expected,
            self.likeness,
            ability=self.first_stage.abilities.ability,
            prompt=text,
        )

    def score_turns(
        self, text: str, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> list[list[float]]:
        """Return a row for each role of core.planning.turn_roles: a score for each worker in it."""
        return self._turns.scores(self.vectors([text])[0], position, workers)

    def learn(self, rated: Sequence[RatedAnswer], target: Path) -> RefitResult:
        """Refit on a person's labels and write `target`, if that is better than before."""
        return personal_offsets.learn_offsets(self, rated, target)

    def read_texts(self, texts: Sequence[str]) -> SeenTexts:
        """Return what the first stage sees of texts."""
        vectors = self.vectors(texts).astype(np.float64)
        figures = np.array([text_features(text) for text in texts]).reshape(len(texts), -1)
        usual = self.first_stage.basis.design(vectors, figures)[:, 1 + WIDTH :]
        return SeenTexts(vectors, usual, self._kinds.chances(texts, vectors, figures))

    def expected_quality(self, texts: SeenTexts, candidate: Candidate) -> Floats:
        """Return the chance of a good answer by a worker to each text, before what was learned."""
        return self.first_stage.quality(self._read(texts), candidate)

    def _personal_quality(
        self, seen: SeenTexts, reading: TextReading, candidate: Candidate
    ) -> Floats:
        expected = self.first_stage.quality(reading, candidate)
        return self._offsets.adjusted_quality(expected, seen, candidate)

    def _expected_gain(
        self, seen: SeenTexts, reading: TextReading, local: Candidate, other: Candidate
    ) -> Floats:
        gain = self.first_stage.gain(reading, local, other)
        if self._offsets.workers:
            for candidate, sign in ((other, 1.0), (local, -1.0)):
                expected = self.first_stage.quality(reading, candidate)
                learned = self._offsets.adjusted_quality(expected, seen, candidate)
                gain = gain + sign * (learned - expected)
        return np.clip(gain, -1.0, 1.0)

    def _tokens(self, seen: SeenTexts, reading: TextReading) -> Floats:
        """Return how long answers likely get: as fitted, or as is usual for the kind."""
        fitted = np.log(np.maximum(1.0, self.first_stage.expected_tokens(self._design(seen))))
        usual = seen.kinds @ np.log([_TYPICAL_TOKENS[kind] for kind in KINDS])
        novelty = reading.shares[:, -1]
        return np.asarray(np.exp((1.0 - novelty) * fitted + novelty * usual))

    def _tokens_p99(self, seen: SeenTexts, reading: TextReading) -> Floats:
        """Return what 99 of 100 answers don't exceed: as fitted, or as is usual for the kind.

        The fit counts as far as a text is like those whose answers were measured.
        """
        fitted = np.log(self._lengths.p99(self._design(seen)))
        usual = np.log(seen.kinds @ np.array([TOKENS_P99[kind] for kind in KINDS]))
        basis = self.first_stage.basis
        options = (
            seen.figures[:, _OPTIONS_COLUMN] * basis.scale[_OPTIONS_COLUMN]
            + basis.centre[_OPTIONS_COLUMN]
        )
        alike = np.where(
            options > _MIN_CHOICE_OPTIONS, 1.0, seen.kinds[:, _MEASURED_KINDS].sum(axis=1)
        )
        known = (1.0 - reading.shares[:, -1]) * alike
        return np.asarray(np.exp(known * fitted + (1.0 - known) * usual))

    def _read(self, texts: SeenTexts) -> TextReading:
        return self.first_stage.read(self._design(texts))

    @staticmethod
    def _design(texts: SeenTexts) -> Floats:
        ones = np.ones((len(texts.vectors), 1))
        return np.hstack([ones, texts.vectors * np.sqrt(WIDTH), texts.figures])
