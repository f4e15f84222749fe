"""The second stage: what is expected once there are drafts.

Right answers agree; wrong ones mostly differ. So the answers vote: each question has
a hidden difficulty, a worker is right with a chance that falls with it, and summing over all
difficulties and over which answer may be true gives the chance that each answer is.

The votes, the answers' lengths, and what the first stage expected go into two logistic heads: one
for the chance that a draft is right, one for another worker's. Both were fitted on random sets of
workers, so that they know no worker and no task by name.

Where there is no short answer to compare, nothing could be fitted (no such data may be used): the
drafts' likeness, refusals, cut ends and failed checks then move what the first stage expected, by
weights that are no more than sane, and the model's own signals by measured ones (draft_signals.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.judging.short_answer import normalised_answer, number_value, numbers_agree
from baton.core.routing_types import Candidate, Draft, Estimate, Judgement
from baton.routing.child import RouterFileError
from baton.routing.child.draft_signals import DraftSignals

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MAX_DRAFTS = 8
"""More drafts add nothing."""


# Whether two answers are the same

_LETTER = re.compile(r"\(?([A-Za-z])\)?")
_VERDICTS = frozenset({"yes", "no", "true", "false"})
_MAX_ANSWER_CHARS = 2000


def group_answers(answers: Sequence[str]) -> list[int]:
    """Return a number from 1 for each answer, the same for those that agree; 0 where there is none.

    Numbers agree by value, all else by its characters, but for spaces, the kind of quotes, and a
    capital before small letters.
    """
    keys = [comparison_key(answer) for answer in answers]
    found: list[int] = []
    for place, one in enumerate(keys):
        alike = next((found[p] for p in range(place) if _keys_agree(keys[p], one)), 0)
        found.append(alike or (0 if one is None else place + 1))
    return found


def _keys_agree(a: str | Fraction | None, b: str | Fraction | None) -> bool:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return numbers_agree(a, b)
    return a is not None and a == b


@lru_cache(maxsize=65536)
def comparison_key(answer: str) -> str | Fraction | None:
    """Return what an answer is compared by, or None where it is none."""
    text = answer[:_MAX_ANSWER_CHARS].strip().strip("$*`").strip()
    if text.strip(" .-_") == "":
        return None
    if (number := _exact_number(text)) is not None:
        return number
    text = re.sub(r"\s+", "", text).replace('"', "'").rstrip(".") or text
    if len(text) > 2 and text[0] == text[-1] == "'" and "'" not in text[1:-1]:
        text = text[1:-1]
    if text[1:] == text[1:].lower():
        text = text[0].lower() + text[1:]
    return text


def _exact_number(text: str) -> Fraction | None:
    if not any(sign.isdigit() for sign in text) or text[0] in "[{(\"'" or len(text) > 200:
        return None
    return number_value(normalised_answer(text, exact=True))


# What kind of an answer it is

_CHANCES_ALIKE = {"letter": 0.3, "judged": 0.9, "number": 0.2, "other": 0.15}
"""How likely two wrong answers are the same; measured for letters and numbers (.36, .31, .14)."""

_CHANCE_SELF_ALIKE = 0.6
"""The same of two answers by one worker: it errs the same way again."""


def answer_kind(answer: str) -> str:
    """Return what kind of an answer it is."""
    text = answer.strip()
    if _LETTER.fullmatch(text):
        return "letter"
    if text.casefold() in _VERDICTS:
        return "judged"
    return "number" if isinstance(comparison_key(answer), Fraction) else "other"


def kind_of_answers(answers: Sequence[str]) -> str:
    """Return what kind of answers they are: the first's that is one."""
    return next(
        (answer_kind(answer) for answer in answers if comparison_key(answer) is not None), "other"
    )


def chances_alike(answers: Sequence[str], workers: Sequence[str]) -> list[float]:
    """Return for each answer how likely it is the same as another wrong one."""
    alike = _CHANCES_ALIKE[kind_of_answers(answers)]
    return [
        max(alike, _CHANCE_SELF_ALIKE if worker in workers[:place] else 0.0)
        for place, worker in enumerate(workers)
    ]


# Which one is right

_DIFFICULTY_SPREAD = 1.5
"""How much difficulties differ beyond what was expected, in log-odds."""

_POINTS, _SHARES = np.polynomial.hermite_e.hermegauss(21)
_DIFFICULTY = _DIFFICULTY_SPREAD * _POINTS
_LOG_SHARES = np.log(_SHARES / _SHARES.sum())
_ODDS_STRETCH = float(np.sqrt(1.0 + np.pi * _DIFFICULTY_SPREAD**2 / 8.0))
"""By which log-odds grow once the difficulty is known."""


def posterior(
    groups: Counts, prior: Floats, asked: Floats, alike: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return how likely each answer is right, another worker would be, and no answer is.

    Questions are rows. `groups` says which answers agree (0: there is none), `prior` the log-odds
    that each worker was expected to be right by, `asked` those of the other one, `alike` how likely
    each answer, if wrong, is the same as an earlier wrong one.
    """
    count = groups.shape[1]
    odds = _ODDS_STRETCH * prior[:, :, None] - _DIFFICULTY
    right, wrong = -np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds)
    given = groups > 0
    same = (groups[:, :, None] == groups[:, None, :]) & given[:, :, None]
    cases = []
    truths = []
    for place in range(count):
        first = given[:, place] & ~same[:, place, :place].any(axis=1)
        true = same[:, place]
        chance = np.where(true[:, :, None], right, wrong).sum(axis=1)
        chance += _log_chance_of_agreement(~true & given, same, alike)[:, None]
        cases.append(np.where(first[:, None], chance, -1e9))
        truths.append(true)
    cases.append(wrong.sum(axis=1) + _log_chance_of_agreement(given, same, alike)[:, None])
    truths.append(np.zeros_like(given))
    weighed = np.stack(cases, axis=1) + _LOG_SHARES
    weighed = np.exp(weighed - weighed.max(axis=(1, 2), keepdims=True))
    weighed /= weighed.sum(axis=(1, 2), keepdims=True)
    by_case = weighed.sum(axis=2)
    each = (by_case[:, :, None] * np.stack(truths, axis=1)).sum(axis=1)
    difficulty = weighed.sum(axis=1)
    other = (difficulty / (1.0 + np.exp(_DIFFICULTY - _ODDS_STRETCH * asked[:, None]))).sum(axis=1)
    return each, other, by_case[:, -1]


def _log_chance_of_agreement(
    wrong: NDArray[np.bool_], same: NDArray[np.bool_], alike: Floats
) -> Floats:
    """Return the log-chance that wrong answers agree among themselves as they do."""
    found = np.zeros(len(wrong))
    for place in range(1, wrong.shape[1]):
        earlier = wrong[:, :place].sum(axis=1)
        joined = (wrong[:, :place] & same[:, place, :place]).sum(axis=1)
        chance = np.where(
            joined > 0, alike[:, place] * joined / np.maximum(earlier, 1), 1.0 - alike[:, place]
        )
        found += np.where(wrong[:, place] & (earlier > 0), np.log(chance), 0.0)
    return found


AGREEMENT_FILE = "agreement.json"

VOTE_FEATURES = (
    "right", "asked", "none", "agree", "other", "missing", "empty", "count",
    "expected", "expected_asked", "gap", "length", "length_rel", "length_span", "endless",
)  # fmt: skip
"""What the heads see; `Votes.features` says what each is."""

_ENDLESS_CHARS = 6000.0
"""An answer of more characters went in circles."""

_MIN_GAIN_TO_SWITCH = 0.05
"""A later draft must be so much likelier right to be shown instead of the first."""

_UNKNOWN_QUALITY = 0.5

_DIFFICULTY_TRUST = 0.5
"""How much of the difficulty that the first stage finds in a question counts where no letter is
asked for. There workers are ranked by their abilities, not by the first stage: on hidden questions
that was better by .01 to .04 (GSM, MATH level 5), and worse by .02 for choices (MMLU-Pro).
"""

Likeness = Callable[[Sequence[str]], Sequence[Sequence[float]]]
Ability = Callable[[Candidate], float]


def combined_log_odds(
    expected: Floats, able: Floats, drafts: int, choices: NDArray[np.bool_] | bool
) -> Floats:
    """Return the log-odds to go by: workers are columns, those of the drafts first.

    `expected` is by the first stage, `able` by the workers' general abilities.
    """
    hard = (expected - able)[:, :drafts].mean(axis=1, keepdims=True)
    return np.where(choices, expected, able + _DIFFICULTY_TRUST * hard)


def log_odds(chance: Floats) -> Floats:
    """Return the logarithm of the odds, bounded."""
    held = np.clip(chance, 0.002, 0.998)
    return np.asarray(np.log(held / (1.0 - held)), np.float64)


def chances_from_log_odds(odds: Floats) -> Floats:
    """Return log-odds as a chance."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(odds, -30.0, 30.0))), np.float64)


@frozen_dataclass
class Votes:
    """Drafts as the heads see them: questions are rows, their drafts columns, the first in focus.

    `groups`, `prior`, `asked` and `alike` as `posterior` wants them, `lengths` in characters.
    """

    groups: Counts
    prior: Floats
    asked: Floats
    alike: Floats
    lengths: Floats

    def features(self) -> Floats:
        """Return a row for each question, in the order of VOTE_FEATURES."""
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
            self.lengths.max(axis=1) > _ENDLESS_CHARS,
        ])  # fmt: skip


@frozen_dataclass
class SecondStage:
    """The two heads: `right` for the draft in focus, `asked` for another worker.

    Each has an intercept and a weight for each of VOTE_FEATURES, from which `centre` is taken and
    which `scale` divides.
    """

    right: Floats
    asked: Floats
    centre: Floats
    scale: Floats
    signals: DraftSignals = field(default_factory=DraftSignals.unfitted)

    @classmethod
    def unfitted(cls) -> SecondStage:
        """Return heads that take the votes at their word: for where nothing was fitted."""
        size = len(VOTE_FEATURES)
        right, asked = np.zeros(size + 1), np.zeros(size + 1)
        right[1 + VOTE_FEATURES.index("right")] = asked[1 + VOTE_FEATURES.index("asked")] = 1.0
        return cls(right, asked, np.zeros(size), np.ones(size))

    @classmethod
    def load(cls, folder: Path) -> SecondStage:
        """Read its file. Raises RouterFileError."""
        try:
            return cls.from_numbers(json.loads((folder / AGREEMENT_FILE).read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RouterFileError(f"{folder / AGREEMENT_FILE}: {error}") from error

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, object]) -> SecondStage:
        """Return the stage of a file. Raises KeyError, TypeError, ValueError."""
        right, asked, centre, scale = (
            np.array(numbers[name], np.float64) for name in ("right", "asked", "centre", "scale")
        )
        signals = DraftSignals.from_numbers(numbers["signals"])
        found = cls(right, asked, centre, scale, signals)
        sizes = [column.shape for column in (found.right, found.asked, found.centre, found.scale)]
        size = len(VOTE_FEATURES)
        whole = np.concatenate([found.right, found.asked, found.centre, found.scale])
        if sizes != [(size + 1,), (size + 1,), (size,), (size,)] or not np.isfinite(whole).all():
            raise ValueError("No weights of agreement.")
        return found

    def chances(self, votes: Votes) -> tuple[Floats, Floats]:
        """Return for each question how likely the draft in focus is right, and who is asked."""
        seen = (votes.features() - self.centre) / self.scale
        right = chances_from_log_odds(self.right[0] + seen @ self.right[1:])
        asked = chances_from_log_odds(self.asked[0] + seen @ self.asked[1:])
        return np.where(votes.groups[:, 0] > 0, right, np.minimum(right, 0.3)), asked

    def judge(
        self,
        candidates: Sequence[Candidate],
        drafts: Sequence[Draft],
        estimate: Estimate,
        likeness: Likeness,
        ability: Ability | None = None,
        prompt: str = "",
    ) -> Judgement:
        """Return what is expected now. The first draft is the one that is shown so far.

        `gain` is against the best draft; who wrote one has what that draft gains. `likeness` is
        asked only where there are no short answers to compare. `ability` says how able a worker
        generally is, in log-odds. The drafts' own signals are read beside the prompt.
        """
        known = drafts[:MAX_DRAFTS]
        if not known:
            gain = {c.id: _expected(estimate, c.id) for c in candidates}
            return Judgement((), 0, gain)
        groups = group_answers([draft.answer for draft in known])
        by_id = {candidate.id: candidate for candidate in candidates}
        evidence = [
            _evidence_log_odds(draft)
            + self.signals.shift(
                prompt,
                draft,
                by_id.get(draft.worker, Candidate(draft.worker)),
                expected=float(log_odds(np.array(_expected(estimate, draft.worker)))),
                novelty=estimate.novelty,
                kind=max(estimate.kinds, key=lambda one: estimate.kinds[one], default=""),
            )
            for draft in known
        ]
        alike: list[float]
        if any(groups):
            quality, asked = self._judge_by_votes(
                groups, candidates, known, estimate, evidence, ability
            )
            alike = [a == b != 0 for a, b in combinations(groups, 2)]
        else:
            table = likeness([draft.text for draft in known]) if len(known) > 1 else [[1.0]]
            quality, asked = _judge_by_likeness(table, candidates, known, estimate, evidence)
            alike = [table[a][b] for a, b in combinations(range(len(known)), 2)]
        quality += [min(quality)] * (len(drafts) - len(known))
        best = max(range(len(quality)), key=lambda place: quality[place])
        if quality[best] < quality[0] + _MIN_GAIN_TO_SWITCH:
            best = 0
        written: dict[str, float] = {}
        for draft, chance in zip(drafts, quality, strict=True):
            written[draft.worker] = max(chance, written.get(draft.worker, 0.0))
        gain = {id_: written.get(id_, chance) - quality[best] for id_, chance in asked.items()}
        agreement = min(1.0, max(0.0, sum(alike) / len(alike))) if alike else None
        return Judgement(tuple(quality), best, gain, agreement)

    def _judge_by_votes(
        self,
        groups: Sequence[int],
        candidates: Sequence[Candidate],
        drafts: Sequence[Draft],
        estimate: Estimate,
        evidence: Sequence[float],
        ability: Ability | None,
    ) -> tuple[list[float], dict[str, float]]:
        answers = [draft.answer for draft in drafts]
        workers = [draft.worker for draft in drafts]
        by_id = {candidate.id: candidate for candidate in candidates}
        everyone = [*(by_id.get(one, Candidate(one)) for one in workers), *candidates]
        odds = log_odds(np.array([_expected(estimate, one.id) for one in everyone]))
        if ability is not None:
            able = np.array([ability(one) for one in everyone])
            is_choice = kind_of_answers(answers) == "letter"
            odds = combined_log_odds(odds[None], able[None], len(drafts), is_choice)[0]
        prior = odds[: len(drafts)] + np.array(evidence)
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


def _expected(estimate: Estimate, worker: str) -> float:
    return estimate.quality.get(worker, _UNKNOWN_QUALITY)


# Where there is nothing to compare but the texts


def _judge_by_likeness(
    table: Sequence[Sequence[float]],
    candidates: Sequence[Candidate],
    drafts: Sequence[Draft],
    estimate: Estimate,
    evidence: Sequence[float],
) -> tuple[list[float], dict[str, float]]:
    quality = []
    for place, draft in enumerate(drafts):
        odds = float(log_odds(np.array(_expected(estimate, draft.worker))))
        odds += evidence[place]
        if len(drafts) > 1:
            others = [row for number, row in enumerate(table[place]) if number != place]
            # Agreement of whole texts says little: measured on one set, .611 to .627.
            odds += min(0.4, max(-0.6, 2.0 * (sum(others) / len(others) - 0.7)))
        quality.append(float(chances_from_log_odds(np.array(odds))))
    return quality, {c.id: _expected(estimate, c.id) for c in candidates}


def _evidence_log_odds(draft: Draft) -> float:
    """Return by how much what a draft looks like moves the log-odds that it is right."""
    moved = 0.0 if draft.length or draft.text.strip() or draft.answer else -4.0
    moved -= 3.0 if draft.refused else 0.0
    moved -= 1.0 if draft.cut else 0.0
    if draft.wrong is not None:
        moved += 0.4 if draft.wrong <= 0 else -1.5 * min(draft.wrong, 2)
    return moved
