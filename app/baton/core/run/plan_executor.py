"""How a plan is run: what a strategy proposes, step by step, until it has nothing to add.

Steps whose inputs are there run side by side in one TaskGroup, within each worker's slots. A step
that fails is given to the next suitable worker; what can't be had is left to the strategy.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from baton.core import events as ev
from baton.core.errors import PlanError
from baton.core.messages import Finish, Message, Role
from baton.core.plan_types import Outcome, Plan, single_step_plan
from baton.core.planning.token_estimates import likely_step_cost
from baton.core.ports import Choice, Proposal, Question, StepPrice, Strategy
from baton.core.run.approval import PromptWithdrawn
from baton.core.run.run_context import RunContext
from baton.core.run.step_executor import StepExecution
from baton.core.run.strategy_context import RunStrategyContext

BYTES_PER_TOKEN = 4
"""About how many bytes a token of an answer has: the step that reads it is billed for them."""

_GIVEN_REASON = "You gave the plan."
_KEPT_REASON = "The plan is that of the run that this one continues."

GO, STOP, EDIT = "go", "stop", "edit"
"""What the user may say to a plan."""


class PlanExecutor:
    """One prompt on its way: the plan so far, and its steps."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._context = RunStrategyContext(run, lambda: self.text, self._author_of)
        self._proposal: Proposal | None = None
        self._route = ""
        self._steps: dict[int, StepExecution] = {}
        self._text_before = self._author_before = ""
        self._answer_before: tuple[int, ...] = ()
        self._reported: set[int] = set()

    @property
    def _adopted(self) -> Proposal:
        assert self._proposal is not None, "a plan was adopted"
        return self._proposal

    @property
    def _plan(self) -> Plan:
        return self._adopted.plan

    @property
    def _answering(self) -> list[StepExecution]:
        """The steps of the answer that have begun."""
        numbers = self._proposal.plan.answer if self._proposal is not None else ()
        return [self._steps[n] for n in numbers if n in self._steps]

    @property
    def text(self) -> str:
        """The answer so far; until the one that replaces a draft has a word, the draft."""
        texts = (step.text for step in self._answering)
        return "\n\n".join(filter(None, texts)) or self._text_before

    @property
    def author(self) -> str:
        """The worker that wrote the answer, or the last part of it."""
        steps = self._answering
        return steps[-1].worker if steps else self._run.request.worker

    @property
    def replaced_draft(self) -> tuple[str, str]:
        """The local answer that another worker's replaced after an offer, and who wrote it."""
        cards = {card.id: card for card in self._run.routing.roster}
        steps = self._answering
        is_draft = len(steps) == 1 and steps[0].step.is_direct and steps[0].text.strip()
        before, now = cards.get(self._author_before), cards.get(self.author)
        if not is_draft or before is None or now is None or now.is_local or not before.is_local:
            return "", ""
        return self._text_before, self._author_before

    @property
    def is_cut(self) -> bool:
        """Whether a part of the answer stopped at its length cap."""
        return any(step.is_cut for step in self._answering)

    @property
    def _outcome(self) -> Outcome:
        """How the plan went, for the strategy."""
        steps = self._steps.items()
        return Outcome(
            self._plan,
            {n: step.text for n, step in steps if step.text},
            {n for n, step in steps if step.is_cut},
            {n: step.error.message for n, step in steps if step.error is not None},
            {n: step.usage for n, step in steps if step.usage is not None},
            {n for n, step in steps if step.finish is Finish.REPETITION},
            {worker for _, step in steps for worker in step.failed_workers},
        )

    def _author_of(self, number: int) -> str:
        """Return who wrote a step's text, which needn't be who was to."""
        steps = self._steps
        return steps[number].worker if number in steps else self._plan.steps[number - 1].worker

    async def execute(self) -> None:
        """Run the request to its end.

        Raises PromptWithdrawn, or the error that left it unanswered.
        """
        strategy = self._run.request.strategy
        await self._begin(strategy)
        is_grown = True
        while is_grown:
            try:
                async with asyncio.TaskGroup() as group:
                    running: set[asyncio.Task[None]] = set()
                    while True:
                        for step in self._startable():
                            running.add(group.create_task(step.execute()))
                        if not running:
                            break
                        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                        if any(task.exception() for task in done if not task.cancelled()):
                            break  # the group ends the others
                        running -= done
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None
            await self._skip_unstarted_steps()
            is_grown = strategy is not None and await self._adopt_more(strategy)
        self._conclude()
        await self._review()

    async def _begin(self, strategy: Strategy | None) -> None:
        """Adopt the first plan, and report the route."""
        run, request, routing = self._run, self._run.request, self._run.routing
        if request.kept is not None:
            self._take_up(request.kept)
            # A strategy may look at it again, as it would have without the interruption.
            why = _KEPT_REASON if request.root else _GIVEN_REASON
            proposal = Proposal(request.kept.plan, "plan", why, final=strategy is None)
        else:
            assert strategy is not None
            proposal = await strategy.first(self._context)
            self._route = proposal.why
        await run.emit(
            ev.Routed(
                proposal.where,
                proposal.why,
                dict(routing.route.scores),
                request.name,
                routing.worker,
                request.limits.alone,
                routing.mode,
                offline=request.terms.offline,
                budget=request.limits.budget,
                root=request.root,
                decided_by=routing.route.decided_by,
                client=request.limits.client,
                is_free=request.terms.is_free,
            )
        )
        await self._adopt_first(replace(proposal, why=""))

    async def _review(self) -> None:
        """Say beside the answer what is likely wrong with it."""
        from baton.core.judging.answer_review import missing_plan_warning, review_answer

        outcome = self._outcome
        authors = {n: self._author_of(n) for n in outcome.plan.answer}
        known = self._run.recorded.warned
        workers = self._run.services.workers  # whose cards say more once a model was loaded
        cautions = [workers[one].card.caution for one in authors.values() if one in workers]
        for warned in await review_answer(self._context, outcome, authors, known, cautions):
            await self._run.emit(warned)
        if (
            lack := missing_plan_warning(self._run.routing, self._run.request.name, outcome)
        ) is not None:
            await self._run.emit(lack)

    def _take_up(self, kept: Outcome) -> None:
        """Take the steps over that were finished in an earlier run."""
        for number, text in kept.texts.items():
            if number not in kept.failed:
                self._steps[number] = StepExecution(self._run, kept.plan, number, inputs={})
                self._steps[number].restore(text, is_cut=number in kept.cut)

    async def _adopt_first(self, proposal: Proposal) -> None:
        """Begin with a plan; with the ordinary one, if no worker could run that."""
        run = self._run
        try:
            await self._adopt(proposal)
        except PlanError as error:
            self._steps.clear()  # they were of that plan
            routing = run.routing
            ordinary = single_step_plan(
                routing.worker, run.conversation.material.files, routing.route.need
            )
            await self._adopt(Proposal(ordinary, why=error.message))
        if run.request.limits.preview:
            await _approve_plan(run, self._plan)

    async def _adopt_more(self, strategy: Strategy) -> bool:
        """Continue with a grown plan; return whether there is one that can be run."""
        try:
            proposal = await strategy.next(self._context, self._outcome)
            if proposal is not None:
                await self._adopt(proposal)
        except PlanError:
            return False  # what there is, stands
        return proposal is not None

    async def _adopt(self, proposal: Proposal) -> None:
        """Make a proposal the plan, with workers that may be used."""
        earlier = self._proposal.plan.steps if self._proposal is not None else ()
        if proposal.plan.steps[: len(earlier)] != earlier:
            raise PlanError("A plan may not change the steps that were run.")
        plan = await self._assign(proposal.plan, len(earlier))
        self._answer_before = self._proposal.plan.answer if self._proposal is not None else ()
        self._text_before, self._author_before = self.text, self.author
        self._proposal = replace(proposal, plan=plan)
        await self._run.emit(ev.Planned(plan, proposal.final, proposal.why))
        if self._run.request.kept is not None and not earlier:
            for number, step in self._steps.items():
                await self._run.emit(ev.StepFinished(number, step.finish, step.text))

    async def _assign(self, plan: Plan, run_steps: int) -> Plan:
        """Give every step that was not run yet to a worker that may be used."""
        routing = self._run.routing
        roster, allowed = routing.roster, {card.id for card in routing.roster}
        numbered = list(enumerate(plan.steps, start=1))
        if all(step.worker in allowed for n, step in numbered if n not in self._steps):
            return plan
        from baton.core.planning.assignment import assign_workers

        # Who did a step in an earlier run may be gone: it takes no worker's time any more.
        free = next((c for c in roster if c.is_free), roster[0])
        over = [replace(s, worker=free.id) if n in self._steps else s for n, s in numbered]
        room = await self._run.spending_room()
        assigned = assign_workers(
            replace(plan, steps=tuple(over)),
            roster,
            left=room.left,
            gain=room.extra,
            after=run_steps,
            material=self._run.conversation.material,
            prefer=routing.prefer,
        )
        steps = tuple(s if n in self._steps else assigned.steps[n - 1] for n, s in numbered)
        return replace(plan, steps=steps)

    @property
    def _failed(self) -> set[int]:
        """The steps that were needed and failed, of which the strategy doesn't know yet."""
        steps = self._steps.items()
        failed = {n for n, step in steps if step.error is not None and not step.step.optional}
        return failed - self._reported

    def _startable(self) -> list[StepExecution]:
        """Return the steps that may begin now; none once a step failed that was needed."""
        if self._failed:
            return []
        over = {n for n, step in self._steps.items() if step.is_over}
        fresh = [
            self._execution(number) for number in self._plan.startable_steps(over, self._steps)
        ]
        self._steps |= {step.number: step for step in fresh}
        cards = {card.id: card for card in self._run.routing.roster}
        self._run.approval.expect(s.number for s in fresh if not cards[s.worker].is_local)
        return fresh

    def _execution(self, number: int) -> StepExecution:
        inputs = self._plan.steps[number - 1].inputs
        before = {n: self._steps[n] for n in inputs if n in self._steps}
        return StepExecution(
            self._run,
            self._plan,
            number,
            inputs={n: step.text for n, step in before.items() if step.error is None},
            draft=lambda: self.text,
            is_final=self._adopted.final,
            why=self._adopted.why,
            route=self._route,
        )

    async def _skip_unstarted_steps(self) -> None:
        """Report the steps that never began, as one failed without which they make no sense."""
        if not (failed := self._failed):
            return
        number = min(failed)
        for n in range(1, len(self._plan.steps) + 1):
            if n not in self._steps:
                self._steps[n] = self._execution(n)
                await self._steps[n].skip(self._steps[number])
        self._reported = set(self._steps)  # the strategy decides what comes now

    async def keep_best(self) -> bool:
        """Let the answer be what there is, as no time is left; return whether there is any.

        A whole draft is better than the beginning of what was to replace it.
        """
        is_whole = self._answering and all(step.is_whole and step.text for step in self._answering)
        if self._text_before.strip() and not is_whole:
            plan = replace(self._plan, answer=self._answer_before)
            self._proposal = replace(self._adopted, plan=plan, final=True)
            await self._run.emit(ev.Planned(plan, True, "The time was up, so the draft stays."))
        return bool(self.text.strip())

    def _conclude(self) -> None:
        """Raise the error of an answer's step that has no whole text.

        One that may fail only does where nothing else of the answer is there.
        """
        answer = self._plan.answer
        steps = [self._steps.get(number) for number in answer]
        is_whole = any(step is not None and step.error is None and step.text for step in steps)
        for number, step in zip(answer, steps, strict=True):
            if step is None:
                raise PlanError(f"The plan never reached step {number}, which is its answer.")
            if step.error is not None and not (step.step.optional and is_whole):
                raise step.error


async def _approve_plan(run: RunContext, plan: Plan) -> None:
    """Let the user decide before anything of a plan is called. Raises PromptWithdrawn."""
    choices = (Choice(GO, "Run it"), Choice(STOP, "Stop here"), Choice(EDIT, "Edit it"))
    question = Question(
        "Run this plan?",
        choices,
        STOP,
        plan=plan,
        prices=await _step_prices(run, plan),
        workers=tuple(run.routing.roster),
        price_plan=partial(_step_prices, run),
    )
    if await run.ask(question) != GO:
        raise PromptWithdrawn


async def _step_prices(run: RunContext, plan: Plan) -> tuple[StepPrice, ...]:
    """Return what each step is expected to cost, and what it can cost at most.

    The results that it reads are not there yet; they are taken to be as long as expected.
    """
    prices: list[StepPrice] = []
    lengths: list[int] = []
    for number, step in enumerate(plan.steps, start=1):
        card = run.routing.card(step.worker)
        request = StepExecution(run, plan, number, inputs={}).request()
        lengths.append(request.expected_tokens or card.max_output)
        if card.price is None or card.price.is_free:
            prices.append(StepPrice(None, None) if card.price is None else StepPrice(0, 0))
            continue
        unread = sum(lengths[n - 1] for n in step.inputs) * BYTES_PER_TOKEN
        read = (*request.messages, Message(Role.USER, "-" * unread))
        request = replace(request, messages=read if unread else request.messages)
        bill = (await run.budget.prepare(card, request)).bill
        most = 0 if bill is None else (await run.budget.quote(bill))[0]
        likely = likely_step_cost(card, step, run.conversation.material)
        prices.append(StepPrice(min(likely, most), most))
    return tuple(prices)
