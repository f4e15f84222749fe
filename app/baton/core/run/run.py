"""One prompt played to its end: recorded, carried through, and over in exactly one way."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from baton.core import events as ev
from baton.core.aio import uninterrupted
from baton.core.errors import BatonError, StoreError
from baton.core.messages import TurnStatus
from baton.core.ports import Ask, Question, RecordedRun
from baton.core.run.approval import ApprovalGate, PromptWithdrawn
from baton.core.run.metered_worker import RunBudget
from baton.core.run.plan_executor import PlanExecutor
from baton.core.run.run_context import RunContext, RunRequest, Services

FLUSH_SECONDS = 0.15
"""How long streamed text may stay in memory alone; with the write itself it stays below 250 ms."""


class Run:
    """A run in progress: iterate over its events inside `async with`.

    The run is a task of its own that feeds a queue, so a consumer that stops reading, or is
    cancelled, never has a worker's failure thrown into it (PEP 789). Leaving the context cancels
    what still runs; the text so far is kept.
    """

    def __init__(self, task: RunRequest, house: Services, purse: RunBudget, ask: Ask) -> None:
        self._given = task
        self._house = house
        self._store = house.store
        self._purse = purse
        self._ask_person = ask
        self._asking = asyncio.Lock()
        self._queue: asyncio.Queue[ev.Event | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._start = time.monotonic()
        self._begun: RecordedRun | None = None
        self._playing: PlanExecutor | None = None
        self._unstored: list[ev.Called] = []

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
            # Not before its first step: the prompt would not even be recorded.
            self._task.get_loop().call_soon(self._task.cancel)

    async def _ask(self, question: Question) -> str:
        """Ask the person one thing at a time, however many steps have a question."""
        async with self._asking:
            return await self._ask_person(question)

    @property
    def _now(self) -> float:
        return round(time.monotonic() - self._start, 3)

    async def _emit(self, event: ev.Event) -> None:
        """Time an event, keep it, and publish it: what is kept is seen, also when it is stopped."""
        now = self._now
        if isinstance(event, ev.StepText):  # there are thousands of these, and replace() is slow
            event = ev.StepText(event.step, event.text, at=now)
        else:
            event = replace(event, at=now)
        if self._begun is None or isinstance(event, ev.TRANSIENT):
            self._queue.put_nowait(event)
        else:
            await uninterrupted(self._keep(self._begun.run, event))

    async def _keep(self, run: str, event: ev.Event) -> None:
        """Store an event, then publish it; what a call cost is published in any case."""
        try:
            await self._store.append(run, event)
        except StoreError:
            if isinstance(event, ev.Called):
                self._unstored.append(event)
            raise
        self._queue.put_nowait(event)

    async def _play(self) -> None:
        try:
            # Recording is never half done: a cancellation waits until the ids are known.
            await self._answer(await uninterrupted(self._begin()))
        except (asyncio.CancelledError, PromptWithdrawn):
            await uninterrupted(self._end(TurnStatus.CANCELLED, ev.Cancelled(at=self._now)))
        except BatonError as error:
            failed = ev.Failed(type(error).__name__, error.message, error.hint, at=self._now)
            await uninterrupted(self._end(TurnStatus.FAILED, failed))
        except BaseException:
            await uninterrupted(self._end(TurnStatus.FAILED, None))
            raise
        else:
            cut = self._playing is not None and self._playing.cut
            status = TurnStatus.CUT if cut else TurnStatus.DONE
            await uninterrupted(self._end(status, ev.Finished(at=self._now)))

    async def _begin(self) -> RecordedRun:
        task = self._given
        begun = await self._store.begin(task.prompt, task.place, task.limits.label)
        self._purse = replace(self._purse, run=begun.run, session=begun.conversation)
        self._begun = begun
        return begun

    async def _answer(self, begun: RecordedRun) -> None:
        await self._emit(ev.Started(begun.run, begun.conversation, begun.prompt, begun.answer))
        offers = ApprovalGate(self._purse, self._store, self._ask, begun)
        stage = RunContext(
            self._given, self._house, begun, self._purse, offers, self._emit, self._ask
        )
        self._playing = PlanExecutor(stage)
        saver = asyncio.create_task(self._keep_saving(begun.answer, self._playing))
        try:
            await self._playing.play()
        finally:
            saver.cancel()
            await asyncio.gather(saver, return_exceptions=True)

    async def _end(self, status: TurnStatus, event: ev.Terminal | None) -> None:
        """Keep the text, then publish the run's last event, even if the disk won't take it."""
        playing = self._playing
        text, author = (playing.text, playing.author) if playing else ("", self._given.worker)
        try:
            if self._begun is not None:
                await self._store.write(self._begun.answer, text, status, author)
                if event is not None:
                    await self._store.append(self._begun.run, event)
        except StoreError as error:
            event = ev.Failed("StoreError", error.message, error.hint, at=self._now)
        if event is not None:
            for called in self._unstored:
                self._queue.put_nowait(replace(called, at=event.at))
            self._queue.put_nowait(event)

    async def _keep_saving(self, answer: str, playing: PlanExecutor) -> None:
        saved = ""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            if (text := playing.text) != saved:
                # A disk that is full now may have room in a moment; the end tells if it hasn't.
                with contextlib.suppress(StoreError):
                    await self._store.write(answer, text, TurnStatus.STREAMING)
                    saved = text
