"""A router that says anything at all: no figure of it makes sense but by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from baton.core.messages import Card
from baton.core.plan_types import KINDS, Material
from baton.core.ports import Route
from baton.core.routing_types import Draft, Estimate, Judgement
from baton.core.run.rule_router import RuleRouter

WILD = (math.nan, math.inf, -math.inf, -1.0, 0.0, 0.5, 1.0, 1e9)


class Adversary:
    """Says that help is worth everything, and random figures for all else.

    With `greedy`, every gain is 1 and every draft is bad, so that it wants remote workers
    for all of it.
    """

    def __init__(self, random: Random, *, greedy: bool = False) -> None:
        self._random = random
        self._greedy = greedy
        self.judge_calls = 0

    def warm(self) -> None:
        """Nothing is to be warmed."""

    async def route(self, material: Material, roster: Sequence[Card]) -> Route:
        """Return the rule's route with figures that no strategy should believe."""
        route = await RuleRouter().route(material, roster)
        where = "cloud" if self._greedy else self._random.choice(["local", "plan", "cloud"])
        return replace(route, where=where, estimate=self._estimate(roster))

    def _estimate(self, roster: Sequence[Card]) -> Estimate | None:
        ids = [card.id for card in roster]
        if self._greedy:
            none, all_of_it = dict.fromkeys(ids, 0.0), dict.fromkeys(ids, 1.0)
            return Estimate({"math": 1.0}, none, all_of_it, all_of_it, 1, 0.0)
        if self._random.random() < 0.2:
            return None
        kinds = {self._random.choice([*KINDS, "unknown"]): self._figure()}
        quality, gain, nearby = ({name: self._figure() for name in self._some(ids)} for _ in "123")
        tokens, most = (self._random.choice([-1, 0, 5, 10**9]) for _ in "12")
        return Estimate(kinds, quality, gain, nearby, tokens, self._figure(), most)

    async def judge(
        self, material: Material, route: Route, roster: Sequence[Card], drafts: Sequence[Draft]
    ) -> Judgement:
        """Return a judgement of some number of drafts."""
        self.judge_calls += 1
        if self._greedy:
            gains = {card.id: 1.0 for card in roster}
            return Judgement((0.0,) * len(drafts), 0, gains, 0.0)
        count = len(drafts) + self._random.choice([0, 0, 0, 1, -1])
        gains = {name: self._figure() for name in self._some([card.id for card in roster])}
        quality = tuple(self._figure() for _ in range(count))
        best = self._random.choice([0, 0, count - 1, -1, 99])
        return Judgement(quality, best, gains, self._random.choice([None, self._figure()]))

    async def likeness(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a table that may have another size."""
        size = len(texts) + self._random.choice([0, 0, 1])
        return [[self._figure() for _ in range(size)] for _ in texts]

    async def score_turns(
        self, text: str, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> Sequence[Sequence[float]]:
        """Return scores of which there may be too many."""
        size = len(workers) + self._random.choice([0, 0, 1])
        return [[self._figure() for _ in range(size)] for _ in range(3)]

    async def aclose(self) -> None:
        """Nothing is held."""

    def _figure(self) -> float:
        if self._random.random() < 0.7:
            return self._random.random()
        return self._random.choice(WILD)

    def _some(self, ids: Sequence[str]) -> list[str]:
        found = [name for name in ids if self._random.random() < 0.8]
        return [*found, "nobody"]
