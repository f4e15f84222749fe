"""How a plan is played: what a strategy proposes, step by step, until it has nothing to add.

Steps whose inputs are there run side by side in one TaskGroup, within each worker's slots. A step
that fails is given to the next suitable worker; what can't be had is left to the strategy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from baton.core import events as ev
from baton.core.errors import BudgetExceeded, PlanError, StoreError
from baton.core.messages import (
    AnswerFormat,
    Card,
    Finish,
    Message,
    Purpose,
    Request,
    RequestSent,
    Role,
    Text,
    Usage,
)
from baton.core.plan.plan import Material, Outcome, Plan, single_step_plan
from baton.core.plan.request_parts import WrittenPlan
from baton.core.ports import (
    Choice,
    Proposal,
    Question,
    RoutingContext,
    SpendingRoom,
    Strategy,
    Worker,
)
from baton.core.routing_types import Judgement
from baton.core.run.approval import PromptWithdrawn
from baton.core.run.metered_worker import CallUsage, MeteredWorker
from baton.core.run.routing_context import build_routing_context
from baton.core.run.run_context import RunContext
from baton.core.run.step_executor import StepExecution
from baton.core.spending import worth_asking

BYTES_PER_TOKEN = 4
"""About how many bytes a token of an answer has: the step that reads it is billed for them."""

GO, STOP, EDIT = "go", "stop", "edit"
"""What a person may say to a plan."""


class PlanExecutor:
    """One prompt on its way, and the desk at which its strategy sits (core.ports.Desk)."""

    def __init__(self, stage: RunContext) -> None:
        self.stage = stage
        self.material = Material(stage.begun.turns)
        self.plan: Plan | None = None
        self.final = True
        self.why = ""
        self.route = ""
        self.waiting_to_hold: set[int] = set()
        self.trimming = asyncio.Lock()
        self._offering = asyncio.Lock()
        self._parts: dict[int, StepExecution] = {}
        self._before = ""
        self._sunk: set[int] = set()
        self._wrong: dict[int, int] = {}
        self._situation: RoutingContext | None = None

    # What there is so far

    @property
    def text(self) -> str:
        """The answer so far; until the one that replaces a draft has a word, the draft."""
        numbers = self.plan.answer if self.plan else ()
        texts = [self._parts[n].text for n in numbers if n in self._parts]
        return "\n\n".join(filter(None, texts)) or self._before

    @property
    def author(self) -> str:
        """The worker that wrote the answer, or the last part of it."""
        numbers = self.plan.answer if self.plan else ()
        workers = [self._parts[n].worker for n in numbers if n in self._parts]
        return workers[-1] if workers else self.stage.task.worker

    @property
    def cut(self) -> bool:
        """Whether a part of the answer stopped at its length cap."""
        numbers = self.plan.answer if self.plan else ()
        return any(n in self.outcome.cut for n in numbers)

    @property
    def outcome(self) -> Outcome:
        """How the plan went, for the strategy."""
        assert self.plan is not None
        parts = self._parts.items()
        return Outcome(
            self.plan,
            {n: part.text for n, part in parts if part.text},
            {n for n, part in parts if part.cut},
            {n: part.error.message for n, part in parts if part.error is not None},
            {n: part.confidence for n, part in parts if part.confidence is not None},
        )

    def outputs(self, step: int) -> dict[int, str]:
        """Return the whole texts of the steps that a step sees and that are over."""
        assert self.plan is not None
        inputs = self.plan.steps[step - 1].inputs
        begun = {n: self._parts[n] for n in inputs if n in self._parts}
        return {n: part.text for n, part in begun.items() if part.error is None}

    # The way

    async def play(self) -> None:
        """Play the task to its end. Raises Withdrawn, or the error that left it unanswered."""
        task = self.stage.task
        if (trained := self.stage.house.trained) is not None and not task.limits.alone:
            trained.warm_for(self.material.prompt)
        situation = self._situation = await build_routing_context(self.stage, self.material)
        proposal: Proposal | None
        if task.kept is not None:
            self._take_up(task.kept)
            # A strategy may look at it again, as it would have without the interruption.
            told, final = "The plan was there already.", task.strategy is None
            proposal = Proposal(task.kept.plan, "plan", told, final)
        else:
            assert task.strategy is not None
            proposal = await task.strategy.first(self)
            self.route = proposal.why
        await self.stage.emit(
            ev.Routed(
                0,
                proposal.where,
                proposal.why,
                dict(situation.route.scores),
                task.name,
                situation.worker,
                task.limits.alone,
                situation.mode,
                offline=self.stage.purse.terms.offline,
                budget=task.limits.budget,
                root=self.stage.purse.root,
            )
        )
        await self._adopt_first(replace(proposal, why=""))
        await self._play_steps()
        while task.strategy is not None and await self._adopt_more(task.strategy):
            await self._play_steps()
        self._conclude()

    def _take_up(self, kept: Outcome) -> None:
        """Take the steps over that were finished in an earlier run."""
        for number, text in kept.texts.items():
            if number not in kept.failed:
                self._parts[number] = part = StepExecution(
                    self, number, kept.plan.steps[number - 1]
                )
                part.text, part.is_over = text, True
                part.ending = Finish.LENGTH if number in kept.cut else Finish.STOP

    async def _adopt_first(self, proposal: Proposal) -> None:
        """Begin with a plan; with the ordinary one, if nobody could play that."""
        try:
            await self._adopt(proposal)
        except PlanError as error:
            self._parts.clear()  # they were of that plan
            worker, files = self.situation.worker, self.material.files
            ordinary = single_step_plan(worker, files, self.situation.route.need)
            await self._adopt(Proposal(ordinary, why=error.message))
        if self.stage.task.limits.preview:
            await self._show_plan()

    async def _adopt_more(self, strategy: Strategy) -> bool:
        """Go on with a grown plan; tell whether there is one that anybody can play."""
        try:
            proposal = await strategy.next(self, self.outcome)
            if proposal is not None:
                await self._adopt(proposal)
        except PlanError:
            return False  # what there is, stands
        return proposal is not None

    async def _adopt(self, proposal: Proposal) -> None:
        """Make a proposal the plan, with workers that may be used, whatever it says."""
        played = self.plan.steps if self.plan is not None else ()
        if proposal.plan.steps[: len(played)] != played:
            raise PlanError("A plan may not change the steps that were played.")
        plan = await self._staffed(proposal.plan, len(played))
        self._before, self.plan = self.text, plan
        self.final, self.why = proposal.final, proposal.why
        await self.stage.emit(ev.Planned(0, plan, proposal.final, proposal.why))
        if self.stage.task.kept is not None and not played:
            for number, part in self._parts.items():
                await self.stage.emit(ev.StepFinished(0, number, part.finish, part.text))

    async def _staffed(self, plan: Plan, played: int) -> Plan:
        """Give every step that was not played yet to a worker that may be used."""
        roster, material = self.situation.roster, self.material
        allowed = {card.id for card in roster}
        numbered = list(enumerate(plan.steps, start=1))
        if all(step.worker in allowed for n, step in numbered if n not in self._parts):
            return plan
        from baton.core.plan.assignment import assign_workers

        # Whoever did a step in an earlier run may be gone: it takes nobody's time any more.
        free = next((c for c in roster if c.price and c.price.is_free), roster[0])
        over = [replace(s, worker=free.id) if n in self._parts else s for n, s in numbered]
        funds = await self.funds()
        staffed = assign_workers(
            replace(plan, steps=tuple(over)),
            roster,
            left=funds.left,
            gain=funds.extra,
            after=played,
            material=material,
            prefer=self.situation.prefer,
        )
        steps = tuple(s if n in self._parts else staffed.steps[n - 1] for n, s in numbered)
        return replace(plan, steps=steps)

    async def _show_plan(self) -> None:
        """Let the person decide before anything of the plan is called. Raises Withdrawn."""
        choices = (Choice(GO, "Play it"), Choice(STOP, "Stop here"), Choice(EDIT, "Edit it"))
        costs = await self._costs()
        question = Question("Play this plan?", choices, STOP, plan=self.plan, costs=costs)
        if await self.stage.ask(question) != GO:
            raise PromptWithdrawn

    async def _costs(self) -> tuple[int | None, ...]:
        """Return what each step can cost at most (None: it has no price).

        The results that it reads are not there yet; they are taken to be as long as expected.
        """
        assert self.plan is not None
        costs: list[int | None] = []
        lengths: list[int] = []
        for number, step in enumerate(self.plan.steps, start=1):
            card = self.situation.card(step.worker)
            request = StepExecution(self, number, step).request()
            lengths.append(request.expected_tokens or card.max_output)
            if card.price is None or card.price.is_free:
                costs.append(None if card.price is None else 0)
                continue
            unread = sum(lengths[n - 1] for n in step.inputs) * BYTES_PER_TOKEN
            read = (*request.messages, Message(Role.USER, "-" * unread))
            request = replace(request, messages=read if unread else request.messages)
            costs.append(await self.stage.offers.most(card, request))
        return tuple(costs)

    async def _play_steps(self) -> None:
        """Play every step that can be played; tell which ones can't."""
        try:
            async with asyncio.TaskGroup() as group:
                running: set[asyncio.Task[None]] = set()
                while True:
                    for part in self._startable():
                        running.add(group.create_task(self._play_part(part)))
                    if not running:
                        break
                    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    if any(task.exception() for task in done if not task.cancelled()):
                        break  # the group ends the others
                    running -= done
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        await self._leave_out()

    async def _play_part(self, part: StepExecution) -> None:
        try:
            await part.play()
        finally:
            self.waiting_to_hold.discard(part.number)
        if part.error is not None and not part.step.optional:
            self._sunk.add(part.number)

    def _startable(self) -> list[StepExecution]:
        """Return the parts that may begin now; none once a step failed that was needed."""
        assert self.plan is not None
        if self._sunk:
            return []
        over = {n for n, part in self._parts.items() if part.is_over}
        fresh = [
            StepExecution(self, number, self.plan.steps[number - 1])
            for number in self.plan.startable_steps(over, self._parts)
        ]
        self._parts |= {part.number: part for part in fresh}
        cards = {card.id: card for card in self.situation.roster}
        self.waiting_to_hold |= {p.number for p in fresh if cards[p.step.worker].uses_gateway}
        return fresh

    async def _leave_out(self) -> None:
        """Tell of the steps that never began, as one failed without which they make no sense."""
        assert self.plan is not None
        if not self._sunk:
            return
        number = min(self._sunk)
        self._sunk.clear()  # what now is the strategy's to say
        for n, step in enumerate(self.plan.steps, start=1):
            if n not in self._parts:
                self._parts[n] = part = StepExecution(self, n, step)
                part.error, part.is_over = self._parts[number].error, True
                await self.stage.emit(ev.StepSkipped(0, n, f"Step {number} failed."))

    def _conclude(self) -> None:
        """Raise the error of an answer's step that has no whole text.

        One that may fail only does where nothing else of the answer is there.
        """
        assert self.plan is not None
        parts = [self._parts.get(number) for number in self.plan.answer]
        whole = any(part is not None and part.error is None and part.text for part in parts)
        for number, part in zip(self.plan.answer, parts, strict=True):
            if part is None:
                raise PlanError(f"The plan never came to step {number}, which is its answer.")
            if part.error is not None and not (part.step.optional and whole):
                raise part.error

    # The desk

    @property
    def situation(self) -> RoutingContext:
        """What was known before anything was called."""
        assert self._situation is not None
        return self._situation

    async def funds(self) -> SpendingRoom:
        """Return what may be spent now.

        Nothing where the ledger can't be read, or nobody is there to be asked for leave.
        """
        return await worth_asking.spending_room(self.stage)

    async def ask(
        self,
        worker: str,
        messages: Sequence[Message],
        purpose: Purpose,
        shape: AnswerFormat | None = None,
        max_tokens: int | None = None,
    ) -> str:
        """Return what a worker says apart from any step; see core.ports.Desk."""
        stage = self.stage
        card = self.situation.card(worker)
        label, seed = stage.begun.label, stage.task.limits.seed
        if max_tokens is not None:
            max_tokens += card.thinking
        request = Request(tuple(messages), purpose, max_tokens, 0.0, seed, label, shape=shape)
        await stage.emit(ev.Planning(0, worker))
        if card.uses_gateway:
            offered, request = await self.offer(card, request, "It would plan the work.")
            if offered.decision is not ev.Decision.SENT:
                raise BudgetExceeded(offered.message or f"{card.name} was not asked for a plan.")
        return (await self._written(stage.house.workers[worker], request)).text

    async def split(self) -> Plan | None:
        """Return the trained conductor's plan for the prompt; see core.ports.Desk."""
        conductor = self.stage.house.trained
        if conductor is None:
            return None
        from baton.core.plan.plan_lines import is_repeating
        from baton.core.plan.request_parts import split_request

        async def write(request: Request) -> WrittenPlan:
            await self.stage.emit(ev.Planning(0, conductor.worker.card.id))
            return await self._written(conductor.worker, request, is_repeating)

        return await split_request(conductor, self.situation, write)

    async def _written(
        self, worker: Worker, request: Request, is_enough: Callable[[str], bool] | None = None
    ) -> WrittenPlan:
        """Return what a worker writes apart from any step, metered and recorded.

        It is stopped once what it wrote `is_enough`.
        """
        stage = self.stage
        metered = MeteredWorker(worker, stage.purse, partial(self.record, 0))
        pieces: list[str] = []
        confidence: float | None = None
        lines: tuple[float, ...] = ()
        async with stage.house.slots.of(worker.card), aclosing(metered.stream(request)) as chunks:
            async for chunk in chunks:
                match chunk:
                    case Text(text=text):
                        pieces.append(text)
                        if is_enough is not None and is_enough("".join(pieces)):
                            break
                    case RequestSent(destination=destination, size=size):
                        await stage.emit(ev.Sent(0, 0, worker.card.id, destination, size))
                    case Usage():
                        confidence, lines = chunk.confidence, chunk.lines
        return WrittenPlan("".join(pieces), confidence, lines)

    async def check(self, outcome: Outcome, step: int) -> tuple[ev.Checked, ...]:
        """Check a step's text by executing, parsing and recomputing what can be, and record it."""
        from baton.core.plan.checks import check_text

        tools = any(card.is_tool for card in self.situation.roster)
        found = await check_text(
            outcome.text(step), self.material.prompt, self._compute if tools else None
        )
        checked = tuple(ev.Checked(0, step, f.what, f.verdict, f.note) for f in found)
        told = [event for event in checked if event.verdict is not ev.Verdict.UNCHECKED]
        if told:
            self._wrong[step] = sum(event.verdict is ev.Verdict.WRONG for event in told)
        for event in checked:
            await self.stage.emit(event)
        return checked

    async def judge(self, outcome: Outcome, steps: Sequence[int]) -> Judgement:
        """Return what is expected of the answers that some steps wrote; see core.ports.Desk."""
        from baton.core.run.router_validation import drafts, sound_judgement
        from baton.core.strategies._draft_scoring import judge_by_rule

        assert self.plan is not None
        authors = {n: self._author_of(n) for n in steps}
        shown = drafts(self.situation, outcome, authors, self._wrong)
        roster, route = self.situation.roster, self.situation.route
        said = await self.stage.house.router.judge(self.material, route, roster, shown)
        return sound_judgement(said, len(shown), roster) or judge_by_rule(route, roster, shown)

    def _author_of(self, step: int) -> str:
        """Return who wrote a step's text, which needn't be who was to."""
        assert self.plan is not None
        return self._parts[step].worker if step in self._parts else self.plan.steps[step - 1].worker

    async def likeness(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return how alike each two texts are in meaning, from 0 to 1."""
        from baton.core.run.router_validation import sound_likeness

        return sound_likeness(await self.stage.house.router.likeness(texts), len(texts))

    async def score_turns(
        self, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> Sequence[Sequence[float]]:
        """Return how well each worker would do in each role; see core.ports.Desk."""
        from baton.core.run.router_validation import sound_scores

        router, text = self.stage.house.router, self.material.prompt
        return sound_scores(await router.score_turns(text, position, workers), workers)

    async def weigh(self, worker: str, gain: float, *, plain: bool = False) -> bool:
        """Tell whether asking a worker is worth its price; see core.ports.Desk."""
        card, route = self.situation.card(worker), self.situation.route
        weighed = await worth_asking.weigh_help(
            self.stage, card, self.material, route, gain, plain=plain
        )
        await self.stage.emit(weighed)
        return weighed.ok

    async def _compute(self, tool: str, text: str) -> str:
        """Have a tool compute something for a check. Raises WorkerError."""
        worker = self.stage.house.workers[tool]
        request = Request((Message(Role.USER, text),), Purpose.VERIFY)
        return (await self._written(worker, request)).text

    # What parts and desk share

    async def offer(
        self, card: Card, request: Request, why: str, number: int = 0
    ) -> tuple[ev.Offered, Request]:
        """Offer the help of a worker elsewhere; return what became of that, and the request.

        The request is what was offered: its answer is capped as the price says. `number` is the
        step's, which has a share in what is left as long as it waits to hold money. A ledger that
        can't be read leaves the text that is there; without one, raises StoreError.
        """
        async with self._offering:
            draft, named = self.text, self._is_named(card, number)
            share = len(self.waiting_to_hold | {number}) if number else 1
            try:
                offered, cap = await self.stage.offers.make(
                    card,
                    request,
                    why,
                    draft=draft,
                    keep=self._instead(card, number),
                    share=share,
                    named=named,
                )
            except StoreError as error:
                if not draft:
                    raise
                never, told = ev.Decision.NEVER, str(error)
                offered, cap = ev.Offered(0, card.id, why, 0, 0, "", never, told), 0
            if offered.decision is not ev.Decision.SENT:
                self.waiting_to_hold.discard(number)
            # Within the lock: whoever takes the prompt back here isn't asked about the next step.
            await self.stage.emit(offered)
        return offered, replace(request, max_tokens=cap)

    def _instead(self, card: Card, number: int) -> str:
        """Say what becomes of a step that is not sent, where it will be done here."""
        steps = self.plan.steps if self.plan is not None and number else ()
        alone = len(steps) == 1
        if not steps or steps[number - 1].optional != alone or self.stage.task.limits.alone:
            return ""
        wanted = card.id == self.stage.task.worker  # then no other one is
        others = any(not (c.uses_gateway or c.is_tool) for c in self.situation.roster)
        if wanted or not others:
            return ""
        return "Answer here" if alone else "Do it here"

    def _is_named(self, card: Card, number: int) -> bool:
        """Tell whether the person named that worker: for answers, or for plans."""
        drawing = number == 0 and card.id == self.stage.house.conductor
        return drawing or card.id == self.stage.task.worker

    async def record(self, number: int, tally: CallUsage) -> None:
        """Keep what a call used."""
        await self.stage.emit(_called(number, tally))


def _called(number: int, tally: CallUsage) -> ev.Called:
    usage = tally.usage
    return ev.Called(
        0,
        step=number,
        worker=tally.worker,
        purpose=tally.request.purpose,
        tokens_in=usage.tokens_in if usage else 0,
        tokens_out=tally.tokens_out,
        cached=usage.cached if usage else 0,
        context=usage.context if usage else 0,
        cost=tally.cost,
        confirmed=usage is not None and usage.is_confirmed,
        seconds=round(tally.seconds, 3),
        first_token=None if tally.first_token is None else round(tally.first_token, 3),
        loading=round(tally.loading, 3),
        finish=usage.finish if usage else None,
        held=tally.held,
        call=tally.request.call,
        expected_tokens=tally.request.expected_tokens or 0,
    )
