"""What kind of task a prompt is: read off what it is about and off its words.

The encoder knows English best, and tells topics better than wishes. So the pieces of the words are
looked at as well, most of all the first ones, which carry the wish in any language.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.core.plan.plan import KINDS
from baton.routing.child import RouterFileError

Floats = NDArray[np.float64]

FILE = "kinds.npz"

_WIDE = 4096
"""Places that the pieces of words share."""

_HEAD, _TAIL = 160, 80
"""Characters looked at: what is wanted stands at the beginning or at the end."""

_PIECES = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")

_MEANING, _FIGURES, _WORDS = 5.0, 0.3, 6.0
"""How much each part of the design weighs beside the others."""

_HOLD = 1.0
_ROUNDS = 300


@dataclass(frozen=True)
class KindHead:
    """A linear head for each kind, whose chances make 1 together."""

    centre: Floats
    scale: Floats
    worth: Floats

    def chances(self, texts: Sequence[str], vectors: Floats, figures: Floats) -> Floats:
        """Return how likely each text is of each kind, by its words, its vector and its figures.

        A row for each text, a column for each of KINDS.
        """
        usual = _usual(figures, self.centre, self.scale)
        return _softmax(_design(texts, vectors, usual) @ self.worth)

    def save(self, folder: Path) -> None:
        """Write the file."""
        np.savez(
            folder / FILE,
            centre=self.centre.astype(np.float32),
            scale=self.scale.astype(np.float32),
            worth=self.worth.astype(np.float16),
        )

    @classmethod
    def load(cls, folder: Path) -> KindHead:
        """Read the file. Raises RouterFileError."""
        try:
            with (folder / FILE).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                centre, scale, worth = (
                    np.asarray(file[name], np.float64) for name in ("centre", "scale", "worth")
                )
        except Exception as error:  # numpy raises whatever it stumbles over
            raise RouterFileError(f"{folder / FILE}: {error}") from error
        sound = all(np.isfinite(array).all() for array in (centre, scale, worth))
        if not sound or worth.ndim != 2 or worth.shape[1] != len(KINDS) or (scale <= 0).any():
            raise RouterFileError(f"{folder / FILE} is not sound.")
        return cls(centre, scale, worth)


def fit(
    texts: Sequence[str], vectors: Floats, figures: Floats, kinds: NDArray[np.int64]
) -> KindHead:
    """Fit the head on texts whose kinds (places in KINDS) are known; each kind weighs the same."""
    # As the file holds them, so that what is fitted is what will be used.
    centre = figures.mean(axis=0).astype(np.float32).astype(np.float64)
    scale = (figures.std(axis=0) + 1e-3).astype(np.float32).astype(np.float64)
    design = _design(texts, vectors, _usual(figures, centre, scale))
    counts = np.bincount(kinds, minlength=len(KINDS))
    weight = (len(kinds) / len(KINDS) / np.maximum(counts, 1))[kinds]
    return KindHead(centre, scale, _logistic(design, np.eye(len(KINDS))[kinds], weight))


def _usual(figures: Floats, centre: Floats, scale: Floats) -> Floats:
    return np.asarray(np.clip((figures - centre) / scale, -4.0, 4.0), np.float64)


def _design(texts: Sequence[str], vectors: Floats, usual: Floats) -> Floats:
    words = np.array([_hashed(text) for text in texts])
    ones = np.ones((len(texts), 1))
    return np.hstack([ones, _MEANING * vectors, _FIGURES * usual, _WORDS * words])


def _hashed(text: str) -> Floats:
    """Return the pieces of a text's words as a row of length 1."""
    row = np.zeros(_WIDE)
    for piece in set(_pieces(text)):
        place = zlib.crc32(piece.encode("utf-8", "replace"))
        row[place % _WIDE] += 1.0 if place >> 31 else -1.0
    length = float(np.linalg.norm(row))
    return row / length if length else row


def _pieces(text: str) -> Iterator[str]:
    """Give the words, pairs of them, parts of them, and with which ones its ends begin."""
    text = text.strip()
    head = _PIECES.findall(text[:_HEAD].lower())
    end = text[_HEAD:][-_TAIL:]
    tail = _PIECES.findall(end.lower())
    last = _PIECES.findall(end.rpartition("\n")[2].lower())
    for words in (head, last):
        yield from (f"first {' '.join(words[:count])}" for count in (1, 2) if words)
    for words in (head, tail):
        yield from ("0" if word.isdigit() else word for word in words)
        yield from (f"{one} {other}" for one, other in pairwise(words))
        yield from (part for word in words for part in _parts(f"<{word}>"))


def _parts(word: str) -> Iterator[str]:
    for size in (3, 4, 5):
        yield from (f"~{word[at : at + size]}" for at in range(len(word) - size + 1))


def _logistic(design: Floats, wanted: Floats, weight: Floats) -> Floats:
    """Return what each column is worth for each kind: logistic regression, by Nesterov's steps.

    What it is worth is always a sum over the texts, and those are fewer than the columns: so what
    each text adds to it is looked for.
    """
    count = len(design)
    alike = design @ design.T
    steep = np.linalg.eigvalsh(alike * np.sqrt(np.outer(weight, weight)))[-1]
    step = 1.0 / (steep / (2.0 * count) + _HOLD / count)
    added = ahead = np.zeros_like(wanted)
    pace = 1.0
    for _ in range(_ROUNDS):
        missed = (_softmax(alike @ ahead) - wanted) * weight[:, None]
        then = ahead - step * (missed + _HOLD * ahead) / count
        faster = (1.0 + np.sqrt(1.0 + 4.0 * pace * pace)) / 2.0
        ahead = then + (pace - 1.0) / faster * (then - added)
        added, pace = then, faster
    return np.asarray(design.T @ added, np.float64)


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)
