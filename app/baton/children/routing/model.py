"""The learned router: all that the scorer child and the scripts ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.children.routing import RouterFileError, learning
from baton.children.routing.agreement import Agreement
from baton.children.routing.encoder import WIDTH, Encoder, Vectors
from baton.children.routing.features import features
from baton.children.routing.heads import Floats, Heads
from baton.children.routing.learning import Personal, Texts
from baton.domain.plan import KINDS
from baton.domain.routing import Candidate, Draft, Estimate, Judgement, Learned, Rated

__all__ = ["RouterFileError", "RouterModel"]

MOST_TOKENS = 4096


class RouterModel:
    """An encoder with the heads fitted on it."""

    def __init__(
        self,
        encoder: Encoder,
        heads: Heads,
        agreement: Agreement | None = None,
        personal: Personal | None = None,
    ) -> None:
        self._encoder, self.heads = encoder, heads
        self._agreement = agreement or Agreement.plain()
        self._personal = personal or Personal()

    @classmethod
    def load(
        cls,
        folder: Path,
        learned: Path | None = None,
        threads: int = 1,
        providers: Sequence[str] | None = None,
    ) -> RouterModel:
        """Read a folder that `train_router` wrote. Raises RouterFileError."""
        personal = Personal.load(learned) if learned else None
        agreement = Agreement.load(folder)
        return cls(Encoder(folder, threads, providers), Heads.load(folder), agreement, personal)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return what each text is about: a row of length 1."""
        return self._encoder.vectors(texts)

    def likeness(self, texts: Sequence[str]) -> list[list[float]]:
        """Return how alike each two texts are in meaning, from 0 to 1."""
        vectors = self.vectors(texts).astype(np.float64)
        table: list[list[float]] = np.clip(vectors @ vectors.T, 0.0, 1.0).tolist()
        return table

    def estimate(self, text: str, candidates: Sequence[Candidate]) -> Estimate:
        """Return what is expected of each candidate; the first is the local default."""
        design, vectors = self._seen([text])
        novelty, seen = self.heads.novelty(vectors), self._texts(design)
        quality = {c.id: float(self._quality(seen, c)[0]) for c in candidates}
        first = quality[candidates[0].id] if candidates else 0.0
        tokens = np.expm1(np.clip(design[0] @ self.heads.tokens, 0.0, np.log(MOST_TOKENS)))
        return Estimate(
            kinds=dict(zip(KINDS, seen.kinds[0].tolist(), strict=True)),
            quality=quality,
            gain={id_: value - first for id_, value in quality.items()},
            nearby=dict(quality),
            tokens=max(1, round(float(tokens))),
            novelty=float(novelty[0]),
        )

    def rank(self, texts: Sequence[str], local: Candidate, cloud: Candidate) -> Floats:
        """Return how much each text should rather go to the cloud worker: its expected gain."""
        seen = self.texts(texts)
        return np.asarray(self._quality(seen, cloud) - self._quality(seen, local), np.float64)

    def judge(
        self,
        text: str,
        candidates: Sequence[Candidate],
        drafts: Sequence[Draft],
        estimate: Estimate | None,
    ) -> Judgement:
        """Return what is expected now that there are drafts."""
        expected = estimate or self.estimate(text, candidates)
        return self._agreement.judge(candidates, drafts, expected, self.likeness)

    def learn(self, rated: Sequence[Rated], target: Path) -> Learned:
        """Refit on a person's labels and write `target`, if that is better than before."""
        return learning.learn(self, rated, target)

    def texts(self, texts: Sequence[str]) -> Texts:
        """Return what stage A sees of texts."""
        return self._texts(self._seen(texts)[0])

    def expected(self, texts: Texts, candidate: Candidate) -> Floats:
        """Return the chance of a good answer by a worker to each text, before what was learned."""
        ones = np.ones((len(texts.vectors), 1))
        design = np.hstack([ones, texts.vectors * np.sqrt(WIDTH), texts.figures])
        return self.heads.quality(design, self.heads.shares(design), candidate)

    def _quality(self, seen: Texts, candidate: Candidate) -> Floats:
        return self._personal.adjusted(self.expected(seen, candidate), seen, candidate)

    def _texts(self, design: Floats) -> Texts:
        kinds = np.clip(design @ self.heads.kinds, 0.0, None) + 1e-4
        vectors, figures = design[:, 1 : 1 + WIDTH] / np.sqrt(WIDTH), design[:, 1 + WIDTH :]
        return Texts(vectors, figures, kinds / kinds.sum(axis=1, keepdims=True))

    def _seen(self, texts: Sequence[str]) -> tuple[Floats, NDArray[np.float64]]:
        vectors = self.vectors(texts).astype(np.float64)
        figures = np.array([features(text) for text in texts]).reshape(len(texts), -1)
        return self.heads.basis.design(vectors, figures), vectors
