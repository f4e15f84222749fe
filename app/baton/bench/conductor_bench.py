"""How well conductors split requests whose parts are known: only planning is played, locally.

Every call goes through the meter like any other, with a ledger that lets nothing remote through.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from statistics import fmean, median

from baton.bench.conductor_score import (
    Episode,
    PlanScore,
    bootstrap_interval,
    score_plan,
    value_text,
)
from baton.core.errors import ConfigError, PlanError, WorkerError, WorkerUnavailable
from baton.core.labels import Label
from baton.core.ledger_types import NO_LEDGER
from baton.core.messages import (
    AnswerFormat,
    Message,
    Purpose,
    Request,
    Role,
    Text,
    Turn,
    TurnStatus,
    Usage,
)
from baton.core.permissions import PromptLimits, RunTerms
from baton.core.plan_types import Material, Plan
from baton.core.planning.assignment import assign_workers
from baton.core.planning.conductor import LanguageConductor
from baton.core.planning.plan_lines import TOOL_HEADS, parse_lines
from baton.core.planning.request_parts import TrainedConductor, WrittenPlan, split_request
from baton.core.planning.skill_table import SkillTable
from baton.core.ports import Router, RoutingContext, SpendingRoom, Worker
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget

_TERMS, _LIMITS = RunTerms(mode="local", offline=True), PromptLimits(label=Label.LOCAL)


@dataclass(frozen=True)
class DrawnPlan:
    """What a conductor drew for an episode: None where it keeps the request whole.

    `problem` says why there is no plan that can be used ("": there is); such a one scores 0.
    `seconds` is how long the person would have waited for it.
    """

    episode: Episode
    plan: Plan | None
    score: PlanScore
    seconds: float
    calls: tuple[CallUsage, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class ConductorRow:
    """What a conductor came to over all episodes; shares are None where there are none of a sort.

    `conductor` is a worker's id, "" for the trained conductor.
    """

    conductor: str
    drawn: Sequence[DrawnPlan]

    @property
    def score(self) -> float:
        """The mean of the plans' scores, from 0 to 1."""
        return fmean(one.score.points for one in self.drawn)

    @property
    def interval(self) -> tuple[float, float]:
        """Where that mean lies with 95 % certainty."""
        return bootstrap_interval([one.score.points for one in self.drawn])

    @property
    def valid(self) -> float:
        """The share of the plans that can be used."""
        return fmean(not one.problem for one in self.drawn)

    @property
    def kept_whole(self) -> float | None:
        """The share that was kept as one step of the requests that are one task."""
        return _share_right(one for one in self.drawn if one.episode.is_whole)

    @property
    def split_right(self) -> float | None:
        """The share that was split right of the requests with several parts."""
        return _share_right(one for one in self.drawn if len(one.episode.parts) > 1)

    @property
    def seconds(self) -> float:
        """The median time of a plan."""
        return median(one.seconds for one in self.drawn)

    @property
    def tokens(self) -> tuple[int, int]:
        """How many tokens were read and written."""
        calls = [call for one in self.drawn for call in one.calls]
        read = sum(call.usage.tokens_in for call in calls if call.usage is not None)
        return read, sum(call.tokens_out for call in calls)


def _share_right(drawn: Iterable[DrawnPlan]) -> float | None:
    right = [one.score.is_right for one in drawn]
    return fmean(right) if right else None


class EpisodeContext:
    """What a conductor has at hand for one episode (core.ports.PlanningContext)."""

    def __init__(self, routing: RoutingContext, workers: Mapping[str, Worker]) -> None:
        self._routing = routing
        self._workers = workers
        self.calls: list[CallUsage] = []

    @property
    def routing(self) -> RoutingContext:
        """What is known before anything is called."""
        return self._routing

    async def funds(self) -> SpendingRoom:
        """Nothing may be spent."""
        return SpendingRoom(0, 0.0)

    async def ask(
        self,
        worker: str,
        messages: Sequence[Message],
        purpose: Purpose,
        shape: AnswerFormat | None = None,
        max_tokens: int | None = None,
        *,
        why: str,
    ) -> str:
        """Return what a worker writes. Raises what it raises."""
        chosen = self._workers[worker]
        if max_tokens is not None:
            max_tokens += chosen.card.thinking
        request = Request(tuple(messages), purpose, max_tokens, 0.0, shape=shape)
        return (await self.write(chosen, request)).text

    async def write(self, worker: Worker, request: Request) -> WrittenPlan:
        """Return what a worker writes, metered and recorded."""
        metered = MeteredWorker(worker, RunBudget(NO_LEDGER, None, _TERMS, _LIMITS), self._record)
        pieces: list[str] = []
        confidence: float | None = None
        lines: tuple[float, ...] = ()
        async with aclosing(metered.stream(request)) as chunks:
            async for chunk in chunks:
                match chunk:
                    case Text(text=text):
                        pieces.append(text)
                    case Usage():
                        confidence, lines = chunk.confidence, chunk.lines
        return WrittenPlan("".join(pieces), confidence, lines)

    async def _record(self, tally: CallUsage) -> None:
        self.calls.append(tally)


DrawPlan = Callable[[EpisodeContext], Awaitable[Plan | None]]
"""Draws the plan of an episode, None to keep it whole. Raises PlanError, and what workers raise."""


def plan_drawer(conductor: TrainedConductor | str) -> DrawPlan:
    """Return how the trained conductor draws plans, or the worker of that id."""

    async def trained(context: EpisodeContext) -> Plan | None:
        assert isinstance(conductor, TrainedConductor)
        lines: list[str] = []

        async def write(request: Request) -> WrittenPlan:
            written = await context.write(conductor.worker, request)
            lines.append(written.text)
            return written

        plan = await split_request(conductor, context.routing, write)
        for text in lines:
            parse_lines(text)  # `split` keeps a request whole whose lines can't be read
        return plan

    async def language(context: EpisodeContext) -> Plan | None:
        assert isinstance(conductor, str)
        return await LanguageConductor(conductor).plan(context)

    return language if isinstance(conductor, str) else trained


@dataclass(frozen=True)
class ConductorBench:
    """What all conductors plan with: the local workers and tools, the default worker first."""

    workers: Mapping[str, Worker]
    router: Router
    skills: SkillTable
    _values: dict[tuple[str, str], str] = field(default_factory=dict)

    async def play(self, draw: DrawPlan, episodes: Iterable[Episode]) -> AsyncIterator[DrawnPlan]:
        """Yield what a conductor draws for each episode. Raises what keeps it from any plan.

        That is a model file that can't be loaded, or a process that can't be started.
        """
        for episode in episodes:
            context = EpisodeContext(await self._routing_context(episode), self.workers)
            plan, problem, start = None, "", time.monotonic()
            try:
                plan = await draw(context)
            except WorkerUnavailable:
                raise
            except (ConfigError, PlanError, WorkerError) as error:
                problem = error.message
            seconds = time.monotonic() - start
            score = PlanScore(0.0, False) if problem else await self._score(context, plan, episode)
            yield DrawnPlan(episode, plan, score, seconds, tuple(context.calls), problem)

    async def _routing_context(self, episode: Episode) -> RoutingContext:
        turn = Turn(
            episode.id, "", None, Role.USER, episode.request, TurnStatus.DONE, Label.LOCAL, 0.0
        )
        material = Material((turn,))
        roster = await self.skills.cards_with_skills(
            [worker.card for worker in self.workers.values()]
        )
        route = await self.router.route(material, roster)
        return RoutingContext(material, roster[0].id, "", roster, route, _LIMITS)

    async def _score(
        self, context: EpisodeContext, plan: Plan | None, episode: Episode
    ) -> PlanScore:
        """Score a plan by the workers that would do its steps."""
        if plan is not None:
            routing = context.routing
            plan = assign_workers(plan, routing.roster, left=0, material=routing.material)
        expressions = {(part.tool, part.text) for part in episode.parts if part.tool}
        expressions |= {(step.worker, step.subtask) for step in (plan.steps if plan else ())}
        for tool, text in sorted(expressions):
            if tool in TOOL_HEADS.values() and (tool, text) not in self._values:
                await self._compute(tool, text)
        return score_plan(plan, episode, self._values)

    async def _compute(self, tool: str, text: str) -> None:
        """Keep what an expression comes to, if the tool is here and can compute it."""
        if tool not in self.workers:
            return
        request = Request((Message(Role.USER, text),), Purpose.VERIFY)
        pieces: list[str] = []
        try:
            async for chunk in self.workers[tool].stream(request):
                if isinstance(chunk, Text):
                    pieces.append(chunk.text)
        except WorkerError:
            return
        self._values[tool, text] = value_text("".join(pieces))
