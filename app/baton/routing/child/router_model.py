"""The learned router: all that the scorer child and the scripts ask of it, and its linear heads."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.plan_types import KINDS
from baton.core.planning.token_estimates import TOKENS_P99
from baton.core.routing_types import (
    Candidate,
    Draft,
    Estimate,
    Judgement,
    TextVector,
)
from baton.routing.child import RouterFileError
from baton.routing.child.first_stage import FirstStage, Floats, TextReading
from baton.routing.child.second_stage import SecondStage
from baton.routing.child.text_features import (
    CPU_PROVIDER,
    FEATURE_NAMES,
    WIDTH,
    Encoder,
    Vectors,
    text_features,
)

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


@frozen_dataclass
class SeenTexts:
    """Texts as the first stage sees them: vectors, figures (usually near 0) and kinds."""

    vectors: Floats
    figures: Floats
    kinds: Floats


class RouterModel:
    """An encoder with the heads fitted on it."""

    def __init__(
        self,
        encoder: Encoder,
        heads: FirstStage,
        kinds: KindHead,
        lengths: LengthHead,
        agreement: SecondStage | None = None,
        turns: TurnHead | None = None,
    ) -> None:
        self._encoder, self.first_stage, self._kinds, self._lengths = encoder, heads, kinds, lengths
        self._turns = turns or TurnHead.by_rule()
        self._second_stage = agreement or SecondStage.unfitted()

    @classmethod
    def load(cls, folder: Path, provider: str = CPU_PROVIDER) -> RouterModel:
        """Read a folder that `train_router` wrote. Raises RouterFileError."""
        return cls(
            Encoder(folder, provider),
            FirstStage.load(folder),
            KindHead.load(folder),
            LengthHead.load(folder),
            SecondStage.load(folder),
            TurnHead.load(folder),
        )

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
        stage = self.first_stage
        quality = {c.id: stage.quality(reading, c).tolist() for c in candidates}
        gain = {c.id: stage.gain(reading, first, c).tolist() for c in candidates}
        nearby = {c.id: stage.nearby_quality(reading, c).tolist() for c in candidates}
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

    def read_texts(self, texts: Sequence[str]) -> SeenTexts:
        """Return what the first stage sees of texts."""
        vectors = self.vectors(texts).astype(np.float64)
        figures = np.array([text_features(text) for text in texts]).reshape(len(texts), -1)
        usual = self.first_stage.basis.design(vectors, figures)[:, 1 + WIDTH :]
        return SeenTexts(vectors, usual, self._kinds.chances(texts, vectors, figures))

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

    @classmethod
    def load(cls, folder: Path) -> KindHead:
        """Read the file. Raises RouterFileError."""
        centre, scale, worth = _read_arrays(folder / KINDS_FILE, "centre", "scale", "worth")
        if worth.ndim != 2 or worth.shape[1] != len(KINDS) or (scale <= 0).any():
            raise RouterFileError(f"{folder / KINDS_FILE} is of another format.")
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

    @classmethod
    def load(cls, folder: Path) -> LengthHead:
        """Read the file. Raises RouterFileError."""
        (worth,) = _read_arrays(folder / LENGTHS_FILE, "worth")
        if worth.shape != (DESIGN_COLUMNS,):
            raise RouterFileError(f"{folder / LENGTHS_FILE} is of another format.")
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
        (weights,) = _read_arrays(file, "head")
        if weights.shape != TURN_SHAPE:
            raise RouterFileError(f"{file} is of another format.")
        return cls(weights)

    def scores(
        self, vector: Vectors, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> list[list[float]]:
        """Return a row for each role: a score for each worker in it."""
        seen = np.concatenate([np.asarray(vector, np.float64), np.asarray(position, np.float64)])
        table: Floats = np.einsum("p,prf,wf->rw", seen, self.weights, np.asarray(workers))
        found: list[list[float]] = table.tolist()
        return found


def _read_arrays(file: Path, *names: str) -> list[Floats]:
    """Return arrays of finite numbers from a file. Raises RouterFileError."""
    try:
        with file.open("rb") as raw, np.load(raw, allow_pickle=False) as arrays:
            found = [np.asarray(arrays[name], np.float64) for name in names]
    except Exception as error:  # numpy raises many kinds of errors for a broken file
        raise RouterFileError(f"{file}: {error}") from error
    if not all(np.isfinite(array).all() for array in found):
        raise RouterFileError(f"{file} is broken.")
    return found
