"""What was fitted on questions with known outcomes: small matrices, and what they come to.

Every set of questions has heads of its own for the workers that answered it, because what an
outcome means differs between sets. How much a new question is like each of them decides what they
have to say; what none of them knows is left to length and to what was fitted within all tasks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baton.children.routing import RouterFileError
from baton.children.routing.workers import Abilities
from baton.domain.routing import Candidate

Floats = NDArray[np.float64]

FORMAT = 1
"""Raised whenever a file of an older one can't be used."""

ARRAYS, WORDS = "heads.npz", "heads.json"


@dataclass(frozen=True)
class Basis:
    """Makes of a text's vector and figures what the heads are linear in."""

    centre: Floats
    scale: Floats

    def design(self, vectors: Floats, figures: Floats) -> Floats:
        """Return a row for each text; the first column is 1."""
        usual = np.clip((figures - self.centre) / self.scale, -4.0, 4.0)
        ones = np.ones((len(vectors), 1))
        return np.hstack([ones, vectors * np.sqrt(vectors.shape[1]), usual])


@dataclass(frozen=True)
class Block:
    """The heads of one set of questions: a column of `worth` for each of its workers."""

    name: str
    workers: tuple[str, ...]
    worth: Floats


@dataclass(frozen=True)
class Heads:
    """All that was fitted."""

    basis: Basis
    blocks: tuple[Block, ...]
    member: Floats
    """What tells the sets apart: a column for each."""
    general: Floats
    """Difficulty across all sets: a column."""
    tokens: Floats
    centres: Floats
    near: tuple[float, float]
    abilities: Abilities

    def shares(self, design: Floats) -> Floats:
        """Return how much each set has to say of each text; each row makes 1."""
        found = np.clip(design @ self.member, 1e-3, None)
        return np.asarray(found / found.sum(axis=1, keepdims=True), np.float64)

    def novelty(self, vectors: Floats) -> Floats:
        """Return how unlike everything seen each text is, from 0 to 1."""
        likest = (vectors @ self.centres.T).max(axis=1)
        low, high = self.near
        return np.asarray(np.clip((high - likest) / (high - low), 0.0, 1.0), np.float64)

    def quality(self, design: Floats, shares: Floats, candidate: Candidate) -> Floats:
        """Return the chance of a good answer by a worker to each text."""
        total = np.zeros(len(design))
        for place, block in enumerate(self.blocks):
            weights = self.abilities.nearest(candidate, block.workers)
            column = sum(
                weight * block.worth[:, block.workers.index(worker)]
                for worker, weight in weights.items()
            )
            total += shares[:, place] * np.clip(design @ column, 0.0, 1.0)
        return np.clip(total, 0.0, 1.0)

    def save(self, folder: Path) -> None:
        """Write both files."""
        arrays = {
            "centre": self.basis.centre, "scale": self.basis.scale, "member": self.member,
            "general": self.general, "tokens": self.tokens,
            "centres": self.centres, "near": np.array(self.near),
            **{f"block{place}": block.worth for place, block in enumerate(self.blocks)},
        }  # fmt: skip
        words = {
            "format": FORMAT,
            "blocks": [{"name": b.name, "workers": list(b.workers)} for b in self.blocks],
            "abilities": self.abilities.numbers(),
        }
        small: dict[str, Any] = {name: a.astype(np.float32) for name, a in arrays.items()}
        np.savez(folder / ARRAYS, **small)
        (folder / WORDS).write_text(json.dumps(words, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> Heads:
        """Read both files. Raises RouterFileError."""
        try:
            words = json.loads((folder / WORDS).read_text("utf-8"))
            if words["format"] != FORMAT:
                raise RouterFileError(f"{folder / WORDS} is of another format.")
            with np.load(folder / ARRAYS, allow_pickle=False) as file:
                arrays = {name: np.asarray(file[name], np.float64) for name in file.files}
            return cls._of(words, arrays)
        except RouterFileError:
            raise
        except Exception as error:  # numpy and json raise whatever they stumble over
            raise RouterFileError(f"{folder}: {error}") from error

    @classmethod
    def _of(cls, words: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Heads:
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise RouterFileError("Some numbers are missing.")
        blocks = tuple(
            Block(one["name"], tuple(one["workers"]), arrays[f"block{place}"])
            for place, one in enumerate(words["blocks"])
        )
        return cls(
            Basis(arrays["centre"], arrays["scale"]),
            blocks,
            arrays["member"],
            arrays["general"],
            arrays["tokens"],
            arrays["centres"],
            (float(arrays["near"][0]), float(arrays["near"][1])),
            Abilities.from_numbers(words["abilities"]),
        )
