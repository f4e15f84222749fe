"""What workers are good at, by shipped measurements, their size and the user's own answers.

A table by task kind. It begins with what was measured of a model, or with a guess from its size,
and moves with what the user did with its answers: as a Beta posterior, whose prior is worth a few
answers and whose evidence never counts for more than some dozens, so that no flood of clicks, meant
or not, ends in "never" or "always". A kind learns a little from the others, most from those like
it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from baton.core.errors import BatonError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.history_types import GradedAnswer
from baton.core.messages import Card
from baton.core.model_names import matching_model, parse_model_name
from baton.core.plan_types import KINDS
from baton.core.planning.skill_estimates import (
    chance_at,
    level_at,
    parameter_billions,
    skill,
    skill_by_size,
)
from baton.core.reading.task_kind import ordinary_difficulty

Scores = Mapping[str, Mapping[str, tuple[float, int]]]
"""By model and task kind: how good its answers were on average, from 0 to 1, and how many."""

CONFIGURED, MEASURED, PUBLISHED, GUESS = "typed", "measured", "published", "guess"

_PRIOR_ANSWERS = {MEASURED: 12.0, PUBLISHED: 8.0, GUESS: 6.0}
"""How many of the user's answers a prior is worth."""

_MAX_EVIDENCE = 40.0
"""All the user's answers to one kind count for no more than so many."""

_SIMILAR_SHARE, _OTHER_SHARE = 0.25, 0.08
"""The share of a kind's shift that similar kinds and other kinds get."""

_SIMILAR_KINDS = (
    {"math", "calculation", "code", "reasoning", "planning"},
    {"rewriting", "summary", "extraction", "translation"},
    {"writing", "rewriting", "chat"},
)

_MAX_SHIFT = 2.0
"""The most that one kind moves others, in log-odds before that share."""

_MAX_CARRIED_SHIFT = 0.8
"""The most that all other kinds together move the log-odds of one."""

_MAX_LEVEL_SHIFT = 1.5
"""The most that the user's answers move a level: what is easy enough is still tried."""

_GENERAL_SHARE = 0.5
"""The share of a model's mean advantage over its size that unmeasured kinds get."""

_MIN_MEASURED_MODELS = 3
"""Measured models of known size that are needed to infer how difficult the measured tasks were."""

MAX_RECENT_ANSWERS = 200
"""Only the newest answers count: more would take time and be older."""

_FRESH_SECONDS = 300.0
"""After this time the user's answers are read again."""


@frozen_dataclass
class Mastery:
    """The skill of a worker at one kind of task.

    `level` is the difficulty, 1 to 5, up to which it does well; `chance` how likely a good answer
    to an ordinary task of the kind is. `basis` is where the prior comes from: configured ("typed"),
    measured, published or guess; `answers` of the user have moved it since.
    """

    kind: str
    level: float
    chance: float
    basis: str
    answers: int = 0

    @property
    def tenths(self) -> int:
        """How many of ten ordinary tasks it does well, at least."""
        return int(10 * self.chance)


def masteries(card: Card, scores: Scores, own: Sequence[GradedAnswer]) -> dict[str, Mastery]:
    """Return what a worker is good at, by kind; configured skills stay as they are."""
    prior = _priors(card, scores)
    mine = [one for one in own if one.worker == card.id]
    evidence = {kind: _evidence(kind, mine) for kind in prior}
    shift = {
        kind: _own_shift(found, evidence[kind])
        for kind, found in prior.items()
        if found.basis != CONFIGURED and evidence[kind].answers
    }
    return {
        kind: found
        if found.basis == CONFIGURED
        else _with_evidence(found, evidence[kind], _carried_shift(kind, shift))
        for kind, found in prior.items()
    }


def skill_levels(card: Card, scores: Scores, own: Sequence[GradedAnswer]) -> dict[str, float]:
    """Return a card's skills, as far as more is known than its size."""
    found = masteries(card, scores, own)
    has_evidence = (
        card.published or measured_scores(card, scores) or any(one.worker == card.id for one in own)
    )
    return {
        kind: round(one.level, 3)
        for kind, one in found.items()
        if has_evidence or one.basis == CONFIGURED
    }


def measured_scores(card: Card, scores: Scores) -> Mapping[str, tuple[float, int]]:
    """Return what was measured of a worker's model, found by its name; empty if nothing was."""
    for name in (card.model, card.name, card.id):
        if name and (found := matching_model(name, scores)) is not None:
            return scores[found]
    return {}


# In words


def masteries_best_first(table: Mapping[str, Mastery]) -> list[Mastery]:
    """Return what a worker does best first."""
    return sorted(table.values(), key=lambda one: (-one.tenths, -one.chance, one.kind))


def count_own_answers(table: Mapping[str, Mastery]) -> int:
    """Return on how many of the user's own answers a table rests."""
    return sum(one.answers for one in table.values())


def skill_summary(card: Card, table: Mapping[str, Mastery]) -> str:
    """Return what a worker does best and worst, and on what that rests; "" for a tool."""
    best = masteries_best_first(table)
    if not best:
        return ""
    if best[0].tenths == best[-1].tenths:
        return f"equally good at everything, {best[0].tenths}/10 ({basis_text(card, table)})"
    firsts = ", ".join(f"{one.kind} {one.tenths}/10" for one in best[:3])
    last = f"{best[-1].kind} {best[-1].tenths}/10"
    return f"best at {firsts}; least at {last} ({basis_text(card, table)})"


def basis_text(card: Card, table: Mapping[str, Mastery]) -> str:
    """Return on what a table mainly rests: a few answers move the prior, and don't replace it."""
    count = count_own_answers(table)
    own = [own_answers_text(count)] if count else []
    return ", ".join([_prior_text(card, table), *own] if count < _PRIOR_ANSWERS[GUESS] else own)


def _prior_text(card: Card, table: Mapping[str, Mastery]) -> str:
    bases = {one.basis for one in table.values()}
    if MEASURED in bases:
        return "partly measured"
    if PUBLISHED in bases:
        return "partly published"
    return "partly set by you" if CONFIGURED in bases else f"a guess from {guess_basis(card)}"


def own_answers_text(count: int) -> str:
    """Return the number of the user's own answers in words."""
    return "one answer of your own" if count == 1 else f"your own {count} answers"


def guess_basis(card: Card) -> str:
    """Return what the estimate of an unmeasured model rests on."""
    if parameter_billions(card):
        return "its size"
    return "its price" if card.price is not None and not card.price.is_free else "where it runs"


# The prior


def _priors(card: Card, scores: Scores) -> dict[str, Mastery]:
    if card.is_tool:
        return {}
    measured = {
        kind: level_at(_smoothed_mean(mean, count), measured_difficulty(kind, scores))
        for kind, (mean, count) in measured_scores(card, scores).items()
        if kind in KINDS and count > 0
    }
    bare = replace(card, skills={}, published={})
    better = [level - skill(bare, kind) for kind, level in measured.items()]
    general = _GENERAL_SHARE * sum(better) / len(better) if better else 0.0
    found = {}
    for kind in KINDS:
        if kind in card.skills:
            level, basis = skill(card, kind), CONFIGURED
        elif kind in measured:
            level, basis = measured[kind], MEASURED
        elif kind in card.published:
            level, basis = card.published[kind], PUBLISHED
        else:
            level, basis = skill(bare, kind) + general, GUESS
        level = min(5.0, max(1.0, level))
        found[kind] = Mastery(kind, level, chance_at(level, ordinary_difficulty(kind)), basis)
    return found


def measured_difficulty(kind: str, scores: Scores) -> float:
    """Return how difficult the tasks of a kind were that models were measured on.

    So difficult that models did on average as their size lets expect; 1 to 5.
    """
    found = []
    for model, kinds in scores.items():
        mean, count = kinds.get(kind, (0.0, 0))
        if count > 0 and (size := parse_model_name(model).billions) > 0:
            found.append(skill_by_size(size, kind) - level_at(_smoothed_mean(mean, count), 0))
    if len(found) < _MIN_MEASURED_MODELS:
        return ordinary_difficulty(kind)
    return min(5.0, max(1.0, sum(found) / len(found)))


def _smoothed_mean(mean: float, count: int) -> float:
    return (min(1.0, max(0.0, mean)) * count + 1) / (count + 2)


# The user's answers


@frozen_dataclass
class _Evidence:
    """The sum of the user's answers to a kind: the weight of all, and how much of it was good."""

    weight: float = 0.0
    good: float = 0.0
    answers: int = 0


def _evidence(kind: str, own: Sequence[GradedAnswer]) -> _Evidence:
    mine = [one for one in own if one.kind == kind and one.weight > 0]
    weight = math.fsum(one.weight for one in mine)
    good = math.fsum(one.weight * min(1.0, max(0.0, one.good)) for one in mine)
    part = min(1.0, _MAX_EVIDENCE / weight) if weight else 1.0
    return _Evidence(weight * part, good * part, len(mine))


def _posterior(evidence: _Evidence, start: float, basis: str) -> float:
    worth = _PRIOR_ANSWERS[basis]
    return (worth * start + evidence.good) / (worth + evidence.weight)


def _own_shift(prior: Mastery, evidence: _Evidence) -> float:
    """Return how far answers to a kind move its own log-odds, as far as others learn from it."""
    moved = _log_odds(_posterior(evidence, prior.chance, prior.basis)) - _log_odds(prior.chance)
    return min(_MAX_SHIFT, max(-_MAX_SHIFT, moved))


def _carried_shift(kind: str, shift: Mapping[str, float]) -> float:
    """Return how far the other kinds move the log-odds of one."""
    moved = math.fsum(
        (_SIMILAR_SHARE if _are_similar(kind, other) else _OTHER_SHARE) * by
        for other, by in shift.items()
        if other != kind
    )
    return min(_MAX_CARRIED_SHIFT, max(-_MAX_CARRIED_SHIFT, moved))


def _are_similar(one: str, other: str) -> bool:
    return any(one in group and other in group for group in _SIMILAR_KINDS)


def _with_evidence(prior: Mastery, evidence: _Evidence, carried: float) -> Mastery:
    start = 1 / (1 + math.exp(-(_log_odds(prior.chance) + carried)))
    likely = _posterior(evidence, start, prior.basis)
    if not evidence.answers and not carried:
        return prior
    difficulty = ordinary_difficulty(prior.kind)
    level = level_at(likely, difficulty)
    level = min(
        5.0, prior.level + _MAX_LEVEL_SHIFT, max(1.0, prior.level - _MAX_LEVEL_SHIFT, level)
    )
    return replace(
        prior, level=level, chance=chance_at(level, difficulty), answers=evidence.answers
    )


def _log_odds(chance: float) -> float:
    return math.log(chance / (1 - chance))


# The table of a roster


class SkillTable:
    """Adds skills to the cards of a roster.

    Both sources are read when a card is first requested, the user's answers again after some
    minutes. Where their history can't be read, only the shipped measurements count.
    """

    def __init__(
        self,
        scores: Callable[[], Scores] = dict,
        outcomes: Callable[[], Awaitable[Sequence[GradedAnswer]]] | None = None,
    ) -> None:
        self._read = scores
        self._outcomes = outcomes
        self._scores: Scores | None = None
        self._own: Sequence[GradedAnswer] = ()
        self._until = -math.inf
        self._cards: dict[Card, Card] = {}

    @property
    def scores(self) -> Scores:
        """The shipped measurements."""
        if self._scores is None:
            self._scores = self._read()
        return self._scores

    async def cards_with_skills(self, roster: Sequence[Card]) -> tuple[Card, ...]:
        """Return the cards with their skills, as far as more is known than their size."""
        await self._refresh()
        for card in roster:
            if card not in self._cards:
                self._cards[card] = self._card_with_skills(card)
        return tuple(self._cards[card] for card in roster)

    def _card_with_skills(self, card: Card) -> Card:
        if card.is_tool:
            return card
        return replace(card, skills=skill_levels(card, self.scores, self._own))

    async def masteries_of(self, card: Card) -> dict[str, Mastery]:
        """Return what a worker is good at, by kind."""
        await self._refresh()
        return masteries(card, self.scores, self._own)

    async def _refresh(self) -> None:
        if self._outcomes is None or time.monotonic() < self._until:
            return
        try:
            self._own = await self._outcomes()
        except BatonError:
            self._own = ()
        self._cards.clear()
        self._until = time.monotonic() + _FRESH_SECONDS
