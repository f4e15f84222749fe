"""The trained router as the engine sees it: it asks the scorer, and falls back on the rule."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from baton.core.messages import Card
from baton.core.plan.plan import Material
from baton.core.ports import Route
from baton.core.routing_types import Candidate, Draft, Estimate, Judgement
from baton.core.run.rule_router import RuleRouter, routed, tool_alone
from baton.ipc.process import Died
from baton.routing.protocol import (
    MOST_TEXTS,
    candidates,
    drafts_sent,
    estimate_in,
    judgement_in,
    scores_in,
    shown,
    table_in,
)
from baton.routing.router_files import shipped
from baton.routing.scorer_process import USUAL, Limits, Loaded, Scorer, Unanswered

_COMPARING = 5.0
"""How many times as long as a prompt several drafts may take: each is read like one."""


class LearnedRouter:
    """Routes by what is expected of each worker, as a child process on this machine computes it.

    `folder` None is the router that Baton ships; `learned` is the person's own file, which need not
    be there. Nothing is started before the first question (or `warm`). Where there is no answer in
    time, the rule's counts; `tell` hears once why there are none at all.
    """

    def __init__(
        self,
        folder: Path | None = None,
        learned: Path | None = None,
        *,
        limits: Limits = USUAL,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.folder = shipped() if folder is None else folder
        self.tell: Callable[[str], object] = _nobody
        self._scorer = Scorer(self.folder, learned, limits=limits, environ=environ)
        self._scorer.on_news = lambda: self._say(self.warning or self._scorer.note)
        self._rule = RuleRouter()
        self._told = self.warning

    @property
    def warning(self) -> str:
        """What the person must know now of why the router can't be used, or ""."""
        trouble = self.trouble
        return f"A rule of length and task decides where prompts go. {trouble}" if trouble else ""

    @property
    def trouble(self) -> str:
        """Why the router can't be used now, and what to do; "" if it can, for all that is known."""
        return self._scorer.trouble

    @property
    def loaded(self) -> Loaded | None:
        """What the child holds, once it is ready."""
        return self._scorer.loaded

    @property
    def pid(self) -> int | None:
        """The child's process, where it runs."""
        return self._scorer.pid

    def warm(self) -> None:
        """Start the child; returns at once."""
        self._scorer.warm()

    def beside(self, waits_anyway: Callable[[], bool]) -> None:
        """Have the first questions wait a little longer while that says it costs nobody time."""
        self._scorer.waits_anyway = waits_anyway

    async def route(self, material: Material, roster: Sequence[Card]) -> Route:
        """Return the route of the newest prompt; see core.ports.Router."""
        if (tool := tool_alone(material, roster)) is not None:
            return tool
        return routed(material, roster, await self.estimate(material.prompt, candidates(roster)))

    async def estimate(self, text: str, workers: Sequence[Candidate]) -> Estimate | None:
        """Return what is expected of some workers, or None where that isn't known in time."""
        if not workers:
            return None
        fields = [asdict(worker) for worker in workers]
        try:
            value = await self._scorer.ask("estimate", text=shown(text), candidates=fields)
            found = estimate_in(value, [worker.id for worker in workers])
        except (Unanswered, Died) as error:
            self._note(error)
            return None
        self._say(self._scorer.note)
        return found

    async def judge(
        self, material: Material, route: Route, roster: Sequence[Card], drafts: Sequence[Draft]
    ) -> Judgement:
        """Return what is expected now that there are drafts; see core.ports.Router."""
        workers = candidates(roster)
        if not drafts or len(drafts) > MOST_TEXTS or not workers:
            return await self._rule.judge(material, route, roster, drafts)
        try:
            value = await self._scorer.ask(
                "judge",
                _COMPARING + len(drafts),
                text=shown(material.prompt),
                candidates=[asdict(worker) for worker in workers],
                drafts=drafts_sent(drafts),
                estimate=None if route.estimate is None else asdict(route.estimate),
            )
            found = judgement_in(value, len(drafts), [worker.id for worker in workers])
        except (Unanswered, Died) as error:
            self._note(error)
            return await self._rule.judge(material, route, roster, drafts)
        return found

    async def likeness(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return how alike each two texts are in meaning; see core.ports.Router."""
        if not 1 < len(texts) <= MOST_TEXTS:
            return await self._rule.likeness(texts)
        try:
            slack = _COMPARING + len(texts)
            value = await self._scorer.ask("likeness", slack, texts=[shown(t) for t in texts])
            found = table_in(value, len(texts))
        except (Unanswered, Died) as error:
            self._note(error)
            return await self._rule.likeness(texts)
        return found

    async def score_turns(
        self, text: str, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> Sequence[Sequence[float]]:
        """Return how well each worker would do in each role; see core.ports.Router."""
        table = [list(figures) for figures in workers]
        try:
            value = await self._scorer.ask(
                "turns", text=shown(text), position=list(position), workers=table
            )
            return scores_in(value, len(workers))
        except (Unanswered, Died) as error:
            self._note(error)
            return await self._rule.score_turns(text, position, workers)

    async def aclose(self) -> None:
        """End the child; the router may be used again."""
        await self._scorer.aclose()

    def _note(self, error: Exception) -> None:
        """See to it that the person hears once that the rule decides, and why."""
        if isinstance(error, Died):
            self._scorer.distrust()
        self._say(self.warning)

    def _say(self, what: str) -> None:
        if what and what != self._told:
            self._told = what
            self.tell(what)


def _nobody(_: str) -> None:
    """Nobody is there to be told."""
