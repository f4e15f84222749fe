"""One prompt, played to its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from baton.domain import events as ev
from baton.domain.chat import (
    Chunk,
    Finish,
    Loading,
    Message,
    Prompt,
    Purpose,
    Reading,
    Request,
    Retrying,
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
from baton.domain.errors import BatonError, ContextTooLong, StoreError, WorkerError
from baton.domain.labels import Label
from baton.domain.plan import single
from baton.engine.meter import Metered, Tally, uninterrupted
from baton.engine.ports import Ask, Begun, Choice, Place, Question, Store, Worker

FLUSH_SECONDS = 0.15
"""How long streamed text may stay in memory alone; with the write itself it stays below 250 ms."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a person allows one prompt: where its text may go, and how long the answer may get."""

    label: Label = Label.CLOUD
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None


ANYTHING = Limits()
"""No limits but the worker's own."""


class Run:
    """A run in progress: iterate over its events inside `async with`.

    The run is a task of its own that feeds a queue, so a consumer that stops reading, or is
    cancelled, never has a worker's failure thrown into it (PEP 789). Leaving the context cancels
    what still runs; the text so far is kept.
    """

    def __init__(
        self, worker: Worker, store: Store, prompt: Prompt, place: Place, limits: Limits, ask: Ask
    ) -> None:
        self._worker = Metered(worker, self._record_call)
        self._store = store
        self._prompt = prompt
        self._place = place
        self._limits = limits
        self._ask = ask
        self._queue: asyncio.Queue[ev.Event | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._start = time.monotonic()
        self._begun: Begun | None = None
        self._text = ""
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

    async def _emit(self, event: ev.Event) -> None:
        if self._begun is not None and not isinstance(event, ev.TRANSIENT):
            await self._store.append(self._begun.run, event)
        self._queue.put_nowait(event)

    async def _play(self) -> None:
        try:
            # Recording is never half done: a cancellation waits until the ids are known.
            await self._answer(await uninterrupted(self._begin()))
        except asyncio.CancelledError:
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
        self._begun = await self._store.begin(self._prompt, self._place, self._limits.label)
        return self._begun

    async def _end(self, status: TurnStatus, event: ev.Terminal | None) -> None:
        """Keep the text, then publish the run's last event, even if the disk won't take it."""
        try:
            if self._begun is not None:
                await self._store.write(
                    self._begun.answer, self._text, status, self._worker.card.id
                )
                if event is not None:
                    await self._store.append(self._begun.run, event)
        except StoreError as error:
            event = ev.Failed(self._now, "StoreError", error.message, error.hint)
        if event is not None:
            self._queue.put_nowait(event)

    async def _answer(self, begun: Begun) -> None:
        card = self._worker.card
        await self._emit(
            ev.Started(self._now, begun.run, begun.conversation, begun.prompt, begun.answer)
        )
        if not begun.label.allows(card.privacy):
            raise WorkerError(
                f"This conversation is {begun.label}, and {card.id} is a {card.privacy} worker.",
                "Choose a local worker, or start a new conversation.",
            )
        await self._emit(ev.Routed(self._now, "local", f"{card.name} runs on this machine."))
        files = tuple(file.name for turn in begun.turns for file in turn.files)
        await self._emit(ev.Planned(self._now, single(card.id, files)))
        system = card.system if begun.system is None else begun.system
        turns = begun.turns
        while True:
            try:
                return await self._step(begun, conversation(system, turns))
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

    async def _step(self, begun: Begun, messages: tuple[Message, ...]) -> None:
        """Play the one step there is; what it wrote is kept whatever happens."""
        limits = self._limits
        request = Request(
            messages, Purpose.ANSWER, limits.max_tokens, limits.temperature, limits.seed
        )
        await self._emit(ev.StepStarted(self._now, 1, self._worker.card.id))
        saver = asyncio.create_task(self._keep_saving(begun.answer))
        try:
            async with aclosing(self._worker.stream(request)) as chunks:
                async for chunk in chunks:
                    await self._take(chunk)
        except WorkerError as error:
            if not isinstance(error, ContextTooLong):
                failed = ev.StepFailed(self._now, 1, type(error).__name__, error.message)
                await self._emit(failed)
            raise
        finally:
            saver.cancel()
            await asyncio.gather(saver, return_exceptions=True)
        await self._emit(ev.StepFinished(self._now, 1, self._finish))

    async def _take(self, chunk: Chunk) -> None:
        match chunk:
            case Text(text=text):
                self._text += text
                await self._emit(ev.StepText(self._now, 1, text))
            case Loading(fraction=fraction):
                await self._emit(ev.Progress(self._now, 1, ev.Phase.LOADING, fraction))
            case Reading(done=done, total=total):
                read = done / total if total else None
                await self._emit(ev.Progress(self._now, 1, ev.Phase.READING, read))
            case Writing(tokens_per_second=speed):
                await self._emit(ev.Progress(self._now, 1, ev.Phase.WRITING, None, speed))
            case Retrying(reason=reason, delay=delay):
                await self._emit(ev.StepRetried(self._now, 1, reason, delay))
            case Usage(finish=finish):
                self._finish = finish

    async def _keep_saving(self, answer: str) -> None:
        saved = 0
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            text = self._text
            if len(text) > saved:
                # A disk that is full now may have room in a moment; the end tells if it hasn't.
                with contextlib.suppress(StoreError):
                    await self._store.write(answer, text, TurnStatus.STREAMING)
                    saved = len(text)

    async def _record_call(self, tally: Tally) -> None:
        usage = tally.usage
        await self._emit(
            ev.Called(
                self._now,
                step=1,
                worker=tally.worker,
                purpose=tally.request.purpose,
                tokens_in=usage.tokens_in if usage else 0,
                tokens_out=tally.tokens_out,
                cached=usage.cached if usage else 0,
                context=usage.context if usage else 0,
                cost=0,
                confirmed=usage is not None,
                seconds=round(tally.seconds, 3),
                first_token=None if tally.first_token is None else round(tally.first_token, 3),
                loading=round(tally.loading, 3),
                finish=usage.finish if usage else None,
            )
        )
