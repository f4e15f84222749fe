"""One step being run: who does it, what it has written, and who does it when that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing

from baton.core import events as ev
from baton.core.errors import (
    BatonError,
    BudgetExceeded,
    ContextTooLong,
    StoreError,
    WorkerUnavailable,
    stored_name,
)
from baton.core.judging.answer_faults import RepetitionWatch
from baton.core.messages import (
    Card,
    Chunk,
    Finish,
    Purpose,
    Request,
    Retrying,
    Text,
    Usage,
    head_and_tail,
)
from baton.core.plan_types import Plan
from baton.core.planning.token_estimates import likely_cost, likely_step_cost, step_tokens_p99
from baton.core.run.approval import PromptWithdrawn
from baton.core.run.metered_worker import PreparedCall
from baton.core.run.run_context import RunContext, chunk_event

RETRY_SECONDS = 1.0
"""How long a remote worker that wasn't available is left alone before it is asked again."""

SAMPLE_TEMPERATURE = 0.7
"""The temperature of a second answer to the same question, unless the user set one.

With it self-consistency was measured (arXiv 2203.11171); at a model's own, which may be 0, all
answers would be one."""

MAX_STEP_TOKENS = 2048
MAX_BRIEF_TOKENS = 768
"""The most tokens of a step that isn't the answer; the second of a verdict, extract or summary."""


class StepAbandoned(Exception):
    """The step is left out, and the run continues without it."""


class StepExecution:
    """A step that is run. `error` is why it has no whole text, once it `is_over`.

    `inputs` are the whole texts of the steps that it sees; `draft` returns the answer so far. Where
    the plan `is_final`, its answer can't be replaced any more. `why` says what made the plan
    necessary, `route` where the prompt goes and why.
    """

    def __init__(
        self,
        run: RunContext,
        plan: Plan,
        number: int,
        *,
        inputs: Mapping[int, str],
        draft: Callable[[], str] = str,
        is_final: bool = True,
        why: str = "",
        route: str = "",
    ) -> None:
        self.number = number
        self.step = plan.steps[number - 1]
        self.worker = self.step.worker
        self.text = ""
        self.ending = Finish.STOP
        self.usage: Usage | None = None
        self.error: BatonError | None = None
        self.failed_workers: set[str] = set()
        self.is_over = False
        self.is_whole = False
        self._run = run
        self._plan = plan
        self._inputs = inputs
        self._draft = draft
        self._is_final = is_final
        self._why = why
        self._route = route
        self._failure = ""

    @property
    def is_cut(self) -> bool:
        """Whether its text was cut at the length cap."""
        return self.ending is Finish.LENGTH

    @property
    def finish(self) -> Finish:
        """How its text ended."""
        if self.text.strip():
            return self.ending
        has_written = self.usage is not None and self.usage.tokens_out > 0
        if self.ending is Finish.LENGTH and has_written:
            return Finish.THOUGHTS
        return Finish.EMPTY if self.ending is Finish.STOP else self.ending

    @property
    def _is_alone(self) -> bool:
        """Whether there is no other step."""
        return len(self._plan.steps) == 1

    @property
    def _is_requested(self) -> bool:
        """Whether the user asked for its worker, which is to do all there is."""
        return self._is_alone and self.worker == self._run.request.worker

    def restore(self, text: str, *, is_cut: bool) -> None:
        """Take over what it wrote in an earlier run."""
        self.text, self.is_over, self.is_whole = text, True, True
        self.ending = Finish.LENGTH if is_cut else Finish.STOP

    async def skip(self, failed: StepExecution) -> None:
        """Leave it out, as it makes no sense without a step that failed."""
        self.error, self.is_over = failed.error, True
        await self._run.emit(ev.StepSkipped(self.number, f"Step {failed.number} failed."))

    async def execute(self) -> None:
        """Run the step until it has its text, or no worker is left to write it.

        Raises PromptWithdrawn where the user takes the prompt back, StoreError where nothing can
        be recorded any more.
        """
        emit = self._run.emit
        tried: list[str] = []
        first: BatonError | None = None
        try:
            while True:
                try:
                    await self._attempt()
                    break
                except BatonError as error:
                    first = first or error
                    tried.append(self.worker)
                    if not isinstance(error, BudgetExceeded):  # more money would let it answer
                        self.failed_workers.add(self.worker)
                    delay = await self._choose_another(error, tried)
                    if delay is None:
                        raise first from None
                    self._failure, self.text = error.message, ""
                    other = self.worker if self.worker != tried[-1] else ""
                    await emit(ev.StepRetried(self.number, error.message, delay, other))
                    await asyncio.sleep(delay)
            is_whole_answer = self._is_alone and self._is_final  # which is kept as such
            is_kept_there = is_whole_answer and self.ending is not Finish.REPETITION
            text = "" if is_kept_there else self.text
            stop = self.usage.stop if self.usage is not None else ""
            await emit(ev.StepFinished(self.number, self.finish, text, stop))
            self.is_whole = True
        except StepAbandoned:
            pass
        except BatonError as error:
            self.error = error
            await emit(ev.StepFailed(self.number, stored_name(error), error.message))
        finally:
            self.is_over = True
            self._run.approval.forget(self.number)

    async def _choose_another(self, error: BatonError, tried: list[str]) -> float | None:
        """Choose who tries next; return after how many seconds, or None when no worker can."""
        request, routing = self._run.request, self._run.routing
        is_shown = self.text and self._is_final and self.number in self._plan.answer
        if request.limits.alone or is_shown or isinstance(error, StoreError):
            return None
        card = routing.card(self.worker)
        if (
            self.worker == request.worker
            and card.uses_gateway
            and isinstance(error, BudgetExceeded)
        ):
            return None  # the user wants that worker, and hears what is in the way
        can_retry = tried.count(self.worker) == 1 and card.uses_gateway
        if isinstance(error, WorkerUnavailable) and can_retry:
            return RETRY_SECONDS
        if self.step.optional and self.step.is_direct:
            return None  # whose answer it is matters: the strategy decides what comes instead
        from baton.core.planning.assignment import substitute_worker

        roster = [c for c in routing.roster if _may_replace(c, card, error)]
        left = (await self._run.spending_room()).left
        self.worker = substitute_worker(
            self.step, roster, tried, left, self._run.conversation.material
        )
        return 0.0 if self.worker else None

    async def _attempt(self) -> None:
        """Have the worker do the step. Raises its error, StepAbandoned or PromptWithdrawn."""
        run, number = self._run, self.number
        worker = run.services.workers[self.worker]
        metered = run.metered(worker, number, lambda: run.approval.take_share(number))
        watch = RepetitionWatch(head_and_tail(run.conversation.material.prompt))
        # Broken off, a paid call stays charged at all its hold; what a tool computes never loops.
        may_stop = worker.card.is_free and not worker.card.is_tool
        while True:
            shown = run.conversation.material
            call = await run.budget.prepare(worker.card, self.request())
            if not worker.card.is_local:
                call = await self._approved(worker.card, call)
            try:
                async with run.services.slots.of(worker.card):
                    await run.emit(ev.StepStarted(number, self.worker))
                    async with aclosing(metered.stream(call)) as chunks:
                        async for chunk in chunks:
                            if event := self._take(chunk):
                                await run.emit(event)
                            if may_stop and (end := watch.end_before_repeat(self.text)):
                                self.text, self.ending = self.text[:end].rstrip(), Finish.REPETITION
                                break
                    return
            except ContextTooLong as error:
                if not self.step.is_direct or not await run.conversation.trim(error, shown):
                    raise

    def request(self) -> Request:
        """Return what its worker would be asked now."""
        run, step, limits = self._run, self.step, self._run.request.limits
        card = run.services.workers[self.worker].card
        material, system = run.conversation.material, run.recorded.system
        is_answer = not step.check and (step.is_direct or self.number in self._plan.answer)
        purpose = Purpose.VERIFY if step.check else Purpose.ANSWER if is_answer else Purpose.STEP
        if system is None or not is_answer:
            system = card.system
        # Small models may repeat themselves in a text that is for other steps.
        is_brief = step.check or step.need.kind in ("extraction", "summary")
        most = (MAX_BRIEF_TOKENS if is_brief else MAX_STEP_TOKENS) + card.thinking
        temperature = limits.temperature
        if temperature is None and self._is_sample:
            temperature = SAMPLE_TEMPERATURE
        return Request(
            self._plan.messages(self.number, material, self._inputs, system),
            purpose,
            limits.max_tokens if is_answer else most,
            temperature,
            None if limits.seed is None else (limits.seed + self.number - 1) % 2**32,
            run.recorded.label,
            shape=limits.shape if is_answer else None,
            expected_tokens=step_tokens_p99(step, material, run.routing.route, is_answer),
            top_p=limits.top_p if is_answer else None,
            stop=limits.stop if is_answer else (),
            sampling=limits.sampling if is_answer else {},
        )

    @property
    def _is_sample(self) -> bool:
        """Whether the same worker was asked just the same before: it must say something else."""
        mine = (self.step.worker, self.step.subtask, self.step.access)
        before = self._plan.steps[: self.number - 1]
        return any((step.worker, step.subtask, step.access) == mine for step in before)

    async def _approved(self, card: Card, call: PreparedCall) -> PreparedCall:
        """Have the call of a remote worker approved; return it within its cap.

        Raises StepAbandoned for a step that can be done without, PromptWithdrawn where the user
        takes the prompt back, BudgetExceeded.
        """
        run = self._run
        offered, call = await run.approval.ask_for(
            card,
            call,
            self._reason,
            step=self.number,
            draft=self._draft,
            keep=self._alternative(card),
            named=run.is_named(card.id, self.number),
            expected=self._likely_cost(card),
        )
        if offered.decision is ev.Decision.SENT:
            return call
        is_kept, is_edited = (offered.decision is d for d in (ev.Decision.KEPT, ev.Decision.EDIT))
        message = offered.message or f"{card.name} was not asked, as you decided."
        if self.step.optional and not (is_edited and self._is_alone):  # there is an answer without
            self.error = BudgetExceeded(message)
            await run.emit(ev.StepSkipped(self.number, message, offered.most))
            raise StepAbandoned
        has_no_other = len(run.routing.roster) == 1 or run.request.limits.alone
        if is_edited or (is_kept and (has_no_other or self._is_requested)):
            raise PromptWithdrawn
        raise BudgetExceeded(message)

    def _likely_cost(self, card: Card) -> int:
        material, route = self._run.conversation.material, self._run.routing.route
        if self.step.is_direct:
            return likely_cost(card, material, route)
        return likely_step_cost(card, self.step, material)

    def _alternative(self, card: Card) -> str:
        """What not sending it is called, where it will be done on this machine then."""
        request, routing = self._run.request, self._run.routing
        if self.step.optional != self._is_alone or request.limits.alone:
            return ""
        has_others = any(c.is_local and not c.is_tool for c in routing.roster)
        if card.id == request.worker or not has_others:
            return ""
        return "Answer here" if self._is_alone else "Do it here"

    @property
    def _reason(self) -> str:
        """Why its worker is offered, in a sentence."""
        if self._failure and self.worker == self.step.worker:
            return f"It failed, and would be asked once more: {self._failure}"
        if self.worker != self.step.worker:
            return f"It would stand in for {self.step.worker}."
        if self._why:
            return self._why
        if self._is_requested:
            return "You asked for it."
        if self.step.is_direct and self._route:
            return self._route  # all there is goes to it
        return f"Step {self.number} of the plan is for it: {self.step.need.kind}."

    def _take(self, chunk: Chunk) -> ev.Event | None:
        """Keep what the worker yields; return it as an event, if it is one."""
        match chunk:
            case Text(text=text):
                self.text += text
                return ev.StepText(self.number, text)
            case Usage():
                self.ending, self.usage = chunk.finish, chunk
                return None
            case Retrying():
                self.text = ""
        return chunk_event(self.number, self.worker, chunk)


def _may_replace(card: Card, failed: Card, error: BatonError) -> bool:
    """Whether a worker can do better where another had that error."""
    if isinstance(error, BudgetExceeded):
        return card.is_local
    if isinstance(error, ContextTooLong):
        return card.context == 0 or card.context > failed.context
    return True
