"""Linear heads on a prompt's vector and figures: its task kind, its answer's length, its roles."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.plan_types import KINDS
from baton.routing.child import RouterFileError
from baton.routing.child.text_features import FEATURE_NAMES, WIDTH, Vectors

Floats = NDArray[np.float64]


# The task kind
#
# The encoder knows English best, and topics better than intents. So the pieces of the words
# are looked at as well, most of all the first ones, which carry the intent in any language.

KINDS_FILE = "kinds.npz"

_HASH_COLUMNS = 4096
"""Places that the pieces of words share."""

_HEAD, _TAIL = 160, 80
"""Characters looked at: what is wanted stands at the beginning or at the end."""

_PIECE_PATTERN = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")

_MEANING, _FIGURES, _WORDS = 5.0, 0.3, 6.0
"""How much each part of the design weighs beside the others."""


@frozen_dataclass
class KindHead:
    """A linear head for each kind, whose chances make 1 together."""

    centre: Floats
    scale: Floats
    worth: Floats

    def chances(self, texts: Sequence[str], vectors: Floats, figures: Floats) -> Floats:
        """Return how likely each text is of each kind, by its words, its vector and its figures.

        A row for each text, a column for each of KINDS.
        """
        usual = standardise(figures, self.centre, self.scale)
        return softmax(kind_design(texts, vectors, usual) @ self.worth)

    def save(self, folder: Path) -> None:
        """Write the file."""
        np.savez(
            folder / KINDS_FILE,
            centre=self.centre.astype(np.float32),
            scale=self.scale.astype(np.float32),
            worth=self.worth.astype(np.float16),
        )

    @classmethod
    def load(cls, folder: Path) -> KindHead:
        """Read the file. Raises RouterFileError."""
        try:
            with (folder / KINDS_FILE).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                centre, scale, worth = (
                    np.asarray(file[name], np.float64) for name in ("centre", "scale", "worth")
                )
        except Exception as error:  # numpy raises many kinds of errors for a broken file
            raise RouterFileError(f"{folder / KINDS_FILE}: {error}") from error
        sound = all(np.isfinite(array).all() for array in (centre, scale, worth))
        if not sound or worth.ndim != 2 or worth.shape[1] != len(KINDS) or (scale <= 0).any():
            raise RouterFileError(f"{folder / KINDS_FILE} is not sound.")
        return cls(centre, scale, worth)


def standardise(figures: Floats, centre: Floats, scale: Floats) -> Floats:
    return np.asarray(np.clip((figures - centre) / scale, -4.0, 4.0), np.float64)


def kind_design(texts: Sequence[str], vectors: Floats, usual: Floats) -> Floats:
    words = np.array([_hash_words(text) for text in texts])
    ones = np.ones((len(texts), 1))
    return np.hstack([ones, _MEANING * vectors, _FIGURES * usual, _WORDS * words])


def _hash_words(text: str) -> Floats:
    """Return the pieces of a text's words as a row of length 1."""
    row = np.zeros(_HASH_COLUMNS)
    for piece in set(_pieces(text)):
        place = zlib.crc32(piece.encode("utf-8", "replace"))
        row[place % _HASH_COLUMNS] += 1.0 if place >> 31 else -1.0
    length = float(np.linalg.norm(row))
    return row / length if length else row


def _pieces(text: str) -> Iterator[str]:
    """Give the words, pairs of them, parts of them, and with which ones its ends begin."""
    text = text.strip()
    head = _PIECE_PATTERN.findall(text[:_HEAD].lower())
    end = text[_HEAD:][-_TAIL:]
    tail = _PIECE_PATTERN.findall(end.lower())
    last = _PIECE_PATTERN.findall(end.rpartition("\n")[2].lower())
    for words in (head, last):
        yield from (f"first {' '.join(words[:count])}" for count in (1, 2) if words)
    for words in (head, tail):
        yield from ("0" if word.isdigit() else word for word in words)
        yield from (f"{one} {other}" for one, other in pairwise(words))
        yield from (part for word in words for part in _character_ngrams(f"<{word}>"))


def _character_ngrams(word: str) -> Iterator[str]:
    for size in (3, 4, 5):
        yield from (f"~{word[at : at + size]}" for at in range(len(word) - size + 1))


def softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


# The length that 99 of 100 answers don't exceed, in tokens

LENGTHS_FILE = "lengths.npz"
DESIGN_COLUMNS = 1 + WIDTH + len(FEATURE_NAMES)
LOG_TOKENS_RANGE = (np.log1p(16.0), np.log1p(8192.0))


@frozen_dataclass
class LengthHead:
    """What each column of a design adds to the logarithm of the length."""

    worth: Floats

    def p99(self, design: Floats) -> Floats:
        """Return how many tokens 99 of 100 answers to each text don't exceed: 16 to 8,192."""
        return np.expm1(np.clip(np.nan_to_num(design @ self.worth, nan=np.inf), *LOG_TOKENS_RANGE))

    def save(self, folder: Path) -> None:
        """Write the file."""
        np.savez(folder / LENGTHS_FILE, worth=self.worth.astype(np.float32))

    @classmethod
    def load(cls, folder: Path) -> LengthHead:
        """Read the file. Raises RouterFileError."""
        try:
            with (
                (folder / LENGTHS_FILE).open("rb") as raw,
                np.load(raw, allow_pickle=False) as file,
            ):
                worth = np.asarray(file["worth"], np.float64)
        except Exception as error:  # numpy raises many kinds of errors for a broken file
            raise RouterFileError(f"{folder / LENGTHS_FILE}: {error}") from error
        if worth.shape != (DESIGN_COLUMNS,) or not np.isfinite(worth).all():
            raise RouterFileError(f"{folder / LENGTHS_FILE} is of another format, or broken.")
        return cls(worth)


# How well each worker would do in each role of a turn

TURNS_FILE = "turns.npz"
ROLES, POSITION, WORKER = 3, 21, 10
"""How many roles there are, and how many figures `turn_roles` gives of position and worker."""

TURN_SHAPE = (WIDTH + POSITION, ROLES, WORKER)


@frozen_dataclass
class TurnHead:
    """A bilinear head, since every machine has other workers: the score is s W w.

    s is the prompt's vector and the figures of the position, w the figures of the worker, and
    `weights` is W, of TURN_SHAPE.
    """

    weights: Floats

    @classmethod
    def by_rule(cls) -> TurnHead:
        """Return a head whose scores are those of `core.planning.turn_roles.scores_by_rule`."""
        weights = np.zeros(TURN_SHAPE)
        turns = slice(WIDTH, WIDTH + 5)
        weights[turns, 1, 1] = 1.0
        weights[turns, 1, 3] = -0.4
        weights[turns, (0, 2), 0] = -1.0
        return cls(weights)

    @classmethod
    def load(cls, folder: Path) -> TurnHead:
        """Read its file; a folder without one has a plain head. Raises RouterFileError."""
        file = folder / TURNS_FILE
        if not file.is_file():
            return cls.by_rule()
        try:
            with np.load(file, allow_pickle=False) as arrays:
                weights = np.asarray(arrays["head"], np.float64)
        except Exception as error:  # numpy raises many kinds of errors for a broken file
            raise RouterFileError(f"{file}: {error}") from error
        if weights.shape != TURN_SHAPE or not np.isfinite(weights).all():
            raise RouterFileError(f"{file}: no weights of turns")
        return cls(weights)

    def save(self, folder: Path) -> None:
        """Write its file."""
        np.savez_compressed(folder / TURNS_FILE, head=self.weights.astype(np.float32))

    def scores(
        self, vector: Vectors, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> list[list[float]]:
        """Return a row for each role: a score for each worker in it."""
        seen = np.concatenate([np.asarray(vector, np.float64), np.asarray(position, np.float64)])
        table: Floats = np.einsum("p,prf,wf->rw", seen, self.weights, np.asarray(workers))
        found: list[list[float]] = table.tolist()
        return found
