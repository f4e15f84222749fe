"""One prompt run to its end: recorded, carried through, and over in exactly one way."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import TracebackType
from typing import Self

from baton.core import events as ev
from baton.core.aio import uninterrupted
from baton.core.errors import BatonError, ContextTooLong, StoreError, stored_name
from baton.core.messages import TurnStatus
from baton.core.ports import Ask, Question, RecordedRun
from baton.core.run.approval import Approval, PromptWithdrawn
from baton.core.run.metered_worker import RunBudget
from baton.core.run.plan_executor import PlanExecutor
from baton.core.run.routing_context import build_routing_context
from baton.core.run.run_context import RunContext, RunConversation, RunRequest, Services


class Run:
    """A run in progress: iterate over its events inside `async with`.

    The run is a task of its own that feeds a queue, so a consumer that stops reading, or is
    cancelled, never has a worker's failure thrown into it (PEP 789). Leaving the context cancels
    what still runs; the text so far is kept.
    """

    def __init__(self, request: RunRequest, services: Services, ask: Ask) -> None:
        self._request = request
        self._services = services
        self._store = services.store
        self._ask_person = ask
        self._asking = asyncio.Lock()
        self._queue: asyncio.Queue[ev.Event | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._start = time.monotonic()
        self._recorded: RecordedRun | None = None
        self._executor: PlanExecutor | None = None
        self._unstored: list[tuple[ev.Event, bool]] = []  # with whether they are published
        self._storing = asyncio.Lock()
        self._is_late = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._execute())
        self._task.add_done_callback(lambda _: self._queue.put_nowait(None))
        if (deadline := self._request.limits.deadline) is not None:
            alarm = self._task.get_loop().call_later(deadline, self._stop_late)
            self._task.add_done_callback(lambda _: alarm.cancel())
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

    def __aiter__(self) -> Self:
        assert self._task is not None, "a run is iterated inside `async with`"
        return self

    async def __anext__(self) -> ev.Event:
        if (event := await self._queue.get()) is not None:
            return event
        assert self._task is not None
        if not self._task.cancelled():
            self._task.result()  # raises a bug in the run to the consumer
        raise StopAsyncIteration

    def cancel(self) -> None:
        """Stop the run; its events end with Cancelled."""
        if self._task is not None:
            # Not before its first step: the prompt would not even be recorded.
            self._task.get_loop().call_soon(self._task.cancel)

    def _stop_late(self) -> None:
        self._is_late = True
        self.cancel()

    async def _ask(self, question: Question) -> str:
        """Ask the user one thing at a time, however many steps have a question."""
        async with self._asking:
            return await self._ask_person(question)

    async def _execute(self) -> None:
        services = self._services
        event: ev.Terminal | None = None
        status = TurnStatus.FAILED
        try:
            # Recording is never half done: a cancellation waits until the ids are known.
            recorded = await uninterrupted(self._record())
            ids = recorded.run, recorded.conversation, recorded.prompt, recorded.answer
            await self._emit(ev.Started(*ids))
            if services.trained is not None and not self._request.limits.alone:
                services.trained.warm_for(recorded.turns[-1].text)
            self._executor = executor = await self._prepare(recorded)
            services.saver.add(
                self._store,
                recorded.answer,
                lambda: executor.text,
                lambda: uninterrupted(self._store_all(recorded.run)),
            )
            await executor.execute()
        except (asyncio.CancelledError, PromptWithdrawn):
            status, event = TurnStatus.CANCELLED, ev.Cancelled()
            if self._is_late:
                status, event = await uninterrupted(self._end_late())
        except BatonError as error:
            sizes = (error.needed, error.limit) if isinstance(error, ContextTooLong) else ()
            event = ev.Failed(stored_name(error), error.message, error.hint, *sizes)
        else:
            status = TurnStatus.CUT if executor.is_cut else TurnStatus.DONE
            event = ev.Finished()
        finally:  # a bug ends the run without an event
            await uninterrupted(self._end(status, event))

    async def _end_late(self) -> tuple[TurnStatus, ev.Terminal]:
        """Return how the run ends whose time is up: with what there is, or an error."""
        deadline = self._request.limits.deadline or 0.0
        try:
            if self._executor is not None and await self._executor.keep_best():
                return TurnStatus.CUT, ev.Finished(deadline=deadline)
        except StoreError as error:
            return TurnStatus.FAILED, ev.Failed("StoreError", error.message, error.hint)
        message = f"No text was there after {deadline:g} seconds."
        hint = "Allow more of them, or ask a faster worker."
        return TurnStatus.FAILED, ev.Failed("WorkerUnavailable", message, hint)

    async def _record(self) -> RecordedRun:
        request = self._request
        client = "" if request.root else request.limits.client  # it is the user who resumes
        self._recorded = await self._store.begin(
            request.prompt, request.position, request.limits.label, client
        )
        return self._recorded

    async def _prepare(self, recorded: RecordedRun) -> PlanExecutor:
        """Find out who may answer. Raises WorkerError where the default worker may not."""
        request, services = self._request, self._services
        budget = RunBudget(
            services.ledger,
            services.redactor,
            request.terms,
            request.limits,
            run=recorded.run,
            session=recorded.conversation,
            root=request.root,
            is_inherited=request.is_budget_inherited,
        )
        ask, emit, store = self._ask, self._emit, self._store
        return PlanExecutor(
            RunContext(
                request=request,
                services=services,
                recorded=recorded,
                routing=await build_routing_context(request, services, recorded),
                conversation=RunConversation(recorded, store, ask, emit),
                budget=budget,
                approval=Approval(budget, store, recorded, ask, emit),
                emit=emit,
                ask=ask,
            )
        )

    async def _emit(self, event: ev.Event) -> None:
        """Time an event, keep it, and publish it: what is kept is seen, also when it is stopped."""
        now = self._now
        if isinstance(event, ev.StepText):  # there are thousands of these, and replace() is slow
            event = ev.StepText(event.step, event.text, at=now)
        else:
            event = replace(event, at=now)
        if self._recorded is None or isinstance(event, ev.TRANSIENT):
            self._queue.put_nowait(event)
        else:
            await uninterrupted(self._keep(self._recorded.run, event))

    @property
    def _now(self) -> float:
        return round(time.monotonic() - self._start, 3)

    async def _keep(self, run: str, event: ev.Event) -> None:
        """Store an event, then publish it; a deferred one is published first, if none waits.

        A commit takes half a millisecond on a good disk and eight on a busy one.
        """
        is_published = isinstance(event, ev.DEFERRED) and all(seen for _, seen in self._unstored)
        self._unstored.append((event, is_published))
        if not is_published:
            return await self._store_all(run)
        self._queue.put_nowait(event)

    async def _store_all(self, run: str) -> None:
        """Store the events that aren't yet, and publish them. Raises StoreError."""
        async with self._storing:
            if events := self._unstored[:]:
                await self._store.append(run, *(event for event, _ in events))
            for event, is_published in events:
                if not is_published:
                    self._queue.put_nowait(event)
            del self._unstored[: len(events)]

    async def _end(self, status: TurnStatus, event: ev.Terminal | None) -> None:
        """Keep the text, then publish the run's last event, even if the disk won't take it."""
        executor, recorded = self._executor, self._recorded
        if recorded is not None:
            self._services.saver.remove(recorded.answer)
        text, author = (executor.text, executor.author) if executor else ("", self._request.worker)
        event = event and replace(event, at=self._now)
        try:
            if recorded is not None:
                await self._store.write(recorded.answer, text, status, author)
                draft, drafter = executor.replaced_draft if executor else ("", "")
                if draft.strip():
                    await self._store.add_draft(recorded.answer, draft, drafter)
                if event is not None:
                    self._unstored.append((event, True))
                await self._store_all(recorded.run)
        except StoreError as error:
            event = ev.Failed("StoreError", error.message, error.hint, at=self._now)
            for called, is_published in self._unstored:
                if isinstance(called, ev.Called) and not is_published:
                    self._queue.put_nowait(replace(called, at=event.at))
        if event is not None:
            self._queue.put_nowait(event)
