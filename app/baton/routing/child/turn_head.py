"""A linear head on the encoder: how well each worker would do in each role of `turn_roles`.

Bilinear, as everybody has other workers: the score is s W w, with s the prompt's vector and the
figures of the position, and w the figures of the worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from baton.routing.child import RouterFileError
from baton.routing.child.encoder import WIDTH, Vectors
from baton.routing.child.first_stage import Floats

FILE = "turns.npz"
ROLES, POSITION, WORKER = 3, 21, 10
"""How many roles there are, and how many figures `turn_roles` gives of position and worker."""

SHAPE = (WIDTH + POSITION, ROLES, WORKER)


@dataclass(frozen=True)
class TurnHead:
    """The weights, of SHAPE."""

    weights: Floats

    @classmethod
    def plain(cls) -> TurnHead:
        """Return a head whose scores are those of `core.plan.turn_roles.scores_by_rule`."""
        weights = np.zeros(SHAPE)
        turns = slice(WIDTH, WIDTH + 5)
        weights[turns, 1, 1] = 1.0
        weights[turns, 1, 3] = -0.4
        weights[turns, (0, 2), 0] = -1.0
        return cls(weights)

    @classmethod
    def load(cls, folder: Path) -> TurnHead:
        """Read its file; a folder without one has a plain head. Raises RouterFileError."""
        file = folder / FILE
        if not file.is_file():
            return cls.plain()
        try:
            with np.load(file, allow_pickle=False) as arrays:
                weights = np.asarray(arrays["head"], np.float64)
        except Exception as error:  # numpy raises whatever a broken archive leads to
            raise RouterFileError(f"{file}: {error}") from error
        if weights.shape != SHAPE or not np.isfinite(weights).all():
            raise RouterFileError(f"{file}: no weights of turns")
        return cls(weights)

    def save(self, folder: Path) -> None:
        """Write its file."""
        np.savez_compressed(folder / FILE, head=self.weights.astype(np.float32))

    def scores(
        self, vector: Vectors, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> list[list[float]]:
        """Return a row for each role: a score for each worker in it."""
        seen = np.concatenate([np.asarray(vector, np.float64), np.asarray(position, np.float64)])
        table: Floats = np.einsum("p,prf,wf->rw", seen, self.weights, np.asarray(workers))
        found: list[list[float]] = table.tolist()
        return found
