"""What workers are good at: as shipped measurements, their size and the person's answers say.

A table by task kind. It begins with what was measured of a model, or with a guess from its size,
and moves with what the person did with its answers: as a Beta posterior, whose prior is worth a few
answers and whose evidence never counts for more than some dozens, so that no flood of clicks, meant
or not, ends in "never" or "always". A kind learns a little from the others, most from those like
it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from baton.core.errors import BatonError
from baton.core.feedback import Experience
from baton.core.messages import Card
from baton.core.model_names import match, read
from baton.core.plan.plan import KINDS
from baton.core.plan.skill_estimates import (
    billions,
    chance_at,
    level_at,
    ordinary,
    skill,
    skill_by_size,
)

Scores = Mapping[str, Mapping[str, tuple[float, int]]]
"""By model and task kind: how good its answers were on average, from 0 to 1, and how many."""

TYPED, MEASURED, PUBLISHED, GUESS = "typed", "measured", "published", "guess"

_WORTH = {MEASURED: 12.0, PUBLISHED: 8.0, GUESS: 6.0}
"""How many of the person's answers a prior is worth."""

_MOST = 40.0
"""All the person's answers to one kind count for no more than so many."""

_LIKE, _UNLIKE = 0.25, 0.08
"""How much of what one kind learned goes over to one like it, and to any other."""

_ALIKE = (
    {"math", "calculation", "code", "reasoning", "planning"},
    {"rewriting", "summary", "extraction", "translation"},
    {"writing", "rewriting", "chat"},
)

_TOLD = 2.0
"""The most that one kind tells others, in log-odds before that."""

_CARRIED = 0.8
"""The most that all other kinds together move the log-odds of one."""

_FAR = 1.5
"""The most that a person's answers move a level: what is easy enough is still tried."""

_GENERAL = 0.5
"""How much of what a model is above its size in measured kinds is expected in the others."""

_FEW = 3
"""So many measured models of known size tell how difficult the measured tasks were."""

RECENT = 200
"""So many of the newest answers are looked at: more would take time, and tell of longer ago."""

_FRESH = 300.0
"""After so many seconds the person's answers are looked at again."""


@dataclass(frozen=True, slots=True)
class Mastery:
    """How well a worker does one kind of task.

    `level` is the difficulty, 1 to 5, up to which it does well; `chance` how likely a good answer
    to an ordinary task of the kind is. `basis` is where the prior comes from: typed, measured, or
    guess; `answers` of the person's own have moved it since.
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


def masteries(card: Card, scores: Scores, own: Sequence[Experience]) -> dict[str, Mastery]:
    """Return what a worker is good at, by kind; what the person typed stays as it is."""
    prior = _priors(card, scores)
    mine = [one for one in own if one.worker == card.id]
    evidence = {kind: _evidence(kind, mine) for kind in prior}
    shift = {
        kind: _shifted(found, evidence[kind])
        for kind, found in prior.items()
        if found.basis != TYPED and evidence[kind].answers
    }
    return {
        kind: found
        if found.basis == TYPED
        else _moved(found, evidence[kind], _carried(kind, shift))
        for kind, found in prior.items()
    }


def levels(card: Card, scores: Scores, own: Sequence[Experience]) -> dict[str, float]:
    """Return a card's skills, as far as more is known than its size."""
    found = masteries(card, scores, own)
    told = card.published or scores_of(card, scores) or any(one.worker == card.id for one in own)
    return {kind: round(one.level, 3) for kind, one in found.items() if told or one.basis == TYPED}


def scores_of(card: Card, scores: Scores) -> Mapping[str, tuple[float, int]]:
    """Return what was measured of a worker's model, found by its name; empty if nothing was."""
    for name in (card.model, card.name, card.id):
        if name and (found := match(name, scores)) is not None:
            return scores[found]
    return {}


# In words


def ranked(table: Mapping[str, Mastery]) -> list[Mastery]:
    """Return what a worker does best first."""
    return sorted(table.values(), key=lambda one: (-one.tenths, -one.chance, one.kind))


def answers(table: Mapping[str, Mastery]) -> int:
    """Return on how many of the person's own answers a table rests."""
    return sum(one.answers for one in table.values())


def in_short(card: Card, table: Mapping[str, Mastery]) -> str:
    """Say what a worker does best and worst, and how that is known; "" of a tool."""
    best = ranked(table)
    if not best:
        return ""
    firsts = ", ".join(f"{one.kind} {one.tenths}/10" for one in best[:3])
    return (
        f"best at {firsts}; least at {best[-1].kind} {best[-1].tenths}/10 ({known_by(card, table)})"
    )


def known_by(card: Card, table: Mapping[str, Mastery]) -> str:
    """Say on what a table mainly rests: a few answers move a beginning, and don't replace it."""
    count = answers(table)
    own = [own_answers(count)] if count else []
    return ", ".join([_begun_by(card, table), *own] if count < _WORTH[GUESS] else own)


def _begun_by(card: Card, table: Mapping[str, Mastery]) -> str:
    bases = {one.basis for one in table.values()}
    if MEASURED in bases:
        return "partly measured"
    if PUBLISHED in bases:
        return "partly published"
    return "partly set by you" if TYPED in bases else f"a guess from {guessed_from(card)}"


def own_answers(count: int) -> str:
    """Say of how many answers it is that a person did something with them."""
    return "one answer of your own" if count == 1 else f"your own {count} answers"


def guessed_from(card: Card) -> str:
    """Say what is known of a model that nobody measured."""
    if billions(card):
        return "its size"
    return "its price" if card.price is not None and not card.price.is_free else "where it runs"


# The prior


def _priors(card: Card, scores: Scores) -> dict[str, Mastery]:
    if card.is_tool:
        return {}
    measured = {
        kind: level_at(_smooth(mean, count), measured_at(kind, scores))
        for kind, (mean, count) in scores_of(card, scores).items()
        if kind in KINDS and count > 0
    }
    bare = replace(card, skills={}, published={})
    better = [level - skill(bare, kind) for kind, level in measured.items()]
    general = _GENERAL * sum(better) / len(better) if better else 0.0
    found = {}
    for kind in KINDS:
        if kind in card.skills:
            level, basis = skill(card, kind), TYPED
        elif kind in measured:
            level, basis = measured[kind], MEASURED
        elif kind in card.published:
            level, basis = card.published[kind], PUBLISHED
        else:
            level, basis = skill(bare, kind) + general, GUESS
        level = min(5.0, max(1.0, level))
        found[kind] = Mastery(kind, level, chance_at(level, ordinary(kind)), basis)
    return found


def measured_at(kind: str, scores: Scores) -> float:
    """Return how difficult the tasks of a kind were that models were measured on.

    So difficult that models did on average as their size lets expect; 1 to 5.
    """
    found = []
    for model, kinds in scores.items():
        mean, count = kinds.get(kind, (0.0, 0))
        if count > 0 and (size := read(model).billions) > 0:
            found.append(skill_by_size(size, kind) - level_at(_smooth(mean, count), 0))
    if len(found) < _FEW:
        return ordinary(kind)
    return min(5.0, max(1.0, sum(found) / len(found)))


def _smooth(mean: float, count: int) -> float:
    return (min(1.0, max(0.0, mean)) * count + 1) / (count + 2)


# The person's answers


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What a person's answers to a kind come to: the weight of all, and how much of it was good."""

    weight: float = 0.0
    good: float = 0.0
    answers: int = 0


def _evidence(kind: str, own: Sequence[Experience]) -> _Evidence:
    mine = [one for one in own if one.kind == kind and one.weight > 0]
    weight = math.fsum(one.weight for one in mine)
    good = math.fsum(one.weight * min(1.0, max(0.0, one.good)) for one in mine)
    part = min(1.0, _MOST / weight) if weight else 1.0
    return _Evidence(weight * part, good * part, len(mine))


def _posterior(evidence: _Evidence, start: float, basis: str) -> float:
    worth = _WORTH[basis]
    return (worth * start + evidence.good) / (worth + evidence.weight)


def _shifted(prior: Mastery, evidence: _Evidence) -> float:
    """Return how far answers to a kind move its own log-odds, as far as others learn from it."""
    moved = _odds(_posterior(evidence, prior.chance, prior.basis)) - _odds(prior.chance)
    return min(_TOLD, max(-_TOLD, moved))


def _carried(kind: str, shift: Mapping[str, float]) -> float:
    """Return how far the other kinds move the log-odds of one."""
    moved = math.fsum(
        (_LIKE if _alike(kind, other) else _UNLIKE) * by
        for other, by in shift.items()
        if other != kind
    )
    return min(_CARRIED, max(-_CARRIED, moved))


def _alike(one: str, other: str) -> bool:
    return any(one in group and other in group for group in _ALIKE)


def _moved(prior: Mastery, evidence: _Evidence, carried: float) -> Mastery:
    start = 1 / (1 + math.exp(-(_odds(prior.chance) + carried)))
    likely = _posterior(evidence, start, prior.basis)
    if not evidence.answers and not carried:
        return prior
    difficulty = ordinary(prior.kind)
    level = level_at(likely, difficulty)
    level = min(5.0, prior.level + _FAR, max(1.0, prior.level - _FAR, level))
    return replace(
        prior, level=level, chance=chance_at(level, difficulty), answers=evidence.answers
    )


def _odds(chance: float) -> float:
    return math.log(chance / (1 - chance))


# The table of a roster


class SkillTable:
    """Tells a roster's cards what their workers are good at.

    Both sources are read when a card is first wanted, the person's answers again after some
    minutes. Where their history can't be read, only the shipped measurements count.
    """

    def __init__(
        self,
        scores: Callable[[], Scores] = dict,
        outcomes: Callable[[], Awaitable[Sequence[Experience]]] | None = None,
    ) -> None:
        self._read = scores
        self._outcomes = outcomes
        self._scores: Scores | None = None
        self._own: Sequence[Experience] = ()
        self._until = -math.inf
        self._told: dict[Card, Card] = {}

    @property
    def scores(self) -> Scores:
        """What Baton ships of measurements."""
        if self._scores is None:
            self._scores = self._read()
        return self._scores

    async def informed(self, roster: Sequence[Card]) -> tuple[Card, ...]:
        """Return the cards with their skills, as far as more is known than their size."""
        await self._refresh()
        for card in roster:
            if card not in self._told:
                self._told[card] = self._tell(card)
        return tuple(self._told[card] for card in roster)

    def _tell(self, card: Card) -> Card:
        if card.is_tool:
            return card
        return replace(card, skills=levels(card, self.scores, self._own))

    async def of(self, card: Card) -> dict[str, Mastery]:
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
        self._told.clear()
        self._until = time.monotonic() + _FRESH
