"""One step being played: who does it, what it has written, and who does it when that fails."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from baton.core import events as ev
from baton.core.errors import (
    BatonError,
    BudgetExceeded,
    ContextTooLong,
    StoreError,
    WorkerUnavailable,
)
from baton.core.messages import (
    Card,
    Chunk,
    Declined,
    Finish,
    Loading,
    Purpose,
    Queued,
    Reading,
    Request,
    RequestSent,
    Retrying,
    Text,
    Thinking,
    Turn,
    Usage,
    Writing,
    count_turns_to_drop,
    estimated_tokens,
    text_with_files,
)
from baton.core.plan.plan import Material, Step
from baton.core.plan.token_estimates import step_tokens_p99
from baton.core.ports import Choice, Question
from baton.core.run.approval import PromptWithdrawn
from baton.core.run.metered_worker import MeteredWorker
from baton.core.run.policy import check

if TYPE_CHECKING:
    from baton.core.run.plan_executor import PlanExecutor

AGAIN_SECONDS = 1.0
"""How long a worker elsewhere that wasn't available is left alone before it is asked again."""


SAMPLING = 0.7
"""The temperature of a second answer to the same question, unless the person set one.

With it self-consistency was measured (arXiv 2203.11171); at a model's own, which may be 0, all
answers would be one."""


STEP_TOKENS = 2048
BRIEF_TOKENS = 768
"""The most tokens of a step that isn't the answer; the second of a verdict, extract or summary."""


class StepAbandoned(Exception):
    """The step is left out: whoever decided, the run goes on without it."""


class StepExecution:
    """A step in play. `error` is why it has no whole text, once it `is_over`."""

    def __init__(self, playing: PlanExecutor, number: int, step: Step) -> None:
        self.number = number
        self.step = step
        self.worker = step.worker
        self.text = ""
        self.ending = Finish.STOP
        self.confidence: float | None = None
        self.error: BatonError | None = None
        self.is_over = False
        self._failure = ""
        self._playing = playing
        self._stage = playing.stage

    @property
    def cut(self) -> bool:
        """Whether its text was cut at the length cap."""
        return self.ending is Finish.LENGTH

    @property
    def finish(self) -> Finish:
        """How its text ended."""
        is_empty = self.ending is Finish.STOP and not self.text.strip()
        return Finish.EMPTY if is_empty else self.ending

    async def play(self) -> None:
        """Play the step until it has its text, or nobody is left to write it.

        Raises Withdrawn where the person takes the prompt back, StoreError where nothing can be
        recorded any more.
        """
        emit = self._stage.emit
        try:
            await self._try_all()
            text = "" if self._is_all else self.text
            await emit(ev.StepFinished(0, self.number, self.finish, text))
        except StepAbandoned:
            pass
        except BatonError as error:
            self.error = error
            await emit(ev.StepFailed(0, self.number, type(error).__name__, error.message))
        finally:
            self.is_over = True

    @property
    def _is_all(self) -> bool:
        """Whether its text alone is the answer, which is kept as such."""
        plan = self._playing.plan
        return plan is not None and len(plan.steps) == 1 and self._playing.final

    async def _try_all(self) -> None:
        """Try one worker after the other. Raises the first one's error where none succeeds."""
        tried: list[str] = []
        first: BatonError | None = None
        while True:
            try:
                return await self._attempt()
            except BatonError as error:
                first = first or error
                tried.append(self.worker)
                delay = await self._choose_another(error, tried)
                if delay is None:
                    raise first from None
                self._failure = error.message
                self.text = ""
                await self._stage.emit(ev.StepRetried(0, self.number, error.message, delay))
                await asyncio.sleep(delay)

    async def _choose_another(self, error: BatonError, tried: list[str]) -> float | None:
        """Choose who tries next; return after how many seconds, or None when nobody can."""
        playing = self._playing
        shown = self.text and playing.final and playing.plan and self.number in playing.plan.answer
        if self._stage.task.limits.alone or shown or isinstance(error, StoreError):
            return None
        card = playing.situation.card(self.worker)
        asked_for = self.worker == self._stage.task.worker and card.uses_gateway
        if asked_for and isinstance(error, BudgetExceeded):
            return None  # who wants that worker is told what is in the way
        again = tried.count(self.worker) == 1 and card.uses_gateway
        if isinstance(error, WorkerUnavailable) and again:
            return AGAIN_SECONDS
        if self.step.optional and self.step.is_direct:
            return None  # whose answer it is matters: what comes instead is the strategy's to say
        from baton.core.plan.assignment import substitute_worker

        roster = [c for c in playing.situation.roster if _may_replace(c, card, error)]
        left = (await playing.funds()).left
        self.worker = substitute_worker(self.step, roster, tried, left, playing.material)
        return 0.0 if self.worker else None

    async def _attempt(self) -> None:
        """Have the worker do the step. Raises its error, Skipped or Withdrawn."""
        stage = self._stage
        worker = stage.house.workers[self.worker]
        check(worker.card, stage.begun.label, stage.purse.terms)
        metered = MeteredWorker(
            worker, stage.purse, partial(self._playing.record, self.number), self._share
        )
        while True:
            shown = self._playing.material
            request = self.request()
            if worker.card.uses_gateway:
                request = await self._allowed(worker.card, request)
            try:
                async with stage.house.slots.of(worker.card):
                    await stage.emit(ev.StepStarted(0, self.number, self.worker))
                    return await self._stream(metered, request)
            except ContextTooLong as error:
                if not self.step.is_direct or not await self._trimmed(error, shown):
                    raise

    def _share(self) -> int:
        """Return among how many steps the headroom is divided; this one holds its part now."""
        waiting = self._playing.waiting_to_hold
        count = len(waiting | {self.number})
        waiting.discard(self.number)
        return count

    def request(self) -> Request:
        """Return what its worker would be asked now."""
        playing, begun, limits = self._playing, self._stage.begun, self._stage.task.limits
        card = self._stage.house.workers[self.worker].card
        plan = playing.plan
        assert plan is not None
        purpose = Purpose.STEP
        if self.step.check:
            purpose = Purpose.VERIFY
        elif self.step.is_direct or self.number in plan.answer:
            purpose = Purpose.ANSWER
        answers = purpose is Purpose.ANSWER
        system = card.system if begun.system is None or not answers else begun.system
        outputs = playing.outputs(self.number)
        seed = None if limits.seed is None else (limits.seed + self.number - 1) % 2**32
        temperature = limits.temperature
        if temperature is None and self._is_sample:
            temperature = SAMPLING
        return Request(
            plan.messages(self.number, playing.material, outputs, system),
            purpose,
            limits.max_tokens if answers else self._most + card.thinking,
            temperature,
            seed,
            begun.label,
            expected_tokens=step_tokens_p99(
                self.step, playing.material, playing.situation.route, answers
            ),
        )

    @property
    def _most(self) -> int:
        """Return the cap of a text that is for other steps: small models may repeat themselves."""
        brief = self.step.check or self.step.need.kind in ("extraction", "summary")
        return BRIEF_TOKENS if brief else STEP_TOKENS

    @property
    def _is_sample(self) -> bool:
        """Whether the same worker was asked just the same before: it shall say something else."""
        plan = self._playing.plan
        assert plan is not None
        mine = (self.step.worker, self.step.subtask, self.step.access)
        before = plan.steps[: self.number - 1]
        return any((step.worker, step.subtask, step.access) == mine for step in before)

    async def _allowed(self, card: Card, request: Request) -> Request:
        """Have it allowed that a worker elsewhere is asked; return the request within its cap.

        Raises Skipped for a step that can be done without, Withdrawn where the person takes the
        prompt back, BudgetExceeded.
        """
        playing = self._playing
        offered, request = await playing.offer(card, request, self._why, self.number)
        if offered.decision is ev.Decision.SENT:
            return request
        kept, edited = ev.Decision.KEPT, ev.Decision.EDIT
        told = offered.message or f"{card.name} was not asked, as you decided."
        again = offered.decision is edited and self._is_alone
        if self.step.optional and not again:  # else there is an answer, or will be
            self.error = BudgetExceeded(told)
            await self._stage.emit(ev.StepSkipped(0, self.number, told, offered.most))
            raise StepAbandoned
        alone = len(playing.situation.roster) == 1 or self._stage.task.limits.alone
        if offered.decision is edited or (offered.decision is kept and (alone or self._is_wanted)):
            raise PromptWithdrawn
        raise BudgetExceeded(told)

    @property
    def _is_alone(self) -> bool:
        """Whether there is no other step."""
        return self._playing.plan is not None and len(self._playing.plan.steps) == 1

    @property
    def _is_wanted(self) -> bool:
        """Whether the person asked for its worker, which is to do all there is."""
        return self._is_alone and self.worker == self._stage.task.worker

    @property
    def _why(self) -> str:
        """Say why its worker is offered."""
        if self._failure and self.worker == self.step.worker:
            return f"It failed, and would be asked once more: {self._failure}"
        if self.worker != self.step.worker:
            return f"It would stand in for {self.step.worker}."
        if self._playing.why:
            return self._playing.why
        if self._is_wanted:
            return "You asked for it."
        if self.step.is_direct and self._playing.route:
            return self._playing.route  # all there is goes to it
        return f"Step {self.number} of the plan is for it: {self.step.need.kind}."

    # A conversation that has grown too long

    async def _trimmed(self, error: ContextTooLong, shown: Material) -> bool:
        """Leave the oldest turns out, if the person wants that; tell whether it was done."""
        async with self._playing.trimming:
            if self._playing.material is not shown:
                return True  # for another step, which was as long
            return await self._trim(error)

    async def _trim(self, error: ContextTooLong) -> bool:
        playing, begun = self._playing, self._stage.begun
        turns = playing.material.turns
        first = count_turns_to_drop(turns, _room(error, turns))
        if first == 0:
            error.hint = "Shorten the prompt, or attach less."
            return False
        question = Question(
            f"{error.message} Leave out the {first} oldest turns? They stay in your history.",
            (Choice("trim", "Leave them out"), Choice("stop", "Stop here")),
            default="stop",
        )
        if await self._stage.ask(question) != "trim":
            return False
        playing.material = Material(turns[first:])
        await self._stage.house.store.trim(begun.conversation, turns[first].id)
        await self._stage.emit(ev.Trimmed(0, first))
        return True

    # What the worker yields

    async def _stream(self, worker: MeteredWorker, request: Request) -> None:
        async with aclosing(worker.stream(request)) as chunks:
            async for chunk in chunks:
                await self._take(chunk)

    async def _take(self, chunk: Chunk) -> None:
        emit, number = self._stage.emit, self.number
        match chunk:
            case Text(text=text):
                self.text += text
                await emit(ev.StepText(0, number, text))
            case Usage(finish=finish, confidence=confidence):
                self.ending = finish
                self.confidence = confidence
            case RequestSent(destination=destination, size=size):
                await emit(ev.Sent(0, number, self.worker, destination, size))
            case Retrying(reason=reason, delay=delay):
                await emit(ev.StepRetried(0, number, reason, delay))
            case Declined():
                pass  # the error that follows says why
            case Queued() | Loading() | Reading() | Thinking() | Writing():
                await emit(_progress(number, chunk))


def _may_replace(card: Card, failed: Card, error: BatonError) -> bool:
    """Tell whether a worker can do better where another had that error."""
    if isinstance(error, BudgetExceeded):
        return not card.uses_gateway
    if isinstance(error, ContextTooLong):
        return card.context == 0 or card.context > failed.context
    return True


def _room(error: ContextTooLong, turns: tuple[Turn, ...]) -> int:
    """Turn the worker's exact count into our estimate's scale, and leave half of it free."""
    estimate = sum(estimated_tokens(text_with_files(turn.text, turn.files)) for turn in turns)
    return estimate * error.limit // (2 * max(error.needed, 1))


def _progress(number: int, chunk: Queued | Loading | Reading | Thinking | Writing) -> ev.Progress:
    match chunk:
        case Queued():
            return ev.Progress(0, number, ev.Phase.QUEUED, None)
        case Loading(fraction=fraction):
            return ev.Progress(0, number, ev.Phase.LOADING, fraction)
        case Reading(done=done, total=total):
            read = done / total if total else None
            return ev.Progress(0, number, ev.Phase.READING, read)
        case Thinking(tokens_per_second=speed):
            return ev.Progress(0, number, ev.Phase.THINKING, None, speed)
        case Writing(tokens_per_second=speed):
            return ev.Progress(0, number, ev.Phase.WRITING, None, speed)
