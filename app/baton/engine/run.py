"""One prompt, played to its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self

from baton.domain import events as ev
from baton.domain.chat import (
    Card,
    Chunk,
    Declined,
    Finish,
    Loading,
    Prompt,
    Purpose,
    Reading,
    Request,
    Retrying,
    Sent,
    Text,
    Turn,
    TurnStatus,
    Usage,
    Writing,
    about_tokens,
    conversation,
    keep_latest,
    with_files,
)
from baton.domain.errors import BatonError, BudgetExceeded, ContextTooLong, StoreError
from baton.domain.plan import Plan, single
from baton.engine.meter import Metered, Purse, Tally, uninterrupted
from baton.engine.offer import Offers, Withdrawn
from baton.engine.policy import Limits, check, help_wanted, may_use
from baton.engine.ports import Ask, Begun, Choice, Place, Question, Store, Worker

FLUSH_SECONDS = 0.15
"""How long streamed text may stay in memory alone; with the write itself it stays below 250 ms."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be played: a prompt, where it goes, and within which limits.

    `second` is who is asked when the first worker's answer won't do.
    """

    prompt: Prompt
    place: Place
    limits: Limits
    worker: Worker
    second: Worker | None = None


class Run:
    """A run in progress: iterate over its events inside `async with`.

    The run is a task of its own that feeds a queue, so a consumer that stops reading, or is
    cancelled, never has a worker's failure thrown into it (PEP 789). Leaving the context cancels
    what still runs; the text so far is kept.
    """

    def __init__(self, task: Task, store: Store, purse: Purse, ask: Ask) -> None:
        self._given = task
        self._limits = task.limits
        self._store = store
        self._purse = purse
        self._ask = ask
        self._queue: asyncio.Queue[ev.Event | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._start = time.monotonic()
        self._begun: Begun | None = None
        self._plan = Plan((), ())
        self._texts: dict[int, str] = {}
        self._caps: dict[str, int] = {}
        self._draft = ""
        self._author = task.worker.card.id
        self._finish = Finish.STOP

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._play())
        self._task.add_done_callback(lambda _: self._queue.put_nowait(None))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self.cancel()
        await asyncio.wait({self._task})

    async def __aiter__(self) -> AsyncIterator[ev.Event]:
        assert self._task is not None, "a run is iterated inside `async with`"
        while (event := await self._queue.get()) is not None:
            yield event
        if not self._task.cancelled():
            self._task.result()  # a bug in the run is the consumer's to hear of

    def cancel(self) -> None:
        """Stop the run; its events end with Cancelled."""
        if self._task is not None:
            self._task.cancel()

    @property
    def _now(self) -> float:
        return round(time.monotonic() - self._start, 3)

    @property
    def _text(self) -> str:
        """The answer so far; until the one that replaces a draft has a word, the draft."""
        return "\n\n".join(filter(None, map(self._texts.get, self._plan.answer))) or self._draft

    async def _emit(self, event: ev.Event) -> None:
        if self._begun is not None and not isinstance(event, ev.TRANSIENT):
            await self._store.append(self._begun.run, event)
        self._queue.put_nowait(event)

    async def _play(self) -> None:
        try:
            # Recording is never half done: a cancellation waits until the ids are known.
            await self._answer(await uninterrupted(self._begin()))
        except (asyncio.CancelledError, Withdrawn):
            await uninterrupted(self._end(TurnStatus.CANCELLED, ev.Cancelled(self._now)))
        except BatonError as error:
            failed = ev.Failed(self._now, type(error).__name__, error.message, error.hint)
            await uninterrupted(self._end(TurnStatus.FAILED, failed))
        except BaseException:
            await uninterrupted(self._end(TurnStatus.FAILED, None))
            raise
        else:
            cut = self._finish is Finish.LENGTH
            status = TurnStatus.CUT if cut else TurnStatus.DONE
            await uninterrupted(self._end(status, ev.Finished(self._now)))

    async def _begin(self) -> Begun:
        task = self._given
        begun = await self._store.begin(task.prompt, task.place, task.limits.label)
        self._purse = replace(self._purse, run=begun.run, session=begun.conversation)
        self._begun = begun
        return begun

    async def _end(self, status: TurnStatus, event: ev.Terminal | None) -> None:
        """Keep the text, then publish the run's last event, even if the disk won't take it."""
        try:
            if self._begun is not None:
                await self._store.write(self._begun.answer, self._text, status, self._author)
                if event is not None:
                    await self._store.append(self._begun.run, event)
        except StoreError as error:
            event = ev.Failed(self._now, "StoreError", error.message, error.hint)
        if event is not None:
            self._queue.put_nowait(event)

    # The way of the prompt

    async def _answer(self, begun: Begun) -> None:
        started = ev.Started(self._now, begun.run, begun.conversation, begun.prompt, begun.answer)
        await self._emit(started)
        worker = self._given.worker
        check(worker.card, begun.label, self._purse.terms)
        second = self._second(begun)
        await self._emit(_route(self._now, worker.card, second))
        files = tuple(file.name for turn in begun.turns for file in turn.files)
        await self._replan(single(worker.card.id, files))
        if worker.card.is_outside:
            await self._may_send(begun, worker, "You asked for it.")
        saver = asyncio.create_task(self._keep_saving(begun.answer))
        try:
            await self._converse(1, worker, begun)
            if second is not None and (why := help_wanted(self._text, self._finish, self._limits)):
                await self._look_again(begun, second, why)
        finally:
            saver.cancel()
            await asyncio.gather(saver, return_exceptions=True)

    def _second(self, begun: Begun) -> Worker | None:
        """Return who may be asked when the first answer won't do."""
        second = self._given.second
        if second is None or not may_use(second.card, begun.label, self._purse.terms):
            return None
        return second

    async def _replan(self, plan: Plan) -> None:
        self._plan = plan
        await self._emit(ev.Planned(self._now, plan))

    async def _may_send(self, begun: Begun, worker: Worker, why: str) -> None:
        """Have it allowed that a worker elsewhere is asked. Raises BudgetExceeded or Withdrawn."""
        offered = await self._offers(begun).make(worker.card, self._request(begun, worker), why)
        await self._emit(replace(offered, at=self._now))
        if offered.decision in (ev.Decision.KEPT, ev.Decision.EDIT):
            raise Withdrawn
        if offered.decision is not ev.Decision.SENT:
            raise BudgetExceeded(offered.message)

    async def _look_again(self, begun: Begun, second: Worker, why: str) -> None:
        """Offer a stronger worker's help; without it, or if it fails, the local answer stays."""
        request = self._request(begun, second)
        try:
            offered = await self._offers(begun).make(second.card, request, why, draft=self._text)
        except StoreError as error:  # nothing can be held, and the local answer is there
            never, told = ev.Decision.NEVER, str(error)
            offered = ev.Offered(self._now, second.card.id, why, 0, 0, "", never, told)
        await self._emit(replace(offered, at=self._now))
        if offered.decision is not ev.Decision.SENT:
            return
        first, finish, author = self._plan, self._finish, self._author
        self._draft = self._text
        await self._emit(ev.Drafted(self._now, 1, self._draft))
        again = replace(first.steps[0], worker=second.card.id)
        await self._replan(Plan((*first.steps, again), (2,)))
        try:
            await self._converse(2, second, begun)
        except BatonError:
            if self._texts.get(2):
                raise
            self._finish, self._author = finish, author
            await self._replan(Plan(self._plan.steps, first.answer))

    def _offers(self, begun: Begun) -> Offers:
        return Offers(self._purse, self._store, self._ask, begun, self._caps)

    # One step

    def _request(self, begun: Begun, worker: Worker, turns: tuple[Turn, ...] = ()) -> Request:
        system = worker.card.system if begun.system is None else begun.system
        limits = self._limits
        return Request(
            conversation(system, turns or begun.turns),
            Purpose.ANSWER,
            self._caps.get(worker.card.id, limits.max_tokens),
            limits.temperature,
            limits.seed,
            begun.label,
        )

    async def _converse(self, number: int, worker: Worker, begun: Begun) -> None:
        """Play a step; where the conversation doesn't fit, ask whether to leave turns out."""
        metered = Metered(worker, self._purse, partial(self._record_call, number))
        turns = begun.turns
        while True:
            try:
                return await self._step(number, metered, self._request(begun, worker, turns))
            except ContextTooLong as error:
                first = keep_latest(turns, self._room(error, turns))
                if first == 0:
                    error.hint = "Shorten the prompt, or attach less."
                    raise
                if not await self._may_trim(error, first):
                    raise
                turns = turns[first:]
                await self._store.trim(begun.conversation, turns[0].id)
                await self._emit(ev.Trimmed(self._now, first))

    def _room(self, error: ContextTooLong, turns: tuple[Turn, ...]) -> int:
        """Turn the worker's exact count into our estimate's scale, and leave half of it free."""
        estimate = sum(about_tokens(with_files(turn.text, turn.files)) for turn in turns)
        return estimate * error.limit // (2 * max(error.needed, 1))

    async def _may_trim(self, error: ContextTooLong, turns: int) -> bool:
        question = Question(
            f"{error.message} Leave out the {turns} oldest turns? They stay in your history.",
            (Choice("trim", "Leave them out"), Choice("stop", "Stop here")),
            default="stop",
        )
        return await self._ask(question) == "trim"

    async def _step(self, number: int, worker: Metered, request: Request) -> None:
        """Play one step; what it wrote is kept whatever happens."""
        await self._emit(ev.StepStarted(self._now, number, worker.card.id))
        try:
            async with aclosing(worker.stream(request)) as chunks:
                async for chunk in chunks:
                    await self._take(number, worker.card, chunk)
        except BatonError as error:
            if not isinstance(error, ContextTooLong):
                failed = ev.StepFailed(self._now, number, type(error).__name__, error.message)
                await self._emit(failed)
            raise
        self._author = worker.card.id
        await self._emit(ev.StepFinished(self._now, number, self._finish))

    async def _take(self, number: int, card: Card, chunk: Chunk) -> None:
        now = self._now
        match chunk:
            case Text(text=text):
                self._texts[number] = self._texts.get(number, "") + text
                await self._emit(ev.StepText(now, number, text))
            case Usage(finish=finish):
                self._finish = finish
            case Sent(destination=destination, size=size):
                await self._emit(ev.Sent(now, number, card.id, destination, size))
            case Retrying(reason=reason, delay=delay):
                await self._emit(ev.StepRetried(now, number, reason, delay))
            case Declined():
                pass  # the error that follows says why
            case Loading() | Reading() | Writing():
                await self._emit(_progress(now, number, chunk))

    async def _keep_saving(self, answer: str) -> None:
        saved = ""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            if (text := self._text) != saved:
                # A disk that is full now may have room in a moment; the end tells if it hasn't.
                with contextlib.suppress(StoreError):
                    await self._store.write(answer, text, TurnStatus.STREAMING)
                    saved = text

    async def _record_call(self, number: int, tally: Tally) -> None:
        usage = tally.usage
        await self._emit(
            ev.Called(
                self._now,
                step=number,
                worker=tally.worker,
                purpose=tally.request.purpose,
                tokens_in=usage.tokens_in if usage else 0,
                tokens_out=tally.tokens_out,
                cached=usage.cached if usage else 0,
                context=usage.context if usage else 0,
                cost=tally.cost,
                confirmed=usage is not None,
                seconds=round(tally.seconds, 3),
                first_token=None if tally.first_token is None else round(tally.first_token, 3),
                loading=round(tally.loading, 3),
                finish=usage.finish if usage else None,
                held=tally.held,
                call=tally.request.call,
            )
        )


def _route(now: float, card: Card, second: Worker | None) -> ev.Routed:
    if card.is_outside:
        where = "cloud" if card.remote else "local"
        return ev.Routed(now, where, f"{card.name} was asked for.")
    return ev.Routed(now, "local", f"{card.name} runs on this machine.", draft=second is not None)


def _progress(now: float, number: int, chunk: Loading | Reading | Writing) -> ev.Progress:
    match chunk:
        case Loading(fraction=fraction):
            return ev.Progress(now, number, ev.Phase.LOADING, fraction)
        case Reading(done=done, total=total):
            read = done / total if total else None
            return ev.Progress(now, number, ev.Phase.READING, read)
        case Writing(tokens_per_second=speed):
            return ev.Progress(now, number, ev.Phase.WRITING, None, speed)
