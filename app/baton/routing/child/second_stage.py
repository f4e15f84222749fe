"""Stage B: what is expected once there are drafts.

The answers' votes (answer_votes.py), how long they got, and what stage A expected go into two
logistic heads: one for the chance that a draft is right, one for another worker's. Both were
fitted on random sets of workers, so that they know no worker and no task by name.

Where there is no short answer to compare, nothing could be fitted (no such data may be used): the
drafts' likeness, refusals, cut ends, failed checks and the model's own confidence then move what
stage A expected, by weights that are no more than sane.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.core.routing_types import Candidate, Draft, Estimate, Judgement
from baton.routing.child import RouterFileError
from baton.routing.child.answer_votes import (
    DRAFTS_MOST,
    Counts,
    Floats,
    chances_alike,
    grouped,
    kind_of,
    posterior,
)

FILE = "agreement.json"

FIGURES = (
    "right", "asked", "none", "agree", "other", "missing", "empty", "count",
    "expected", "expected_asked", "gap", "length", "length_rel", "length_span", "endless",
)  # fmt: skip
"""What the heads see; `figures` says what each is."""

_ENDLESS = 6000.0
"""An answer of more characters went in circles."""

_KEEP = 0.05
"""A later draft must be so much likelier right to be shown instead of the first."""

_UNKNOWN = 0.5

_HARD = 0.5
"""How much of the difficulty that stage A finds in a question is believed, where no letter is asked
for. There it is by their abilities that workers are told apart, not by stage A: on hidden questions
that was better by .01 to .04 (GSM, MATH level 5), and worse by .02 for choices (MMLU-Pro).
"""

Likeness = Callable[[Sequence[str]], Sequence[Sequence[float]]]
Ability = Callable[[Candidate], float]


def choice(answers: Sequence[str]) -> bool:
    """Tell whether these answer a question by the letter of a choice."""
    return kind_of(answers) == "letter"


def believed(told: Floats, able: Floats, drafts: int, choices: NDArray[np.bool_] | bool) -> Floats:
    """Return the log-odds to go by: workers are columns, those of the drafts first.

    `told` is by stage A, `able` by the workers' general abilities.
    """
    hard = (told - able)[:, :drafts].mean(axis=1, keepdims=True)
    return np.where(choices, told, able + _HARD * hard)


def log_odds(chance: Floats) -> Floats:
    """Return the logarithm of the odds, bounded."""
    held = np.clip(chance, 0.002, 0.998)
    return np.asarray(np.log(held / (1.0 - held)), np.float64)


def chances_of(odds: Floats) -> Floats:
    """Return what log-odds come to."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(odds, -30.0, 30.0))), np.float64)


@dataclass(frozen=True)
class Votes:
    """Drafts as the heads see them: questions are rows, their drafts columns, the first in focus.

    `groups`, `prior`, `asked` and `alike` as votes.posterior wants them, `lengths` in characters.
    """

    groups: Counts
    prior: Floats
    asked: Floats
    alike: Floats
    lengths: Floats

    def figures(self) -> Floats:
        """Return a row for each question, in the order of FIGURES."""
        right, asked, none = posterior(self.groups, self.prior, self.asked, self.alike)
        groups, count = self.groups, self.groups.shape[1]
        mates = max(1, count - 1)
        first, others = groups[:, :1], groups[:, 1:]
        against = np.zeros(len(groups))  # the largest group of others
        for place in range(1, count):
            one = groups[:, place : place + 1]
            size = ((others == one) & (one > 0) & (one != first)).sum(axis=1)
            against = np.maximum(against, size)
        logs = np.log1p(self.lengths)
        return np.column_stack([
            log_odds(right[:, 0]),
            log_odds(asked),
            log_odds(none),
            ((others == first) & (first > 0)).sum(axis=1) / mates,
            against / mates,
            (others == 0).sum(axis=1) / mates,
            groups[:, 0] == 0,
            np.full(len(groups), float(count)),
            self.prior[:, 0],
            self.asked,
            self.asked - self.prior[:, 0],
            logs[:, 0],
            logs[:, 0] - np.log1p(self.lengths.mean(axis=1)),
            logs.max(axis=1) - logs.min(axis=1),
            self.lengths.max(axis=1) > _ENDLESS,
        ])  # fmt: skip


@dataclass(frozen=True)
class Agreement:
    """The two heads: `right` for the draft in focus, `asked` for another worker.

    Each has an intercept and a weight for each of FIGURES, once `centre` and `scale` are taken off.
    """

    right: Floats
    asked: Floats
    centre: Floats
    scale: Floats

    @classmethod
    def plain(cls) -> Agreement:
        """Return heads that take the votes at their word: for where nothing was fitted."""
        size = len(FIGURES)
        right, asked = np.zeros(size + 1), np.zeros(size + 1)
        right[1 + FIGURES.index("right")] = asked[1 + FIGURES.index("asked")] = 1.0
        return cls(right, asked, np.zeros(size), np.ones(size))

    def save(self, folder: Path) -> None:
        """Write its file."""
        (folder / FILE).write_text(json.dumps(self.numbers(), indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> Agreement:
        """Read its file. Raises RouterFileError."""
        try:
            return cls.from_numbers(json.loads((folder / FILE).read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RouterFileError(f"{folder / FILE}: {error}") from error

    def numbers(self) -> dict[str, list[float]]:
        """Return all of it as plain values, for a JSON file."""
        return {
            name: [round(float(value), 6) for value in getattr(self, name)]
            for name in ("right", "asked", "centre", "scale")
        }

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, object]) -> Agreement:
        """Return what `numbers` gave. Raises KeyError, TypeError, ValueError."""
        found = cls(*(
            np.array(numbers[name], np.float64) for name in ("right", "asked", "centre", "scale")
        ))  # fmt: skip
        sizes = [column.shape for column in (found.right, found.asked, found.centre, found.scale)]
        size = len(FIGURES)
        whole = np.concatenate([found.right, found.asked, found.centre, found.scale])
        if sizes != [(size + 1,), (size + 1,), (size,), (size,)] or not np.isfinite(whole).all():
            raise ValueError("No weights of agreement.")
        return found

    def chances(self, votes: Votes) -> tuple[Floats, Floats]:
        """Return for each question how likely the draft in focus is right, and who is asked."""
        seen = (votes.figures() - self.centre) / self.scale
        right = chances_of(self.right[0] + seen @ self.right[1:])
        asked = chances_of(self.asked[0] + seen @ self.asked[1:])
        return np.where(votes.groups[:, 0] > 0, right, np.minimum(right, 0.3)), asked

    def judge(
        self,
        candidates: Sequence[Candidate],
        drafts: Sequence[Draft],
        estimate: Estimate,
        likeness: Likeness,
        ability: Ability | None = None,
    ) -> Judgement:
        """Return what is expected now. The first draft is the one that is shown so far.

        `gain` is against the best draft; who wrote one has what that draft gains. `likeness` is
        asked only where there are no short answers to compare. `ability` says how able a worker
        generally is, in log-odds.
        """
        known = drafts[:DRAFTS_MOST]
        if not known:
            gain = {c.id: estimate.quality.get(c.id, _UNKNOWN) for c in candidates}
            return Judgement((), 0, gain)
        groups = grouped([draft.answer for draft in known])
        if any(groups):
            quality, asked = self._by_votes(groups, candidates, known, estimate, ability)
            agreement = _agreed(groups)
        else:
            table = likeness([draft.text for draft in known]) if len(known) > 1 else [[1.0]]
            quality, asked = _by_likeness(table, candidates, known, estimate)
            agreement = _mean_of_pairs(table)
        quality += [min(quality)] * (len(drafts) - len(known))
        best = max(range(len(quality)), key=lambda place: quality[place])
        if quality[best] < quality[0] + _KEEP:
            best = 0
        written: dict[str, float] = {}
        for draft, chance in zip(drafts, quality, strict=True):
            written[draft.worker] = max(chance, written.get(draft.worker, 0.0))
        gain = {id_: written.get(id_, chance) - quality[best] for id_, chance in asked.items()}
        return Judgement(
            tuple(quality), best, gain, agreement if len(known) > 1 else None
        )  # fmt: skip

    def _by_votes(
        self,
        groups: Sequence[int],
        candidates: Sequence[Candidate],
        drafts: Sequence[Draft],
        estimate: Estimate,
        ability: Ability | None,
    ) -> tuple[list[float], dict[str, float]]:
        answers = [draft.answer for draft in drafts]
        workers = [draft.worker for draft in drafts]
        by_id = {candidate.id: candidate for candidate in candidates}
        everyone = [*(by_id.get(one, Candidate(one)) for one in workers), *candidates]
        odds = log_odds(np.array([estimate.quality.get(one.id, _UNKNOWN) for one in everyone]))
        if ability is not None:
            able = np.array([ability(one) for one in everyone])
            odds = believed(odds[None], able[None], len(drafts), choice(answers))[0]
        prior = odds[: len(drafts)] + np.array([_evidence(draft) for draft in drafts])
        lengths = np.array([float(max(0, draft.length)) for draft in drafts])
        alike = np.array(chances_alike(answers, workers))
        # A row with each draft in focus, then one with each candidate that may be asked.
        every = list(range(len(drafts)))
        turns = [[place, *(p for p in every if p != place)] for place in every]
        order = np.array(turns + [every] * len(candidates))
        asked = np.concatenate([np.zeros(len(drafts)), odds[len(drafts) :]])
        votes = Votes(
            np.array(groups)[order],
            prior[order],
            asked,
            alike[order],
            lengths[order],
        )
        right, other = self.chances(votes)
        gained = zip(candidates, other[len(drafts) :].tolist(), strict=True)
        return right[: len(drafts)].tolist(), {c.id: chance for c, chance in gained}


# Where there is nothing to compare but the texts


def _by_likeness(
    table: Sequence[Sequence[float]],
    candidates: Sequence[Candidate],
    drafts: Sequence[Draft],
    estimate: Estimate,
) -> tuple[list[float], dict[str, float]]:
    quality = []
    for place, draft in enumerate(drafts):
        odds = float(log_odds(np.array(estimate.quality.get(draft.worker, _UNKNOWN))))
        odds += _evidence(draft)
        if len(drafts) > 1:
            others = [row for number, row in enumerate(table[place]) if number != place]
            # Agreement of whole texts says little: measured on one set, .611 to .627.
            odds += min(0.4, max(-0.6, 2.0 * (sum(others) / len(others) - 0.7)))
        quality.append(float(chances_of(np.array(odds))))
    return quality, {c.id: estimate.quality.get(c.id, _UNKNOWN) for c in candidates}


def _evidence(draft: Draft) -> float:
    """Return by how much what is known of a draft moves the log-odds that it is right."""
    moved = 0.0 if draft.length or draft.text.strip() or draft.answer else -4.0
    moved -= 3.0 if draft.refused else 0.0
    moved -= 1.0 if draft.cut else 0.0
    if draft.wrong is not None:
        moved += 0.4 if draft.wrong <= 0 else -1.5 * min(draft.wrong, 2)
    if draft.confidence is not None and math.isfinite(draft.confidence):
        moved += min(0.4, max(-1.0, 1.5 * (draft.confidence + 0.4)))
    return moved


def _agreed(groups: Sequence[int]) -> float:
    """Return which part of all pairs of answers agree."""
    pairs = [
        groups[a] == groups[b] != 0 for b in range(len(groups)) for a in range(b)
    ]  # fmt: skip
    return sum(pairs) / len(pairs) if pairs else 1.0


def _mean_of_pairs(table: Sequence[Sequence[float]]) -> float:
    pairs = [table[a][b] for b in range(len(table)) for a in range(b)]
    return min(1.0, max(0.0, sum(pairs) / len(pairs))) if pairs else 1.0
