"""Scores drafts by a rule: by their authors, their agreement and the likeness of their words.

It replaces the learned second stage where that is not available.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from baton.core.judging.answer_faults import is_refusal
from baton.core.judging.short_answer import announced_answer, answers_agree, short_answer
from baton.core.lazy_loading import lazy_pattern
from baton.core.messages import Card, Usage, head_and_tail
from baton.core.plan_types import Outcome
from baton.core.planning.assignment import success_chance
from baton.core.ports import Route, RoutingContext
from baton.core.reading.task_kind import is_short_answer_wanted
from baton.core.routing_types import Draft, Judgement

_SAME_ERROR_CHANCE = 0.2
_OWN_ERROR_CHANCE = 0.5
"""How often two wrong short answers are the same one: of two workers, of one asked twice."""

_WRONG_ODDS, _RIGHT_ODDS, _CUT_ODDS, _REFUSED_ODDS = 0.25, 1.5, 0.4, 0.1
"""Factors on the odds of a good answer: of a failed check, a passed one, a cut, a refusal."""

_UNKNOWN_CHANCE = 0.5
"""The chance of a worker that is gone from the roster."""

_WORD = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
"""A word; a single character in scripts without spaces."""


def expected_quality(card: Card, route: Route) -> float:
    """Return the chance that a worker answers well: as it was predicted, else by its skill."""
    if route.estimate is not None and card.id in route.estimate.quality:
        return route.estimate.quality[card.id]
    return success_chance(card, route.need)


def tenths(chance: float) -> str:
    """Say a chance as the user counts: "3 in 10"; never none nor all."""
    return f"{min(9, max(1, round(10 * chance)))} in 10"


def judge_by_rule(route: Route, roster: Sequence[Card], drafts: Sequence[Draft]) -> Judgement:
    """Return what is expected of drafts by a rule; the first one is shown where none is better."""
    cards = {card.id: card for card in roster}
    priors = [
        expected_quality(cards[d.worker], route) if d.worker in cards else _UNKNOWN_CHANCE
        for d in drafts
    ]
    agreed = _with_agreement(drafts, priors)
    quality = tuple(_with_evidence(d, p) for d, p in zip(drafts, agreed, strict=True))
    best = max(range(len(quality)), key=quality.__getitem__, default=0)
    shown = quality[best] if quality else 0.0
    gain = {card.id: expected_quality(card, route) - shown for card in roster if not card.is_tool}
    return Judgement(quality, best, gain, _mean_agreement(drafts))


def _with_agreement(drafts: Sequence[Draft], priors: Sequence[float]) -> list[float]:
    """Return the chance that each short answer is right, given who else gave the same one.

    One group of those that agree is right, or none is; wrong answers agree by accident now and
    then. What has no short answer keeps the chance that its worker has.
    """
    usable = [n for n, draft in enumerate(drafts) if draft.answer and not draft.refused]
    quality = list(priors)
    if len(usable) < 2:
        return quality
    groups: list[list[int]] = []
    for n in usable:
        home = next(
            (g for g in groups if answers_agree(drafts[g[0]].answer, drafts[n].answer)), None
        )
        groups.append([n]) if home is None else home.append(n)
    odds = {n: min(0.98, max(0.02, priors[n])) for n in usable}
    accidents = [
        math.prod(_accident_chance(drafts, group, n) for n in group[1:]) for group in groups
    ]
    none = math.prod(1 - odds[n] for n in usable) * math.prod(accidents)
    likely = []
    for i, group in enumerate(groups):
        wrong = math.prod(1 - odds[n] for n in usable if n not in group)
        others = math.prod(accident for j, accident in enumerate(accidents) if j != i)
        likely.append(math.prod(odds[n] for n in group) * wrong * others)
    total = none + sum(likely)
    for group, weight in zip(groups, likely, strict=True):
        for n in group:
            quality[n] = weight / total
    return quality


def _accident_chance(drafts: Sequence[Draft], group: Sequence[int], number: int) -> float:
    earlier = {drafts[n].worker for n in group if n < number}
    return _OWN_ERROR_CHANCE if drafts[number].worker in earlier else _SAME_ERROR_CHANCE


def _with_evidence(draft: Draft, quality: float) -> float:
    """Return the chance adjusted by how the draft ended and by its checks."""
    if not draft.text and not draft.length:
        return 0.0
    quality = min(0.99, max(0.01, quality))
    odds = quality / (1 - quality)
    if draft.wrong is not None:
        odds *= _WRONG_ODDS if draft.wrong else _RIGHT_ODDS
    odds *= (_CUT_ODDS if draft.cut else 1.0) * (_REFUSED_ODDS if draft.refused else 1.0)
    return odds / (1 + odds)


def _mean_agreement(drafts: Sequence[Draft]) -> float | None:
    """Return how far drafts say the same: by their short answers, else by their words."""
    pairs = list(combinations(range(len(drafts)), 2))
    if not pairs:
        return None
    if any(draft.answer for draft in drafts):
        same = [answers_agree(drafts[a].answer, drafts[b].answer) for a, b in pairs]
        return sum(same) / len(pairs)
    likeness = word_likeness([draft.text for draft in drafts])
    return sum(likeness[a][b] for a, b in pairs) / len(pairs)


def word_likeness(texts: Sequence[str]) -> list[list[float]]:
    """Return how many words each two texts share, from 0 to 1."""
    shown = [head_and_tail(text).casefold() for text in texts]
    words = [frozenset(_WORD.findall(text)) for text in shown]
    table = [[1.0] * len(texts) for _ in texts]
    for a, b in combinations(range(len(texts)), 2):
        both = len(words[a]) + len(words[b])
        shared = 2 * len(words[a] & words[b]) / both if both else float(shown[a] == shown[b])
        table[a][b] = table[b][a] = shared
    return table


# What the router is shown


def written_drafts(
    routing: RoutingContext,
    outcome: Outcome,
    authors: Mapping[int, str],
    wrong: Mapping[int, int],
) -> list[Draft]:
    """Return what some steps have written as the router is shown it, in the order of `authors`.

    `authors` says who wrote which step's text, `wrong` how many checks by computing that failed,
    where any could be made.
    """
    find = short_answer if is_short_answer_wanted(routing) else announced_answer
    return [
        Draft(
            author,
            head_and_tail(text),
            find(text),
            len(text),
            step in outcome.cut and routing.limits.max_tokens is None,
            is_refusal(text),
            **_signals(outcome.usage.get(step)),
            wrong=wrong.get(step),
        )
        for step, author in authors.items()
        for text in [outcome.text(step)]
    ]


def _signals(usage: Usage | None) -> dict[str, float | None]:
    """Return how likely a worker held the tokens that it wrote, as a draft says it."""
    if usage is None:
        return {}
    return {name: _finite(getattr(usage, name)) for name in ("confidence", "least", "first")}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
