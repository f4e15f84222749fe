"""What a strategy has at hand during a run (core.ports.StrategyContext)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from baton.core import events as ev
from baton.core.errors import BudgetExceeded
from baton.core.judging.draft_scoring import judge_by_rule, written_drafts
from baton.core.messages import (
    AnswerFormat,
    Message,
    Purpose,
    Request,
    Retrying,
    Role,
    Text,
    Usage,
)
from baton.core.plan_types import Material, Outcome, Plan
from baton.core.planning.request_parts import WrittenPlan
from baton.core.ports import ClaimJudge, RoutingContext, SpendingRoom, Worker
from baton.core.reading.follow_up import request_text
from baton.core.routing_types import Judgement
from baton.core.run.metered_worker import PreparedCall
from baton.core.run.routing_context import (
    sound_estimate,
    sound_judgement,
    sound_likeness,
    sound_scores,
)
from baton.core.run.run_context import RunContext, chunk_event


class RunStrategyContext:
    """Asks the router, the conductor and the checks on a strategy's behalf, and records it.

    `draft` returns the answer so far, `author` who wrote a step's text.
    """

    def __init__(
        self, run: RunContext, draft: Callable[[], str], author: Callable[[int], str]
    ) -> None:
        self._run = run
        self._draft = draft
        self._author = author
        self._wrong: dict[int, int] = {}
        self._checks: dict[int, tuple[ev.Checked, ...]] = {}

    @property
    def routing(self) -> RoutingContext:
        """What was known before anything was called."""
        return self._run.routing

    async def funds(self) -> SpendingRoom:
        """Return what may be spent now: nothing where the ledger can't be read."""
        return await self._run.spending_room()

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
        """Return what a worker says apart from any step; see core.ports.PlanningContext."""
        run, card = self._run, self.routing.card(worker)
        label, seed = run.recorded.label, run.request.limits.seed
        if max_tokens is not None:
            max_tokens += card.thinking
        request = Request(tuple(messages), purpose, max_tokens, 0.0, seed, label, shape=shape)
        await run.emit(ev.Planning(worker))
        call = await run.budget.prepare(card, request)
        if not card.is_local:
            named = run.is_named(worker, 0)
            offered, call = await run.approval.ask_for(
                card, call, why, draft=self._draft, named=named
            )
            if offered.decision is not ev.Decision.SENT:
                raise BudgetExceeded(offered.message or f"{card.name} was not asked for a plan.")
        return (await self._written(run.services.workers[worker], call)).text

    async def split(self) -> Plan | None:
        """Return the trained conductor's plan for the prompt; see core.ports.StrategyContext."""
        conductor = self._run.services.trained
        if conductor is None:
            return None
        from baton.core.planning.plan_lines import is_repeating
        from baton.core.planning.request_parts import split_request

        async def write(request: Request) -> WrittenPlan:
            await self._run.emit(ev.Planning(conductor.worker.card.id))
            return await self._written(conductor.worker, request, is_repeating)

        return await split_request(conductor, self.routing, write)

    async def check(
        self, outcome: Outcome, step: int, *, decided_only: bool = False
    ) -> tuple[ev.Checked, ...]:
        """Check a step's text by executing, parsing and recomputing what can be, and record it.

        A step is checked once; with `decided_only` what can't be checked isn't recorded.
        """
        if step in self._checks:
            return self._checks[step]
        from baton.core.judging.checks import check_text

        has_tools = any(card.is_tool for card in self.routing.roster)
        calculator = self._run.services.workers.get("calculator")
        found = await check_text(
            outcome.text(step),
            self._run.conversation.material.question,
            self._compute if has_tools else None,
            calculator.judge_claims if has_tools and isinstance(calculator, ClaimJudge) else None,
        )
        checked = tuple(ev.Checked(step, f.what, f.verdict, f.note) for f in found)
        decided = [event for event in checked if event.verdict is not ev.Verdict.UNCHECKED]
        if decided:
            self._wrong[step] = sum(event.verdict is ev.Verdict.WRONG for event in decided)
        for event in decided if decided_only else checked:
            await self._run.emit(event)
        self._checks[step] = checked
        return checked

    async def judge(self, outcome: Outcome, steps: Sequence[int]) -> Judgement:
        """Return what is expected of the answers that some steps wrote, in their order."""
        return await self._judge(self.routing, outcome, steps)

    async def chance(self, outcome: Outcome, step: int, part: Material | None) -> float:
        """Return how likely what a step wrote is good, from 0 to 1.

        An answer to the prompt is compared with the other drafts of it. A `part` of the request is
        judged as if it were the whole. A router that was too late before may be ready by now.
        """
        routing, router = self.routing, self._run.services.router
        numbers = [step]
        if part is None:
            steps = enumerate(outcome.plan.steps, start=1)
            tools = {card.id for card in routing.roster if card.is_tool}
            direct = [n for n, one in steps if one.is_direct and outcome.text(n)]
            numbers = [n for n in direct if self._author(n) not in tools]
        else:
            route = await router.route(part, routing.roster)
            estimate = sound_estimate(route.estimate, routing.roster)
            routing = replace(routing, material=part, route=replace(route, estimate=estimate))
        judged = await self._judge(routing, outcome, numbers)
        return judged.quality[numbers.index(step)]

    async def _judge(
        self, routing: RoutingContext, outcome: Outcome, steps: Sequence[int]
    ) -> Judgement:
        authors = {n: self._author(n) for n in steps}
        drafts = written_drafts(routing, outcome, authors, self._wrong)
        router, asked = self._run.services.router, routing.material
        judged = await router.judge(asked, routing.route, routing.roster, drafts)
        sound = sound_judgement(judged, len(drafts), routing.roster)
        return sound or judge_by_rule(routing.route, routing.roster, drafts)

    async def likeness(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return how alike each two texts are in meaning, from 0 to 1."""
        return sound_likeness(await self._run.services.router.likeness(texts), len(texts))

    async def score_turns(
        self, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> Sequence[Sequence[float]]:
        """Return how well each worker would do in each role; see core.ports.StrategyContext."""
        router, text = self._run.services.router, request_text(self._run.conversation.material)
        return sound_scores(await router.score_turns(text, position, workers), workers)

    async def weigh(self, worker: str, gain: float, *, plain: bool = False) -> bool:
        """Whether asking a worker is worth its price; see core.ports.StrategyContext."""
        weighed = await self._run.weigh_help(self.routing.card(worker), gain, plain=plain)
        await self._run.emit(weighed)
        return weighed.ok

    async def _compute(self, tool: str, text: str) -> str:
        """Have a tool compute something for a check. Raises WorkerError."""
        worker = self._run.services.workers[tool]
        request = Request((Message(Role.USER, text),), Purpose.VERIFY)
        return (await self._written(worker, request)).text

    async def _written(
        self,
        worker: Worker,
        request: Request | PreparedCall,
        is_enough: Callable[[str], bool] = lambda _: False,
    ) -> WrittenPlan:
        """Return what a worker writes apart from any step, metered and recorded.

        It is stopped once what it wrote `is_enough`.
        """
        run = self._run
        pieces: list[str] = []
        confidence: float | None = None
        lines: tuple[float, ...] = ()
        stream = run.metered(worker).stream(request)
        async with run.services.slots.of(worker.card), aclosing(stream) as chunks:
            async for chunk in chunks:
                match chunk:
                    case Text(text=text):
                        pieces.append(text)
                        if is_enough("".join(pieces)):
                            break
                    case Retrying(reason=""):
                        pieces.clear()
                    case Usage():
                        confidence, lines = chunk.confidence, chunk.lines
                event = chunk_event(0, worker.card.id, chunk)
                if isinstance(event, ev.Sent | ev.Unsent):
                    await run.emit(event)
        return WrittenPlan("".join(pieces), confidence, lines)
